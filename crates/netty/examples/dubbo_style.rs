//! What an RPC framework of Dubbo's kind has its hashed wheel for, against a peer that loses
//! requests, refuses some, and hangs now and then:
//!
//! - *request timeout*: each request has one, which the answer cancels;
//! - *failure retry*: what failed is sent again a little later, and given up after a few times;
//! - *heartbeat*: a task that arms itself again. It pings a peer that is silent, and connects anew
//!   to one that stays so.
//!
//! Dubbo keeps a wheel for each of the three, as their ticks differ. Here ticks cost nothing, and
//! one timer does. At the end the books must balance: each call was answered or given up, once.

use std::collections::HashMap;
use std::error::Error;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Arc, Mutex, Weak};
use std::thread;
use std::time::{Duration, Instant};

use tickless_netty::{HashedWheelTimer, Timeout, TimerTask};

const CALLS: u64 = 500;
const TRIES: u32 = 6;
const REQUEST_TIMEOUT: Duration = Duration::from_millis(25);
const RETRY_AFTER: Duration = Duration::from_millis(10);
const HEARTBEAT: Duration = Duration::from_millis(20);

/// From the client to the peer.
enum Frame {
    Request(u64),
    Ping,
    Connect,
    Close,
}

/// From the peer to the client.
enum Answer {
    Response(u64),
    Busy(u64),
    Pong,
}

/// What the program waits for.
enum Event {
    Answered,
    GaveUp,
    Pong,
}

/// Something to be done by the peer, however often it takes.
struct Call {
    tries: u32,
}

/// A request that is under way.
struct Open {
    call: Call,
    timeout: Timeout,
}

struct Client {
    timer: HashedWheelTimer,
    peer: Mutex<Sender<Frame>>,
    events: Mutex<Sender<Event>>,
    /// By the number of the request. Whoever takes one out of here ends it.
    open: Mutex<HashMap<u64, Open>>,
    start: Instant,
    heard_ms: AtomicU64,
    books: Books,
}

#[derive(Debug, Default)]
struct Books {
    requests: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    timed_out: AtomicU64,
    retries: AtomicU64,
    pings: AtomicU64,
    reconnects: AtomicU64,
}

fn add(counter: &AtomicU64) -> u64 {
    counter.fetch_add(1, Ordering::Relaxed)
}

// === the three tasks ===

// What waits in the timer refers to the client weakly: it keeps nobody alive.

struct RequestTimeout {
    client: Weak<Client>,
    request: u64,
    due: Instant,
}

impl TimerTask for RequestTimeout {
    fn run(&self, _timeout: &Timeout) {
        assert!(Instant::now() >= self.due, "a request times out early");
        let Some(client) = self.client.upgrade() else { return };
        if let Some(open) = client.end(self.request) {
            add(&client.books.timed_out);
            client.retry(open.call);
        }
    }
}

struct Retry {
    client: Weak<Client>,
    tries: u32,
}

impl TimerTask for Retry {
    fn run(&self, _timeout: &Timeout) {
        if let Some(client) = self.client.upgrade() {
            add(&client.books.retries);
            client.request(Call { tries: self.tries });
        }
    }
}

struct Heartbeat {
    client: Weak<Client>,
}

impl TimerTask for Heartbeat {
    fn run(&self, timeout: &Timeout) {
        let Some(client) = self.client.upgrade() else { return };
        let silence = client.silence();
        if silence >= HEARTBEAT * 3 {
            add(&client.books.reconnects);
            client.heard();
            client.tell(Frame::Connect);
        } else if silence >= HEARTBEAT {
            add(&client.books.pings);
            client.tell(Frame::Ping);
        }
        // Armed when it has run, so that slow runs do not pile up. Once the timer stops, the
        // heartbeat is refused and ends.
        let _ = client.timer.new_timeout(timeout.task().clone(), HEARTBEAT);
    }
}

// === the client ===

impl Client {
    fn new(timer: HashedWheelTimer, peer: Sender<Frame>, events: Sender<Event>) -> Arc<Client> {
        Arc::new(Client {
            timer,
            peer: Mutex::new(peer),
            events: Mutex::new(events),
            open: Mutex::default(),
            start: Instant::now(),
            heard_ms: AtomicU64::new(0),
            books: Books::default(),
        })
    }

    /// Sends a request, with a timeout on it.
    fn request(self: &Arc<Client>, call: Call) {
        let request = add(&self.books.requests);
        {
            // The timeout may be due at once, and waits here until it can be found.
            let mut open = self.open.lock().expect("nobody panics");
            let client = Arc::downgrade(self);
            let task = RequestTimeout { client, request, due: Instant::now() + REQUEST_TIMEOUT };
            let timeout = self.timer.new_timeout(task, REQUEST_TIMEOUT);
            let timeout = timeout.expect("nobody stops the timer while calls are under way");
            open.insert(request, Open { call, timeout });
        }
        self.tell(Frame::Request(request));
    }

    /// Tries again a little later, unless it was tried often enough.
    fn retry(self: &Arc<Client>, call: Call) {
        let tries = call.tries + 1;
        if tries == TRIES {
            return self.report(Event::GaveUp);
        }
        let retry = Retry { client: Arc::downgrade(self), tries };
        let retried = self.timer.new_timeout(retry, RETRY_AFTER * tries);
        retried.expect("nobody stops the timer while calls are under way");
    }

    fn receive(self: &Arc<Client>, answer: Answer) {
        self.heard();
        match answer {
            Answer::Pong => self.report(Event::Pong),
            Answer::Response(request) => {
                // None: the answer came too late, and another request is under way.
                if let Some(open) = self.end(request) {
                    open.timeout.cancel();
                    add(&self.books.answered);
                    self.report(Event::Answered);
                }
            }
            Answer::Busy(request) => {
                if let Some(open) = self.end(request) {
                    open.timeout.cancel();
                    add(&self.books.refused);
                    self.retry(open.call);
                }
            }
        }
    }

    fn end(&self, request: u64) -> Option<Open> {
        self.open.lock().expect("nobody panics").remove(&request)
    }

    fn tell(&self, frame: Frame) {
        // A peer that is gone answers nothing, which is what timeouts are for.
        let _ = self.peer.lock().expect("nobody panics").send(frame);
    }

    fn report(&self, event: Event) {
        let _ = self.events.lock().expect("nobody panics").send(event);
    }

    fn heard(&self) {
        self.heard_ms.store(self.start.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    fn silence(&self) -> Duration {
        let heard = Duration::from_millis(self.heard_ms.load(Ordering::Relaxed));
        self.start.elapsed().saturating_sub(heard)
    }
}

// === the peer ===

/// Loses one request of eight, refuses another, and hangs with every 400th frame until somebody
/// connects.
fn serve(frames: Receiver<Frame>, answers: &Sender<Answer>) {
    let (mut seen, mut hangs) = (0_u32, false);
    for frame in frames {
        seen += 1;
        hangs |= seen % 400 == 0;
        let answer = match frame {
            Frame::Close => return,
            Frame::Connect => {
                hangs = false;
                continue;
            }
            _ if hangs => continue,
            Frame::Ping => Answer::Pong,
            Frame::Request(request) => match seen.wrapping_mul(0x9E37_79B9) >> 29 {
                0 => continue,
                1 => Answer::Busy(request),
                _ => Answer::Response(request),
            },
        };
        let _ = answers.send(answer);
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let timer = HashedWheelTimer::builder()
        .tick_duration(Duration::from_millis(5))
        .ticks_per_wheel(128)
        .thread_name("rpc-timer")
        .build()?;
    let (to_peer, frames) = mpsc::channel();
    let (to_client, answers) = mpsc::channel();
    let (to_main, events) = mpsc::channel();
    let client = Client::new(timer.clone(), to_peer, to_main);
    let peer = thread::spawn(move || serve(frames, &to_client));
    let of_reader = client.clone();
    let reader =
        thread::spawn(move || answers.into_iter().for_each(|answer| of_reader.receive(answer)));

    timer.new_timeout(Heartbeat { client: Arc::downgrade(&client) }, HEARTBEAT)?;
    (0..CALLS).for_each(|_| client.request(Call { tries: 0 }));

    let (mut answered, mut gave_up, mut pongs) = (0, 0, 0);
    // Pongs come when all calls are over, at the latest.
    while answered + gave_up < CALLS || pongs == 0 {
        match events.recv_timeout(Duration::from_secs(30))? {
            Event::Answered => answered += 1,
            Event::GaveUp => gave_up += 1,
            Event::Pong => pongs += 1,
        }
    }
    let waiting = timer.stop()?;
    client.tell(Frame::Close);
    peer.join().expect("the peer does not panic");
    reader.join().expect("the reader does not panic");

    // Each request ended in one way, each call too, and of all timeouts the heartbeat alone is
    // left (if it was not running when the timer stopped).
    let books = &client.books;
    let sum = |counters: [&AtomicU64; 3]| counters.map(|n| n.load(Ordering::Relaxed)).iter().sum();
    let ended: u64 = sum([&books.answered, &books.refused, &books.timed_out]);
    assert_eq!(ended, books.requests.load(Ordering::Relaxed));
    assert_eq!(ended, CALLS + books.retries.load(Ordering::Relaxed));
    assert!(client.open.lock().expect("nobody panics").is_empty());
    assert!(waiting.len() <= 1 && timer.pending_timeouts() == 0);
    assert_eq!(timer.stats().panicked, 0);
    println!("{answered} calls answered, {gave_up} given up: {books:?}");
    Ok(())
}
