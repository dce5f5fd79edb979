//! Three servers of NATS, of which one that leads dies now and then, while the others go on.

use std::net::TcpStream;
use std::thread;
use std::time::Duration;

use super::Run;
use super::cluster::{self, EVERYWHERE, Fault, INSTANCES};
use crate::common::nats::Servers;
use crate::common::proxy::{Mode, Proxy};

struct Three {
    servers: Servers,
    /// Of each instance, one to each server.
    proxies: Vec<Vec<Proxy>>,
}

/// `None`, and a word about it, if there is no server.
pub(crate) fn run(mut run: Run) -> Option<String> {
    let servers = Servers::start(3)?;
    let addresses = servers.addresses();
    let proxy = |address: &std::net::SocketAddr| {
        let address = *address;
        Proxy::new(move || Ok(TcpStream::connect(address)?.into()))
    };
    let proxies = (0..INSTANCES).map(|_| addresses.iter().map(proxy).collect()).collect();
    let mut three = Three { servers, proxies };
    // Twice, since there are three.
    let faults: Vec<Fault> =
        EVERYWHERE.into_iter().chain([Fault::Servers(0), Fault::Servers(0)]).collect();
    cluster::run(&mut run, &mut three, &faults);
    drop(three);
    Some(run.check())
}

impl cluster::Servers for Three {
    const LONGEST: Duration = Duration::from_secs(5);

    fn place(&self, instance: usize) -> String {
        let urls = self.proxies[instance].iter();
        urls.map(|proxy| format!("nats://127.0.0.1:{}", proxy.port)).collect::<Vec<_>>().join(",")
    }

    fn set(&self, instance: usize, mode: Mode) {
        self.proxies[instance].iter().for_each(|proxy| proxy.set(mode));
    }

    fn fail(&mut self, _way: usize, run: &mut Run) {
        // One that leads the log of a shard.
        let shard = run.random.below(4);
        let leader = self.servers.leader(&format!("tickless_chaos_{shard}"));
        let number = leader.unwrap_or(shard as usize % self.servers.count());
        self.servers.kill(number);
        thread::sleep(Duration::from_millis(run.random.below(3000)));
        self.servers.restart(number);
        run.count("servers killed");
    }
}
