#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod connection;
mod ear;
mod engine;
mod listener;
mod reply;
mod request;
mod server;
mod signals;
pub mod site;

use std::fmt;
use std::io;
use std::mem;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::Path;
use std::process;
use std::thread::{self, JoinHandle};

use tickless::Engine;

use ear::Bell;
use engine::Clerk;
use listener::Listener;
use server::Server;
use site::Site;

/// Serves an engine's page, or a [site](site::Site), until it is dropped: [`serve`].
///
/// `Display` is the page's address, or the path of the Unix socket.
///
/// ```
/// use std::io::{Read, Write};
/// use std::net::TcpStream;
/// use tickless::Engine;
/// use tickless_inspect::Inspector;
///
/// let engine = Engine::new()?;
/// let inspector: Inspector = tickless_inspect::serve(&engine, ([127, 0, 0, 1], 0))?;
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
    /// The process that has the thread.
    process: u32,
}

/// Serves the engine's page and JSON at a loopback address, on a thread of its own, until the
/// inspector is dropped, or the engine is gone and a request was told so. With port 0, the system
/// chooses one: [`local_addr`](Inspector::local_addr).
///
/// # Errors
/// `InvalidInput`: the address is not a loopback address. `Unsupported`: the engine belongs to the
/// parent process. Any other: the system refuses the socket or the thread.
pub fn serve<T: Send + 'static>(
    engine: &Engine<T>,
    address: impl Into<SocketAddr>,
) -> io::Result<Inspector> {
    Inspector::new(of(engine)?, Listener::tcp(address.into())?)
}

/// As [`serve`], on a Unix socket at `path`, which only the user of this process can use:
/// `curl --unix-socket PATH http://localhost/stats.json`. The socket is removed with the inspector.
///
/// # Errors
/// `AddrInUse`: there is something at `path`, perhaps the socket of a process that was killed.
/// `Unsupported`: the engine belongs to the parent process. Any other: the system refuses the
/// socket or the thread.
#[cfg(unix)]
pub fn serve_unix<T: Send + 'static>(
    engine: &Engine<T>,
    path: impl AsRef<Path>,
) -> io::Result<Inspector> {
    Inspector::new(of(engine)?, Listener::unix(path.as_ref())?)
}

/// What there is to see of an engine.
fn of<T: Send + 'static>(engine: &Engine<T>) -> io::Result<Box<dyn Site>> {
    let view = engine.view();
    if view.stats().is_none() {
        return Err(io::Error::from(io::ErrorKind::Unsupported));
    }
    Ok(Box::new(Clerk::new(view, engine.name())))
}

// === impl Inspector ===

impl Inspector {
    fn new(site: Box<dyn Site>, listener: Listener) -> io::Result<Inspector> {
        let (address, local_addr) = listener.address()?;
        let (bell, ear) = ear::pair()?;
        let server = Server::new(listener, ear, site);
        let builder = thread::Builder::new().name("tickless-inspect".to_owned());
        let thread = signals::blocked(|| builder.spawn(move || server.run()))?;
        Ok(Inspector { address, local_addr, running: Some((bell, thread)), process: process::id() })
    }

    /// Waits until it serves no more: the engine is gone and a request was told so, or the site is
    /// [over](Site::is_over). Until then, it serves.
    ///
    /// # Errors
    /// The thread has panicked, or it is this one, or the parent process has it.
    pub fn wait(mut self) -> io::Result<()> {
        let Some((bell, thread)) = self.running.take() else { return Ok(()) };
        let is_own = thread.thread().id() == thread::current().id();
        if is_own || self.process != process::id() {
            self.running = Some((bell, thread));
            return Err(io::Error::other("that thread cannot be waited for here"));
        }
        let ended = thread.join();
        drop(bell);
        ended.map_err(|_| io::Error::other("the thread that serves has panicked"))
    }

    /// Returns the address that it serves at. `None`: a Unix socket.
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.local_addr
    }
}

impl Drop for Inspector {
    fn drop(&mut self) {
        let Some((bell, thread)) = self.running.take() else { return };
        if self.process != process::id() {
            // A child process does not have the thread, and the socket is the parent's.
            return mem::forget((bell, thread));
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

impl fmt::Debug for Inspector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inspector").field("address", &self.address).finish_non_exhaustive()
    }
}
