//! Payloads whose fate is counted: handed over, or dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// What became of each of a number of tokens.
#[derive(Clone)]
pub struct Fates(Arc<[Fate]>);

#[derive(Default)]
struct Fate {
    ran: AtomicU32,
    dropped: AtomicU32,
}

/// A payload. Every token is dropped once, run or not.
pub struct Token {
    fates: Fates,
    pub number: usize,
}

impl Fates {
    pub fn new(tokens: usize) -> Fates {
        Fates((0..tokens).map(|_| Fate::default()).collect())
    }

    pub fn token(&self, number: usize) -> Token {
        Token { fates: self.clone(), number }
    }

    /// How often the token was run, and how often it was dropped.
    pub fn of(&self, number: usize) -> (u32, u32) {
        let Fate { ran, dropped } = &self.0[number];
        (ran.load(Ordering::SeqCst), dropped.load(Ordering::SeqCst))
    }
}

impl Token {
    pub fn run(&self) {
        self.fates.0[self.number].ran.fetch_add(1, Ordering::SeqCst);
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.fates.0[self.number].dropped.fetch_add(1, Ordering::SeqCst);
    }
}
