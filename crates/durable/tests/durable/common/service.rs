//! Services for tests, on a disk in memory.

use std::sync::Mutex;
use std::sync::mpsc::{self, Receiver, Sender};
use std::time::{Duration, SystemTime};

use tickless_durable::store::Disk;
use tickless_durable::{Backoff, Builder, Durable, Firing};

pub(crate) const HOUR: Duration = Duration::from_secs(3600);

pub(crate) fn now() -> SystemTime {
    SystemTime::now()
}

pub(crate) fn builder() -> Builder {
    Builder::new().backoff(Backoff::new(Duration::from_millis(2)).factor(1.0))
}

/// A service that sends what fires, with the number of the attempt.
pub(crate) fn sending(disk: &Disk, builder: Builder) -> (Durable<String>, Receiver<(String, u32)>) {
    let (sender, fired) = mpsc::channel();
    let handler =
        move |firing: &Firing<String>| sender.send((firing.payload().clone(), firing.attempt()));
    (builder.open(disk.open(), handler).unwrap(), fired)
}

/// A handler that says when it has begun, and waits until it is let go.
pub(crate) fn gated(
    disk: &Disk,
    builder: Builder,
) -> (Durable<String>, Receiver<u32>, Sender<bool>) {
    let ((begin, begun), (release, released)) = (mpsc::channel(), mpsc::channel());
    let released = Mutex::new(released);
    let handler = move |firing: &Firing<String>| {
        begin.send(firing.attempt()).unwrap();
        let succeeds = released.lock().unwrap().recv().unwrap_or(true);
        if succeeds { Ok(()) } else { Err("on purpose") }
    };
    (builder.open(disk.open(), handler).unwrap(), begun, release)
}

pub(crate) fn text(text: &str) -> String {
    text.to_owned()
}
