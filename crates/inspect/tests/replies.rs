//! What an inspector replies: its numbers, what it refuses, and that nobody holds it up.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use serde_json::Value;
use support::patience::PATIENCE;
use support::random::Random;
use tickless::{Builder, Engine, ManualClock};
use tickless_inspect::{Inspector, serve};

const LOOPBACK: ([u8; 4], u16) = ([127, 0, 0, 1], 0);

const MS: Duration = Duration::from_millis(1);

const HOUR: Duration = Duration::from_secs(3600);

/// How long an inspector waits for a client.
const ITS_PATIENCE: Duration = Duration::from_secs(2);

/// Where an inspector serves. `Display` is the address.
#[derive(Clone, Copy)]
pub(crate) struct Site {
    pub(crate) address: SocketAddr,
    /// It was made after this.
    since: Instant,
}

impl Site {
    /// Lets `engine` be inspected.
    pub(crate) fn of(engine: &Engine) -> (Inspector, Site) {
        let since = Instant::now();
        let inspector = serve(engine, LOOPBACK).unwrap();
        let address = inspector.local_addr().unwrap();
        (inspector, Site { address, since })
    }

    /// Where another one serves that was made after `since`.
    pub(crate) fn at(address: SocketAddr, since: Instant) -> Site {
        Site { address, since }
    }

    /// As the function of this name.
    pub(crate) fn may_cut_off(&self) -> bool {
        may_cut_off(self.since)
    }
}

/// Whether an inspector that was made after `since` may have cut a client off with reason: one that
/// was silent for longer than the inspector waits, because the system has suspended it.
pub(crate) fn may_cut_off(since: Instant) -> bool {
    since.elapsed() >= ITS_PATIENCE
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.address.fmt(f)
    }
}

/// Connects, sends and returns what comes until the other side ends; `None`: nobody is there. A
/// side that hangs up while it is still sent something resets the connection, which is an end as
/// well. A client that was cut off, if it may be, connects again.
pub(crate) fn ask<S: Read>(
    connect: impl Fn() -> Option<S>,
    send: impl Fn(&mut S) -> io::Result<()>,
    may_cut_off: impl Fn() -> bool,
) -> Option<String> {
    let is_end = |error: &io::Error| {
        [ErrorKind::ConnectionReset, ErrorKind::BrokenPipe].contains(&error.kind())
    };
    let begun = Instant::now();
    loop {
        let (mut stream, mut reply) = (connect()?, Vec::new());
        let result = send(&mut stream).and_then(|()| stream.read_to_end(&mut reply));
        assert!(result.as_ref().err().is_none_or(is_end), "{result:?}");
        if !reply.is_empty() || !may_cut_off() {
            return Some(String::from_utf8(reply).unwrap());
        }
        assert!(begun.elapsed() < PATIENCE, "nobody replies");
    }
}

/// An engine with a timer that was late, one that is overdue and one that is not.
fn storied() -> Engine {
    let clock = ManualClock::new();
    let builder = Engine::builder().shards(1).manual_clock(&clock).name("<tea> {{nonce}}");
    let engine = builder.build().unwrap();
    engine.schedule_detached(MS * 10, || ()).unwrap();
    clock.advance(MS * 15);
    engine.turn(0).unwrap();
    engine.schedule_detached(MS * 10, || ()).unwrap();
    engine.schedule_detached(MS * 100, || ()).unwrap();
    clock.advance(MS * 12);
    engine
}

fn served() -> (Engine, Inspector, Site) {
    let engine = storied();
    let (inspector, site) = Site::of(&engine);
    (engine, inspector, site)
}

fn connect(site: Site) -> TcpStream {
    let stream = TcpStream::connect(site.address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Sends this and returns what comes.
fn exchange_by(site: Site, send: impl Fn(&mut TcpStream) -> io::Result<()>) -> String {
    ask(|| Some(connect(site)), send, || site.may_cut_off()).unwrap()
}

fn exchange(site: Site, bytes: &[u8]) -> String {
    exchange_by(site, |stream| stream.write_all(bytes))
}

fn get(site: Site, path: &str) -> String {
    exchange(site, format!("GET {path} HTTP/1.1\r\nHost: {site}\r\n\r\n").as_bytes())
}

/// The body of a reply, whose head has to be right.
fn body<'a>(reply: &'a str, kind: &str) -> &'a str {
    let (head, body) = reply.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
    let length = format!("Content-Length: {}", body.len());
    let kind = format!("Content-Type: {kind}");
    let rest = ["Connection: close", "Cache-Control: no-store", "X-Content-Type-Options: nosniff"];
    for line in rest.into_iter().chain([&*length, &kind]) {
        assert!(head.lines().any(|it| it == line), "{line} in {head}");
    }
    assert!(!head.to_ascii_lowercase().contains("access-control"), "{head}");
    body
}

fn json(site: Site, path: &str) -> Value {
    serde_json::from_str(body(&get(site, path), "application/json")).unwrap()
}

fn status(reply: &str) -> &str {
    reply.split_once("\r\n").map_or(reply, |(line, _)| line)
}

#[test]
fn its_numbers_are_those_of_the_engine() {
    let (engine, inspector, site) = served();
    assert_eq!(json(site, "/stats.json"), serde_json::to_value(engine.stats()).unwrap());
    assert_eq!(json(site, "/stats.json?now"), serde_json::to_value(engine.stats()).unwrap());
    assert_eq!(json(site, "/overdue.json"), serde_json::to_value(engine.overdue()).unwrap());
    let snapshot = json(site, "/snapshot.json");
    assert_eq!(snapshot, serde_json::to_value(engine.snapshot()).unwrap());
    assert_eq!(
        (&snapshot["pending"], &snapshot["by_due_time"][0]["timers"]),
        (&2.into(), &1.into())
    );
    // 5 ms are within 6.25 % of the bound.
    let lateness = json(site, "/lateness.json");
    assert_eq!(lateness.as_array().unwrap().len(), 1);
    assert_eq!(lateness[0]["timers"], 1);
    assert!((5_000_000..5_312_501).contains(&lateness[0]["at_most_ns"].as_u64().unwrap()));
    assert_eq!(inspector.to_string(), format!("http://{site}/"));
}

#[test]
fn the_page_is_on_its_own_and_has_the_engines_name_as_text() {
    let (_engine, _inspector, site) = served();
    let replies = [0, 1].map(|_| get(site, "/"));
    let nonces = replies.each_ref().map(|reply| {
        let page = body(reply, "text/html; charset=utf-8");
        assert!(page.contains("<h1>&lt;tea&gt; &#123;&#123;nonce}}</h1>"), "the name");
        for part in ["://", "@import", "url(", "src=", "{{"] {
            assert!(!page.contains(part), "{part}");
        }
        let policy = reply.lines().find(|it| it.starts_with("Content-Security-Policy: ")).unwrap();
        assert!(policy.contains("default-src 'none'") && policy.contains("frame-ancestors 'none'"));
        let (_, rest) = policy.split_once("script-src 'nonce-").unwrap();
        let (nonce, _) = rest.split_once('\'').unwrap();
        assert_eq!((nonce.len(), page.matches(nonce).count()), (32, 2), "a script and a style");
        nonce
    });
    assert_ne!(nonces[0], nonces[1]);
}

#[test]
fn what_is_not_served_is_refused() {
    let (engine, _inspector, site) = served();
    let head = |line: &str, rest: &str| format!("{line}\r\nHost: localhost\r\n{rest}\r\n");
    let refused = [
        (head("GET /nothing HTTP/1.1", ""), "404 Not Found"),
        (head("GET http://localhost/ HTTP/1.1", ""), "404 Not Found"),
        (head("GET /../stats.json HTTP/1.1", ""), "404 Not Found"),
        (head("POST / HTTP/1.1", "Content-Length: 0\r\n"), "405 Method Not Allowed"),
        (head("HEAD / HTTP/1.1", ""), "405 Method Not Allowed"),
        (head("GET / HTTP/3", ""), "400 Bad Request"),
        (head("GET / HTTP/1.1", "Host: localhost\r\n"), "400 Bad Request"),
        (head("GET /stats.json HTTP/1.1", "Sec-Fetch-Site: cross-site\r\n"), "400 Bad Request"),
        ("GET / HTTP/1.1\r\nHost: tickless.example\r\n\r\n".to_owned(), "400 Bad Request"),
        ("GET / HTTP/1.1\r\n\r\n".to_owned(), "400 Bad Request"),
    ];
    for (request, expected) in refused {
        let reply = exchange(site, request.as_bytes());
        assert_eq!(status(&reply), format!("HTTP/1.1 {expected}"), "{request}");
        assert_eq!(reply.contains("\r\nAllow: GET\r\n"), expected.starts_with("405"), "{request}");
    }
    // A link to the page may stand on another site.
    let reply = exchange(site, head("GET / HTTP/1.0", "Sec-Fetch-Site: cross-site\r\n").as_bytes());
    assert_eq!(status(&reply), "HTTP/1.1 200 OK");
    let elsewhere = serve(&engine, ([0, 0, 0, 0], 0)).unwrap_err();
    assert_eq!(elsewhere.kind(), ErrorKind::InvalidInput);
    let taken = serve(&engine, site.address).unwrap_err();
    assert_eq!(taken.kind(), ErrorKind::AddrInUse);
}

#[test]
fn garbage_gets_an_error_or_nothing() {
    let (_engine, _inspector, site) = served();
    let mut random = Random::new(7);
    for _ in 0..200 {
        let length = random.below(600) as usize;
        let mut bytes: Vec<u8> = (0..length).map(|_| random.below(256) as u8).collect();
        // Half of them are a request that was damaged.
        if random.below(2) == 0 {
            bytes = b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\nX: y\r\n".to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.below(256) as u8;
            }
        }
        bytes.extend(b"\r\n\r\n");
        let (mut stream, mut reply) = (connect(site), Vec::new());
        let sent = stream.write_all(&bytes).and_then(|()| stream.shutdown(Shutdown::Write));
        // A reset is an end as well.
        let _ = sent.and_then(|()| stream.read_to_end(&mut reply));
        let reply = String::from_utf8(reply).unwrap();
        assert!(reply.is_empty() || reply.starts_with("HTTP/1.1 "), "{reply}");
    }
    assert_eq!(json(site, "/stats.json")["pending"], 2);
}

#[test]
fn a_head_may_come_in_parts_and_may_not_be_huge() {
    let (_engine, _inspector, site) = served();
    let request = format!("GET /stats.json HTTP/1.1\r\nHost: {site}\r\n\r\n");
    let reply = exchange_by(site, |stream| {
        stream.set_nodelay(true)?;
        request.as_bytes().iter().try_for_each(|byte| stream.write_all(&[*byte]))
    });
    body(&reply, "application/json");
    // 8 KiB with the empty line, and a byte more.
    let padded = |length: usize| {
        let begin = "GET /stats.json HTTP/1.1\r\nHost: localhost\r\nX: ";
        format!("{begin}{}\r\n\r\n", "x".repeat(length - begin.len() - 4))
    };
    assert_eq!(status(&exchange(site, padded(8192).as_bytes())), "HTTP/1.1 200 OK");
    assert_eq!(status(&exchange(site, padded(8193).as_bytes())), "HTTP/1.1 400 Bad Request");
    assert_eq!(status(&exchange(site, &[b'x'; 100_000])), "HTTP/1.1 400 Bad Request");
    // What comes after a request is not looked at.
    let two = format!("{request}{request}");
    let reply = exchange(site, two.as_bytes());
    assert_eq!(reply.matches("HTTP/1.1 200 OK").count(), 1);
}

#[test]
fn clients_that_say_nothing_hold_nobody_up() {
    let (_engine, _inspector, site) = served();
    let mut idle: Vec<TcpStream> = Vec::new();
    for n in 0..200 {
        let mut stream = connect(site);
        if n % 2 == 0 {
            stream.write_all(b"GET /stats.json HTTP/1.1\r\n").unwrap();
        }
        idle.push(stream);
        if n % 20 == 0 {
            assert_eq!(json(site, "/stats.json")["pending"], 2);
        }
    }
    // Each is closed: the oldest when there were too many, the rest after a while.
    for mut stream in idle {
        let mut reply = Vec::new();
        let _ = stream.read_to_end(&mut reply);
        assert!(reply.is_empty());
    }
}

#[test]
fn clients_that_read_late_get_their_reply_and_hold_nobody_up() {
    let (_engine, _inspector, site) = served();
    let unread: Vec<TcpStream> = (0..8)
        .map(|_| {
            let mut stream = connect(site);
            let request = format!("GET / HTTP/1.1\r\nHost: {site}\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
            stream
        })
        .collect();
    assert_eq!(json(site, "/stats.json")["pending"], 2);
    for mut stream in unread {
        let mut reply = Vec::new();
        let result = stream.read_to_end(&mut reply);
        if !(reply.is_empty() && site.may_cut_off()) {
            result.unwrap();
            body(&String::from_utf8(reply).unwrap(), "text/html; charset=utf-8");
        }
    }
}

#[test]
fn engines_of_any_kind_can_be_inspected() {
    let typed = Builder::new().shards(2).build_each(|_: u64| ()).unwrap();
    let since = Instant::now();
    let inspector = serve(&typed, ("::1".parse::<std::net::Ipv6Addr>().unwrap(), 0));
    // Without IPv6, the system refuses the address.
    let inspector = inspector.or_else(|_| serve(&typed, LOOPBACK)).unwrap();
    let site = |inspector: &Inspector| Site { address: inspector.local_addr().unwrap(), since };
    for shard in [0, 1] {
        typed.bind_thread(shard).unwrap();
        typed.schedule_detached(HOUR, 1).unwrap();
    }
    let snapshot = json(site(&inspector), "/snapshot.json");
    assert_eq!((&snapshot["pending"], &snapshot["by_shard"][1]), (&2.into(), &1.into()));
    // Several at a time.
    let other = serve(&typed, LOOPBACK).unwrap();
    drop(inspector);
    assert_eq!(json(site(&other), "/stats.json")["pending"], 2);
}
