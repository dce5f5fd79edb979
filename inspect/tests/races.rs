//! Engines and inspectors that end while they are asked and while timers are scheduled.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use support::patience::PATIENCE;
use tickless::Engine;

const PATHS: [&str; 4] = ["/snapshot.json", "/overdue.json", "/stats.json", "/callers.json"];

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
        engine.sample_callers(true);
        let inspector = tickless_inspect::serve(&engine, ([127, 0, 0, 1], 0)).unwrap();
        let address = inspector.local_addr().unwrap();
        let (is_asked, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|threads| {
            let asker = threads.spawn(|| {
                for path in PATHS.into_iter().cycle() {
                    let reply = ask(address, path);
                    let known = ["HTTP/1.1 200 OK\r\n", "HTTP/1.1 410 Gone\r\n"];
                    assert!(reply.is_none_or(|it| known.iter().any(|known| it.starts_with(known))));
                    is_asked.store(true, Ordering::Relaxed);
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                }
            });
            let scheduler = || {
                let (engine, is_over) = (engine.clone(), &is_over);
                threads.spawn(move || {
                    for delay in (0..7).map(Duration::from_millis).cycle() {
                        let refused = engine.schedule_detached(delay, || ()).is_err();
                        if refused || is_over.load(Ordering::Relaxed) {
                            return;
                        }
                        thread::yield_now();
                    }
                })
            };
            let schedulers = [scheduler(), scheduler()];
            while !is_asked.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            match n % 4 {
                0 => drop(engine.stop()),
                1 => drop(engine),
                2 => drop(inspector),
                _ => {
                    drop(inspector);
                    drop(engine);
                }
            }
            is_over.store(true, Ordering::Relaxed);
            // ThreadSanitizer does not see that a scope waits for its threads.
            asker.join().unwrap();
            schedulers.into_iter().for_each(|scheduler| scheduler.join().unwrap());
        });
    }
}
