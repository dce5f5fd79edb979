//! The server: one event loop that answers requests and closes connections that fell silent.
//!
//! Each connection has one idle timer for all its life: every packet resets it, and when it fires
//! the connection is closed. If the client leaves first, the timer is cancelled.

use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use mio::net::{TcpListener, TcpStream};
use mio::{Events, Interest, Poll, Token};

use crate::engine::TimerEngine;
use crate::gauges::Gauges;
use crate::mailbox::{Inbox, Mailbox, wait};
use crate::plan::{IDLE_TIMEOUT, Plan};
use crate::timers::{Accounts, Fired, Timer, Timers};
use crate::wire::{self, GREETING, Incoming, Partial};

const LISTENER: Token = Token(usize::MAX - 1);
const MAILBOX: Token = Token(usize::MAX - 2);

/// What the server saw of its connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ServerCounts {
    pub(crate) accepted: u64,
    pub(crate) closed_idle: u64,
    /// Connections that the client closed.
    pub(crate) left: u64,
}

/// The server's loop and all that it owns.
pub(crate) struct Server<E: TimerEngine> {
    plan: Plan,
    poll: Poll,
    listener: TcpListener,
    mailbox: Arc<Mailbox>,
    connections: Vec<Option<Connection<E>>>,
    vacant: Vec<usize>,
    timers: Timers<E>,
    counts: ServerCounts,
    /// Set by the main thread once no client is left.
    finish: Arc<AtomicBool>,
}

struct Connection<E: TimerEngine> {
    stream: TcpStream,
    partial: Partial,
    idle: Timer<E>,
}

/// Tells the server that it may end once its connections are gone.
pub(crate) struct Finisher {
    finish: Arc<AtomicBool>,
    mailbox: Arc<Mailbox>,
}

// === impl Finisher ===

impl Finisher {
    pub(crate) fn finish(&self) {
        // Release: pairs with the Acquire in `Server::is_done`; nothing else travels with it.
        self.finish.store(true, Ordering::Release);
        self.mailbox.ring();
    }
}

// === impl Server ===

impl<E: TimerEngine> Server<E> {
    /// Binds a port of the loopback interface.
    pub(crate) fn bind(plan: Plan, engine: E, gauges: Arc<Gauges>) -> io::Result<Self> {
        let poll = Poll::new()?;
        let mut listener = TcpListener::bind(SocketAddr::from(([127, 0, 0, 1], 0)))?;
        poll.registry().register(&mut listener, LISTENER, Interest::READABLE)?;
        let inbox = Inbox::new(poll.registry(), MAILBOX)?;
        Ok(Server {
            plan,
            poll,
            listener,
            mailbox: Arc::clone(inbox.mailbox()),
            connections: Vec::new(),
            vacant: Vec::new(),
            timers: Timers::new("server", engine, inbox, gauges),
            counts: ServerCounts::default(),
            finish: Arc::default(),
        })
    }

    pub(crate) fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    pub(crate) fn finisher(&self) -> Finisher {
        Finisher { finish: Arc::clone(&self.finish), mailbox: Arc::clone(&self.mailbox) }
    }

    /// Serves until told to finish and the last connection is gone, or until the plan gives up.
    pub(crate) fn run(mut self) -> io::Result<(ServerCounts, Accounts)> {
        let mut events = Events::with_capacity(1_024);
        while !self.is_done() && wait(&mut self.poll, &mut events, self.plan.give_up())? {
            for event in &events {
                match event.token() {
                    LISTENER => self.accept()?,
                    MAILBOX => self.timers.open_mail(),
                    Token(index) => self.serve(index)?,
                }
            }
            while let Some(fired) = self.timers.next_fired() {
                self.idle_timer_fired(fired);
            }
        }
        Ok((self.counts, self.timers.into_accounts()))
    }

    fn is_done(&self) -> bool {
        self.finish.load(Ordering::Acquire)
            && self.vacant.len() == self.connections.len()
            && self.timers.all_settled()
    }

    fn accept(&mut self) -> io::Result<()> {
        loop {
            let mut stream = match self.listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                // The client left before it was accepted.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => return Err(error),
            };
            let index = self.vacant.pop().unwrap_or_else(|| {
                self.connections.push(None);
                self.connections.len() - 1
            });
            stream.set_nodelay(true)?;
            self.poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            let greeted = wire::send(&mut stream, GREETING);
            let idle = self.timers.arm(IDLE_TIMEOUT, index)?;
            self.connections[index] =
                Some(Connection { stream, partial: Partial::default(), idle });
            self.counts.accepted += 1;
            if greeted.is_err() {
                self.client_left(index);
            }
        }
    }

    /// Answers whatever a connection has sent.
    fn serve(&mut self, index: usize) -> io::Result<()> {
        // The connection may have been closed by an earlier event of the same batch.
        while let Some(connection) = &mut self.connections[index] {
            match wire::receive(&mut connection.stream, &mut connection.partial) {
                Incoming::Frame(frame) => {
                    self.timers.reset(&mut connection.idle, IDLE_TIMEOUT)?;
                    if !frame.unanswered && wire::send(&mut connection.stream, frame).is_err() {
                        self.client_left(index);
                    }
                }
                Incoming::Nothing => break,
                Incoming::End => self.client_left(index),
            }
        }
        Ok(())
    }

    fn client_left(&mut self, index: usize) {
        if let Some(connection) = self.close(index) {
            self.counts.left += 1;
            self.timers.cancel(connection.idle);
        }
    }

    fn idle_timer_fired(&mut self, fired: Fired) {
        // The client may have left while the letter was on the way, and another connection may
        // have moved in: only the timer's own connection is closed.
        let current = self.connections[fired.owner].as_ref();
        if current.is_some_and(|connection| connection.idle.id() == fired.timer) {
            self.close(fired.owner);
            self.counts.closed_idle += 1;
        }
    }

    /// Takes a connection out; its socket closes when it is dropped.
    fn close(&mut self, index: usize) -> Option<Connection<E>> {
        let connection = self.connections[index].take()?;
        self.vacant.push(index);
        Some(connection)
    }
}
