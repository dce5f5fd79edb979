//! What a request gets.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use serde_json::{Value, json, to_vec};
use tickless::View;

use crate::request::{Request, parse};

/// Writes the replies to requests about one engine.
pub(crate) struct Clerk<T: Send + 'static> {
    engine: View<T>,
    /// The page, up to what changes each time.
    page: String,
    /// Whether a request found that the engine is gone.
    pub(crate) is_over: bool,
}

/// A reply before it is written.
struct Reply {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
    /// What else its head says.
    also: String,
}

const PAGE: &str = include_str!("page.html");

/// Stands in the page for the engine's name.
const NAME: &str = "{{name}}";

/// Stands in the page for a word that the page's own scripts and styles have, and no others.
const NONCE: &str = "{{nonce}}";

/// The reply to a head that is too long.
pub(crate) fn reply_to_too_much() -> Vec<u8> {
    Reply::text("400 Bad Request", "the head is too long").written()
}

// === impl Clerk ===

impl<T: Send + 'static> Clerk<T> {
    pub(crate) fn new(engine: View<T>, name: &str) -> Clerk<T> {
        Clerk { engine, page: PAGE.replace(NAME, &escaped(name)), is_over: false }
    }

    /// The whole reply to a head that was read.
    pub(crate) fn reply_to(&mut self, head: &[u8]) -> Vec<u8> {
        let reply = match parse(head) {
            Ok(request) => self.reply(request),
            Err(message) => Reply::text("400 Bad Request", message),
        };
        reply.written()
    }

    fn reply(&mut self, request: Request<'_>) -> Reply {
        if request.method != "GET" {
            let refusal = Reply::text("405 Method Not Allowed", "only GET is allowed");
            return Reply { also: "Allow: GET\r\n".to_owned(), ..refusal };
        }
        // A link to the page may stand anywhere. The numbers are for the page.
        if request.is_foreign && request.path != "/" {
            return Reply::text("400 Bad Request", "the request comes from another site");
        }
        let engine = &self.engine;
        let found = match request.path {
            "/" => engine.stats().map(|_| self.page()),
            "/stats.json" => engine.stats().map(|it| Reply::json(to_vec(&it))),
            "/snapshot.json" => engine.snapshot().map(|it| Reply::json(to_vec(&it))),
            "/overdue.json" => engine.overdue().map(|it| Reply::json(to_vec(&it))),
            "/lateness.json" => engine.latenesses().map(|it| Reply::json(to_vec(&histogram(it)))),
            _ => return Reply::text("404 Not Found", "there is no such page"),
        };
        self.is_over = found.is_none();
        found.unwrap_or_else(|| Reply::text("410 Gone", "the engine is gone"))
    }

    fn page(&self) -> Reply {
        // Keys that nobody can guess, as each has a hasher of its own.
        let nonce: String =
            [0, 1].map(|n| format!("{:016x}", RandomState::new().hash_one(n))).concat();
        let also = format!(
            "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; \
             style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'\r\n"
        );
        let body = self.page.replace(NONCE, &nonce).into_bytes();
        Reply { status: "200 OK", kind: "text/html; charset=utf-8", body, also }
    }
}

// === impl Reply ===

impl Reply {
    fn text(status: &'static str, message: &str) -> Reply {
        let body = format!("{message}\n").into_bytes();
        Reply { status, kind: "text/plain; charset=utf-8", body, also: String::new() }
    }

    fn json(body: serde_json::Result<Vec<u8>>) -> Reply {
        let body = body.expect("numbers and names can be written");
        Reply { status: "200 OK", kind: "application/json", body, also: String::new() }
    }

    fn written(self) -> Vec<u8> {
        let Reply { status, kind, body, also } = self;
        let head = format!(
            "HTTP/1.1 {status}\r\n\
             Content-Type: {kind}\r\n\
             Content-Length: {}\r\n\
             Connection: close\r\n\
             Cache-Control: no-store\r\n\
             Cross-Origin-Resource-Policy: same-origin\r\n\
             Referrer-Policy: no-referrer\r\n\
             X-Content-Type-Options: nosniff\r\n\
             {also}\r\n",
            body.len()
        );
        let mut bytes = head.into_bytes();
        bytes.extend(body);
        bytes
    }
}

/// Upper bounds of lateness, from the least, and how many timers were that late.
fn histogram(latenesses: BTreeMap<Duration, u64>) -> Vec<Value> {
    let ns = |bound: Duration| u64::try_from(bound.as_nanos()).unwrap_or(u64::MAX);
    let line = |(bound, timers)| json!({ "at_most_ns": ns(bound), "timers": timers });
    latenesses.into_iter().map(line).collect()
}

/// A name as it may stand in the text of a page.
fn escaped(name: &str) -> String {
    let mut escaped = String::new();
    for character in name.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // Nor does it stand for the word.
            '{' => escaped.push_str("&#123;"),
            _ => escaped.push(character),
        }
    }
    escaped
}
