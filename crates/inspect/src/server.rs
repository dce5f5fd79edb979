//! The inspector's thread: accepts connections and lets each of them go on, in turns.

use std::collections::VecDeque;
use std::io::ErrorKind;
use std::iter;
use std::time::{Duration, Instant};

use crate::connection::Connection;
use crate::ear::{Ear, Waits};
use crate::listener::Listener;
use crate::site::Site;

/// How many connections are open at a time.
const MAX_CONNECTIONS: usize = 32;

/// How many connections are accepted before the others go on.
const BURST: usize = 8;

/// How long no connection is accepted if the system refuses one.
const REST: Duration = Duration::from_millis(100);

pub(crate) struct Server {
    listener: Listener,
    ear: Ear,
    site: Box<dyn Site>,
    /// From the oldest.
    open: VecDeque<Connection>,
    /// Until when no connection is accepted.
    rests_until: Option<Instant>,
}

// === impl Server ===

impl Server {
    pub(crate) fn new(listener: Listener, ear: Ear, site: Box<dyn Site>) -> Server {
        Server { listener, ear, site, open: VecDeque::new(), rests_until: None }
    }

    /// Serves until the bell is dropped, or the site is over and somebody was told so.
    pub(crate) fn run(mut self) {
        while !(self.site.is_over() && self.open.is_empty()) {
            self.wait();
            if self.ear.has_rung() {
                return;
            }
            let now = Instant::now();
            self.rests_until = self.rests_until.filter(|&until| now < until);
            if self.accepts() {
                self.accept(now);
            }
            let Server { open, site, .. } = &mut self;
            open.retain_mut(|connection| connection.go_on(now, &mut **site));
        }
    }

    fn accepts(&self) -> bool {
        self.rests_until.is_none() && !self.site.is_over()
    }

    fn wait(&self) {
        let deadlines = self.open.iter().map(|connection| connection.deadline);
        let next = deadlines.chain(self.rests_until).min();
        let timeout = next.map(|next| next.saturating_duration_since(Instant::now()));
        let listener: Option<&dyn Waits> = if self.accepts() { Some(&self.listener) } else { None };
        let connections = self.open.iter().map(|connection| connection as &dyn Waits);
        self.ear.wait(connections.chain(listener), timeout);
    }

    fn accept(&mut self, now: Instant) {
        for socket in iter::repeat_with(|| self.listener.accept()).take(BURST) {
            match socket {
                Ok(socket) => {
                    // Connections with a request have been read by now.
                    if self.open.len() == MAX_CONNECTIONS {
                        self.open.pop_front();
                    }
                    // The system may have suspended this thread since it read `now`.
                    self.open.push_back(Connection::new(socket, Instant::now()));
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // That connection is gone.
                Err(error) if is_of_one(error.kind()) => {}
                // It is out of descriptors, for example.
                Err(_) => {
                    self.rests_until = Some(now + REST);
                    return;
                }
            }
        }
    }
}

fn is_of_one(kind: ErrorKind) -> bool {
    [ErrorKind::Interrupted, ErrorKind::ConnectionAborted, ErrorKind::ConnectionReset]
        .contains(&kind)
}
