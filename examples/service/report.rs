//! The report: the run's figures and the audit's verdict, in words or as one line of JSON.

use std::time::Duration;

use serde_json::json;
use tickless::Stats;

use crate::args::Args;
use crate::audit::Books;
use crate::client::ClientCounts;
use crate::server::ServerCounts;

/// All that is known when the engine has stopped.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) args: Args,
    pub(crate) clients: ClientCounts,
    pub(crate) server: ServerCounts,
    pub(crate) books: Books,
    /// The engine's own counters, to be compared with the books.
    pub(crate) stats: Stats,
    /// Timers that the engine gave back when it was stopped.
    pub(crate) given_back: u64,
    pub(crate) peak_pending: u64,
    /// User and system time of the whole process; `None` where it cannot be had.
    pub(crate) cpu: Option<Duration>,
    pub(crate) wall: Duration,
}

impl Report {
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
        let Report { clients, server, books, stats, .. } = self;
        let ended = clients.answered + clients.timed_out + clients.cut_off;
        let balances = [
            ("requests that ended", ended, clients.requests),
            ("unanswered requests that ended", clients.unanswered_ended, clients.unanswered),
            ("frames that nobody waited for", clients.strays, 0),
            ("silent connections closed", clients.silent_closed, clients.fell_silent),
            ("connections that ended", server.closed_idle + server.left, server.accepted),
            ("engine's count of scheduled timers", stats.scheduled, books.scheduled),
            ("engine's count of cancelled timers", stats.cancelled, books.cancelled),
            ("engine's count of resets", stats.reset, books.reset),
            ("engine's count of fired timers", stats.fired, books.fired),
            ("engine's count of pending timers", stats.pending, 0),
            ("engine's count of panics", stats.panicked, 0),
            ("timers given back when the engine stopped", self.given_back, 0),
        ];
        balances.into_iter().filter(|(_, seen, expected)| seen != expected).collect()
    }

    /// One line, for programs.
    pub(crate) fn json(&self) -> String {
        let books = &self.books;
        json!({
            "seconds": self.args.seconds,
            "connections": self.args.connections,
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
            "violations": books.violations() + self.imbalances().len() as u64,
            "late_p50_us": self.late_us(0.5),
            "late_p99_us": self.late_us(0.99),
            "late_p999_us": self.late_us(0.999),
            "late_max_us": books.lateness_ns.max() / 1_000,
            "peak_pending": self.peak_pending,
            "wake_ups": self.stats.wake_ups,
            "cpu_ms": self.cpu.map(|cpu| cpu.as_millis() as u64),
            "wall_ms": self.wall.as_millis() as u64,
        })
        .to_string()
    }

    /// A few lines, for people.
    pub(crate) fn text(&self) -> String {
        let Report { args, clients, server, books, .. } = self;
        let ms = |us: u64| us as f64 / 1e3;
        let cpu = self.cpu.map_or("unknown".to_owned(), |cpu| {
            let cores = cpu.as_secs_f64() / self.wall.as_secs_f64();
            format!("{:.2} s, {cores:.2} cores on average", cpu.as_secs_f64())
        });
        format!(
            "\
load         {} connections for {} s, then {:.1} s to come to rest
requests     {} ({:.0} per second), of which {} timed out
connections  {} accepted, {} closed by their idle timer, {} by the client; {} dials failed
timers       {} scheduled, {} cancelled, {} reset, {} fired, at most {} pending
lateness     p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.2} ms
CPU          {cpu}; engine woke {} times
audit        {} early, {} lost, {} fired twice, {} contradicted
",
            args.connections,
            args.seconds,
            self.wall.as_secs_f64() - args.seconds as f64,
            clients.requests,
            self.requests_per_s(),
            clients.timed_out,
            server.accepted,
            server.closed_idle,
            server.left,
            clients.dials_failed,
            books.scheduled,
            books.cancelled,
            books.reset,
            books.fired,
            self.peak_pending,
            ms(self.late_us(0.5)),
            ms(self.late_us(0.99)),
            ms(self.late_us(0.999)),
            ms(books.lateness_ns.max() / 1_000),
            self.stats.wake_ups,
            books.early,
            books.lost,
            books.duplicate,
            books.contradicted,
        )
    }

    fn requests_per_s(&self) -> f64 {
        self.clients.requests as f64 / self.args.seconds as f64
    }

    fn late_us(&self, quantile: f64) -> u64 {
        self.books.lateness_ns.value_at_quantile(quantile) / 1_000
    }
}
