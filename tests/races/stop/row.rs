//! Jobs of which one keeps the thread that runs it until the test lets go: events in place of time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use support::boxed::Boxed;
use support::mpsc;
use support::patience::PATIENCE;
use support::planned::panic_as_planned;
use support::token::Token;
use tickless_sync::Mutex;

/// A row of jobs, of which one keeps the thread that runs it until the test lets go.
pub(crate) struct Row {
    begun: AtomicUsize,
    blocks_at: usize,
    pub(crate) panics: AtomicBool,
    is_blocked: mpsc::Sender<()>,
    gate: Mutex<mpsc::Receiver<()>>,
}

/// The test's end of a row.
pub(crate) struct Control {
    pub(crate) row: Arc<Row>,
    is_blocked: mpsc::Receiver<()>,
    gate: mpsc::Sender<()>,
}

/// In a payload. One without a token asks whether the engine still takes any.
pub(crate) struct Job {
    row: Arc<Row>,
    pub(crate) token: Option<Token>,
}

// === impl Row ===

impl Row {
    /// A row of which the job that begins as number `blocks_at` blocks.
    pub(crate) fn that_blocks_at(blocks_at: usize) -> Control {
        let ((is_blocked, told), (gate, opens)) = (mpsc::channel(), mpsc::channel());
        let (begun, gate_of_row) = (AtomicUsize::new(0), Mutex::new(opens));
        let panics = AtomicBool::new(false);
        let row = Row { begun, blocks_at, panics, is_blocked, gate: gate_of_row };
        Control { row: Arc::new(row), is_blocked: told, gate }
    }

    pub(crate) fn begin(&self, token: &Token) {
        token.run();
        if self.begun.fetch_add(1, Ordering::SeqCst) + 1 == self.blocks_at {
            let _ = self.is_blocked.send(());
            // A test that fails does not open it.
            let _ = self.gate.lock().unwrap().recv_timeout(2 * PATIENCE);
            if self.panics.load(Ordering::SeqCst) {
                panic_as_planned();
            }
        }
    }
}

// === impl Control ===

impl Control {
    pub(crate) fn blocks(&self) {
        self.is_blocked.recv_timeout(PATIENCE).expect("one of the row is running");
    }

    pub(crate) fn open(&self) {
        self.gate.send(()).unwrap();
    }

    pub(crate) fn begun(&self) -> usize {
        self.row.begun.load(Ordering::SeqCst)
    }

    pub(crate) fn job(&self, token: Token) -> Boxed {
        Boxed::new(Job { row: self.row.clone(), token: Some(token) })
    }
}

// === impl Job ===

impl Job {
    pub(crate) fn asks(row: &Arc<Row>) -> Boxed {
        Boxed::new(Job { row: row.clone(), token: None })
    }

    pub(crate) fn run(payload: Boxed) {
        let job = payload.get::<Job>();
        job.row.begin(job.token.as_ref().expect("nobody runs what asks in an hour"));
    }
}
