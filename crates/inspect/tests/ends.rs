//! How an inspector ends: by its drop, also while clients are connected, and with its engine, which
//! it does not keep.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use support::patience::PATIENCE;
use tickless::{Engine, ManualClock};
use tickless_inspect::{Inspector, serve, site};
use tickless_sync::Mutex;

use crate::replies::{Site, ask};

/// Sends these bytes and returns what comes. `None`: nobody is there.
fn exchange(site: Site, bytes: &[u8]) -> Option<String> {
    let connect = || {
        let stream = TcpStream::connect(site.address).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Some(stream)
    };
    let reply = ask(connect, |stream| stream.write_all(bytes), || site.may_cut_off());
    reply.filter(|reply| !reply.is_empty())
}

fn status(site: Site, path: &str) -> Option<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {site}\r\n\r\n");
    let reply = exchange(site, request.as_bytes())?;
    Some(reply.split_once("\r\n").unwrap().0.to_owned())
}

fn ok() -> Option<String> {
    Some("HTTP/1.1 200 OK".to_owned())
}

fn manual() -> Engine {
    Engine::builder().shards(1).manual_clock(&ManualClock::new()).build().unwrap()
}

fn wait_until(is_so: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < deadline);
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_drop_ends_it_with_clients_connected() {
    let engine = manual();
    let (inspector, site) = Site::of(&engine);
    let mut clients: Vec<TcpStream> =
        (0..40).map(|_| TcpStream::connect(site.address).unwrap()).collect();
    clients[0].write_all(b"GET / HT").unwrap();
    clients[1].write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    drop(inspector);
    assert_eq!(status(site, "/"), None);
    for mut client in clients {
        client.set_read_timeout(Some(PATIENCE)).unwrap();
        let ended = client.read_to_end(&mut Vec::new());
        assert!(ended.err().is_none_or(|error| error.kind() != ErrorKind::WouldBlock));
    }
    // The address is free.
    let again = serve(&engine, site.address).unwrap();
    assert_eq!(status(site, "/"), ok());
    drop((engine, again));
}

#[test]
fn a_stopped_engine_is_still_seen_and_one_that_is_gone_is_not() {
    let (sender, dropped) = mpsc::channel::<()>();
    let engine = manual();
    engine.schedule_detached(PATIENCE, move || drop(sender)).unwrap();
    let (inspector, site) = Site::of(&engine);
    let of_clone = engine.clone();
    drop(engine);
    assert_eq!(status(site, "/snapshot.json"), ok());
    assert_eq!(of_clone.stop().unwrap().len(), 1);
    for path in ["/", "/stats.json", "/snapshot.json", "/overdue.json", "/lateness.json"] {
        assert_eq!(status(site, path), ok(), "{path}");
    }
    drop(of_clone);
    assert_eq!(dropped.recv(), Err(mpsc::RecvError), "it does not keep the engine");
    assert_eq!(status(site, "/nothing"), Some("HTTP/1.1 404 Not Found".to_owned()));
    assert_eq!(status(site, "/stats.json"), Some("HTTP/1.1 410 Gone".to_owned()));
    // That was the last.
    wait_until(|| status(site, "/stats.json").is_none());
    drop(inspector);
}

/// Panics where it is asked to, and is over where it is asked to be.
struct Frail(bool);

impl site::Site for Frail {
    fn reply(&mut self, request: &site::Request<'_>) -> site::Reply {
        assert_ne!(request.path, "/panic", "as it was asked to");
        self.0 = request.path == "/end";
        site::Reply::text("200 OK", "tea")
    }

    fn is_over(&self) -> bool {
        self.0
    }
}

#[test]
fn a_wait_ends_with_the_site_and_tells_of_its_panic() {
    for (path, is_well) in [("/end", true), ("/panic", false)] {
        let since = Instant::now();
        let inspector = site::serve(Frail(false), ([127, 0, 0, 1], 0).into()).unwrap();
        let site = Site::at(inspector.local_addr().unwrap(), since);
        let waiter = thread::spawn(move || inspector.wait());
        assert_eq!(status(site, "/"), ok());
        assert_eq!(status(site, path), ok().filter(|_| is_well));
        assert_eq!(waiter.join().unwrap().is_ok(), is_well);
        assert_eq!(status(site, "/"), None);
    }
}

#[test]
fn a_task_may_drop_the_inspector_of_its_engine() {
    let engine = Engine::new().unwrap();
    let (inspector, site) = Site::of(&engine);
    let (sender, done) = mpsc::channel();
    let task = move || {
        drop(inspector);
        sender.send(()).unwrap();
    };
    engine.schedule_detached(Duration::ZERO, task).unwrap();
    done.recv_timeout(PATIENCE).unwrap();
    assert_eq!(status(site, "/"), None);
    engine.stop().unwrap();
}

#[test]
fn an_engine_whose_callback_owns_its_inspector_ends() {
    let owned = Arc::new(Mutex::new(None::<Inspector>));
    let of_callback = owned.clone();
    let engine = Engine::builder()
        .shards(1)
        .manual_clock(&ManualClock::new())
        .on_panic(move |_| drop(of_callback.lock().unwrap().take()))
        .build()
        .unwrap();
    let (inspector, site) = Site::of(&engine);
    *owned.lock().unwrap() = Some(inspector);
    drop(owned);
    assert_eq!(status(site, "/"), ok());
    drop(engine);
    wait_until(|| status(site, "/").is_none_or(|status| status.contains("410")));
}

#[cfg(unix)]
mod unix {
    use super::*;
    use crate::replies::may_cut_off;
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::os::unix::net::UnixStream;
    use std::path::{Path, PathBuf};
    use std::{env, fs};
    use tickless_inspect::serve_unix;

    /// A folder that is removed at the end.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
            fs::create_dir(&path).unwrap();
            Folder(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    /// What an inspector replies that was made after `since`.
    fn pending(path: &Path, since: Instant) -> u64 {
        let connect = || {
            let stream = UnixStream::connect(path).unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            Some(stream)
        };
        let request = b"GET /stats.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
        let reply = ask(connect, |stream| stream.write_all(request), || may_cut_off(since));
        let reply = reply.unwrap();
        let (_, body) = reply.split_once("\r\n\r\n").unwrap();
        serde_json::from_str::<serde_json::Value>(body).unwrap()["pending"].as_u64().unwrap()
    }

    #[test]
    fn a_unix_socket_is_the_users_alone_and_goes_with_the_inspector() {
        let folder = Folder::new("tickless-inspect");
        let path = folder.0.join("socket");
        let engine = manual();
        engine.schedule_detached(PATIENCE, || ()).unwrap();
        let since = Instant::now();
        let inspector = serve_unix(&engine, &path).unwrap();
        assert_eq!(
            (inspector.local_addr(), inspector.to_string()),
            (None, path.display().to_string())
        );
        let file = fs::symlink_metadata(&path).unwrap();
        assert!(file.file_type().is_socket());
        assert_eq!(file.permissions().mode() & 0o777, 0o600);
        assert_eq!(pending(&path, since), 1);
        let taken = serve_unix(&engine, &path).unwrap_err();
        assert_eq!(taken.kind(), ErrorKind::AddrInUse);
        assert_eq!(pending(&path, since), 1, "the first one still serves");
        drop(inspector);
        assert!(!path.exists());
    }

    #[test]
    fn a_socket_goes_with_the_inspector_wherever_the_process_works_by_then() {
        let (engine, folder) = (manual(), Folder::new("tickless-inspect-elsewhere"));
        let before = env::current_dir().unwrap();
        env::set_current_dir(&folder.0).unwrap();
        let inspector = serve_unix(&engine, "socket");
        env::set_current_dir(before).unwrap();
        let (inspector, path) = (inspector.unwrap(), folder.0.join("socket"));
        assert!(path.exists());
        drop(inspector);
        assert!(!path.exists());
    }

    #[test]
    fn what_came_in_the_place_of_its_socket_stays() {
        let folder = Folder::new("tickless-inspect-other");
        let path = folder.0.join("socket");
        let (engine, since) = (manual(), Instant::now());
        let inspector = serve_unix(&engine, &path).unwrap();
        fs::remove_file(&path).unwrap();
        let other = serve_unix(&engine, &path).unwrap();
        drop(inspector);
        assert_eq!(pending(&path, since), 0);
        drop(other);
        assert!(!path.exists());
    }
}
