//! The reapers' threads, as the operating system sees them.

#![cfg(all(target_os = "linux", not(elsewhere)))]

use std::fs;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

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
