//! Runs this program under callgrind, once for each bench.

use std::env;
use std::hint::black_box;
use std::process::Command;
use std::sync::Mutex;
use std::thread;

/// The argument before the name of the one bench to run.
pub(crate) const ONE: &str = "--one";

/// Instructions and blocks of all operations of a bench, or what went wrong.
type Counts = Result<(u64, u64), String>;

/// Callgrind counts instructions in here alone, which it finds by the name.
#[inline(never)]
pub(crate) fn counted(operations: &mut dyn FnMut()) {
    operations();
    // So that the last call is no jump, by which a function would not be seen to end.
    black_box(());
}

/// Counts the benches of these names, on all processors.
pub(crate) fn count(names: &[&str]) -> Vec<Counts> {
    let counts = Mutex::new(Vec::from_iter(names.iter().map(|_| Err(String::new()))));
    let waiting = Mutex::new(names.iter().enumerate());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("nobody panics").next();
                    let Some((index, name)) = next else { break };
                    let of_one = count_one(name);
                    counts.lock().expect("nobody panics")[index] = of_one;
                }
            });
        }
    });
    counts.into_inner().expect("nobody panics")
}

fn count_one(name: &str) -> Counts {
    let program = env::current_exe().map_err(|error| error.to_string())?;
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null", "--cache-sim=no"])
        .args(["--collect-atstart=no", "--toggle-collect=*::valgrind::counted*"])
        .arg(program)
        .args([ONE, name])
        // What the loader finds there takes room on the stack.
        .env_clear()
        .envs(env::var_os("PATH").map(|path| ("PATH", path)))
        .output()
        .map_err(|error| format!("valgrind: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    let collected =
        said.lines().find_map(|line| line.split_once("Collected : ")?.1.trim().parse().ok());
    let blocks = String::from_utf8_lossy(&output.stdout).trim().parse().ok();
    match (collected, blocks) {
        // Where the function was not found, there are none.
        (Some(instructions), Some(blocks)) if output.status.success() && instructions > 0 => {
            Ok((instructions, blocks))
        }
        _ => Err(said.into_owned()),
    }
}
