//! Ctrl-C: the first asks for an early end with the report, the second ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::flag;

/// What a shell reports for a program that SIGINT ended.
const KILLED: i32 = 130;

/// Whether the user wants the program to end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt(Arc<AtomicBool>);

// === impl Interrupt ===

impl Interrupt {
    /// Takes over Ctrl-C, and the signal by which services are asked to end.
    pub(crate) fn install() -> io::Result<Interrupt> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGINT, SIGTERM] {
            // In this order: the first signal finds the flag down, and then raises it.
            flag::register_conditional_shutdown(signal, KILLED, Arc::clone(&asked))?;
            flag::register(signal, Arc::clone(&asked))?;
        }
        Ok(Interrupt(asked))
    }

    pub(crate) fn is_asked(&self) -> bool {
        // Relaxed: nothing travels with the flag.
        self.0.load(Ordering::Relaxed)
    }
}
