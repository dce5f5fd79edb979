//! What the system permits: open files, and ports for connections.

use std::error::Error;
use std::fs;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Files that a process has open beside its connections.
const OTHER_FILES: u64 = 256;

/// Raises this process's limit of open files, which the server and the generator inherit, so that
/// each of them can have so many connections.
pub(crate) fn suffice_for(connections: u64) -> Result<(), Box<dyn Error>> {
    let files = connections + OTHER_FILES;
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_some_and(|now| now < files) {
        // A privileged process may raise the upper limit, too.
        let maximum = limit.maximum.map(|most| most.max(files));
        setrlimit(Resource::Nofile, Rlimit { current: Some(files), maximum })
            .map_err(|_| format!("{files} open files are needed: see `ulimit -Hn`"))?;
    }
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    if ports(&range).is_some_and(|ports| ports < connections) {
        let hint = "sysctl -w net.ipv4.ip_local_port_range=\"1024 65535\"";
        return Err(format!("{connections} ports are needed: {hint}").into());
    }
    Ok(())
}

/// How many ports a range has.
fn ports(range: &str) -> Option<u64> {
    let mut ends = range.split_whitespace().map(|end| end.parse::<u64>().ok());
    let (first, last) = (ends.next()??, ends.next()??);
    (last + 1).checked_sub(first)
}

#[test]
fn limits_that_cannot_be_met_are_told_before_anything_starts() {
    suffice_for(1).unwrap();
    suffice_for(u64::from(u32::MAX)).unwrap_err();
    assert_eq!(ports("32768\t60999\n"), Some(28_232));
    assert_eq!((ports(""), ports("1"), ports("a b"), ports("9 1")), (None, None, None, None));
}
