//! One run: a server, a load generator, and what becomes of the two.

use std::env;
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::Arguments;
use crate::limits;
use crate::pin::Pins;
use crate::server::DELAY;

/// Seconds before what is measured.
const WARM_UP: f64 = 1.0;
/// Threads of the generator, unless said otherwise, at most.
const GENERATORS: usize = 12;

/// How requests come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Load {
    /// Each connection asks when it has its answer.
    Closed,
    /// At a rate of their own.
    Open,
}

/// What a generator saw.
#[derive(Debug, PartialEq)]
struct Seen {
    requests: u64,
    p50_us: f64,
    p99_us: f64,
}

/// The server's process.
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    port: u16,
}

/// Measures once: a record for `rivals`.
pub(crate) fn measure(arguments: &Arguments) -> Result<Value, Box<dyn Error>> {
    limits::suffice_for(arguments.connections.into())?;
    let pins = Pins::of(usize::from(arguments.workers))?;
    let mut server = pins.as_server(|| Server::start(arguments))??;
    let seconds = |full: f64| (full * arguments.scale).max(0.2);
    let path = arguments.delay_ms.map_or("/".to_owned(), |ms| format!("{DELAY}{ms}"));
    let url = format!("http://127.0.0.1:{}{path}", server.port);
    let generators = arguments.generators.map_or(pins.for_load().min(GENERATORS), usize::from);
    let generate = |seconds: f64| pins.as_load(|| arguments.generate(&url, seconds, generators))?;
    generate(seconds(WARM_UP))?;
    let before = server.state()?;
    let measured_s = seconds(arguments.seconds.into());
    let seen = generate(measured_s)?;
    let after = server.state()?;
    let grown = |name: &str| {
        let of = |state: &Value| state[name].as_f64();
        Some(of(&after)? - of(&before)?)
    };
    let served = grown("requests").ok_or("the server counts no requests")?;
    let cpu_ns = grown("cpu_ns").ok_or("the server counts no CPU time")?;
    if seen.requests == 0 || served < 0.99 * seen.requests as f64 {
        return Err(format!("{served} requests served of {} answered", seen.requests).into());
    }
    let beyond = |us: f64| us - 1e3 * f64::from(arguments.delay_ms.unwrap_or(0));
    Ok(json!({
        "contender": arguments.timers.name(),
        "workload": arguments.load.name(),
        "threads": arguments.workers,
        "n": served as u64,
        "ns_per_op": measured_s * 1e9 / served,
        "cpu_ns_per_op": cpu_ns / served,
        "extra": {
            "per_s": served / measured_s,
            "cores": cpu_ns / 1e9 / measured_s,
            "latency_us": {"p50": seen.p50_us, "p99": seen.p99_us},
            "beyond_us": {"p50": beyond(seen.p50_us), "p99": beyond(seen.p99_us)},
            "connections": arguments.connections,
            "generators": generators,
            "timer_calls_per_request": grown("timer_calls").map(|calls| calls / served),
            "is_pinned": pins.are_apart(),
            "scale": arguments.scale,
        },
    }))
}

// === impl Load ===

impl Load {
    fn name(self) -> &'static str {
        match self {
            Load::Closed => "http-closed",
            Load::Open => "http-open",
        }
    }
}

// === impl Arguments ===

impl Arguments {
    fn generate(&self, url: &str, seconds: f64, generators: usize) -> Result<Seen, Box<dyn Error>> {
        let connections = self.connections.to_string();
        match self.load {
            Load::Closed => {
                // It takes whole seconds only, and no more threads than connections.
                let seconds = seconds.ceil().to_string();
                let threads = generators.min(self.connections as usize).to_string();
                let program = env::var("WRK").unwrap_or_else(|_| "wrk".to_owned());
                let mut words = vec!["-t", &threads, "-c", &connections, "-d", &seconds];
                words.extend(["--timeout", "30s", "--latency", url]);
                let said = run(&program, &words)?;
                wrk(&said).ok_or_else(|| format!("what wrk says is not understood: {said}").into())
            }
            Load::Open => {
                let program = env::var("OHA").unwrap_or_else(|_| "oha".to_owned());
                let (time, rate) = (format!("{}ms", (seconds * 1e3) as u64), self.rate.to_string());
                let threads = generators.to_string();
                let mut words = vec!["--no-tui", "--output-format", "json", "-z", &time];
                words.extend(["-q", &rate, "-c", &connections, "--worker-threads", &threads]);
                words.extend(["--latency-correction", url]);
                let said = run(&program, &words)?;
                oha(&said).ok_or_else(|| format!("what oha says is not understood: {said}").into())
            }
        }
    }
}

fn run(program: &str, words: &[&str]) -> Result<String, Box<dyn Error>> {
    let output = Command::new(program).args(words).stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{program}: {}: {}", output.status, said.trim()).into());
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Reads what `wrk --latency` says; nothing if a request failed.
fn wrk(said: &str) -> Option<Seen> {
    let share = |name: &str| {
        let line = said.lines().find_map(|line| line.trim().strip_prefix(name))?;
        let (number, by) = [("us", 1.0), ("ms", 1e3), ("s", 1e6)]
            .into_iter()
            .find_map(|(unit, by)| Some((line.trim().strip_suffix(unit)?, by)))?;
        Some(number.parse::<f64>().ok()? * by)
    };
    let requests = said.lines().find(|line| line.contains(" requests in "))?;
    let has_failed = said.contains("Socket errors:") || said.contains("Non-2xx");
    let requests = requests.split_whitespace().next()?.parse().ok()?;
    (!has_failed).then_some(Seen { requests, p50_us: share("50%")?, p99_us: share("99%")? })
}

/// Reads what `oha` says as JSON; nothing if an answer was not 200.
fn oha(said: &str) -> Option<Seen> {
    let said: Value = serde_json::from_str(said).ok()?;
    let codes = said["statusCodeDistribution"].as_object()?;
    if codes.len() != 1 {
        return None;
    }
    let us = |name: &str| Some(said["latencyPercentiles"][name].as_f64()? * 1e6);
    Some(Seen { requests: codes.get("200")?.as_u64()?, p50_us: us("p50")?, p99_us: us("p99")? })
}

// === impl Server ===

impl Server {
    fn start(arguments: &Arguments) -> Result<Server, Box<dyn Error>> {
        let mut child = Command::new(env::current_exe()?)
            .args(["--serve", "--timers", &arguments.timers.name()])
            .args(["--workers", &arguments.workers.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let input = child.stdin.take().ok_or("no input")?;
        let mut output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut line = String::new();
        output.read_line(&mut line)?;
        let port = line.trim().parse().map_err(|_| "the server did not start")?;
        Ok(Server { child, input, output, port })
    }

    fn state(&mut self) -> Result<Value, Box<dyn Error>> {
        self.input.write_all(b"\n")?;
        self.input.flush()?;
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        Ok(serde_json::from_str(&line)?)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wrk_is_understood_unless_requests_failed() {
        let said = "  Latency Distribution\n     50%  812.00us\n     75%    1.20ms\n     90%    \
                    2.00ms\n     99%    1.50s \n  81234 requests in 4.00s, 10.00MB read\n\
                    Requests/sec:  20308.50\n";
        let seen = Seen { requests: 81_234, p50_us: 812.0, p99_us: 1_500_000.0 };
        assert_eq!(wrk(said), Some(seen));
        assert_eq!(wrk(&format!("{said}  Socket errors: connect 1, read 0\n")), None);
        assert_eq!(wrk("nothing"), None);
    }

    #[test]
    fn oha_is_understood_unless_answers_differ() {
        let said = r#"{"latencyPercentiles": {"p50": 0.00025, "p99": 0.002},
            "statusCodeDistribution": {"200": 900}}"#;
        let seen = Seen { requests: 900, p50_us: 250.0, p99_us: 2_000.0 };
        assert_eq!(oha(said), Some(seen));
        assert_eq!(oha(&said.replace("900}", "900, \"503\": 1}")), None);
        assert_eq!(oha("{}"), None);
    }
}
