//! Two servers of PostgreSQL's, one of which follows the other and takes over: a standby that every
//! commit waits for, and one that lags behind.

use std::ffi::OsStr;
use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use postgres::{Client, NoTls};

use super::Run;
use super::cluster::{self, EVERYWHERE, Fault, INSTANCES, Servers};
use super::ledger::Pen;
use crate::common::initdb::{programs, somebody_else};
use crate::common::proxy::{Mode, Proxy};
use crate::common::until::wait_until;

/// Runs a server until the pipe is closed, by whatever death of this program. It ends at once then,
/// and its sessions with it.
const SCRIPT: &str = r#"
    "$1/postgres" -D "$2/data" -k "$2" -p 5432 -c listen_addresses='' -c fsync=off \
        -c max_connections=100 -c log_min_messages=error >>"$2/log" 2>&1 </dev/null &
    echo ready
    read -r _
    kill -QUIT $!
    wait
"#;

const WAYS: [&str; 3] = ["servers killed", "failovers", "failovers to a standby that lagged"];

/// A server's directory, and the script while it runs.
struct Server {
    directory: PathBuf,
    script: Option<Child>,
}

struct Pair {
    bin: PathBuf,
    user: Option<(u32, u32)>,
    /// The first one serves, the other follows.
    servers: [Server; 2],
    /// Where the proxies go.
    serves: Arc<Mutex<PathBuf>>,
    proxies: Vec<Proxy>,
}

/// `None`, and a word about it, if there is no server.
pub(crate) fn run(mut run: Run) -> Option<String> {
    let Some(bin) = programs() else {
        let why = "there is no server of PostgreSQL's (Debian: postgresql)";
        let is_required = std::env::var_os("TICKLESS_POSTGRES").is_some_and(|is| is == "required");
        assert!(!is_required, "{why}");
        println!("SKIPPED: {why}");
        return None;
    };
    let mut pair = Pair::new(bin, &run.directory);
    let ways = (0..WAYS.len()).map(Fault::Servers);
    let faults: Vec<Fault> = EVERYWHERE.into_iter().chain(ways).collect();
    cluster::run(&mut run, &mut pair, &faults);
    drop(pair);
    Some(run.check())
}

// === impl Server ===

impl Server {
    fn client(&self) -> Result<Client, postgres::Error> {
        let url = format!("host={} user=tickless dbname=postgres", self.directory.display());
        Client::connect(&url, NoTls)
    }

    fn ask(&self, statement: &str) {
        self.client().unwrap().batch_execute(statement).unwrap();
    }

    /// Waits until a question has the answer `true`.
    fn wait_until(&self, what: &str) {
        wait_until(what, || {
            let found = self.client().and_then(|mut client| client.query_one(what, &[]));
            found.is_ok_and(|row| row.get::<_, Option<bool>>(0) == Some(true))
        });
    }

    /// Ends it at once, as its death would.
    fn kill(&mut self) {
        if let Some(mut script) = self.script.take() {
            drop(script.stdin.take());
            script.wait().unwrap();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

// === impl Pair ===

impl Pair {
    fn new(bin: PathBuf, directory: &Path) -> Pair {
        let user = somebody_else().unwrap();
        let server = |name: &str| {
            let directory = directory.join(name);
            fs::create_dir(&directory).unwrap();
            if let Some((user, group)) = user {
                chown(&directory, Some(user), Some(group)).unwrap();
            }
            Server { directory, script: None }
        };
        fs::set_permissions(directory, fs::Permissions::from_mode(0o755)).unwrap();
        let servers = [server("one"), server("other")];
        let serves = Arc::new(Mutex::new(servers[0].directory.clone()));
        let proxy = |_| {
            let serves = serves.clone();
            Proxy::new(move || {
                let socket = serves.lock().unwrap().join(".s.PGSQL.5432");
                Ok(UnixStream::connect(socket)?.into())
            })
        };
        let proxies = (0..INSTANCES).map(proxy).collect();
        let mut pair = Pair { bin, user, servers, serves, proxies };
        let data = pair.servers[0].directory.join("data");
        let how = ["-U", "tickless", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync", "-D"];
        pair.execute("initdb", how.map(OsStr::new).into_iter().chain([data.as_os_str()]));
        pair.start(0);
        pair.follow();
        pair
    }

    fn as_user(&self, mut command: Command) -> Command {
        if let Some((user, group)) = self.user {
            command.uid(user).gid(group);
        }
        command.current_dir("/");
        command
    }

    fn execute<'a>(&self, program: &str, arguments: impl Iterator<Item = &'a OsStr>) {
        let mut command = self.as_user(Command::new(self.bin.join(program)));
        let output = command.args(arguments).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{program}: {said}");
    }

    fn start(&mut self, number: usize) {
        let mut script = self.as_user(Command::new("sh"));
        script.args(["-c", SCRIPT, "server"]).arg(&self.bin).arg(&self.servers[number].directory);
        let mut script = script.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        BufReader::new(script.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
        self.servers[number].script = Some(script);
        self.servers[number].wait_until("SELECT true");
    }

    /// The other server follows the one that serves, which waits for it with each commit.
    fn follow(&mut self) {
        self.servers[1].kill();
        let (from, to) = (&self.servers[0].directory, self.servers[1].directory.join("data"));
        let _ = fs::remove_dir_all(&to);
        let how = ["-R", "-N", "-c", "fast", "-U", "tickless", "-p", "5432", "-h"].map(OsStr::new);
        let places = [from.as_os_str(), OsStr::new("-D"), to.as_os_str()];
        self.execute("pg_basebackup", how.into_iter().chain(places));
        self.start(1);
        self.wait_for_standby(true);
    }

    /// From when this returns, each commit waits for the standby, or none.
    fn wait_for_standby(&self, waits: bool) {
        let names = if waits { "*" } else { "" };
        self.servers[0].ask(&format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'"));
        self.servers[0].ask("SELECT pg_reload_conf()");
        let state = if waits { "sync" } else { "async" };
        self.servers[0].wait_until(&format!(
            "SELECT bool_and(sync_state = '{state}' AND state = 'streaming')
             FROM pg_stat_replication"
        ));
    }

    /// The other server serves, with what it has.
    fn take_over(&mut self) {
        self.servers.swap(0, 1);
        // Asked again, because what it still reads from the other server can end a question.
        self.servers[0].wait_until(
            "SELECT NOT CASE WHEN pg_is_in_recovery() THEN pg_promote(false) ELSE false END",
        );
        self.servers[0].ask("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.servers[0].ask("SELECT pg_reload_conf()");
    }

    fn let_through(&self) {
        self.serves.lock().unwrap().clone_from(&self.servers[0].directory);
    }
}

impl Servers for Pair {
    const LONGEST: Duration = Duration::from_millis(2500);

    fn place(&self, instance: usize) -> String {
        let port = self.proxies[instance].port;
        format!("host=127.0.0.1 port={port} user=tickless dbname=postgres")
    }

    fn set(&self, instance: usize, mode: Mode) {
        self.proxies[instance].set(mode);
    }

    fn fail(&mut self, way: usize, run: &mut Run) {
        run.count(WAYS[way]);
        match way {
            0 => {
                self.servers[0].kill();
                self.start(0);
                self.wait_for_standby(true);
            }
            1 => {
                self.servers[0].kill();
                self.take_over();
                self.let_through();
                self.follow();
            }
            _ => {
                let pen = Pen::new(&run.ledger());
                pen.add("behind\n");
                self.wait_for_standby(false);
                self.servers[1].kill();
                thread::sleep(Duration::from_millis(500 + run.random.below(1500)));
                self.servers[0].kill();
                self.start(1);
                self.take_over();
                pen.add("replaced\n");
                self.let_through();
                self.follow();
            }
        }
    }
}
