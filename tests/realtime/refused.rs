//! A system that refuses files from the start of an engine on, for longer than a clock goes on
//! before the system is asked for its clock source again. (`tests/alone/refused.rs`: threads,
//! fences.)

use std::thread;
use std::time::{Duration, Instant};

use support::child::in_a_child;
use support::refuse::refuse;
use tickless::Engine;

const HOUR: Duration = Duration::from_secs(3600);

/// How long a clock may go on before the system is asked for its clock source again.
const ASKED_AFTER: Duration = Duration::from_secs(6);

#[test]
fn a_thread_that_schedules_opens_no_file() {
    in_a_child("no files", || {
        let engine = Engine::builder().shards(1).build().unwrap();
        let pair = || assert!(engine.schedule(HOUR, || ()).unwrap().cancel());
        pair();
        refuse(libc::SYS_openat, libc::SECCOMP_RET_KILL_PROCESS, false);
        let begun = Instant::now();
        while begun.elapsed() < ASKED_AFTER {
            (0..10).for_each(|_| pair());
            thread::sleep(Duration::from_millis(5));
        }
        engine.stop().unwrap();
    });
}
