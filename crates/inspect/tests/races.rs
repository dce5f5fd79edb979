//! Engines and inspectors that end while they are asked and while timers are scheduled.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use support::looked_at::look_until_after_the_end;
use support::patience::PATIENCE;
use tickless::Engine;

const PATHS: [&str; 3] = ["/snapshot.json", "/overdue.json", "/stats.json"];

/// Asks for this and returns the reply. `None`: nobody is there.
fn ask(address: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(address).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n").ok()?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).ok()?;
    Some(reply).filter(|reply| !reply.is_empty())
}

#[test]
fn engines_and_inspectors_come_and_go_while_they_are_asked() {
    for n in 0..20 {
        let engine = Engine::new().unwrap();
        let inspector = tickless_inspect::serve(&engine, ([127, 0, 0, 1], 0)).unwrap();
        let (address, mut paths) = (inspector.local_addr().unwrap(), PATHS.into_iter().cycle());
        let look = || {
            let reply = ask(address, paths.next().unwrap());
            let known = ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 410 Gone\r\n"];
            assert!(reply.is_none_or(|it| known.iter().any(|known| it.starts_with(known))));
        };
        let engines = [engine.clone(), engine.clone()];
        let (mut engine, mut inspector) = (Some(engine), Some(inspector));
        look_until_after_the_end(engines, look, || match n % 4 {
            0 => drop(engine.as_ref().map(Engine::stop)),
            1 => drop(engine.take()),
            2 => drop(inspector.take()),
            _ => {
                drop(inspector.take());
                drop(engine.take());
            }
        });
    }
}
