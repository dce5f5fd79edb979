//! The rare branches of the engine, counted by name: which of them a search has reached, and how
//! often.
//!
//! Only a build with `--cfg events` counts. Without it [`reached`] is empty, so that a release has
//! no instruction of it. The fuzz targets `engine` and `shard_clocks` print what they reached
//! (`ci/fuzz.sh`).
//!
//! *Owner*: any thread counts and reads. The counts are the standard library's atomics under the
//! checkers too: no thread bases a decision on one.

/// Makes the events from their names and meanings.
macro_rules! events {
    ($($name:ident: $meaning:literal,)+) => {
        /// A branch that is taken rarely.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Event {
            $(#[doc = $meaning] $name,)+
        }

        /// Each event's name, in order.
        #[cfg(events)]
        const NAMES: &[&str] = &[$(stringify!($name)),+];
    };
}

events! {
    // Producers and handles.
    SeatLost: "a seat was unlinked before its thread took it",
    FiledExactly: "one of few timers was filed for its own deadline",
    ExactTaken: "it was not, because another far deadline had the bucket",
    NoticeRefused: "a notice was refused, because the shard had closed after the push",
    PushRefused: "a closed shard refused an entry",
    FiledAfterEnd: "an entry was to be filed in a wheel that was dismantled",
    Refiled: "a reset to before the bucket opens moved a timer to another entry",
    RefiledLate: "such a reset found that its timer had fired meanwhile",
    Stranded: "a stop in a reset left the timer with its handle",
    ExchangeUnlinked: "an exchange found its entry unlinked, and filed it again",
    CancelLost: "the CAS of a cancel failed",
    ResetLost: "the CAS of a reset failed",
    LetGoLost: "the CAS that lets go of a handle or a seat failed",
    LimitReached: "a timer was refused because of the limit",
    // What a thread keeps.
    ScanLedAway: "a reader of a list was led away, and went back",
    SeatDue: "a seat was let go because its bucket is due",
    SeatSearched: "a seat was searched among the others, because the last one opens too late",
    SeatsSwapped: "a thread went on with the seats of its outbox",
    SeatsFetched: "a thread fetched seats that another one had left",
    SeatForeign: "a bound thread passed on a seat of another shard",
    SeatsAllLeft: "a thread that only cancels left all its seats",
    SeatsLetGo: "seats were let go, and are dead",
    SeatsSurplus: "the depot had more seats than the living timers deserve",
    MemoryFetched: "free entries came from the depot",
    MemoryReleased: "free entries went back to their blocks",
    // Notices and the agenda.
    NoticeForNothing: "a notice found its item on the agenda already",
    // The flush.
    FlushPaused: "a turn ended in the middle of a bucket",
    EndLost: "the CAS that ends a timer failed",
    RefileLost: "the CAS that re-files a timer failed",
    UnlinkLost: "the CAS that unlinks a vacancy failed",
    SeatUnlinked: "a bucket opened under a seat that a thread keeps",
    HandleGone: "a handle was dropped while the payload was moved out",
    PutAside: "an entry of another round was put aside",
    RoundOpened: "a round that was put aside opened",
    CascadeOvertaken: "a flush began with the rest of an eager cascade",
    CascadeDue: "an eager cascade was due though its bucket was not armed for it",
    Parked: "a crowded bucket was parked",
    ParkedInTurn: "a parked bucket had waited long enough",
    ParkedAlone: "a parked bucket went on, because nothing else was due",
    TrayAdded: "a tray was made, because the others are in use",
    // Background work.
    CascadeOfRound: "a round that was put aside was cascaded eagerly",
    CascadePaused: "an eager cascade paused in the middle of a bucket",
    WokeAhead: "a shard is to wake up for an eager cascade alone",
    ManySeen: "a thread saw that a sleeping reaper may not know how many timers there are",
    SweepBegun: "a sweep began",
    SweepPaused: "a sweep paused",
    SweepLeft: "a bucket was opened in which a sweep was under way",
    SweepAskedTwice: "a sweep was asked for that nobody had begun yet",
    SweepAgain: "a sweep ended, and another one had been asked for meanwhile",
    SweepPassed: "a dead entry was left, because others were pushed before it",
    SweepRound: "a sweep went through a round that was put aside",
    SweepRoundGone: "a round that was to be swept had opened meanwhile",
    ScanAgain: "a reader looked again, because entries moved meanwhile",
    // Ends.
    ClosedOpen: "a shard was closed in the middle of a bucket",
    ClosedCascade: "a shard was closed in the middle of an eager cascade",
    ClosedParked: "a shard was closed that had parked buckets",
    ClosedRound: "a shard was closed that had put rounds aside",
    ClosedNotice: "a shard was closed with an unread notice",
    ClosedSweep: "a shard was closed in the middle of a sweep",
    ClosedTurn: "a turn found its shard closed",
    StoppedInHand: "a stop came while payloads were handed over",
    RoleEnded: "the holder of a role ended it, because a stop had come meanwhile",
    RoleAwaited: "a thread waited for a role",
    RoleAwaitedEnd: "a role ended for which a thread waited",
    // The doorbell.
    RangEarlier: "a timer was due before its reaper would wake up",
    HookAsks: "a ring came from the loop itself, which asks before it sleeps",
    HookInside: "a hook was rung inside its own call",
    HookAgain: "a hook was called again, because it had been rung inside",
    SleepCalledOff: "a reaper did not sleep, because it was called meanwhile",
    // Takeovers and the lead.
    WatcherCalled: "a reaper called the watcher",
    AlarmSet: "a leader set the watcher's alarm",
    AlarmTakenBack: "a leader took it back before a longer sleep",
    Stuck: "a watcher found a task that is stuck",
    TookOver: "a shard was taken over",
    TakeOverLate: "a takeover came too late",
    TakenOver: "a thread came back from a task and had lost its shard",
    ClaimLost: "a thread that claimed a payload found it taken",
    RestHanded: "a turn began with the rest of another thread's batch",
    LeadPassed: "a leader passed the lead on",
    LeadKept: "it could not, because no thread was to spare",
    LeadTaken: "a thread took the lead from one that is stuck",
    LeadLost: "a leader found after its turn that it had lost the lead",
    RoleBusy: "a thread found a shard served by another thread",
    // The higher-level APIs.
    HoldNoted: "something came to a thing that another thread held",
    HoldAgain: "a holder found that something had come meanwhile",
    HoldEnded: "a thing ended while another thread held it",
    GateEarly: "a timer was due before it was under its key",
    KeyMoved: "a reset under a key took another timer",
    KeySuperseded: "another reset of the key was faster",
    BeatInTime: "a heartbeat's timer found a later beat",
    TaskTaken: "a task was begun, dropped or taken back that another thread had",
}

/// Counts that `event` was reached.
#[inline(always)]
pub fn reached(event: Event) {
    #[cfg(events)]
    counting::count(event);
    #[cfg(not(events))]
    let _ = event;
}

#[cfg(events)]
pub use counting::counts;

#[cfg(events)]
mod counting {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::{Event, NAMES};

    static COUNTS: [AtomicU64; NAMES.len()] = [const { AtomicU64::new(0) }; NAMES.len()];

    pub(super) fn count(event: Event) {
        // ORDER: Relaxed - a number that is reported.
        COUNTS[event as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Each event's name, and how often this process has reached it.
    pub fn counts() -> Vec<(&'static str, u64)> {
        // ORDER: Relaxed - as above.
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        NAMES.iter().copied().zip(COUNTS.iter().map(count)).collect()
    }
}
