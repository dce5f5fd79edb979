//! Instances whose network to the server stops or is cut: a proxy is between them, which they reach
//! by TCP. What their handlers write down goes another way, so that it would be seen if they ran.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::Duration;

use tickless_durable::Cluster;
use tickless_durable::cluster::Firing;

use crate::history::Recorder;
use crate::instance::{Instance, Settings};
use crate::server::{LOGIN, Place};
use crate::until::wait_until;

const LEASE: Duration = Duration::from_secs(3);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mode {
    Passes,
    /// Nothing comes through, and nobody is told.
    Stalls,
    /// Connections are ended, and new ones as well.
    Cuts,
}

#[derive(Clone)]
struct Proxy {
    port: u16,
    shared: Arc<Shared>,
}

struct Shared {
    mode: Mutex<Mode>,
    changed: Condvar,
    open: Mutex<Vec<TcpStream>>,
}

// === impl Proxy ===

impl Proxy {
    fn new(place: &Place) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let shared = Arc::new(Shared {
            mode: Mutex::new(Mode::Passes),
            changed: Condvar::new(),
            open: Mutex::default(),
        });
        let proxy = Proxy { port: listener.local_addr().unwrap().port(), shared };
        let (theirs, socket) = (proxy.clone(), place.socket());
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                if *theirs.shared.mode.lock().unwrap() == Mode::Cuts {
                    continue;
                }
                let server = UnixStream::connect(&socket).unwrap();
                theirs.shared.open.lock().unwrap().push(client.try_clone().unwrap());
                let ends = (client.try_clone().unwrap(), server.try_clone().unwrap());
                let (one, other) = (theirs.clone(), theirs.clone());
                thread::spawn(move || {
                    one.copy(client, &server);
                    let _ = server.shutdown(Shutdown::Both);
                });
                thread::spawn(move || {
                    other.copy(ends.1, &ends.0);
                    let _ = ends.0.shutdown(Shutdown::Both);
                });
            }
        });
        proxy
    }

    fn copy(&self, mut from: impl Read, mut to: impl Write) {
        let mut bytes = [0; 8192];
        while let Ok(count @ 1..) = from.read(&mut bytes) {
            let mode = self.shared.mode.lock().unwrap();
            let stalls = |mode: &mut Mode| *mode == Mode::Stalls;
            drop(self.shared.changed.wait_while(mode, stalls).unwrap());
            if to.write_all(&bytes[..count]).is_err() {
                break;
            }
        }
    }

    fn set(&self, mode: Mode) {
        *self.shared.mode.lock().unwrap() = mode;
        self.shared.changed.notify_all();
        if mode == Mode::Cuts {
            for stream in self.shared.open.lock().unwrap().drain(..) {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
    }
}

fn starts_of(instance: &Instance) -> String {
    format!("SELECT least(count(*), 5) FROM starts WHERE instance = {}", instance.number)
}

/// One of two instances loses its network, the other one does all, and then it is there again.
fn loses_its_network(mode: Mode) {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 4);
    let settings = Settings { lease: LEASE, ..Settings::default() };
    let proxy = Proxy::new(&place);
    let through = Some(format!("host=127.0.0.1 port={} {LOGIN}", proxy.port));
    let mut far = Instance::start(&place, &Settings { through, ..settings.clone() });
    let mut near = Instance::start(&place, &settings);
    recorder.wait_for_holders(2);
    far.schedule(150, 300, 2500);
    near.schedule(150, 300, 2500);
    recorder.wait_for(&starts_of(&far), 5);
    proxy.set(mode);
    recorder.wait_for_the_end();
    recorder.wait_for_holders(1);
    proxy.set(Mode::Passes);
    recorder.wait_for_holders(2);
    let now_us = recorder.now_us();
    far.schedule(100, 100, 400);
    recorder.wait_for_the_end();
    recorder.wait_for(&format!("{} AND at_us > {now_us}", starts_of(&far)), 5);
    let history = recorder.read();
    history.check();
    assert_eq!(history.instances().len(), 2);
}

#[test]
fn an_instance_whose_network_stalls_loses_its_shards_and_gets_others_when_it_is_back() {
    loses_its_network(Mode::Stalls);
}

#[test]
fn an_instance_whose_network_is_cut_loses_its_shards_and_gets_others_when_it_is_back() {
    loses_its_network(Mode::Cuts);
}

/// Neither end is told that the other is gone, so no system call ends by itself.
#[test]
fn an_instance_whose_server_never_replies_closes_its_shards_and_says_so() {
    let Some(place) = Place::new() else { return };
    let mut recorder = Recorder::new(&place, 4);
    let proxy = Proxy::new(&place);
    let through = format!("host=127.0.0.1 port={} {LOGIN}", proxy.port);
    let handler = |_: &Firing<'_, String>| Ok::<(), String>(());
    let cluster: Cluster<String> =
        Cluster::builder(&through).schema(&place.schema).lease(LEASE).start(handler).unwrap();
    wait_until("it has all shards", || cluster.shards().len() == 4);
    assert!(cluster.failure().is_none(), "{:?}", cluster.failure());
    proxy.set(Mode::Stalls);
    let far = cluster.now() + Duration::from_secs(3600);
    let here = cluster.schedule(far, "here".to_owned()).unwrap();
    assert!(here.wait().is_err(), "nobody has said that it is durable");
    wait_until("it closes its shards", || cluster.shards().is_empty());
    wait_until("it says so", || cluster.failure().is_some());
    let elsewhere: Vec<_> =
        (0..20).map(|n| cluster.schedule_keyed([n], far, "there".to_owned()).unwrap()).collect();
    assert!(elsewhere.iter().all(|ticket| ticket.wait().is_err()), "nor that these are");
    proxy.set(Mode::Passes);
    wait_until("it has them again", || cluster.shards().len() == 4);
    cluster.schedule(cluster.now(), "again".to_owned()).unwrap().wait().unwrap();
    cluster.stop().unwrap();
    recorder.wait_for("SELECT count(*) FROM shards WHERE holder IS NULL", 4);
}
