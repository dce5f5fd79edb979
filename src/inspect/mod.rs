//! An inspector: a page and JSON about a running engine, for this machine alone.
//!
//! ```
//! use tickless::Engine;
//!
//! let engine = Engine::new()?;
//! let inspector = engine.inspect(([127, 0, 0, 1], 0))?;
//! println!("open {inspector} in a browser");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The page draws itself anew each second: what is pending by level and due time, lateness, rates,
//! what is overdue, and stuck tasks. Programs can read the same numbers, for example by
//! `curl http://127.0.0.1:9100/stats.json`:
//!
//! | path | what it has |
//! |---|---|
//! | `/` | the page |
//! | `/stats.json` | [`Engine::stats`], as [`json`] describes it |
//! | `/snapshot.json` | the summary of [`Engine::snapshot`], as [`json`] describes it |
//! | `/overdue.json` | [`Engine::overdue`], as [`json`] describes it |
//! | `/lateness.json` | the histogram of lateness |
//! | `/callers.json` | who schedules, if it was [asked for](Inspector::with_callers) |
//!
//! The last two have names that are as stable as those of [`json`]. The histogram is an array, from
//! the least lateness. `at_most_ns` is an upper bound, at most 6.25 % too high, and `timers` is how
//! many timers were that late and not less. In `/callers.json`, `sampled` says whether samples are
//! taken now, and `every` how many timers one sample stands for. `callers` is an array, from the
//! most samples: `file`, `line`, `column`, `samples`. `others` are the samples whose places
//! were not noted: there is room for some 500, and two threads do not note at the same moment.
//!
//! # What it costs
//! One thread, which sleeps until somebody asks. The engine's threads and timers do no work for it,
//! but each snapshot reads the memory of all timers, and collects 32 bytes for each: O(n) per
//! second while a page is open. A page that has to wait for its numbers asks less often.
//!
//! # Who can see it
//! [`Engine::inspect`] serves on a loopback address only, which every user and program of this
//! machine can reach. [`Engine::inspect_unix`] serves on a Unix socket for the user alone. What is
//! shown are numbers, and the names of the engine and its threads. Nothing can be changed.
//!
//! It serves `GET` by HTTP/1.1, one request per connection. The `Host` must be `localhost` or a
//! loopback address, so that no web site reaches it by a name of its own, and browsers are told
//! to show no other site what it has. A request has at most 8 KiB and comes within 2 s. The reply
//! is taken within 2 s. At most 32 connections are open; one more closes the oldest.
//!
//! # When it ends
//! When the [`Inspector`] is dropped. It does not keep the engine alive: when that is gone, the
//! next request gets an error (410), and the inspector's thread and socket end. An engine that was
//! stopped can be seen as long as somebody has it.
//!
//! [`json`]: crate::docs::json

mod connection;
mod ear;
mod listener;
mod reply;
mod request;
mod server;

use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;

use crate::dispatch::Process;
use crate::engine::{Engine, Window};
use crate::os::block_signals;
use crate::sync::{Arc, JoinHandle, thread};

use ear::Bell;
use listener::Listener;
use server::Server;

/// Serves an engine's page until it is dropped: [`Engine::inspect`].
///
/// `Display` is the page's address, or the path of the Unix socket.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
/// use tickless::Engine;
/// use tickless::inspect::Inspector;
///
/// let engine = Engine::new()?;
/// let inspector: Inspector = engine.inspect(([127, 0, 0, 1], 0))?;
/// let mut stream = TcpStream::connect(inspector.local_addr().expect("it is no Unix socket"))?;
/// stream.write_all(b"GET /overdue.json HTTP/1.1\r\nHost: localhost\r\n\r\n")?;
/// let mut answer = String::new();
/// stream.read_to_string(&mut answer)?;
/// assert!(answer.ends_with(r#"{"oldest_ns":0,"shards":0,"stuck":[]}"#));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "dropping it ends the serving"]
pub struct Inspector {
    /// A URL, or a path.
    address: String,
    local_addr: Option<SocketAddr>,
    /// The thread, and what ends it.
    running: Option<(Bell, JoinHandle<()>)>,
    engine: Arc<dyn Window>,
    /// Whether it wants to know who schedules.
    samples_callers: bool,
    /// The process that has the thread.
    process: Process,
}

// === impl Engine ===

impl<T: Send + 'static> Engine<T> {
    /// Serves the engine's page and JSON at a loopback address, on a thread of its own, until the
    /// inspector is dropped. With port 0, the system chooses one:
    /// [`local_addr`](Inspector::local_addr).
    ///
    /// # Errors
    /// `InvalidInput`: the address is not a loopback address. `Unsupported`: the engine belongs to
    /// the parent process. Any other: the system refuses the socket or the thread.
    pub fn inspect(&self, address: impl Into<SocketAddr>) -> io::Result<Inspector> {
        self.serve(Listener::tcp(address.into())?)
    }

    /// As [`inspect`](Engine::inspect), on a Unix socket at `path`, which only the user of this
    /// process can use: `curl --unix-socket PATH http://localhost/stats.json`. The socket is
    /// removed with the inspector.
    ///
    /// # Errors
    /// `AddrInUse`: there is something at `path`, perhaps the socket of a process that was killed.
    /// `Unsupported`: the engine belongs to the parent process. Any other: the system refuses the
    /// socket or the thread.
    #[cfg(unix)]
    pub fn inspect_unix(&self, path: impl AsRef<Path>) -> io::Result<Inspector> {
        self.serve(Listener::unix(path.as_ref())?)
    }

    fn serve(&self, listener: Listener) -> io::Result<Inspector> {
        if self.is_inherited() {
            return Err(io::Error::from(io::ErrorKind::Unsupported));
        }
        let (address, local_addr) = listener.address()?;
        let (bell, ear) = ear::pair()?;
        let engine = self.window();
        let server = Server::new(listener, ear, engine.clone(), self.name());
        let name = "tickless-inspect".to_owned();
        let _blocked = block_signals();
        let thread = thread::Builder::new().name(name).spawn(move || server.run())?;
        let running = Some((bell, thread));
        let process = Process::current();
        Ok(Inspector { address, local_addr, running, engine, samples_callers: false, process })
    }
}

// === impl Inspector ===

impl Inspector {
    /// Also samples who schedules timers, until the inspector is dropped: of one timer in 64, at
    /// random, each thread notes the place in the source that scheduled it. `/callers.json` and the
    /// page have the places with their numbers of samples, since the first inspector of the engine
    /// that asked for this.
    ///
    /// The place is that of the call of [`Engine::schedule`] and the other methods that schedule
    /// with [`Engine`] and [`Scope`](crate::Scope), and of `new_timeout` of the crate
    /// `tickless-netty`. Timers of other modules, sleeps among them, are noted as places in this
    /// crate. A timer that is moved by a reset is not noted again.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tickless::Engine;
    ///
    /// let engine = Engine::new()?;
    /// let inspector = engine.inspect(([127, 0, 0, 1], 0))?.with_callers();
    /// for _ in 0..1_000 {
    ///     engine.schedule(Duration::from_secs(1), || ())?.cancel(); // some 16 samples
    /// }
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn with_callers(mut self) -> Inspector {
        if !self.samples_callers {
            self.engine.want_callers(true);
            self.samples_callers = true;
        }
        self
    }

    /// Returns the address that it serves at. `None`: a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        let Some((bell, thread)) = self.running.take() else { return };
        if !self.process.is_current() {
            // A child process does not have the thread, and the socket is the parent's.
            return mem::forget((bell, thread));
        }
        if self.samples_callers {
            self.engine.want_callers(false);
        }
        drop(bell);
        // The thread must not join itself: a callback of the engine may own the inspector, and be
        // dropped there.
        if thread.thread().id() != thread::current().id() {
            // If it panicked, the panic hook has reported it.
            let _ = thread.join();
        }
    }
}

impl fmt::Display for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.address)
    }
}

debug! { impl[] Inspector[] { address } }
