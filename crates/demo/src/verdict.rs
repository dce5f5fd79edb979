//! The verdict: what the audit found, in a sentence.

use crate::audit::Books;
use crate::run::Outcome;
use crate::words::{grouped, ms};

/// The words of the verdict, for those who read them for the first time.
pub(crate) const TERMS: &str = "\
early: fired before its deadline, by the clock of the thread that set the deadline
lost: neither fired nor cancelled when all had come to rest
duplicate: fired twice
contradicted: fired after `cancel` returned true, or cancelled or reset after it had fired";

/// One sentence, in the terms of [`TERMS`].
pub(crate) fn verdict(outcome: &Outcome) -> String {
    let well = outcome.violations().is_empty();
    let books = &outcome.books;
    if well {
        format!(
            "All well: every one of {} due timers fired, none early, none twice, p99 {} late; \
             {} were cancelled in time, and none of these fired.",
            grouped(books.fired),
            ms(outcome.late(0.99)),
            grouped(books.cancelled)
        )
    } else {
        format!("NOT WELL: {}.", charges(books))
    }
}

fn charges(books: &Books) -> String {
    if books.violations() == 0 {
        return "the timers are in order, but counts that should agree do not".to_owned();
    }
    format!(
        "of {} timers {} fired early, {} were lost, {} fired twice and {} contradicted an answer",
        grouped(books.scheduled),
        grouped(books.early),
        grouped(books.lost),
        grouped(books.duplicate),
        grouped(books.contradicted)
    )
}
