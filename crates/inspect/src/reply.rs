//! What a request gets, and what all pages have in common.

use std::hash::{BuildHasher, RandomState};

use serde::Serialize;
use serde_json::to_vec;

/// A reply, before it is written.
#[derive(Debug)]
pub struct Reply {
    status: &'static str,
    kind: &'static str,
    body: Vec<u8>,
    /// What else its head says.
    also: String,
}

/// Stands in a page for a word that the page's own scripts and styles have, and no others.
const NONCE: &str = "{{nonce}}";

/// What pages have in common: what stands for it, and what it is.
const COMMON: [(&str, &str); 2] =
    [("{{style}}", include_str!("base.css")), ("{{script}}", include_str!("base.js"))];

/// A page in which everything is filled in except what changes each time.
///
/// Its HTML has `<style nonce="{{nonce}}">` and `<script nonce="{{nonce}}">`; nothing else runs in
/// a browser. `{{style}}` and `{{script}}` in them stand for what all pages have in common.
#[derive(Clone, Debug)]
pub struct Page(String);

// === impl Page ===

impl Page {
    /// A page with these texts, each in place of what stands for it: `("{{name}}", "tea")`. They
    /// are escaped.
    pub fn new(html: &str, texts: &[(&str, &str)]) -> Page {
        let common =
            COMMON.iter().fold(html.to_owned(), |html, (word, text)| html.replace(word, text));
        Page(texts.iter().fold(common, |html, (word, text)| html.replace(word, &escaped(text))))
    }
}

// === impl Reply ===

impl Reply {
    /// A line of text, with a status such as `404 Not Found`.
    pub fn text(status: &'static str, message: &str) -> Reply {
        let body = format!("{message}\n").into_bytes();
        Reply { status, kind: "text/plain; charset=utf-8", body, also: String::new() }
    }

    /// JSON.
    pub fn json(value: &impl Serialize) -> Reply {
        let body = to_vec(value).expect("numbers, names and texts can be written");
        Reply { status: "200 OK", kind: "application/json", body, also: String::new() }
    }

    /// A page that no other site can have in a frame, that loads nothing, and that asks this server
    /// alone.
    pub fn page(page: &Page) -> Reply {
        let nonce = nonce();
        let also = format!(
            "Content-Security-Policy: default-src 'none'; script-src 'nonce-{nonce}'; \
             style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; base-uri 'none'; \
             form-action 'none'; frame-ancestors 'none'\r\n"
        );
        let body = page.0.replace(NONCE, &nonce).into_bytes();
        Reply { status: "200 OK", kind: "text/html; charset=utf-8", body, also }
    }

    /// The request has a method that is not `allowed`, which is `GET` or `POST`.
    pub fn wrong_method(allowed: &str) -> Reply {
        let refusal = Reply::text("405 Method Not Allowed", &format!("only {allowed} is allowed"));
        Reply { also: format!("Allow: {allowed}\r\n"), ..refusal }
    }

    pub(crate) fn written(self) -> Vec<u8> {
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

/// A word that differs for each reply, and is no secret. Each hasher has keys of its own; a text
/// that a page shows would have to know them before it is served.
fn nonce() -> String {
    [0, 1].map(|n| format!("{:016x}", RandomState::new().hash_one(n))).concat()
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
