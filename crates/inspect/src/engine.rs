//! What there is to see of an engine.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::{Value, json};
use tickless::View;

use crate::reply::{Page, Reply};
use crate::request::Request;
use crate::site::Site;

/// Replies to requests about one engine.
pub(crate) struct Clerk<T: Send + 'static> {
    engine: View<T>,
    page: Page,
    /// Whether a request found that the engine is gone.
    is_over: bool,
}

// === impl Clerk ===

impl<T: Send + 'static> Clerk<T> {
    pub(crate) fn new(engine: View<T>, name: &str) -> Clerk<T> {
        let page = Page::new(include_str!("page.html"), &[("{{name}}", name)]);
        Clerk { engine, page, is_over: false }
    }
}

impl<T: Send + 'static> Site for Clerk<T> {
    fn reply(&mut self, request: &Request<'_>) -> Reply {
        if request.method != "GET" {
            return Reply::wrong_method("GET");
        }
        let engine = &self.engine;
        let found = match request.path {
            "/" => engine.stats().map(|_| Reply::page(&self.page)),
            "/stats.json" => engine.stats().map(|it| Reply::json(&it)),
            "/snapshot.json" => engine.snapshot().map(|it| Reply::json(&it)),
            "/overdue.json" => engine.overdue().map(|it| Reply::json(&it)),
            "/lateness.json" => engine.latenesses().map(|it| Reply::json(&histogram(it))),
            _ => return Reply::text("404 Not Found", "there is no such page"),
        };
        self.is_over = found.is_none();
        found.unwrap_or_else(|| Reply::text("410 Gone", "the engine is gone"))
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

/// Upper bounds of lateness, from the least, and how many timers were that late.
fn histogram(latenesses: BTreeMap<Duration, u64>) -> Vec<Value> {
    let ns = |bound: Duration| u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    let line = |(bound, timers)| json!({ "at_most_ns": ns(bound), "timers": timers });
    latenesses.into_iter().map(line).collect()
}
