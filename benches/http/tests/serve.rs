//! The server answers with each kind of timers, counts what it did, and ends with its input.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

const BODY: &[u8] = b"Hello, world!";

/// Asks once on an open connection; returns the head and the body.
fn ask(stream: &mut TcpStream, path: &str) -> (String, Vec<u8>) {
    write!(stream, "GET {path} HTTP/1.1\r\nhost: here\r\n\r\n").unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let mut body = vec![0; BODY.len()];
    stream.read_exact(&mut body).unwrap();
    (String::from_utf8(head).unwrap(), body)
}

#[test]
fn a_server_answers_with_any_timers_and_counts_its_requests() {
    for timers in ["tickless", "tickless-drive", "tokio", "tokio-alt", "none"] {
        if timers == "tokio-alt" && cfg!(not(tokio_unstable)) {
            continue;
        }
        let mut server = Command::new(env!("CARGO_BIN_EXE_http-bench"))
            .args(["--serve", "--timers", timers, "--workers", "2"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = server.stdin.take().unwrap();
        let mut said = BufReader::new(server.stdout.take().unwrap()).lines();
        let port: u16 = said.next().unwrap().unwrap().parse().unwrap();
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        for path in ["/", "/delay/3", "/"] {
            let begun = Instant::now();
            let (head, body) = ask(&mut stream, path);
            let is_delayed = path.starts_with("/delay/") && timers != "none";
            assert!(!is_delayed || begun.elapsed() >= Duration::from_millis(3), "{timers}");
            assert!(head.starts_with("HTTP/1.1 200 "), "{timers}: {head}");
            assert_eq!(body, BODY);
        }
        input.write_all(b"\n").unwrap();
        let state: Value = serde_json::from_str(&said.next().unwrap().unwrap()).unwrap();
        assert_eq!(state["requests"], 3, "{timers}: {state}");
        assert!(state["cpu_ns"].as_u64().unwrap() > 0);
        // A head, an answer and a silence for each request, and one of each before.
        let calls = state["timer_calls"].as_u64();
        assert_eq!(calls.is_some(), timers.starts_with("tickless"), "{state}");
        assert!(calls.is_none_or(|calls| calls >= 3), "{state}");
        drop(input);
        assert!(server.wait().unwrap().success());
    }
}
