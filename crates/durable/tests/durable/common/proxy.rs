//! A proxy between instances and a server.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Passes,
    /// Each piece comes so much later.
    Delays(Duration),
    /// Nothing comes through, and nobody is told.
    Stalls,
    /// What is asked comes through, and no reply does, nor ever will.
    KeepsReplies,
    /// Connections are ended, and new ones as well.
    Cuts,
}

type Connect = Box<dyn Fn() -> io::Result<OwnedFd> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Proxy {
    pub(crate) port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    mode: Mutex<Mode>,
    changed: Condvar,
    connect: Connect,
    open: Mutex<Vec<TcpStream>>,
}

// === impl Proxy ===

impl Proxy {
    pub(crate) fn new(connect: impl Fn() -> io::Result<OwnedFd> + Send + Sync + 'static) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            mode: Mutex::new(Mode::Passes),
            changed: Condvar::new(),
            connect: Box::new(connect),
            open: Mutex::default(),
        });
        let proxy = Proxy { port: listener.local_addr().unwrap().port(), shared };
        let theirs = proxy.clone();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                // A server that is not there ends the connection.
                drop(theirs.serve(client));
            }
        });
        proxy
    }

    fn serve(&self, client: TcpStream) -> io::Result<()> {
        if *self.shared.mode.lock().unwrap() == Mode::Cuts {
            return Ok(());
        }
        // Reading, writing and shutting down are the same for each kind of socket.
        let server = UnixStream::from((self.shared.connect)()?);
        self.shared.open.lock().unwrap().push(client.try_clone()?);
        let ends = (client.try_clone()?, server.try_clone()?);
        let (asks, replies) = (self.clone(), self.clone());
        thread::spawn(move || {
            asks.copy(client, &server, false);
            let _ = server.shutdown(Shutdown::Both);
        });
        thread::spawn(move || {
            replies.copy(ends.1, &ends.0, true);
            let _ = ends.0.shutdown(Shutdown::Both);
        });
        Ok(())
    }

    fn copy(&self, mut from: impl Read, mut to: impl Write, are_replies: bool) {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let mode = self.shared.mode.lock().unwrap();
            let stalls = |mode: &mut Mode| {
                *mode == Mode::Stalls || (are_replies && *mode == Mode::KeepsReplies)
            };
            let mode = *self.shared.changed.wait_while(mode, stalls).unwrap();
            if let Mode::Delays(delay) = mode {
                thread::sleep(delay);
            }
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    }

    pub(crate) fn set(&self, mode: Mode) {
        let mut now = self.shared.mode.lock().unwrap();
        // Before a reply that was kept can go on.
        if mode == Mode::Cuts || *now == Mode::KeepsReplies {
            self.cut();
        }
        *now = mode;
        self.shared.changed.notify_all();
    }

    fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}
