//! Two servers of PostgreSQL's, one of which follows the other and takes over: a standby that every
//! commit waits for, and one that lags behind. Base backups of an earlier time, disks that fail or
//! are full, pages that are damaged, a clock that is set. One instance is told where both servers
//! are, and finds the one that serves; the others are led there.

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
use std::time::{Duration, Instant, SystemTime};

use postgres::{Client, NoTls};

use super::Run;
use super::cluster::{self, EVERYWHERE, Fault, INSTANCES, Servers};
use super::ledger::{Pen, micros, since_start_us};
use super::worker::{LEASE, OTHER};
use crate::common::initdb::{programs, somebody_else};
use crate::common::proxy::{Mode, Proxy};
use crate::common::until::wait_until;
use crate::common::{eio, faketime};

/// Runs a server until the pipe is closed, by whatever death of this program. It ends at once then,
/// and its sessions with it.
const SCRIPT: &str = r#"
    "$1/postgres" -D "$2/data" -k "$2" -p 5432 -c listen_addresses='' \
        -c max_connections=100 -c log_min_messages=error >>"$2/log" 2>&1 </dev/null &
    echo ready
    read -r _
    kill -QUIT $! 2>/dev/null
    wait
"#;

/// What servers do, and by how many seconds the clock is set then.
#[derive(Clone, Copy, Debug)]
enum Way {
    Kill,
    FailOver,
    FailOverBehind,
    RestoreBackup,
    FailDisk,
    FillDisk,
    Damage,
    SetClock(i64),
}

const WAYS: [(Way, &str); 9] = [
    (Way::Kill, "servers killed"),
    (Way::FailOver, "failovers"),
    (Way::FailOverBehind, "failovers to a standby that lagged"),
    (Way::RestoreBackup, "base backups restored"),
    (Way::FailDisk, "servers whose disk failed"),
    (Way::FillDisk, "servers whose disk was full"),
    (Way::Damage, "servers with damaged pages"),
    (Way::SetClock(HOUR), "clocks set ahead and back"),
    (Way::SetClock(-HOUR), "clocks set back and ahead"),
];

const HOUR: i64 = 3600;

const PAGE: usize = 8192;

/// A server's directory, and the script while it runs.
struct Server {
    directory: PathBuf,
    script: Option<Child>,
}

pub(super) struct Pair {
    bin: PathBuf,
    user: Option<(u32, u32)>,
    /// The first one serves, the other follows.
    servers: [Server; 2],
    /// Where the proxies go.
    serves: Arc<Mutex<PathBuf>>,
    /// Of each instance: one to the server that serves, or one to each.
    proxies: Vec<Vec<Proxy>>,
    /// What has calls of a server's disk fail.
    eio: PathBuf,
    /// What shows all processes another time, and the file that says which.
    faketime: Option<(PathBuf, PathBuf)>,
    ledger: PathBuf,
}

/// `None`, and a word about it, if there is no server.
pub(crate) fn run(mut run: Run) -> Option<String> {
    let mut pair = Pair::start_one(&run.directory)?;
    pair.follow();
    let is_possible = |way: &Way| pair.faketime.is_some() || !matches!(way, Way::SetClock(_));
    let ways = (0..WAYS.len()).filter(|way| is_possible(&WAYS[*way].0)).map(Fault::Servers);
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

    fn is_so(&self, what: &str) -> bool {
        let found = self.client().and_then(|mut client| client.query_one(what, &[]));
        found.is_ok_and(|row| row.get::<_, Option<bool>>(0) == Some(true))
    }

    /// Waits until a question has the answer `true`.
    fn wait_until(&self, what: &str) {
        wait_until(what, || self.is_so(what));
    }

    /// As long as it is there, its disk fails.
    fn fails(&self) -> PathBuf {
        self.directory.join("fails")
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
    /// Servers of which one runs; `None`, and a word about it, if there are none.
    pub(super) fn start_one(directory: &Path) -> Option<Pair> {
        let Some(bin) = programs() else {
            let why = "there is no server of PostgreSQL's (Debian: postgresql)";
            let is_required =
                std::env::var_os("TICKLESS_POSTGRES").is_some_and(|is| is == "required");
            assert!(!is_required, "{why}");
            println!("SKIPPED: {why}");
            return None;
        };
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
        let to = |place: Arc<Mutex<PathBuf>>| {
            Proxy::new(move || {
                let socket = place.lock().unwrap().join(".s.PGSQL.5432");
                Ok(UnixStream::connect(socket)?.into())
            })
        };
        let proxies = |instance| match instance {
            1 => {
                servers.iter().map(|one| to(Arc::new(Mutex::new(one.directory.clone())))).collect()
            }
            _ => vec![to(serves.clone())],
        };
        let proxies = (0..INSTANCES).map(proxies).collect();
        let library = faketime::library();
        if library.is_none() {
            println!("left out: servers whose clock is set (Debian: libfaketime)");
        }
        // Which time a process of another version writes down, is not known.
        let faketime = library.filter(|_| std::env::var_os(OTHER).is_none());
        let faketime = faketime.map(|library| (library, directory.join("clock")));
        faketime.iter().for_each(|(_, file)| faketime::write(file, 0));
        let (eio, ledger) = (eio::library(directory), directory.join("ledger"));
        let mut pair = Pair { bin, user, servers, serves, proxies, eio, faketime, ledger };
        let data = pair.servers[0].directory.join("data");
        let how = ["-k", "-U", "tickless", "-A", "trust", "-E", "UTF8", "--locale=C", "--no-sync"];
        let how = how.into_iter().chain(["-D"]).map(OsStr::new);
        pair.execute("initdb", how.chain([data.as_os_str()]));
        let mut settings = fs::OpenOptions::new().append(true).open(data.join("postgresql.conf"));
        // One that starts anew by itself on a disk that fails takes log that it cannot read for the
        // end of its log, and loses what it has committed.
        let ours = b"fsync = off\nrestart_after_crash = off\n";
        std::io::Write::write_all(settings.as_mut().unwrap(), ours).unwrap();
        pair.start(0);
        Some(pair)
    }

    /// How to reach the one that serves, without a proxy.
    pub(super) fn url(&self) -> String {
        let host = self.servers[0].directory.display().to_string().replace('/', "%2F");
        format!("postgres://tickless@{host}/postgres")
    }

    pub(super) fn client(&self) -> Client {
        self.servers[0].client().unwrap()
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
        let server = &self.servers[number];
        script.args(["-c", SCRIPT, "server"]).arg(&self.bin).arg(&server.directory);
        faketime::preload(&mut script, &self.eio);
        script.env("EIO_FILES", "/data/").env("EIO_WHILE", server.fails());
        self.dress(&mut script);
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

    // --- what goes wrong ---

    /// What is acknowledged until this is over may be undone.
    fn fall_behind(&mut self, run: &mut Run) {
        let pen = Pen::new(&self.ledger);
        pen.add("behind\n");
        self.wait_for_standby(false);
        self.servers[1].kill();
        some_time(run);
        self.servers[0].kill();
        self.start(1);
        self.take_over();
        pen.add("replaced\n");
        self.let_through();
        self.follow();
    }

    /// The data are those of a base backup, which was made while the server served.
    fn restore_backup(&mut self, run: &mut Run) {
        let pen = Pen::new(&self.ledger);
        pen.add("behind\n");
        let (from, to) =
            (self.servers[0].directory.clone(), self.servers[0].directory.join("copy"));
        let how = ["-N", "-c", "fast", "-U", "tickless", "-p", "5432", "-h"].map(OsStr::new);
        let places = [from.as_os_str(), OsStr::new("-D"), to.as_os_str()];
        self.execute("pg_basebackup", how.into_iter().chain(places));
        some_time(run);
        self.servers.iter_mut().for_each(Server::kill);
        fs::remove_dir_all(from.join("data")).unwrap();
        fs::rename(to, from.join("data")).unwrap();
        self.start(0);
        pen.add("replaced\n");
        self.servers[0].ask("ALTER SYSTEM SET synchronous_standby_names = ''");
        self.servers[0].ask("SELECT pg_reload_conf()");
        self.follow();
    }

    /// Some calls of the server fail, or all. It ends what it does, or ends.
    fn fail_disk(&mut self, error: i32, run: &mut Run) {
        self.servers[0].ask("ALTER SYSTEM SET fsync = on");
        self.servers[0].ask("SELECT pg_reload_conf()");
        let one_in = [1, 4, 40, 400][run.random.below(4) as usize];
        let fails = self.servers[0].fails();
        fs::write(&fails, format!("{one_in} {error}\n")).unwrap();
        some_time(run);
        fs::remove_file(fails).unwrap();
        self.revive(run);
        self.servers[0].ask("ALTER SYSTEM RESET fsync");
        self.servers[0].ask("SELECT pg_reload_conf()");
        self.wait_for_standby(true);
    }

    /// Starts the one that serves, if it has ended, as one whose disk failed may do later, too.
    fn revive(&mut self, run: &mut Run) {
        let begun = Instant::now();
        while !self.servers[0].is_so("SELECT true") {
            if begun.elapsed() > Duration::from_secs(5) {
                self.servers[0].kill();
                self.start(0);
                return run.count("servers that had to be started after their disk had failed");
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Bits of its pages flip. What notices it says so, until the standby takes over.
    fn damage(&mut self, run: &mut Run) {
        let files = "SELECT pg_relation_filepath(oid) FROM pg_class
            WHERE relnamespace = 'chaos'::regnamespace AND relname LIKE 'records%'";
        let files = self.client().query(files, &[]).unwrap();
        let data = self.servers[0].directory.join("data");
        let files = files.iter().filter_map(|row| row.get::<_, Option<String>>(0));
        let files: Vec<PathBuf> = files.map(|file| data.join(file)).collect();
        // In good order, so that no page is written anew when it starts.
        let stop = ["-m", "fast", "stop", "-D"].map(OsStr::new).into_iter();
        self.execute("pg_ctl", stop.chain([data.as_os_str()]));
        self.servers[0].kill();
        let one_in = 1 + run.random.below(4);
        for file in files {
            let mut bytes = fs::read(&file).unwrap();
            for page in (0..bytes.len()).step_by(PAGE) {
                if run.random.below(one_in) == 0 {
                    let at = page + run.random.below(PAGE as u64) as usize;
                    bytes[at] ^= 1 << run.random.below(8);
                    run.count("bits flipped");
                }
            }
            fs::write(file, bytes).unwrap();
        }
        self.start(0);
        self.wait_for_standby(true);
        some_time(run);
        self.servers[0].kill();
        self.take_over();
        self.let_through();
        self.follow();
    }

    /// The clock of all processes is set away, and back.
    fn set_clock(&mut self, seconds: i64, run: &mut Run) {
        some_time(run);
        self.show(0, seconds);
        some_time(run);
        self.show(seconds, 0);
    }

    /// Where it is set back, instances go by the time before until they have renewed their leases.
    fn show(&self, before: i64, seconds: i64) {
        let (_, file) = self.faketime.as_ref().expect("it is there for this fault");
        let begun = since_start_us();
        let shows = micros(SystemTime::now()).checked_add_signed(seconds * 1_000_000).unwrap();
        faketime::write(file, seconds);
        let until = since_start_us() + LEASE.as_micros() as u64;
        if seconds < before {
            Pen::new(&self.ledger).add(&format!("back {begun} {until} {shows}\n"));
        }
    }
}

fn some_time(run: &mut Run) {
    thread::sleep(Duration::from_millis(500 + run.random.below(2000)));
}

impl Servers for Pair {
    const LONGEST: Duration = Duration::from_millis(2500);

    fn place(&self, instance: usize) -> String {
        let proxies = &self.proxies[instance];
        let ports: Vec<String> = proxies.iter().map(|proxy| proxy.port.to_string()).collect();
        let hosts = vec!["127.0.0.1"; ports.len()].join(",");
        let who = "user=tickless dbname=postgres target_session_attrs=read-write";
        format!("host={hosts} port={} {who}", ports.join(","))
    }

    fn dress(&self, command: &mut Command) {
        if let Some((library, file)) = &self.faketime {
            faketime::follow(command, library, file);
        }
    }

    fn set(&self, instance: usize, mode: Mode) {
        self.proxies[instance].iter().for_each(|proxy| proxy.set(mode));
    }

    fn fail(&mut self, way: usize, run: &mut Run) {
        let (way, what) = WAYS[way];
        self.revive(run);
        match way {
            Way::Kill => {
                self.servers[0].kill();
                self.start(0);
                self.wait_for_standby(true);
            }
            Way::FailOver => {
                self.servers[0].kill();
                self.take_over();
                self.let_through();
                self.follow();
            }
            Way::FailOverBehind => self.fall_behind(run),
            Way::RestoreBackup => self.restore_backup(run),
            Way::FailDisk => self.fail_disk(libc::EIO, run),
            Way::FillDisk => self.fail_disk(libc::ENOSPC, run),
            Way::Damage => self.damage(run),
            Way::SetClock(seconds) => self.set_clock(seconds, run),
        }
        run.count(what);
    }

    fn end(&mut self, run: &mut Run) {
        self.revive(run);
        if self.faketime.is_some() {
            // What was scheduled by a clock that was ahead is due in an hour.
            self.show(0, HOUR + 60);
        }
    }
}
