//! Each call of the engine and its doors in the middle of each other one: at accesses to shared
//! memory that a call makes, another thread makes the other call (`meanwhile`). Then time goes on
//! until all is over (`scene`).
//!
//! Some calls are lock-free (`Meets::Nobody`): they never wait for a thread that stands still in the
//! middle of whatever call.

mod scene;

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tickless::Handle;

use crate::meanwhile::{self, Came};
use scene::{END, KEY, Own, Owned, Scene, Shape, lock, ticks};

/// Whom a call may wait for, if a thread stands still in the middle of another call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Meets {
    /// It takes no lock and does not wait.
    Nobody,
    /// Another call may hold a lock or a role that it needs.
    Others,
}

/// A call that one of the two threads makes.
type Call = (&'static str, Meets, fn(&Scene, &mut Own));

const CALLS: &[Call] = &[
    ("schedule", Meets::Nobody, |scene, _| scene.schedule(5)),
    ("schedule far", Meets::Nobody, |scene, _| scene.schedule(700)),
    ("schedule now", Meets::Nobody, |scene, _| scene.schedule(0)),
    ("cancel", Meets::Nobody, |_, own| own.cancel()),
    ("take", Meets::Nobody, |_, own| {
        let Owned { handle, fate } = own.take();
        own.said.push((fate, handle.take().is_none()));
    }),
    ("let go", Meets::Nobody, |_, own| {
        let Owned { handle, fate } = own.take();
        drop(handle);
        own.said.push((fate, true));
    }),
    ("reset to later", Meets::Nobody, |scene, own| scene.reset(own, 40)),
    ("reset to earlier", Meets::Nobody, |scene, own| scene.reset(own, 3)),
    ("cancel and schedule", Meets::Nobody, |scene, own| {
        own.cancel();
        scene.schedule(30);
    }),
    // What is due at 9 is re-filed, and does not fire.
    ("short turn", Meets::Others, |scene, _| scene.turn(8)),
    ("turn", Meets::Others, |scene, _| scene.turn(9)),
    ("late turn", Meets::Others, |scene, _| scene.turn(60)),
    ("stop", Meets::Others, |scene, _| scene.stop()),
    ("snapshot", Meets::Others, |scene, _| _ = scene.engine.snapshot().len()),
    ("stats", Meets::Others, |scene, _| _ = scene.engine.stats()),
    ("cancel a waitable", Meets::Others, |_, own| drop(own.waitable.take())),
    ("cancel and wait", Meets::Others, |_, own| {
        let mut waitable = own.waitable.take().expect("it is there");
        let _ = waitable.cancel_wait_within(Duration::ZERO);
    }),
    ("reset a waitable", Meets::Others, |_, own| {
        _ = own.waitable.as_mut().expect("it is there").reset(ticks(20));
    }),
    ("poll a sleep", Meets::Others, |_, own| own.poll_sleep()),
    ("reset a sleep", Meets::Others, |_, own| own.reset_sleep(20)),
    ("drop a sleep", Meets::Others, |_, own| drop(own.sleep.take())),
    ("poll an interval", Meets::Others, |_, own| own.poll_interval()),
    ("schedule in a scope", Meets::Others, |scene, own| {
        let token = scene.token(6);
        let scope = own.scope.as_mut().expect("it is there");
        drop(scope.schedule(ticks(6), move || token.run()));
    }),
    ("end a scope", Meets::Others, |_, own| drop(own.scope.take())),
    ("schedule keyed", Meets::Others, |scene, _| scene.schedule_keyed(7)),
    ("schedule keyed now", Meets::Others, |scene, _| scene.schedule_keyed(0)),
    ("schedule if absent", Meets::Others, |scene, _| {
        let token = scene.token(4);
        drop(scene.keyed.schedule_if_absent(KEY, ticks(4), move || token.run()));
    }),
    ("cancel keyed", Meets::Others, |scene, _| _ = scene.keyed.cancel(&KEY)),
    ("reset keyed", Meets::Others, |scene, _| _ = scene.keyed.reset(&KEY, ticks(20))),
    ("cancel all keyed", Meets::Others, |scene, _| _ = scene.keyed.cancel_all()),
    ("insert an entry", Meets::Others, |scene, _| scene.insert(8)),
    ("extend an entry", Meets::Others, |scene, _| {
        drop(scene.entries.get_and_extend(&KEY, ticks(20)));
    }),
    ("remove an entry", Meets::Others, |scene, _| drop(scene.entries.remove(&KEY))),
    ("watch an operation", Meets::Others, |scene, _| drop(scene.watch(6))),
    ("check a key", Meets::Others, |scene, _| {
        scene.work.may_complete.store(true, Ordering::Relaxed);
        scene.purgatory.check_and_complete(&KEY);
    }),
    ("complete an operation", Meets::Others, |scene, _| _ = scene.ticket.force_complete()),
    ("cancel an operation", Meets::Others, |scene, _| _ = scene.ticket.cancel()),
    ("cancel a periodic", Meets::Others, |scene, _| _ = scene.periodic.cancel()),
    ("beat", Meets::Others, |scene, _| _ = scene.heartbeat.beat()),
    ("stop a heartbeat", Meets::Others, |scene, _| _ = scene.heartbeat.stop()),
    ("cancel a retry", Meets::Others, |scene, _| _ = scene.retry.cancel()),
    ("schedule in the hashed wheel", Meets::Others, |scene, _| drop(scene.new_timeout(5))),
    ("cancel a timeout", Meets::Others, |scene, _| _ = scene.timeout.cancel()),
    ("advance the hashed wheel", Meets::Others, |scene, _| _ = scene.wheel.advance(ticks(9))),
    ("stop the hashed wheel", Meets::Others, |scene, _| drop(scene.wheel.stop())),
];

/// How many orders there were, and in how many the second call waited for the first.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    orders: u64,
    waited: u64,
}

/// The smallest wheel, in which entries are re-filed all the time; the usual one; and one that
/// refuses what comes after the scene is set.
const SHAPES: &[Shape] = &[(2, 2, 0, 100), (64, 32, 64, 100), (3, 3, 64, 13)];

/// Runs each call in the middle of each other one: at so many of its accesses, spread over all, or
/// at each.
pub(crate) fn run(most: Option<usize>) -> ExitCode {
    meanwhile::begin();
    let mut told = Told::default();
    for shape in SHAPES {
        for first in CALLS {
            let accesses = accesses(*shape, first.2);
            for (number, second) in CALLS.iter().enumerate() {
                // Each pair has other ones.
                let share = number as f64 / CALLS.len() as f64;
                let verdict = match most {
                    Some(most) => (0..most).try_for_each(|n| {
                        let at = (n as f64 + share) * accesses as f64 / most as f64;
                        told.judge(*shape, first, second, at as usize).map(drop)
                    }),
                    None => meanwhile::at_each(|n| told.judge(*shape, first, second, n)),
                };
                if let Err(complaint) = verdict {
                    eprintln!("{complaint}");
                    return ExitCode::FAILURE;
                }
            }
        }
    }
    let (pairs, Told { orders, waited }) = (CALLS.len() * CALLS.len(), told);
    println!("{pairs} pairs of calls, {orders} orders; in {waited} of them one waits");
    ExitCode::SUCCESS
}

/// How many accesses a call makes, if none comes in the middle.
fn accesses(shape: Shape, call: fn(&Scene, &mut Own)) -> usize {
    let scene = Scene::new(shape);
    meanwhile::arrange(meanwhile::MOST, || (), || ());
    call(&scene, &mut lock(&scene.own[0]));
    let accesses = meanwhile::accesses();
    meanwhile::end();
    accesses
}

// === impl Told ===

impl Told {
    /// Judges `second` at access `n` of `first`. The error says what is wrong.
    fn judge(
        &mut self,
        shape: Shape,
        (name, _, first): &Call,
        (other, meets, second): &Call,
        n: usize,
    ) -> Result<Came, String> {
        let came = scene(shape, *first, *second, n)
            .map_err(|it| format!("\"{other}\" at access {n} of \"{name}\", {shape:?}: {it}"))?;
        self.orders += 1;
        if let Came::Waited(site) = came {
            self.waited += 1;
            if *meets == Meets::Nobody {
                return Err(format!(
                    "\"{other}\" waits for \"{name}\", which stands still at {site}"
                ));
            }
        }
        Ok(came)
    }
}

/// One scene, with `second` at access `n` of `first`.
fn scene(
    shape: Shape,
    first: fn(&Scene, &mut Own),
    second: fn(&Scene, &mut Own),
    n: usize,
) -> Result<Came, String> {
    let scene = Arc::new(Scene::new(shape));
    let (other, warm) = (scene.clone(), scene.clone());
    // A thread's first call registers it.
    let before = move || _ = warm.engine.schedule(ticks(END), || ()).map(Handle::cancel);
    meanwhile::arrange(n, before, move || second(&other, &mut lock(&other.own[1])));
    first(&scene, &mut lock(&scene.own[0]));
    let came = meanwhile::end();
    let tally = scene.tally.clone();
    scene.end()?;
    let scene = Arc::into_inner(scene).expect("the other thread is gone");
    drop(scene);
    match (lock(&tally.offence).take(), tally.alive.load(Ordering::Relaxed)) {
        (Some(offence), _) => Err(offence),
        (None, 0) => Ok(came),
        (None, alive) => Err(format!("{alive} payloads are left")),
    }
}
