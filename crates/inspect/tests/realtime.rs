//! A fork, in real time: an inspector hangs up on a client that takes two seconds, as the client
//! does whose process is stopped. (`tests/alone/fork/main.rs` has the engine's side.)

#![cfg(unix)]

use std::io::{ErrorKind, Read, Write};
use std::mem;

use support::child::in_a_child;
use tickless::Engine;
use tickless_inspect::serve;

#[test]
fn an_inspector_stays_with_the_parent() {
    let engine = Engine::builder().shards(1).build().unwrap();
    let mut inspector = Some(serve(&engine, ([127, 0, 0, 1], 0)).unwrap());
    let address = inspector.as_ref().and_then(|inspector| inspector.local_addr()).unwrap();
    in_a_child("inspecting", || {
        let refused = serve(&engine, ([127, 0, 0, 1], 0)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        drop(inspector.take());
    });
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    assert!(reply.starts_with("HTTP/1.1 200 OK\r\n"), "{reply}");
    // A child that still has its copy keeps nobody waiting.
    in_a_child("inspecting on", || mem::forget(inspector.take()));
    drop(inspector);
}
