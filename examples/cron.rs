//! Tasks by cron expressions, with a crate that reads them. They follow the system's wall clock: if
//! it is set, the next run is at the right time of day all the same.
//!
//! The example has a wall clock of its own, which it sets by hand, so that three days take no time.
//! A service calls `WallTimers::new` instead, and changes nothing else.

use std::str::FromStr;
use std::sync::mpsc;
use std::time::{Duration, SystemTime};

use chrono::{DateTime, TimeZone, Utc};
use tickless::wall::WallTimers;
use tickless::{Engine, ManualClock};

/// The times of a cron expression, as [`WallTimers::repeat`] asks for them: the next one after a
/// time.
fn times(
    expression: &str,
) -> Result<impl FnMut(SystemTime) -> Option<SystemTime> + Send + use<>, cron::error::Error> {
    let schedule = cron::Schedule::from_str(expression)?;
    Ok(move |after: SystemTime| {
        let after = DateTime::<Utc>::from(after);
        schedule.after(&after).next().map(SystemTime::from)
    })
}

fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let clock = ManualClock::new();
    let engine = Engine::builder().manual_clock(&clock).shards(1).build()?;
    let noon = SystemTime::from(Utc.with_ymd_and_hms(2027, 1, 1, 12, 0, 0).unwrap());
    let timers = WallTimers::by_hand(&engine, noon);

    let (sender, log) = mpsc::channel();
    let note = |what: &'static str| {
        let sender = sender.clone();
        move |due: SystemTime| {
            let due = DateTime::<Utc>::from(due);
            let _ = sender.send(format!("{} {what}", due.format("%a %H:%M")));
        }
    };
    // Seconds, minutes, hours, days of the month, months, days of the week.
    let backup = timers.repeat(times("0 30 3 * * *")?, note("backup"))?;
    timers.repeat(times("0 0 9 * * Mon-Fri")?, note("report"))?;

    // Hour by hour through a week-end.
    let hour = Duration::from_secs(3600);
    for hours in 1..=72 {
        timers.set_now(noon + hours * hour);
        engine.advance(Duration::ZERO)?;
    }
    // Somebody sets the clock forward by two days: each task runs once, late, and not for each day.
    timers.set_now(noon + 120 * hour);
    engine.advance(Duration::ZERO)?;
    assert!(backup.cancel());

    let ran: Vec<String> = log.try_iter().collect();
    ran.iter().for_each(|line| println!("{line}"));
    assert_eq!(
        ran,
        [
            "Sat 03:30 backup",
            "Sun 03:30 backup",
            "Mon 03:30 backup",
            "Mon 09:00 report",
            "Tue 03:30 backup",
            "Tue 09:00 report",
        ]
    );
    Ok(())
}
