//! How the inspector's thread waits: for its sockets, and for its end.
//!
//! *Owner*: the thread has the ear, and the inspector the bell, whose drop ends the wait. On Unix
//! the two are a pair of sockets, and the thread sleeps until it has something to do. Elsewhere the
//! thread looks at its sockets every [`POLL`]; with `--cfg elsewhere`, on Unix too.

#[cfg(all(unix, not(elsewhere)))]
pub(crate) use self::with_poll::{Bell, Ear, pair};
#[cfg(not(all(unix, not(elsewhere))))]
pub(crate) use self::without::{Bell, Ear, pair};

/// What a connection or the listener waits for.
pub(crate) trait Waits {
    /// The socket, and what it is waited for.
    #[cfg(unix)]
    fn event(&self) -> nix::poll::PollFd<'_>;
}

#[cfg(unix)]
#[cfg_attr(elsewhere, expect(dead_code, reason = "the other one is tested then"))]
mod with_poll {
    use std::io::{self, ErrorKind, Read};
    use std::net::Shutdown;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

    use super::Waits;

    pub(crate) struct Bell(UnixStream);

    pub(crate) struct Ear(UnixStream);

    pub(crate) fn pair() -> io::Result<(Bell, Ear)> {
        let (bell, ear) = UnixStream::pair()?;
        ear.set_nonblocking(true)?;
        Ok((Bell(bell), Ear(ear)))
    }

    impl Drop for Bell {
        fn drop(&mut self) {
            // Closing it would not do: a child process may have it, too.
            let _ = self.0.shutdown(Shutdown::Both);
        }
    }

    impl Ear {
        /// Whether the bell was dropped.
        pub(crate) fn has_rung(&self) -> bool {
            let read = (&self.0).read(&mut [0]);
            let waits = [ErrorKind::WouldBlock, ErrorKind::Interrupted];
            !read.is_err_and(|error| waits.contains(&error.kind()))
        }

        /// Waits until one of these may go on, the bell is dropped or `timeout` has passed.
        pub(crate) fn wait<'a>(
            &'a self,
            all: impl Iterator<Item = &'a dyn Waits>,
            timeout: Option<Duration>,
        ) {
            let ear = PollFd::new(self.0.as_fd(), PollFlags::POLLIN);
            let mut events: Vec<_> = [ear].into_iter().chain(all.map(Waits::event)).collect();
            // Rounded up: a deadline has passed when the wait ends.
            let ms = |timeout: Duration| timeout.as_nanos().div_ceil(1_000_000);
            let timeout = timeout.map_or(PollTimeout::NONE, |timeout| {
                ms(timeout).try_into().unwrap_or(PollTimeout::MAX)
            });
            // If it ends early or fails, the thread tries its sockets and waits again.
            let _ = poll(&mut events, timeout);
        }
    }
}

#[cfg(not(all(unix, not(elsewhere))))]
mod without {
    use std::io;
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::Waits;

    const POLL: Duration = Duration::from_millis(20);

    pub(crate) struct Bell(#[expect(dead_code, reason = "its drop rings")] Sender);

    type Sender = mpsc::SyncSender<()>;

    pub(crate) struct Ear(mpsc::Receiver<()>);

    pub(crate) fn pair() -> io::Result<(Bell, Ear)> {
        let (bell, ear) = mpsc::sync_channel(1);
        Ok((Bell(bell), Ear(ear)))
    }

    impl Ear {
        pub(crate) fn has_rung(&self) -> bool {
            self.0.try_recv() == Err(mpsc::TryRecvError::Disconnected)
        }

        pub(crate) fn wait<'a>(
            &'a self,
            _all: impl Iterator<Item = &'a dyn Waits>,
            timeout: Option<Duration>,
        ) {
            thread::sleep(timeout.map_or(POLL, |timeout| timeout.min(POLL)));
        }
    }
}
