//! Calls that happen in the middle of another thread's call: a race of two threads, in an order
//! that is chosen and comes again in each run.
//!
//! A build with `--cfg coherence` tells of each access to shared memory before it happens. A thread
//! can arrange that it stands still at the n-th access of its own from now on, while another thread
//! makes a whole call. With each n in turn, a call meets the other one in each moment in which that
//! makes a difference.
//!
//! Where the other call finds a lock taken, or waits for a word to change, it has met the thread
//! that stands still. That one goes on then, and both run at the same time.

use std::cell::RefCell;
use std::panic::Location;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tickless_sync::coherence::{self, AccessObserver};

/// More accesses than any call makes.
pub(crate) const MOST: usize = 100_000;

/// After this time the other call waits for what does not come.
const PATIENCE: Duration = Duration::from_secs(60);

/// A call of another thread in the middle of this one's, as it is arranged.
struct Arranged {
    /// How many accesses of this thread come before.
    left: usize,
    /// Tells the other thread to begin.
    begin: Sender<()>,
    met: Met,
}

/// The other thread, and what it has told so far.
struct Met {
    news: Receiver<News>,
    thread: JoinHandle<()>,
    came: Came,
}

/// What the other thread tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Waits,
    IsOver,
}

/// How the other call came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Came {
    /// Not in the middle: this thread made too few accesses.
    Not,
    /// As a whole, while this thread stood still.
    Whole(&'static Location<'static>),
    /// It began while this thread stood still, and waited for it.
    Waited(&'static Location<'static>),
}

thread_local! {
    static ARRANGED: RefCell<Option<Arranged>> = const { RefCell::new(None) };
    /// Of a thread that makes a call in the middle of another one's: whom it tells that it waits.
    static TELLS: RefCell<Option<Sender<News>>> = const { RefCell::new(None) };
}

struct Stop;

impl AccessObserver for Stop {
    fn access(&self, _: usize, _: usize, _: bool, site: &'static Location<'static>) {
        // Not in the destructors of the thread.
        let _ = ARRANGED.try_with(|arranged| {
            // Nothing below makes an access that is observed.
            let Ok(mut arranged) = arranged.try_borrow_mut() else { return };
            match arranged.as_mut() {
                Some(Arranged { left: 0, begin, met }) if met.came == Came::Not => {
                    begin.send(()).expect("the other thread waits for this");
                    met.came = match met.next("a call that came in the middle", site) {
                        News::IsOver => Came::Whole(site),
                        News::Waits => Came::Waited(site),
                    };
                }
                Some(Arranged { left, .. }) => *left = left.saturating_sub(1),
                None => {}
            }
        });
    }

    fn wait(&self, _: usize) -> bool {
        self.spin();
        false
    }

    fn release(&self, _: usize) {}

    fn spin(&self) {
        let tells = TELLS.try_with(|tells| tells.borrow_mut().take());
        if let Ok(Some(tells)) = tells {
            let _ = tells.send(News::Waits);
        }
    }
}

impl Met {
    fn next(&self, what: &str, site: &'static Location<'static>) -> News {
        match self.news.recv_timeout(PATIENCE) {
            Ok(news) => news,
            Err(RecvTimeoutError::Timeout) => panic!("{what} at {site} does not end"),
            Err(RecvTimeoutError::Disconnected) => panic!("{what} at {site} panicked"),
        }
    }
}

/// Calls `order` with 0, 1 and so on, until no call came in the middle of the one that it makes.
pub(crate) fn at_each<E>(mut order: impl FnMut(usize) -> Result<Came, E>) -> Result<(), E> {
    for n in 0..MOST {
        if order(n)? == Came::Not {
            return Ok(());
        }
    }
    panic!("a call has no end");
}

/// From now on, threads stand still where they have arranged it.
pub(crate) fn begin() {
    coherence::observe(&Stop);
}

/// At this thread's next access but `n`, `call` runs on another thread while this one stands still.
/// `before` runs there now.
pub(crate) fn arrange(
    n: usize,
    before: impl FnOnce() + Send + 'static,
    call: impl FnOnce() + Send + 'static,
) {
    let (begin, begins) = mpsc::channel();
    let (tell, news) = mpsc::channel();
    let (ready, is_ready) = mpsc::channel();
    let thread = thread::spawn(move || {
        before();
        ready.send(()).expect("somebody waits for this");
        // It is not to begin if the arrangement is taken back.
        if begins.recv().is_ok() {
            TELLS.set(Some(tell.clone()));
            call();
            TELLS.set(None);
            let _ = tell.send(News::IsOver);
        }
    });
    is_ready.recv().expect("nothing panics before");
    let met = Met { news, thread, came: Came::Not };
    ARRANGED.set(Some(Arranged { left: n, begin, met }));
}

/// How many accesses this thread has made since it arranged for access [`MOST`].
pub(crate) fn accesses() -> usize {
    ARRANGED.with_borrow(|arranged| arranged.as_ref().map_or(0, |it| MOST - it.left))
}

/// Ends the arrangement: the other call is over afterwards, or will not come.
pub(crate) fn end() -> Came {
    let Some(Arranged { begin, met, .. }) = ARRANGED.take() else { return Came::Not };
    drop(begin);
    if let Came::Waited(site) = met.came {
        let news = met.next("a call that waited", site);
        debug_assert_eq!(news, News::IsOver);
    }
    met.thread.join().expect("the other call does not panic");
    met.came
}
