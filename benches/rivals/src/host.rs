//! Where and with what something was measured.

use std::fs;
use std::process::Command;

use serde::{Deserialize, Serialize};

/// The machine, the build and the day.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Host {
    pub(crate) commit: String,
    pub(crate) date: String,
    pub(crate) cpu: String,
    pub(crate) cpus: usize,
    pub(crate) kernel: String,
    pub(crate) rustc: String,
}

// === impl Host ===

impl Host {
    /// This machine, now; what cannot be found out is empty.
    pub(crate) fn here() -> Host {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        Host {
            commit: commit(),
            date: said("date", &["-u", "+%F"]),
            cpu: fs::read_to_string("/proc/cpuinfo").map_or_else(|_| String::new(), |t| cpu(&t)),
            cpus,
            kernel: said("uname", &["-sr"]),
            rustc: said("rustc", &["--version"]).split(' ').nth(1).unwrap_or_default().to_owned(),
        }
    }
}

/// The load of the last minute.
pub(crate) fn load() -> f64 {
    let text = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split(' ').next().and_then(|load| load.parse().ok()).unwrap_or(0.0)
}

/// The commit, and a mark if what is measured is not what it has.
fn commit() -> String {
    let commit = said("git", &["rev-parse", "--short=7", "HEAD"]);
    let measured = [
        "--",
        "src",
        "wheel",
        "benches/rivals/src",
        "benches/http/src",
        "benches/async-scale/src",
        "Cargo.lock",
    ];
    let changes = said("git", &[&["status", "--porcelain", "-uno"], &measured[..]].concat());
    if changes.is_empty() { commit } else { format!("{commit}, changed") }
}

/// The processor in the words of `/proc/cpuinfo`.
fn cpu(text: &str) -> String {
    let of = |key: &str| {
        let line = text.lines().find(|line| line.split(':').next().map(str::trim) == Some(key));
        line.and_then(|line| line.split_once(':')).map_or("", |(_, value)| value.trim()).to_owned()
    };
    let (name, family, model) = (of("model name"), of("cpu family"), of("model"));
    if family.is_empty() { name } else { format!("{name} (family {family}, model {model})") }
}

/// What a program says, without the space around it.
fn said(program: &str, words: &[&str]) -> String {
    let output = Command::new(program).args(words).output();
    let output = output.ok().filter(|output| output.status.success());
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    text.unwrap_or_default()
}

#[test]
fn a_processor_has_its_name_family_and_model() {
    let text = "processor\t: 0\ncpu family\t: 6\nmodel\t\t: 207\nmodel name\t: Intel(R) Xeon(R)\n";
    assert_eq!(cpu(text), "Intel(R) Xeon(R) (family 6, model 207)");
    assert_eq!(cpu("model name: ARM\n"), "ARM");
    assert_eq!(cpu(""), "");
}
