//! Runs this program under callgrind: one process, which forks for each bench.

use std::env;
use std::hint::black_box;
use std::process::{self, Command};

/// The argument before the names of the benches to run.
pub(crate) const EACH: &str = "--each";

/// Instructions and blocks of all operations of a bench, or what went wrong.
type Counts = Result<(u64, u64), String>;

/// Callgrind counts instructions in here alone, which it finds by the name.
#[inline(never)]
pub(crate) fn counted(operations: &mut dyn FnMut()) {
    operations();
    // So that the last call is no jump, by which a function would not be seen to end.
    black_box(());
}

/// Runs `bench`, which returns its blocks, in a process of its own, that says how many and then, by
/// callgrind, what it has counted.
pub(crate) fn run_apart(name: &str, bench: &dyn Fn() -> u64) {
    // SAFETY: this process has one thread.
    match unsafe { libc::fork() } {
        0 => {
            println!("{} {} {name}", process::id(), bench());
            process::exit(0);
        }
        child => {
            let mut status = 0;
            // SAFETY: it writes to the variable alone.
            let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert!(child > 0 && ended == child, "a process is made and ends");
            assert_eq!(status, 0, "{name}");
        }
    }
}

/// Counts the benches of these names. (Forked, they need not be translated by valgrind once more,
/// which takes longer than most of them.)
pub(crate) fn count(names: &[&str]) -> Vec<Counts> {
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--cache-sim=no"])
        .args(["--collect-atstart=no", "--toggle-collect=*::valgrind::counted*"])
        .arg(env::current_exe().expect("this program has a name"))
        .arg(EACH)
        .args(names)
        // What the loader finds there takes room on the stack.
        .env_clear()
        .envs(env::var_os("PATH").map(|path| ("PATH", path)))
        .output()
        .expect("valgrind runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let valgrind_said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {valgrind_said}", output.status);
    let counts = |name: &&str| {
        let line = said.lines().find_map(|line| line.strip_suffix(name)?.strip_suffix(' '))?;
        let (process, blocks) = line.split_once(' ')?;
        let of_process = format!("=={process}== Collected : ");
        let collected = valgrind_said.lines().find_map(|line| line.strip_prefix(&of_process))?;
        Some((collected.trim().parse().ok()?, blocks.parse().ok()?))
    };
    // Where the function was not found, there are no instructions.
    let counts =
        names.iter().map(|name| counts(name).filter(|(instructions, _)| *instructions > 0));
    counts.map(|counts| counts.ok_or_else(|| valgrind_said.clone().into_owned())).collect()
}
