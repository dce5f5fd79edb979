//! A debounce: something happens once when a burst of events is over.
//!
//! An editor saves when nobody has typed for half a second. Each key moves the timer, which is one
//! compare-and-swap; the first key after a save finds that it is too late for that, and begins
//! anew.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use tickless::{Engine, Handle, ManualClock, ScheduleError, Task};

/// Runs a task when it was not called for a while.
struct Debounce<F> {
    engine: Engine,
    pause: Duration,
    task: Arc<F>,
    timer: Option<Handle>,
}

impl<F: Fn() + Send + Sync + 'static> Debounce<F> {
    fn new(engine: &Engine, pause: Duration, task: F) -> Debounce<F> {
        Debounce { engine: engine.clone(), pause, task: Arc::new(task), timer: None }
    }

    fn call(&mut self) -> Result<(), ScheduleError<Task>> {
        let is_moved = self.timer.as_mut().is_some_and(|timer| timer.reset(self.pause).is_ok());
        if !is_moved {
            // The burst before this one is over, or there was none.
            let task = self.task.clone();
            self.timer = Some(self.engine.schedule(self.pause, move || task())?);
        }
        Ok(())
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let ms = Duration::from_millis;
    // Its time moves by hand, so that this takes none. A program says `Engine::new()?`.
    let engine = Engine::builder().manual_clock(&ManualClock::new()).build()?;
    let saves = Arc::new(AtomicU32::new(0));
    let counted = saves.clone();
    let mut save = Debounce::new(&engine, ms(500), move || {
        println!("saved");
        counted.fetch_add(1, Ordering::Relaxed);
    });

    for burst in 1..=3 {
        for _key in 0..20 {
            save.call()?;
            engine.advance(ms(120))?;
        }
        assert_eq!(saves.load(Ordering::Relaxed), burst - 1, "somebody is typing");
        engine.advance(ms(2_000))?;
        assert_eq!(saves.load(Ordering::Relaxed), burst, "one save for each burst");
    }
    Ok(())
}
