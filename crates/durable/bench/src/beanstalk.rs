//! beanstalkd: a server that keeps its queue in memory, and in a log (`-b`) that it syncs after
//! each write (`-f 0`), or every 50 ms, as it comes.
//!
//! The client is the little of the protocol that is needed here. Delays are whole seconds.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::work::{
    DELAY, HOUR, Lateness, Result, Size, Told, cpu, median_ms, pace, payload, payload_due,
};

/// How many requests are sent before the replies to the first of them are read.
const AHEAD: u64 = 1000;

/// Whether it is installed.
pub fn is_there() -> bool {
    let run = Command::new("beanstalkd").arg("-v").stdout(Stdio::null()).status();
    run.is_ok_and(|status| status.success())
}

struct Server {
    child: Child,
    address: String,
    _log: tempfile::TempDir,
}

struct Client {
    out: TcpStream,
    replies: BufReader<TcpStream>,
}

// === impl Server ===

impl Server {
    fn start(syncs: &[&str]) -> Result<Server> {
        let log = tempfile::tempdir()?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port().to_string();
        let mut command = Command::new("beanstalkd");
        command.args(["-l", "127.0.0.1", "-p", &port, "-b"]).arg(log.path()).args(syncs);
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Server { child, address: format!("127.0.0.1:{port}"), _log: log })
    }

    fn connect(&self) -> Result<Client> {
        let begun = Instant::now();
        let out = loop {
            match TcpStream::connect(&self.address) {
                Ok(stream) => break stream,
                Err(error) if begun.elapsed() > Duration::from_secs(10) => return Err(error.into()),
                Err(_) => thread::sleep(Duration::from_millis(10)),
            }
        };
        out.set_nodelay(true)?;
        Ok(Client { replies: BufReader::new(out.try_clone()?), out })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Client ===

impl Client {
    fn send_put(&mut self, delay: Duration, payload: &str) -> Result<()> {
        let (seconds, bytes) = (delay.as_secs(), payload.len());
        Ok(write!(self.out, "put 0 {seconds} 60 {bytes}\r\n{payload}\r\n")?)
    }

    fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        self.replies.read_line(&mut line)?;
        Ok(line.trim_end().to_owned())
    }

    fn expect(&mut self, first: &str) -> Result<String> {
        let line = self.line()?;
        if line.starts_with(first) {
            Ok(line)
        } else {
            Err(format!("the server says {line:?}").into())
        }
    }

    fn put(&mut self, delay: Duration, payload: &str) -> Result<()> {
        self.send_put(delay, payload)?;
        self.expect("INSERTED").map(drop)
    }
}

pub fn measure_durable(size: &Size) -> Result<Told> {
    measure(size, &["-f", "0"])
}

pub fn measure_as_it_comes(size: &Size) -> Result<Told> {
    measure(size, &[])
}

fn measure(size: &Size, syncs: &[&str]) -> Result<Told> {
    let server = Server::start(syncs)?;
    let mut client = server.connect()?;
    let begun = Instant::now();
    for number in 0..size.rate {
        client.send_put(HOUR, &payload(number))?;
        if number >= AHEAD {
            client.expect("INSERTED")?;
        }
    }
    for _ in 0..AHEAD.min(size.rate) {
        client.expect("INSERTED")?;
    }
    let rate = size.rate as f64 / begun.elapsed().as_secs_f64();
    let mut ones = Vec::new();
    for number in 0..size.ones {
        let begun = Instant::now();
        client.put(HOUR, &payload(number.into()))?;
        ones.push(begun.elapsed());
    }
    drop((client, server));

    let before = cpu();
    let server = Server::start(syncs)?;
    let (mut client, mut worker) = (server.connect()?, server.connect()?);
    let count = size.cycle;
    let working = thread::spawn(move || -> Result<Lateness> {
        let mut lateness = Lateness::new();
        while lateness.count() < count {
            worker.out.write_all(b"reserve\r\n")?;
            let reserved = worker.expect("RESERVED")?;
            let job = reserved.split(' ').nth(1).ok_or("a job has a number")?.to_owned();
            let payload = worker.line()?;
            lateness.note(&payload);
            write!(worker.out, "delete {job}\r\n")?;
            worker.expect("DELETED")?;
        }
        Ok(lateness)
    });
    let begun = Instant::now();
    for number in 0..count {
        pace(begun, number);
        client.put(DELAY, &payload_due(SystemTime::now() + DELAY))?;
    }
    let lateness = working.join().map_err(|_| "the worker has panicked")??;
    // Its time counts when it has ended.
    drop((client, server));
    let cpu_us = (cpu() - before).as_secs_f64() * 1e6 / count as f64;
    let one_ms = median_ms(ones);
    let mut told = Told { rate, one_ms, cpu_us, ..Told::default() };
    lateness.tell(&mut told);
    Ok(told)
}
