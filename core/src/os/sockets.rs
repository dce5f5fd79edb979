//! Waiting for several sockets at once.
//!
//! *Tested by*: `tests/suite/observe/inspector.rs`.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::time::Duration;

/// What a socket is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Interest {
    /// Until it can be read, or has a connection to accept.
    Readable,
    /// Until it can be written.
    Writable,
}

/// Waits until one of these events has come, a socket failed or `timeout` has passed, in whole
/// milliseconds. It may return for no reason: the caller tries what it waited for.
pub fn wait_for_sockets(events: &[(BorrowedFd<'_>, Interest)], timeout: Option<Duration>) {
    let wanted = |event| match event {
        Interest::Readable => libc::POLLIN,
        Interest::Writable => libc::POLLOUT,
    };
    let mut polled: Vec<libc::pollfd> = events
        .iter()
        .map(|&(fd, event)| libc::pollfd { fd: fd.as_raw_fd(), events: wanted(event), revents: 0 })
        .collect();
    // Rounded up: who waits for a deadline finds it passed. None: for ever.
    let ms = timeout.map_or(-1, |timeout| {
        i32::try_from(timeout.as_nanos().div_ceil(1_000_000)).unwrap_or(i32::MAX)
    });
    // SAFETY: the array has as many items as is said, and lives through the call.
    unsafe { libc::poll(polled.as_mut_ptr(), polled.len() as libc::nfds_t, ms) };
}
