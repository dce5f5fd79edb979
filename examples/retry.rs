//! Clients that connect to a service which is down at first, and only lets in so many at a time.
//!
//! ```text
//! cargo run --release --example retry
//! ```
//!
//! Each client retries with an exponential backoff and jitter, so that they do not all come back at
//! once. An attempt is a request to the service, a thread of its own that answers some time later.
//! One client asks for something that the service will never do, and gives up at once.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use tickless::Engine;
use tickless::periodic::{Attempt, Backoff, Jitter, Outcome, Retry};

const CLIENTS: usize = 50;
const DOWN_FOR: Duration = Duration::from_millis(100);
/// Of ten requests, so many are let in.
const LET_IN: usize = 4;

/// Why a request was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Refused {
    Down,
    Busy,
    /// There is no point in asking again.
    NotAllowed,
}

struct Request {
    client: usize,
    attempt: Attempt<usize, Refused>,
}

/// Answers requests, one after another.
fn serve(requests: mpsc::Receiver<Request>) {
    let begin = Instant::now();
    for (number, Request { client, attempt }) in requests.into_iter().enumerate() {
        if client == 0 {
            attempt.give_up(Refused::NotAllowed);
        } else if begin.elapsed() < DOWN_FOR {
            attempt.fail(Refused::Down);
        } else if number % 10 >= LET_IN {
            attempt.fail(Refused::Busy);
        } else {
            attempt.succeed(client);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let engine = Engine::new()?;
    let (requests, inbox) = mpsc::channel();
    let service = thread::spawn(|| serve(inbox));

    let backoff = Backoff::new(Duration::from_millis(5)).max(Duration::from_millis(40));
    let retry = Retry::new(backoff.jitter(Jitter::Full)).within(Duration::from_secs(30));
    let (tell, outcomes) = mpsc::channel();
    for client in 0..CLIENTS {
        let (requests, tell) = (requests.clone(), tell.clone());
        retry.clone().start(
            &engine,
            // Where nobody is there to ask, the attempt comes back unanswered, and has failed.
            move |attempt| drop(requests.send(Request { client, attempt })),
            move |outcome| tell.send((client, outcome)).expect("somebody listens to the end"),
        )?;
    }
    // From here on, only clients that still try can send; the last of them ends both loops.
    drop((requests, tell));

    let (mut connected, mut attempts, mut most) = (0, 0, 0);
    for (client, outcome) in outcomes {
        attempts += outcome.attempts();
        most = most.max(outcome.attempts());
        match outcome {
            Outcome::Succeeded { value, .. } => {
                assert_eq!(value, client);
                connected += 1;
            }
            Outcome::GaveUp { error, attempts } => {
                assert_eq!((client, error, attempts), (0, Some(Refused::NotAllowed), 1));
            }
            other => panic!("client {client}: {other:?}"),
        }
    }
    service.join().expect("the service ends when nobody can ask any more");

    println!("{connected} of {CLIENTS} clients connected, with {attempts} attempts in all");
    println!("the most patient one made {most}");
    assert_eq!(connected, CLIENTS - 1);
    assert!(engine.stop()?.is_empty(), "no retry is left");
    Ok(())
}
