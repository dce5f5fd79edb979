//! The reapers' threads, as the operating system sees them.

#![cfg(all(target_os = "linux", not(elsewhere)))]

use std::fs;
use std::thread;
use std::time::{Duration, Instant};

use support::mpsc;
use tickless::{Builder, Engine};

const PATIENCE: Duration = Duration::from_secs(60);

/// The CPUs that the calling thread may run on, from the first.
fn allowed_cpus() -> Vec<usize> {
    let status = fs::read_to_string("/proc/thread-self/status").unwrap();
    let list = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    let ranges =
        list.trim().split(',').map(|range| range.split_once('-').unwrap_or((range, range)));
    let number = |digits: &str| digits.parse::<usize>().unwrap();
    ranges.flat_map(|(first, last)| number(first)..=number(last)).collect()
}

/// Name and CPUs of the thread that serves each of so many shards.
fn reapers(shards: usize, builder: Builder) -> Vec<(Option<String>, Vec<usize>)> {
    // A thread that the system does not let run for a while is not to lose its shard.
    let engine = builder.shards(shards).takeover(None).build().unwrap();
    let ask = |shard: usize| {
        let (sender, receiver) = mpsc::channel();
        let tell = move || {
            let name = thread::current().name().map(String::from);
            sender.send((name, allowed_cpus())).unwrap();
        };
        engine.bind_thread(shard).unwrap();
        engine.schedule_detached(Duration::ZERO, tell).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap()
    };
    (0..shards).map(ask).collect()
}

#[test]
fn reapers_have_the_name_that_was_asked_for_and_a_number() {
    let builder = Engine::builder().shards(3).thread_name("producer");
    let names = |builder| reapers(3, builder).into_iter().map(|(name, _)| name.unwrap());
    let one_each: Vec<_> = names(builder.clone().reapers(3, 3)).collect();
    assert_eq!(one_each, ["producer-0", "producer-1", "producer-2"]);
    let shared: Vec<_> = names(builder.reapers(1, 1)).collect();
    assert_eq!(shared, ["producer-0"; 3]);
}

#[test]
fn threads_call_the_hook_before_they_run_tasks_and_have_the_stack_that_was_asked_for() {
    const FRAME: usize = 1 << 20;
    #[inline(never)]
    fn deep(left: usize) -> u8 {
        let frame = std::hint::black_box([left as u8; FRAME / 8]);
        if left == 0 { frame[0] } else { deep(left - 1) + frame[1] - frame[1] }
    }
    let (sender, receiver) = mpsc::channel();
    let begun = sender.clone();
    // It has one thread.
    let builder = Engine::builder().shards(1).takeover(None);
    let builder = builder.stack_size(16 * FRAME).on_thread_start(move || {
        let _ = begun.send(usize::MAX);
        panic!("it is caught");
    });
    let engine = builder.build().unwrap();
    // With the standard library's 2 MiB this would end the process.
    engine
        .schedule_detached(Duration::ZERO, move || sender.send(deep(24).into()).unwrap())
        .unwrap();
    let heard = [(); 2].map(|()| receiver.recv_timeout(PATIENCE).unwrap());
    assert_eq!(heard, [usize::MAX, 0]);
}

#[cfg(target_os = "linux")]
#[test]
fn no_thread_of_the_crates_takes_signals_that_are_for_the_program() {
    use tickless::dispatch::{Full, Pool};
    const SIGTERM: u64 = 1 << 14;
    let (sender, receiver) = mpsc::channel();
    let tell = move || {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("SigBlk:\t")).unwrap();
        sender.send(u64::from_str_radix(line, 16).unwrap()).unwrap();
    };
    let heard = || receiver.recv_timeout(PATIENCE).unwrap() & SIGTERM;
    let engine = Engine::new().unwrap();
    engine.schedule_detached(Duration::ZERO, tell.clone()).unwrap();
    assert_eq!(heard(), SIGTERM);
    let pool = Pool::builder(Full::RunInline).threads(1).build().unwrap();
    let pooled = Engine::with_handler(pool).unwrap();
    pooled.schedule_detached(Duration::ZERO, tell.clone()).unwrap();
    assert_eq!(heard(), SIGTERM);
    // This thread takes them as before.
    tell();
    assert_eq!(heard(), 0);
}

#[test]
fn however_many_shards_an_engine_has_that_nobody_uses_one_thread_serves_and_one_watches() {
    let builder = Engine::builder().shards(64).thread_name("unused");
    let engine = builder.clone().build().unwrap();
    let begun = Instant::now();
    while threads_of("unused") != ["unused-0", "unused-1"] {
        assert!(begun.elapsed() < PATIENCE, "{:?}", threads_of("unused"));
    }
    drop(engine);
    no_thread_is_left_of("unused");
    let engine = builder.takeover(None).reapers(1, 64).build().unwrap();
    assert_eq!(threads_of("unused"), ["unused-0"]);
    drop(engine);
}

/// The names of this process's threads that begin with `name`.
fn threads_of(name: &str) -> Vec<String> {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    // A thread of another test may end meanwhile.
    let names = tasks.filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok());
    let mut names: Vec<_> = names.filter(|it| it.starts_with(name)).collect();
    names.iter_mut().for_each(|name| _ = name.pop());
    names.sort_unstable();
    names
}

/// The system lists a thread for a while after it can be joined.
fn no_thread_is_left_of(name: &str) {
    let begun = Instant::now();
    while !threads_of(name).is_empty() {
        assert!(begun.elapsed() < PATIENCE, "they end with the engine");
        thread::yield_now();
    }
}

#[test]
fn without_takeovers_there_is_a_thread_per_shard_and_all_end_with_the_engine() {
    let builder = Engine::builder().shards(2).thread_name("exactly").takeover(None);
    let engine = builder.build().unwrap();
    assert_eq!(threads_of("exactly"), ["exactly-0", "exactly-1"]);
    drop(engine);
    no_thread_is_left_of("exactly");
}

#[test]
fn pinned_reapers_have_a_cpu_each_in_turn_and_others_have_all() {
    let cpus = allowed_cpus();
    let shards = cpus.len() + 1;
    for (index, (_, its)) in reapers(shards, Builder::new().pinned(true)).into_iter().enumerate() {
        assert_eq!(its, [cpus[index % cpus.len()]], "reaper {index}");
    }
    assert!(reapers(2, Builder::new()).into_iter().all(|(_, its)| its == cpus));
}
