//! The clients: one event loop that keeps a fixed number of sessions going.
//!
//! A session dials, then thinks and asks in turn. The pause is a timer that always fires; the
//! timeouts of dial and request are timers that the greeting and the answer cancel. Now and then
//! a session falls silent and waits to be closed by the server, or asks for no answer and waits
//! for its timeout, hangs up and dials anew.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::engine::TimerEngine;
use crate::gauges::Gauges;
use crate::mailbox::{Inbox, Mailbox, wait};
use crate::plan::{DIAL_TIMEOUT, Dice, Plan, REDIAL_PAUSE, REQUEST_TIMEOUT};
use crate::timers::{Accounts, Fired, Pause, Timer, Timers};
use crate::wire::{self, Frame, GREETING, Incoming, Partial};

const MAILBOX: Token = Token(usize::MAX - 1);

/// What the clients saw of their requests and connections.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ClientCounts {
    pub(crate) requests: u64,
    pub(crate) answered: u64,
    pub(crate) timed_out: u64,
    /// Requests whose connection ended before the answer or the timeout came.
    pub(crate) cut_off: u64,
    /// Requests that asked for no answer ..
    pub(crate) unanswered: u64,
    /// .. and how many of these ended by their timeout, or cut off.
    pub(crate) unanswered_ended: u64,
    /// Frames that no session was waiting for.
    pub(crate) strays: u64,
    pub(crate) dials_failed: u64,
    /// Sessions that fell silent ..
    pub(crate) fell_silent: u64,
    /// .. and how many of these were then closed by the server.
    pub(crate) silent_closed: u64,
}

/// The clients' loop and all that it owns.
pub(crate) struct Clients<E: TimerEngine> {
    plan: Plan,
    dice: Dice,
    server: SocketAddr,
    poll: Poll,
    sessions: Vec<Session<E>>,
    done: usize,
    timers: Timers<E>,
    gauges: Arc<Gauges>,
    counts: ClientCounts,
}

struct Session<E: TimerEngine> {
    stream: Option<TcpStream>,
    partial: Partial,
    state: State<E>,
}

enum State<E: TimerEngine> {
    /// Not connected; dials when the timer fires.
    Away(Pause<E>),
    /// Waits for the server's greeting.
    Dialling { timeout: Timer<E> },
    /// Connected; asks when the timer fires.
    Thinking(Pause<E>),
    /// Waits for the answer to a request.
    Asking { frame: Frame, timeout: Timer<E> },
    /// Waits for the server to close the connection.
    Silent,
    /// The run is over.
    Done,
}

// === impl Clients ===

impl<E: TimerEngine> Clients<E> {
    /// Prepares the sessions; they dial at random times in the first moments of the run.
    pub(crate) fn new(
        plan: Plan,
        server: SocketAddr,
        engine: E,
        gauges: Arc<Gauges>,
    ) -> io::Result<Self> {
        let poll = Poll::new()?;
        let inbox = Inbox::new(poll.registry(), MAILBOX)?;
        let mut timers = Timers::new("client", engine, inbox, Arc::clone(&gauges));
        let mut dice = Dice::new(&plan);
        let mut sessions = Vec::with_capacity(plan.connections);
        for index in 0..plan.connections {
            let state = State::Away(timers.arm_detached(dice.ramp(), index)?);
            sessions.push(Session { stream: None, partial: Partial::default(), state });
        }
        let counts = ClientCounts::default();
        Ok(Clients { plan, dice, server, poll, sessions, done: 0, timers, gauges, counts })
    }

    /// Where the loop can be woken, to look whether the run is over.
    pub(crate) fn mailbox(&self) -> Arc<Mailbox> {
        Arc::clone(self.timers.mailbox())
    }

    /// Runs until the run is over and every session has ended, or until the plan gives up.
    pub(crate) fn run(mut self) -> io::Result<(ClientCounts, Accounts)> {
        let mut events = Events::with_capacity(1_024);
        while !self.is_done() && wait(&mut self.poll, &mut events, self.plan.give_up())? {
            for event in &events {
                match event.token() {
                    MAILBOX => self.timers.open_mail(),
                    Token(index) => self.socket_ready(index)?,
                }
            }
            while let Some(fired) = self.timers.next_fired() {
                self.timer_fired(fired)?;
            }
        }
        Ok((self.counts, self.timers.into_accounts()))
    }

    fn is_done(&self) -> bool {
        self.done == self.sessions.len() && self.timers.all_settled()
    }

    fn timer_fired(&mut self, Fired { timer, owner }: Fired) -> io::Result<()> {
        match &self.sessions[owner].state {
            State::Away(pause) if pause.id() == timer => self.dial(owner),
            State::Thinking(pause) if pause.id() == timer => self.ask(owner),
            State::Dialling { timeout } if timeout.id() == timer => self.dial_failed(owner),
            State::Asking { timeout, .. } if timeout.id() == timer => self.timed_out(owner),
            // The answer came while the letter was on the way: the session has moved on.
            _ => Ok(()),
        }
    }

    fn socket_ready(&mut self, index: usize) -> io::Result<()> {
        loop {
            let session = &mut self.sessions[index];
            // The connection may have been ended by an earlier event of the same batch.
            let Some(stream) = &mut session.stream else { return Ok(()) };
            match wire::receive(stream, &mut session.partial) {
                Incoming::Frame(GREETING) => self.greeted(index)?,
                Incoming::Frame(answer) => self.answered(index, answer)?,
                Incoming::Nothing => return Ok(()),
                // A fresh stream may take the old one's place, so there is nothing more to read.
                Incoming::End => return self.closed_by_server(index),
            }
        }
    }

    fn dial(&mut self, index: usize) -> io::Result<()> {
        if self.plan.is_over() {
            return self.end(index);
        }
        let connect = || {
            let mut stream = TcpStream::connect(self.server)?;
            self.poll.registry().register(&mut stream, Token(index), Interest::READABLE)?;
            stream.set_nodelay(true)?;
            io::Result::Ok(stream)
        };
        let Ok(stream) = connect() else { return self.dial_failed(index) };
        let state = State::Dialling { timeout: self.timers.arm(DIAL_TIMEOUT, index)? };
        self.sessions[index] = Session { stream: Some(stream), partial: Partial::default(), state };
        Ok(())
    }

    fn dial_failed(&mut self, index: usize) -> io::Result<()> {
        self.counts.dials_failed += 1;
        let state = State::Away(self.timers.arm_detached(REDIAL_PAUSE, index)?);
        self.sessions[index] = Session { stream: None, partial: Partial::default(), state };
        Ok(())
    }

    fn think(&mut self, index: usize) -> io::Result<()> {
        self.sessions[index].state = if self.plan.is_over() || self.dice.silent() {
            self.counts.fell_silent += 1;
            State::Silent
        } else {
            State::Thinking(self.timers.arm_detached(self.dice.think(), index)?)
        };
        Ok(())
    }

    fn ask(&mut self, index: usize) -> io::Result<()> {
        if self.plan.is_over() {
            return self.think(index);
        }
        let frame = Frame { number: self.counts.requests, unanswered: self.dice.unanswered() };
        let timeout = self.timers.arm(REQUEST_TIMEOUT, index)?;
        self.counts.requests += 1;
        self.counts.unanswered += u64::from(frame.unanswered);
        let session = &mut self.sessions[index];
        session.state = State::Asking { frame, timeout };
        match session.stream.as_mut().map(|stream| wire::send(stream, frame)) {
            Some(Ok(())) => Ok(()),
            _ => self.closed_by_server(index),
        }
    }

    fn greeted(&mut self, index: usize) -> io::Result<()> {
        match self.take_state(index) {
            State::Dialling { timeout } => {
                self.timers.cancel(timeout);
                self.think(index)
            }
            other => self.stray(index, other),
        }
    }

    fn answered(&mut self, index: usize, answer: Frame) -> io::Result<()> {
        match self.take_state(index) {
            State::Asking { frame, timeout } if frame == answer && !frame.unanswered => {
                self.timers.cancel(timeout);
                self.counts.answered += 1;
                self.gauges.answered();
                self.think(index)
            }
            other => self.stray(index, other),
        }
    }

    /// A frame arrived that the session was not waiting for: it stays as it was.
    fn stray(&mut self, index: usize, state: State<E>) -> io::Result<()> {
        self.sessions[index].state = state;
        self.counts.strays += 1;
        Ok(())
    }

    fn timed_out(&mut self, index: usize) -> io::Result<()> {
        if let State::Asking { frame, .. } = &self.sessions[index].state {
            self.counts.timed_out += 1;
            self.counts.unanswered_ended += u64::from(frame.unanswered);
        }
        self.redial(index)
    }

    fn closed_by_server(&mut self, index: usize) -> io::Result<()> {
        match self.take_state(index) {
            State::Silent => self.counts.silent_closed += 1,
            State::Dialling { timeout } => {
                self.timers.cancel(timeout);
                return self.dial_failed(index);
            }
            State::Asking { frame, timeout } => {
                self.timers.cancel(timeout);
                self.counts.cut_off += 1;
                self.counts.unanswered_ended += u64::from(frame.unanswered);
            }
            State::Away(_) | State::Thinking(_) | State::Done => {}
        }
        self.redial(index)
    }

    /// Drops the connection and makes a new one, while there is time.
    fn redial(&mut self, index: usize) -> io::Result<()> {
        self.sessions[index].stream = None;
        self.dial(index)
    }

    fn end(&mut self, index: usize) -> io::Result<()> {
        self.sessions[index].state = State::Done;
        self.done += 1;
        Ok(())
    }

    /// Takes the state out, to be followed by the next one.
    fn take_state(&mut self, index: usize) -> State<E> {
        std::mem::replace(&mut self.sessions[index].state, State::Done)
    }
}
