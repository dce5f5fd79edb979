//! The page of the command line, as a client of HTTP sees it: what it shows and changes, and who
//! gets nothing.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::Value;
use tickless_durable::{Backoff, Builder, DeadLetter, Firing, Op, Position, Record, SqliteStore};

use crate::cli::{has_readers, on_each, serve};
use crate::common::limit::LIMIT;
use crate::common::until::wait_until;

/// The page of a place, until it is dropped.
pub(crate) struct Page {
    program: Child,
    /// Host and port.
    host: String,
    token: String,
}

impl Page {
    pub(crate) fn of(place: &[&str], options: &[&str]) -> Page {
        let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
        program.args(place).args(["page", "--json"]).args(options).stdout(Stdio::piped());
        let mut program = program.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(program.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let told: Value = serde_json::from_str(&line).unwrap();
        let address = told["address"].as_str().unwrap();
        let host = address.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Page { program, host, token: told["token"].as_str().unwrap().to_owned() }
    }

    fn at(path: &Path, options: &[&str]) -> Page {
        Page::of(&[path.to_str().unwrap()], options)
    }

    /// The status and the body of the reply to a request with this line and these lines after it.
    fn exchange(&self, line: &str, others: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.host).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        write!(stream, "{line} HTTP/1.1\r\n{others}\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        let (head, body) = reply.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("X-Content-Type-Options: nosniff"), "{head}");
        (head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned())
    }

    /// The same of one that knows everything.
    pub(crate) fn ask(&self, line: &str) -> (u16, Value) {
        let Page { host, token, .. } = self;
        let others = format!("Host: {host}\r\nAuthorization: Bearer {token}\r\n");
        let (status, body) = self.exchange(line, &others);
        (status, serde_json::from_str(&body).unwrap_or(Value::String(body)))
    }

    #[track_caller]
    pub(crate) fn get(&self, path: &str) -> Value {
        let (status, found) = self.ask(&format!("GET {path}"));
        assert_eq!(status, 200, "{path}: {found}");
        found
    }

    #[track_caller]
    pub(crate) fn post(&self, path: &str) -> Value {
        let (status, found) = self.ask(&format!("POST {path}"));
        assert_eq!(status, 200, "{path}: {found}");
        found
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        let _ = self.program.kill().and_then(|()| self.program.wait());
    }
}

/// How many timers and dead letters there are.
fn counts(page: &Page) -> (u64, u64) {
    let counts = page.get("/counts.json");
    let shards = counts["shards"].as_array().unwrap();
    let sum = |name: &str| shards.iter().map(|shard| shard[name].as_u64().unwrap()).sum();
    (sum("timers"), sum("dead_letters"))
}

#[test]
fn a_page_shows_what_the_command_line_shows_and_changes_nothing() {
    on_each(|path, [late, far, dead], _| {
        let page = Page::at(path, &[]);
        assert_eq!(counts(&page), (2, 1));
        let shown = page.get("/counts.json");
        assert_eq!(
            (&shown["may_change"], &shown["paused"]),
            (&false.into(), &Value::Array(vec![]))
        );
        assert_eq!(shown["place"], path.to_str().unwrap());
        assert_eq!(shown["alone"], !has_readers(path));
        assert!(shown["shards"][0]["lag_s"].as_f64().unwrap() > 1e9);
        let first = page.get("/timers.json?limit=1");
        assert_eq!(first["rows"][0]["id"], late.to_string());
        let next = format!("/timers.json?limit=1&after={}", first["next"].as_str().unwrap());
        let second = page.get(&next);
        assert_eq!(
            (&second["rows"][0]["id"], &second["next"]),
            (&far.to_string().into(), &Value::Null)
        );
        let letters = page.get("/dead.json");
        assert_eq!(letters["rows"][0]["error"], "no such host");
        for id in [late, dead] {
            let one = page.get(&format!("/timer.json?id={id}"));
            assert_eq!(one["id"], id.to_string());
        }
        let kinds = page.get("/kinds.json");
        assert_eq!((&kinds["of"], &kinds["is_all"]), (&2.into(), &true.into()));
        assert_eq!(
            (&kinds["kinds"][0]["kind"], &kinds["kinds"][0]["late"]),
            (&"".into(), &1.into())
        );
        for line in [format!("revive?id={dead}"), "forget?all=true".into(), "pause?prefix=".into()]
        {
            let (status, said) = page.ask(&format!("POST /{line}"));
            assert!(status == 403 && said.as_str().unwrap().contains("--allow-changes"), "{said}");
        }
        assert_eq!(counts(&page), (2, 1));
    });
}

#[test]
fn a_page_that_may_revives_forgets_and_pauses() {
    on_each(|path, [_, _, dead], open| {
        let page = Page::at(path, &["--allow-changes"]);
        assert_eq!(page.get("/counts.json")["may_change"], true);
        assert_eq!(page.post(&format!("/revive?id={dead}"))["done"], 1);
        assert_eq!(page.post(&format!("/revive?id={dead}"))["done"], 0);
        assert_eq!(counts(&page), (3, 0));
        let record = Record::new(Position { due_ms: 9, number: 9 }, None, [].into());
        let letter = Arc::new(DeadLetter::new(record.clone(), "why"));
        let bury = Op::Bury { from: record.position, letter };
        open(path).commit(&[Op::Put(Arc::new(record)), bury]).unwrap();
        assert_eq!(page.post("/forget?all=true")["done"], 1);
        assert_eq!(counts(&page), (3, 0));
        assert_eq!(page.post("/pause?prefix=mail%2F%3Cb%3E")["done"], 1);
        assert_eq!(page.get("/counts.json")["paused"][0], "mail/<b>");
        assert_eq!(page.post("/resume?prefix=mail%2F%3Cb%3E")["done"], 1);
        assert_eq!(page.post("/resume?prefix=mail%2F%3Cb%3E")["done"], 0);
    });
}

/// Nor does it keep a service from its file.
#[test]
fn beside_a_service_a_page_shows_what_can_be_read_or_says_who_has_it() {
    on_each(|path, [late, _, dead], open| {
        let page = Page::at(path, &["--allow-changes"]);
        open(path).commit(&[Op::Cancel(late)]).unwrap();
        let has_readers = has_readers(path);
        let timers = serve(path, open);
        let at = SystemTime::now() + Duration::from_secs(1 << 20);
        timers.schedule(at, "new".to_owned()).unwrap().wait().unwrap();
        let in_use = |(status, said): (u16, Value)| {
            let said = said.as_str().is_some_and(|said| said.contains("ask the service"));
            assert!(status == 503 && said);
        };
        match has_readers {
            true => assert_eq!(counts(&page), (2, 1)),
            false => in_use(page.ask("GET /counts.json")),
        }
        in_use(page.ask(&format!("POST /revive?id={dead}")));
        timers.stop().unwrap();
        drop(timers);
        assert_eq!(counts(&page), (2, 1));
        assert_eq!(page.post(&format!("/revive?id={dead}"))["done"], 1);
    });
}

#[test]
fn where_no_file_is_none_is_made_and_the_page_goes_on_when_it_is_back() {
    on_each(|path, _, _| {
        let page = Page::at(path, &["--allow-changes"]);
        let away = path.with_extension("away");
        for line in ["GET /counts.json", "POST /pause?prefix=tea"] {
            fs::rename(path, &away).unwrap();
            // The second time, the page has noticed.
            for _ in 0..2 {
                let (status, said) = page.ask(line);
                assert!(status == 503 && said.as_str().unwrap().contains("timers"), "{said}");
                assert!(!path.exists(), "{line}");
            }
            fs::rename(&away, path).unwrap();
            // Also without a GET before it.
            assert_eq!(page.post("/pause?prefix=mail")["done"], 1, "{line}");
            assert_eq!(page.post("/resume?prefix=mail")["done"], 1);
        }
        assert_eq!(counts(&page), (2, 1));
    });
}

#[test]
fn who_does_not_know_the_token_gets_the_empty_page_alone() {
    on_each(|path, [_, _, dead], _| {
        let page = Page::at(path, &["--allow-changes"]);
        let (host, token) = (format!("Host: {}\r\n", page.host), &page.token);
        let bearer = format!("Authorization: Bearer {token}\r\n");
        let (status, empty) = page.exchange("GET /", &host);
        assert!(status == 200 && !empty.contains(token) && !empty.contains("{{"), "{empty}");
        assert!(!empty.contains(path.to_str().unwrap()));
        let revive = format!("POST /revive?id={dead}");
        for line in ["GET /counts.json", "GET /dead.json", &revive] {
            let mut wrong = token.clone().into_bytes();
            wrong[31] ^= 1;
            let wrong = String::from_utf8(wrong).unwrap();
            for other in ["", &wrong, &token[1..], &format!("{token}0")] {
                let others = format!("{host}Authorization: Bearer {other}\r\n");
                assert_eq!(page.exchange(line, &others).0, 401, "{other}");
            }
            assert_eq!(page.exchange(line, &host).0, 401);
            // A site that has its name lead here, and one that a browser tells of.
            assert_eq!(page.exchange(line, &format!("Host: evil.example\r\n{bearer}")).0, 400);
            let cross = format!("{host}{bearer}Sec-Fetch-Site: cross-site\r\n");
            assert_eq!(page.exchange(line, &cross).0, 400);
        }
        // What a form of another site can send, and a preflight's question.
        assert_eq!(
            page.exchange(&revive.replace("POST", "GET"), &format!("{host}{bearer}")).0,
            405
        );
        assert_eq!(page.exchange(&revive.replace("POST", "OPTIONS"), &host).0, 405);
        assert_eq!(counts(&page), (2, 1));
    });
}

#[test]
fn what_is_asked_wrongly_is_said() {
    on_each(|path, _, _| {
        let page = Page::at(path, &["--allow-changes"]);
        for (line, status, text) in [
            ("GET /timers.json?limit=0", 400, "from 1 to 500"),
            ("GET /timers.json?limit=501", 400, "from 1 to 500"),
            ("GET /dead.json?after=7", 400, "the page before"),
            ("GET /timer.json", 400, "?id="),
            ("GET /timer.json?id=7", 400, "32 hexadecimal digits"),
            ("GET /timer.json?id=00000000000000090000000000000009", 404, "no such"),
            ("POST /revive", 400, "?all=true"),
            ("POST /forget?all=yes", 400, "?all=true"),
            ("POST /forget?all=true&id=7", 400, "?all=true"),
            ("POST /pause", 400, "?prefix="),
            ("GET /nothing", 404, "no such"),
        ] {
            let (code, said) = page.ask(line);
            assert!(code == status && said.as_str().unwrap().contains(text), "{line}: {said}");
        }
        let (code, said) = page.ask(&format!("POST /pause?prefix={}", "x".repeat(1001)));
        assert!(code == 400 && said.as_str().unwrap().contains("1000 bytes"), "{said}");
        assert_eq!(counts(&page), (2, 1));
        let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-durable"));
        let program = program.arg(path).args(["page", "--listen", "0.0.0.0:0"]).output().unwrap();
        let said = String::from_utf8(program.stderr).unwrap();
        assert!(program.status.code() == Some(2) && said.contains("loopback"), "{said}");
    });
}

/// A store with all that a page shows. `ci/browser.sh` says where it has to be.
#[test]
fn the_errors_of_each_attempt_are_shown_and_long_payloads_are_cut() {
    let directory = tempfile::tempdir().unwrap();
    let named = std::env::var_os("TICKLESS_PAGE_STORE").map(std::path::PathBuf::from);
    let path = &named.unwrap_or_else(|| directory.path().join("timers"));
    let bold = "<b>tea</b><script>document.title = 'run'</script>".to_owned();
    let soon = Backoff::new(Duration::from_millis(1));
    let builder = Builder::new().attempts(2).backoff(soon);
    let handler = |firing: &Firing<String>| match firing.payload().len() {
        0..100 => Err(format!("{} <i>no</i>", firing.attempt())),
        _ => Ok(()),
    };
    let timers = builder.open(SqliteStore::open(path).unwrap(), handler).unwrap();
    let far = SystemTime::now() + Duration::from_secs(1 << 20);
    for n in 0..60 {
        let (key, text) = (format!("mail/<u>{n}</u>"), "\u{e9}".repeat(1 << 17));
        timers.schedule_keyed(key, far, text).unwrap().wait().unwrap();
    }
    for n in 0..3 {
        let (key, now) = (format!("sms/{n}"), SystemTime::now());
        timers.schedule_keyed(key, now, bold.clone()).unwrap().wait().unwrap();
    }
    wait_until("all have died", || timers.contents().wait().unwrap().dead_letters == 3);
    timers.stop().unwrap();
    drop(timers);
    let page = Page::at(path, &[]);
    let letter = &page.get("/dead.json")["rows"][0];
    assert_eq!((&letter["payload"], &letter["error"]), (&bold.into(), &"2 <i>no</i>".into()));
    let one = page.get(&format!("/timer.json?id={}", letter["id"].as_str().unwrap()));
    let failed: Vec<&Value> =
        one["failed"].as_array().unwrap().iter().map(|it| &it["error"]).collect();
    assert_eq!(failed, ["1 <i>no</i>", "2 <i>no</i>"]);
    let first = page.get("/timers.json");
    assert_eq!(first["rows"].as_array().unwrap().len(), 25);
    let row = &first["rows"][0];
    assert_eq!(
        (&row["payload"], &row["payload_bytes"]),
        (&"\u{e9}".repeat(100).into(), &(2 << 17).into())
    );
    let whole = page.get(&format!("/timer.json?id={}", row["id"].as_str().unwrap()));
    assert_eq!(whole["payload"].as_str().unwrap().len(), 64 << 10);
    let kinds = page.get("/kinds.json");
    assert_eq!(
        (&kinds["kinds"][0]["kind"], &kinds["kinds"][0]["timers"]),
        (&"mail/".into(), &60.into())
    );
}

/// The page of a cluster of two shards whose one dead letter it throws away.
#[cfg(any(feature = "postgres", feature = "nats"))]
pub(crate) fn works_on_a_cluster(place: &[&str], instance: u64, id: &str, dead: &str) -> Page {
    assert_eq!(Page::of(place, &[]).ask("POST /pause?prefix=a").0, 403);
    let page = Page::of(place, &["--allow-changes"]);
    let shown = page.get("/counts.json");
    let holders: Vec<_> =
        shown["shards"].as_array().unwrap().iter().map(|it| &it["holder"]).collect();
    assert_eq!(holders, [instance, instance]);
    assert_eq!(page.get("/timers.json")["rows"][0]["id"], id);
    assert_eq!(page.get(&format!("/timer.json?id={id}"))["id"], id);
    let kinds = page.get("/kinds.json");
    assert_eq!((&kinds["of"], &kinds["kinds"][0]["kind"]), (&1.into(), &"mail/".into()));
    let letters = page.get("/dead.json?limit=1");
    assert_eq!(
        (&letters["rows"][0]["id"], letters["rows"][0]["failed"].is_array()),
        (&dead.into(), true)
    );
    assert_eq!(page.post(&format!("/forget?id={dead}"))["done"], 1);
    assert!(page.get("/dead.json")["rows"].as_array().unwrap().is_empty());
    assert_eq!(page.post("/pause?prefix=mail%2F")["done"], 1);
    assert_eq!(page.get("/counts.json")["paused"][0], "mail/");
    assert_eq!(page.post("/resume?prefix=mail%2F")["done"], 1);
    page
}
