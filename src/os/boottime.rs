//! The clock that goes on while the machine is suspended.

use std::io;
use std::time::Duration;

#[cfg(target_os = "linux")]
use rustix::time::{DynamicClockId, clock_gettime_dynamic};

/// The time since the machine was started, including the time during which it was suspended.
///
/// # Errors
/// The system refuses; `Unsupported` on systems other than Linux.
#[cfg(target_os = "linux")]
#[inline]
pub fn boottime() -> io::Result<Duration> {
    let time = clock_gettime_dynamic(DynamicClockId::Boottime)?;
    Ok(time.try_into().expect("the clock begins at zero"))
}

/// Not supported here.
///
/// # Errors
/// Always.
#[cfg(not(target_os = "linux"))]
pub fn boottime() -> io::Result<Duration> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

#[cfg(all(test, target_os = "linux", not(any(loom, shuttle))))]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn it_is_the_systems_uptime_and_does_not_go_back() {
        let up = || {
            let text = fs::read_to_string("/proc/uptime").unwrap();
            let seconds: f64 = text.split(' ').next().unwrap().parse().unwrap();
            Duration::from_secs_f64(seconds)
        };
        // The file cuts off after hundredths.
        let hundredth = Duration::from_millis(10);
        let (before, now, again, after) = (up(), boottime().unwrap(), boottime().unwrap(), up());
        assert!(before <= now && now <= again, "{before:?} {now:?} {again:?}");
        assert!(again <= after + hundredth, "{again:?} {after:?}");
    }
}
