//! Every public method of an engine, its handles, views and snapshots, beside storms of cancels,
//! resets and stops. Asserted: no panic, and nothing that a sanitizer reports (`ci/asan.sh`,
//! `ci/tsan.sh`). What the methods return is for other tests.
//!
//! The list of methods is compared with the sources, so a new one is called here or this fails.
//!
//! `TICKLESS_TEST_SCALE` multiplies the number of storms.

use std::collections::BTreeSet;
use std::mem::{self, ManuallyDrop};
use std::path::Path;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::time::Duration;
use std::{fs, future, ptr, thread};

use support::polling::poll;
use support::scaled;
use tickless::wait::Guarded;
use tickless::{Batch, Builder, Engine, Handle, Inline, ManualClock, Snapshot, Waitable, When};

const MS: Duration = Duration::from_millis(1);

/// Threads that schedule, cancel and reset.
const STORMS: usize = 2;

/// Timers that each of them cancels at once: together more than may be dead before a sweep begins.
const MANY: usize = 3_000;

type Call = fn(&Engine);

fn poll_once(future: impl Future) {
    _ = poll(&mut pin!(future), Waker::noop());
}

/// All methods but those that end the engine.
const METHODS: &[(&str, Call)] = &[
    ("Engine::new", |_| drop(Engine::new().unwrap())),
    ("Engine::builder", |_| drop(Engine::builder())),
    ("Engine::typed", |_| {
        drop(Engine::typed(|batch: Batch<'_, u64>| batch.for_each(drop)).unwrap());
    }),
    ("Engine::each", |_| drop(Engine::each(|_: u64| ()).unwrap())),
    ("Engine::with_handler", |_| drop(Engine::with_handler(Inline).unwrap())),
    ("Engine::global", |_| _ = Engine::global().len()),
    ("Engine::try_global", |_| _ = Engine::try_global().unwrap().len()),
    // The process has one already.
    ("Engine::set_global", |engine| {
        Engine::global();
        assert!(Engine::set_global(engine.clone()).is_err());
    }),
    ("Engine::enter", |engine| {
        let _entered = engine.enter();
        tickless::now();
    }),
    ("Engine::enter_thread", Engine::enter_thread),
    ("Engine::schedule", |engine| drop(engine.schedule(MS, || ()))),
    ("Engine::schedule_with", |engine| {
        let mut handle = None;
        let task = tickless::IntoPayload::into_payload(|| ());
        // SAFETY: the handle is stored, and no more.
        let filed = unsafe { engine.schedule_with(MS, task, |it| handle = Some(it)) };
        match filed {
            Ok(()) => drop(handle.map(Handle::cancel)),
            // It is no handle.
            Err(_) => mem::forget(handle),
        }
    }),
    ("Engine::schedule_detached", |engine| _ = engine.schedule_detached(MS, || ())),
    ("Engine::schedule_waitable", |engine| {
        drop(waitable(engine));
        let builder = Builder::new().manual_clock(&ManualClock::new());
        let guarded = builder.build_each(|it: Guarded<u32>| drop(it)).unwrap();
        assert!(guarded.schedule_waitable(MS, 7).unwrap().cancel());
    }),
    ("Engine::bind_thread", |engine| _ = engine.bind_thread(1)),
    ("Engine::advance", |engine| _ = engine.advance(MS)),
    ("Engine::advance_to_next", |engine| _ = engine.advance_to_next()),
    ("Engine::turn", |engine| _ = engine.turn(0)),
    ("Engine::turn_at_most", |engine| _ = engine.turn_at_most(1, 3)),
    ("Engine::look_ahead", |engine| _ = engine.look_ahead(0)),
    ("Engine::take_over", |engine| _ = engine.take_over(0)),
    ("Engine::drive", |engine| poll_once(engine.drive(|_| future::pending::<()>()))),
    ("Engine::is_stopped", |engine| _ = engine.is_stopped()),
    ("Engine::len", |engine| _ = engine.len()),
    ("Engine::is_empty", |engine| _ = engine.is_empty()),
    ("Engine::now", |engine| _ = engine.now()),
    ("Engine::name", |engine| _ = engine.name().len()),
    ("Engine::shards", |engine| _ = engine.shards()),
    ("Engine::stats", |engine| _ = engine.stats().to_string()),
    ("Engine::latenesses", |engine| _ = engine.latenesses()),
    ("Engine::overdue", |engine| _ = engine.overdue()),
    ("Engine::snapshot", |engine| _ = engine.snapshot()),
    // Others are there, so its verdict means nothing.
    ("Engine::check", |engine| _ = engine.check()),
    ("Engine::view", |engine| drop(engine.view())),
    ("View::stats", |engine| _ = engine.view().stats()),
    ("View::overdue", |engine| _ = engine.view().overdue()),
    ("View::snapshot", |engine| _ = engine.view().snapshot()),
    ("View::latenesses", |engine| _ = engine.view().latenesses()),
    ("Snapshot::iter", |_| _ = shown().iter().count()),
    ("Snapshot::len", |_| _ = shown().len()),
    ("Snapshot::is_empty", |_| _ = shown().is_empty()),
    ("Snapshot::taken_at", |_| _ = shown().taken_at()),
    ("Snapshot::by_level", |_| _ = shown().by_level()),
    ("Snapshot::by_due_time", |_| _ = shown().by_due_time()),
    ("Snapshot::by_shard", |_| _ = shown().by_shard()),
    ("Turn::sleep", |engine| _ = engine.turn(0).map(|turn| turn.sleep(engine.now()))),
    ("Handle::cancel", |engine| _ = handle(engine).map(Handle::cancel)),
    ("Handle::take", |engine| _ = handle(engine).map(|it| it.take().is_some())),
    ("Handle::reset", |engine| {
        if let Some(mut it) = handle(engine) {
            [2 * MS, MS / 2, Duration::MAX].iter().for_each(|&delay| _ = it.reset(delay));
        }
    }),
    ("Handle::reset_with", |engine| {
        let Some(it) = handle(engine).map(ManuallyDrop::new) else { return };
        let mut moved = None;
        // SAFETY: a copy is reset; of the two one is used from here on.
        let copy = unsafe { ptr::read(&*it) };
        // SAFETY: the handle is stored, and no more.
        _ = unsafe { copy.reset_with(MS / 2, |it| moved = Some(it)) };
        drop(moved.unwrap_or_else(|| ManuallyDrop::into_inner(it)));
    }),
    ("Handle::reaches", |engine| _ = handle(engine).map(|it| it.reaches(MS.into()))),
    ("Handle::state", |engine| _ = handle(engine).map(|it| it.state())),
    ("Handle::deadline", |engine| _ = handle(engine).map(|it| it.deadline())),
    ("Handle::cancel_on_drop", |engine| drop(handle(engine).map(Handle::cancel_on_drop))),
    ("CancelOnDrop::into_handle", |engine| {
        _ = handle(engine).map(|it| it.cancel_on_drop().into_handle().cancel());
    }),
    ("Waitable::cancel", |engine| _ = waitable(engine).map(|mut it| it.cancel())),
    ("Waitable::take", |engine| _ = waitable(engine).map(|mut it| it.take().is_some())),
    ("Waitable::cancel_wait", |engine| _ = waitable(engine).map(|mut it| it.cancel_wait())),
    ("Waitable::cancel_wait_within", |engine| {
        _ = waitable(engine).map(|mut it| it.cancel_wait_within(MS));
    }),
    ("Waitable::cancelled", |engine| {
        _ = waitable(engine).map(|mut it| poll_once(it.cancelled()));
    }),
    ("Waitable::reset", |engine| _ = waitable(engine).map(|mut it| it.reset(2 * MS))),
    ("Waitable::stage", |engine| _ = waitable(engine).map(|it| it.stage())),
    ("Waitable::deadline", |engine| _ = waitable(engine).map(|it| it.deadline())),
    ("Waitable::into_handle", |engine| drop(waitable(engine).map(Waitable::into_handle))),
    ("Waitable::cancel_on_drop", |engine| drop(waitable(engine).map(Waitable::cancel_on_drop))),
];

/// Called once, in this order, in the middle of everything.
const ENDS: &[(&str, Call)] = &[
    ("Engine::stop_within", |engine| _ = engine.stop_within(MS)),
    ("Engine::stop", |engine| _ = engine.stop()),
];

/// These tests are built without the features that have them.
const BEHIND_FEATURES: [&str; 4] =
    ["Engine::enter_runtime", "Engine::metrics", "Engine::of_runtime", "Snapshot::listing"];

/// They are used before there is an engine, have a thread of their own, or are hidden: the crates
/// that stand on the engine call them.
const OTHERS: [&str; 4] = ["Builder", "When", "Metrics", "EngineRef"];

/// A snapshot is plain data: to take one of an engine in a storm takes long.
fn shown() -> Snapshot {
    Builder::new().manual_clock(&ManualClock::new()).build().unwrap().snapshot()
}

fn handle(engine: &Engine) -> Option<Handle> {
    engine.schedule(MS, || ()).ok()
}

fn waitable(engine: &Engine) -> Option<Waitable> {
    engine.schedule_waitable(When::after(MS).slack(MS), || ()).ok()
}

/// Schedules, cancels and resets until the engine refuses.
fn storm(engine: &Engine) {
    for round in 0.. {
        let delay = |n: usize| match (n + round) % 4 {
            0 => Duration::MAX,
            1 => MS / 10,
            2 => 40 * MS,
            _ => 4000 * MS,
        };
        let mut timers = Vec::new();
        for n in 0..MANY {
            let Ok(timer) = engine.schedule(delay(n), || ()) else { return };
            timers.push(timer);
        }
        for (n, timer) in timers.iter_mut().enumerate().step_by(3) {
            let _ = timer.reset(delay(n + 1));
        }
        timers.into_iter().for_each(|timer| _ = timer.cancel());
        (0..100).for_each(|n| _ = engine.schedule_detached(n * MS / 100, || ()));
    }
}

fn call_all_beside_storms(build: impl Fn() -> Builder) {
    for _ in 0..scaled(9) {
        let engine = build().build().unwrap();
        let is_over = AtomicBool::new(false);
        let call = |calls: &[(&str, Call)]| calls.iter().for_each(|(_, call)| call(&engine));
        thread::scope(|scope| {
            let storms = [(); STORMS].map(|()| scope.spawn(|| storm(&engine)));
            let caller = scope.spawn(|| {
                // From the other end, and until after the stop.
                while !is_over.load(Ordering::Relaxed) {
                    METHODS.iter().rev().for_each(|(_, call)| call(&engine));
                }
                call(METHODS);
            });
            call(METHODS);
            call(ENDS);
            is_over.store(true, Ordering::Relaxed);
            // ThreadSanitizer does not see that a scope waits for its threads.
            storms.into_iter().chain([caller]).for_each(|thread| thread.join().unwrap());
        });
    }
}

#[test]
fn every_method_may_be_called_beside_storms_on_an_engine_that_is_moved_by_hand() {
    let build = || Engine::builder().shards(2).tick(MS / 50).manual_clock(&ManualClock::new());
    call_all_beside_storms(build);
}

#[test]
fn every_method_may_be_called_beside_storms_on_an_engine_with_threads() {
    call_all_beside_storms(|| Engine::builder().shards(2).tick(MS / 50));
}

// === the list ===

#[test]
fn every_public_method_of_the_sources_is_called_here() {
    let mut found = BTreeSet::new();
    find_methods(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../src/engine"), &mut found);
    assert!(found.len() > 60, "the sources are read: {found:?}");
    let called = METHODS.iter().chain(ENDS).map(|(name, _)| *name).chain(BEHIND_FEATURES);
    let called: BTreeSet<String> = called.map(str::to_owned).collect();
    let missing: Vec<_> = found.difference(&called).collect();
    assert!(missing.is_empty(), "nobody calls {missing:?}");
    let gone: Vec<_> = called.difference(&found).collect();
    assert!(gone.is_empty(), "there is no {gone:?}");
}

/// Finds the public methods in the blocks `impl Type {` of all sources below a folder.
fn find_methods(folder: &Path, found: &mut BTreeSet<String>) {
    for file in fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()) {
        if file.is_dir() {
            find_methods(&file, found);
            continue;
        }
        let text = fs::read_to_string(&file).unwrap();
        let mut owner = None;
        for line in text.lines().take_while(|line| !line.starts_with("#[cfg(all(test")) {
            if line.starts_with("impl") {
                owner = Some(type_of(line)).filter(|_| !line.contains(" for "));
            } else if line.starts_with('}') {
                owner = None;
            }
            let method = owner.zip(line.strip_prefix("    pub ")).and_then(|(owner, rest)| {
                let words = ["const ", "async ", "unsafe "];
                let rest = words.iter().fold(rest, |rest, word| rest.trim_start_matches(word));
                Some((owner, name_at(rest.strip_prefix("fn ")?)))
            });
            if let Some((owner, method)) = method.filter(|(owner, _)| !OTHERS.contains(owner)) {
                found.insert(format!("{owner}::{method}"));
            }
        }
    }
}

/// The type of a line `impl<..> Type<..> {`.
fn type_of(line: &str) -> &str {
    let mut rest = &line["impl".len()..];
    let mut depth = 0;
    while let Some(first) = rest.chars().next() {
        match first {
            '<' => depth += 1,
            // Not that of an arrow.
            '>' => depth -= 1,
            _ if depth == 0 && !first.is_whitespace() => break,
            _ => {}
        }
        rest = &rest[first.len_utf8()..];
    }
    name_at(rest)
}

fn name_at(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}
