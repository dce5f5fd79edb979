//! The report of a run: its figures and what is wrong with them, in words or as one line of JSON.

use std::time::Duration;

use serde_json::{Value, json};

use crate::run::Outcome;
use crate::words::{grouped, ms};

impl Outcome {
    /// Everything that is wrong, one sentence each; empty when all is well.
    pub(crate) fn violations(&self) -> Vec<String> {
        let mut found = Vec::new();
        let books = &self.books;
        if books.violations() > 0 {
            found.push(format!(
                "timers: {} early, {} lost, {} fired twice, {} contradicted",
                books.early, books.lost, books.duplicate, books.contradicted
            ));
            found.extend(books.notes.iter().cloned());
        }
        for (what, seen, expected) in self.imbalances() {
            found.push(format!("{what}: {seen}, should be {expected}"));
        }
        found
    }

    /// Numbers that should agree once everything has come to rest, and do not.
    fn imbalances(&self) -> Vec<(&'static str, u64, u64)> {
        let Outcome { clients, server, books, .. } = self;
        let ended = clients.answered + clients.timed_out + clients.cut_off;
        let mut balances = vec![
            ("requests that ended", ended, clients.requests),
            ("unanswered requests that ended", clients.unanswered_ended, clients.unanswered),
            ("frames that nobody waited for", clients.strays, 0),
            ("silent connections closed", clients.silent_closed, clients.fell_silent),
            ("connections that ended", server.closed_idle + server.left, server.accepted),
        ];
        if let Some(counts) = &self.counts {
            balances.extend([
                ("engine's count of scheduled timers", counts.scheduled, books.scheduled),
                ("engine's count of cancelled timers", counts.cancelled, books.cancelled),
                ("engine's count of resets", counts.reset, books.reset),
                ("engine's count of fired timers", counts.fired, books.fired),
                ("engine's count of pending timers", counts.pending, 0),
                ("engine's count of panics", counts.panicked, 0),
                ("timers given back when the engine stopped", counts.given_back, 0),
            ]);
        }
        balances.into_iter().filter(|(_, seen, expected)| seen != expected).collect()
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        let books = &self.books;
        let us = |quantile| self.late(quantile).as_micros() as u64;
        json!({
            "engine": self.engine,
            "seconds": self.load.as_secs_f64(),
            "interrupted": self.interrupted,
            "connections": self.connections,
            "idle_timers": self.idle,
            "requests": self.clients.requests,
            "requests_per_s": self.requests_per_s().round(),
            "timed_out": self.clients.timed_out,
            "accepted": self.server.accepted,
            "dials_failed": self.clients.dials_failed,
            "closed_idle": self.server.closed_idle,
            "scheduled": books.scheduled,
            "cancelled": books.cancelled,
            "reset": books.reset,
            "fired": books.fired,
            "early": books.early,
            "lost": books.lost,
            "duplicate": books.duplicate,
            "contradicted": books.contradicted,
            "violations": self.violation_count(),
            "late_p50_us": us(0.5),
            "late_p99_us": us(0.99),
            "late_p999_us": us(0.999),
            "late_max_us": us(1.0),
            "peak_pending": self.peak_pending,
            "wake_ups": self.wake_ups,
            "switches": self.usage.map(|usage| usage.switches),
            "cpu_ms": self.usage.map(|usage| usage.cpu.as_millis() as u64),
            "wall_ms": self.wall.as_millis() as u64,
        })
    }

    /// A few lines, for people.
    pub(crate) fn text(&self) -> String {
        let Outcome { clients, server, books, .. } = self;
        format!(
            "\
load         {} connections for {:.1} s{}, then {:.1} s to come to rest
requests     {} ({} per second), of which {} timed out
connections  {} accepted, {} closed by their idle timer, {} by the client; {} dials failed
timers       {} scheduled, {} cancelled, {} reset, {} fired, at most {} pending
lateness     p50 {}, p99 {}, p99.9 {}, max {}
CPU          {}
wake-ups     {}",
            grouped(self.connections as u64),
            self.load.as_secs_f64(),
            if self.interrupted { " (interrupted)" } else { "" },
            self.wall.saturating_sub(self.load).as_secs_f64(),
            grouped(clients.requests),
            grouped(self.requests_per_s() as u64),
            grouped(clients.timed_out),
            grouped(server.accepted),
            grouped(server.closed_idle),
            grouped(server.left),
            grouped(clients.dials_failed),
            grouped(books.scheduled),
            grouped(books.cancelled),
            grouped(books.reset),
            grouped(books.fired),
            grouped(self.peak_pending),
            ms(self.late(0.5)),
            ms(self.late(0.99)),
            ms(self.late(0.999)),
            ms(self.late(1.0)),
            self.cpu_text(),
            self.wake_ups_text(),
        )
    }

    pub(crate) fn requests_per_s(&self) -> f64 {
        self.clients.requests as f64 / self.load.as_secs_f64().max(f64::EPSILON)
    }

    /// So late or less was this share of the fires, to three digits.
    pub(crate) fn late(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.books.lateness_ns.value_at_quantile(quantile))
    }

    /// Cores in use on average.
    pub(crate) fn cores(&self) -> Option<f64> {
        self.usage.map(|usage| usage.cpu.as_secs_f64() / self.wall.as_secs_f64())
    }

    fn violation_count(&self) -> u64 {
        self.books.violations() + self.imbalances().len() as u64
    }

    fn cpu_text(&self) -> String {
        self.usage.zip(self.cores()).map_or("unknown".to_owned(), |(usage, cores)| {
            let seconds = usage.cpu.as_secs_f64();
            format!("{seconds:.2} s of the whole process, {cores:.2} cores on average")
        })
    }

    fn wake_ups_text(&self) -> String {
        self.wake_ups.map_or("unknown".to_owned(), |count| {
            format!("{} of the threads that serve timers", grouped(count))
        })
    }
}
