//! The clock that goes on while the machine is suspended.

use std::io;
use std::time::Duration;

/// The time since the machine was started, that during which it was suspended included.
///
/// # Errors
/// What the system says; `Unsupported` where it has no such clock that we know of.
#[cfg(target_os = "linux")]
#[inline]
pub fn boottime() -> io::Result<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the system writes to a `timespec` that lives through the call.
    if unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut time) } != 0 {
        return Err(io::Error::last_os_error());
    }
    // It begins at zero and has less than a thousand million nanoseconds.
    Ok(Duration::new(time.tv_sec as u64, time.tv_nsec as u32))
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
