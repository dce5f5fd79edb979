//! A client's connections: each has a timer for its handshake or for idleness, and one for each
//! request in flight, all in one scope. However a connection ends, its timers end with it.
//!
//! The clock is moved by hand, so that the output is the same each time.

use std::collections::HashMap;
use std::time::Duration;

use crossbeam_channel::bounded;
use tickless::dispatch::Channel;
use tickless::scope::{Key, Scope};
use tickless::{Builder, Engine, ManualClock, ScheduleError};

const SECOND: Duration = Duration::from_secs(1);

/// A timer's payload: what is late, and on which connection.
enum Late {
    Greeting { connection: u32 },
    Answer { connection: u32, request: u32 },
    Anything { connection: u32 },
}

struct Connection {
    number: u32,
    timers: Scope<Late>,
    /// For the handshake at first, then for idleness.
    progress: Key,
    requests: HashMap<u32, Key>,
}

impl Connection {
    fn open(engine: &Engine<Late>, number: u32) -> Result<Connection, ScheduleError<Late>> {
        let mut timers = engine.scope();
        let progress = timers.schedule(5 * SECOND, Late::Greeting { connection: number })?;
        Ok(Connection { number, timers, progress, requests: HashMap::new() })
    }

    fn greeted(&mut self) -> Result<(), ScheduleError<Late>> {
        self.timers.cancel(self.progress);
        let idle = Late::Anything { connection: self.number };
        self.progress = self.timers.schedule(60 * SECOND, idle)?;
        Ok(())
    }

    fn ask(&mut self, request: u32) -> Result<(), ScheduleError<Late>> {
        let late = Late::Answer { connection: self.number, request };
        let key = self.timers.schedule(10 * SECOND, late)?;
        self.requests.insert(request, key);
        Ok(())
    }

    /// Whether the answer came in time.
    fn answered(&mut self, request: u32) -> bool {
        // If it is idle already, the message about that is on its way.
        let _ = self.timers.reset(self.progress, 60 * SECOND);
        self.requests.remove(&request).is_some_and(|key| self.timers.cancel(key))
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let clock = ManualClock::new();
    // Payloads go to the thread that owns the connections.
    let (sender, events) = bounded(64);
    let engine =
        Builder::new().manual_clock(&clock).build_with_handler(Channel::blocking(sender))?;
    let mut connections = HashMap::new();
    for number in 0..4 {
        let mut connection = Connection::open(&engine, number)?;
        if number > 0 {
            connection.greeted()?;
            (0..=number).try_for_each(|request| connection.ask(request))?;
        }
        connections.insert(number, connection);
    }
    println!("{} timers of 4 connections", engine.len());
    assert_eq!(engine.len(), 4 + 2 + 3 + 4);

    // Connection 1 gets its answers, 2 hangs up, and nothing comes on 0 and 3.
    let first = connections.get_mut(&1).expect("it is open");
    assert!(first.answered(0) && first.answered(1));
    assert_eq!(first.timers.len(), 1, "of idleness");
    drop(connections.remove(&2));
    assert_eq!(engine.len(), 1 + 1 + 5, "nothing is left of the connection that hung up");

    let mut closed = Vec::new();
    for _ in 0..70 {
        engine.advance(SECOND)?;
        for late in events.try_iter() {
            let connection = match late {
                Late::Greeting { connection } => connection,
                Late::Answer { connection, request } => {
                    println!("{connection}: no answer to request {request}");
                    connection
                }
                Late::Anything { connection } => connection,
            };
            // Closing it cancels its other timers. What was due with this one is there already.
            if connections.remove(&connection).is_some() {
                println!("{connection}: closed");
                closed.push(connection);
            }
        }
    }
    assert_eq!((closed, engine.len()), (vec![0, 3, 1], 0));
    println!("{}", engine.stats());
    Ok(())
}
