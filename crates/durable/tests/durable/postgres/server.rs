//! A server of PostgreSQL's for this program of tests: it lives in a directory of its own and ends
//! with the program, however that ends.
//!
//! If there is no server, the tests say so and pass, unless `TICKLESS_POSTGRES` is `required`.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, fs};

use postgres::{Client, Config, NoTls};

use crate::common::initdb::{programs, somebody_else};

/// A server, and the pipe whose end is its end.
pub(crate) struct Server {
    directory: PathBuf,
    port: u16,
    lifeline: ChildStdin,
    told: BufReader<ChildStdout>,
}

/// A schema of a test's own, on the server.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// How to connect, as text.
    pub(crate) url: String,
    /// The name of a schema that nobody has made yet.
    pub(crate) schema: String,
    /// Where the server listens on this machine, with TLS.
    pub(crate) port: u16,
    directory: PathBuf,
}

/// Who connects, and to what.
pub(crate) const LOGIN: &str = "user=tickless dbname=postgres";

/// Starts and ends the server. For each line, it ends, and is back so many seconds later. It reads
/// until the pipe is closed, by whatever death of the program.
const SCRIPT: &str = r#"
    bin=$1 dir=$2
    "$bin/initdb" -D "$dir/data" -U tickless -A trust -E UTF8 --locale=C --no-sync \
        >"$dir/log" 2>&1 || exit 1
    certificate=$(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes \
        -days 2 -subj '/CN=tickless tests' -addext subjectAltName=DNS:localhost \
        -addext basicConstraints=critical,CA:FALSE -keyout "$dir/key" -out "$dir/roots" \
        2>>"$dir/log" && echo on || echo off)
    { echo "hostssl all secret 127.0.0.1/32 scram-sha-256"
        echo "hostnossl all secret 127.0.0.1/32 reject"
        cat "$dir/data/pg_hba.conf"; } \
        >"$dir/hba"
    port=$3
    start() {
        "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w -o "-k $dir -p $port \
            -c listen_addresses=127.0.0.1 -c ssl=$certificate -c ssl_cert_file=$dir/roots \
            -c ssl_key_file=$dir/key -c hba_file=$dir/hba -c fsync=off -c max_connections=300 \
            -c log_min_messages=error" start >>"$dir/log" 2>&1
    }
    start || exit 1
    echo ready
    while read -r pause; do
        "$bin/pg_ctl" -D "$dir/data" -m fast -w stop >>"$dir/log" 2>&1
        sleep "$pause"
        start && echo ready
    done
    "$bin/pg_ctl" -D "$dir/data" -m immediate stop >>"$dir/log" 2>&1
    rm -rf "$dir"
"#;

impl Place {
    /// A schema on the server, or `None`, and a word about it, if there is no server.
    pub(crate) fn new() -> Option<Place> {
        static SERVER: OnceLock<Result<Server, String>> = OnceLock::new();
        static SCHEMAS: AtomicU32 = AtomicU32::new(0);
        match SERVER.get_or_init(start) {
            Ok(server) => {
                let number = SCHEMAS.fetch_add(1, Ordering::Relaxed);
                Some(server.place(format!("place_{number}")))
            }
            Err(why) => no_server(why),
        }
    }

    /// The same in a database of its own, whose transactions the server counts by themselves.
    pub(crate) fn alone(self) -> Place {
        let name = &self.schema;
        self.client().batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        let url = self.url.replace("dbname=postgres", &format!("dbname={name}"));
        Place { url, ..self }
    }

    /// How to connect, and to what.
    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.url, &self.schema)
    }

    pub(crate) fn config(&self) -> Config {
        self.url.parse().expect("it was written above")
    }

    /// Where the server listens.
    pub(crate) fn socket(&self) -> PathBuf {
        self.directory.join(format!(".s.PGSQL.{}", self.port))
    }

    /// The certificate that the server shows, which nobody has signed but the server.
    pub(crate) fn roots(&self) -> PathBuf {
        self.directory.join("roots")
    }

    /// A connection in which the schema's tables have their short names.
    pub(crate) fn client(&self) -> Client {
        let mut client = self.config().connect(NoTls).expect("the server is there");
        client.batch_execute(&format!("SET search_path TO {}", self.schema)).unwrap();
        client
    }
}

fn no_server<T>(why: &str) -> Option<T> {
    let is_required = env::var_os("TICKLESS_POSTGRES").is_some_and(|is| is == "required");
    assert!(!is_required, "{why}");
    println!("SKIPPED: {why}");
    None
}

impl Server {
    /// One that no other test uses.
    pub(crate) fn of_its_own() -> Option<Server> {
        start().map_or_else(|why| no_server(&why), Some)
    }

    pub(crate) fn place(&self, schema: String) -> Place {
        let (directory, port) = (self.directory.clone(), self.port);
        let url = format!("host={} port={port} {LOGIN}", directory.display());
        Place { url, schema, port, directory }
    }

    /// Ends it with all connections, and starts it again so many seconds later.
    pub(crate) fn restart(&mut self, pause_s: u32) {
        let mut line = String::new();
        writeln!(self.lifeline, "{pause_s}").unwrap();
        self.told.read_line(&mut line).unwrap();
        assert_eq!(line.trim(), "ready");
    }
}

fn start() -> Result<Server, String> {
    let bin = programs().ok_or("there is no server of PostgreSQL's (Debian: postgresql)")?;
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?.keep();
    let mut script = Command::new("sh");
    script.args([OsStr::new("-c"), OsStr::new(SCRIPT), OsStr::new("server")]);
    let listener = TcpListener::bind("127.0.0.1:0").map_err(|error| error.to_string())?;
    let port = listener.local_addr().map_err(|error| error.to_string())?.port();
    drop(listener);
    script
        .args([&bin, &directory])
        .arg(port.to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped());
    // The server refuses to run as root.
    if let Some((user, group)) = somebody_else()? {
        chown(&directory, Some(user), Some(group)).map_err(|error| error.to_string())?;
        script.uid(user).gid(group);
    }
    let open = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&directory, open).map_err(|error| error.to_string())?;
    let mut script = script.current_dir("/").spawn().map_err(|error| error.to_string())?;
    let mut line = String::new();
    let mut told = BufReader::new(script.stdout.take().unwrap());
    if told.read_line(&mut line).is_err() || line.trim() != "ready" {
        let log = fs::read_to_string(directory.join("log")).unwrap_or_default();
        return Err(format!("the server of {} does not start: {log}", bin.display()));
    }
    Ok(Server { directory, port, lifeline: script.stdin.take().unwrap(), told })
}
