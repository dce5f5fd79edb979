//! A payload that holds any value. A test whose payload has a type of its own puts it in here, and
//! finds an engine that is compiled already.

use std::any::Any;
use std::cell::Cell;

use tickless::periodic::DueRun;

pub struct Boxed(Box<dyn Any + Send>);

/// Calls this when it is dropped.
struct OnDrop(Option<Box<dyn FnOnce() + Send>>);

/// Makes this the conversion again when it is dropped: a test that fails changes no other one that
/// runs on the same thread.
struct Restores(fn(DueRun) -> Boxed);

thread_local! {
    /// How a payload is made of what repeats.
    static CONVERSION: Cell<fn(DueRun) -> Boxed> = const { Cell::new(Boxed::new) };
}

impl Boxed {
    pub fn new(value: impl Send + 'static) -> Boxed {
        Boxed(Box::new(value))
    }

    /// A payload whose drop is what a test is about.
    pub fn on_drop(f: impl FnOnce() + Send + 'static) -> Boxed {
        Boxed::new(OnDrop(Some(Box::new(f))))
    }

    /// Calls `f`. Meanwhile, payloads for what repeats are made in this way on this thread.
    pub fn with_conversion<R>(conversion: fn(DueRun) -> Boxed, f: impl FnOnce() -> R) -> R {
        let _restores = Restores(CONVERSION.replace(conversion));
        f()
    }

    /// Returns the value if it is a `T`, and else itself.
    pub fn open<T: 'static>(self) -> Result<T, Boxed> {
        self.0.downcast().map(|value| *value).map_err(Boxed)
    }

    /// Runs what repeats.
    pub fn run(self) {
        let Ok(due) = self.open::<DueRun>() else { panic!("it does not repeat") };
        due.run();
    }

    pub fn get<T: 'static>(&self) -> &T {
        self.0.downcast_ref().expect("it is of this type")
    }

    pub fn get_mut<T: 'static>(&mut self) -> &mut T {
        self.0.downcast_mut().expect("it is of this type")
    }
}

impl From<DueRun> for Boxed {
    fn from(due: DueRun) -> Boxed {
        CONVERSION.get()(due)
    }
}

impl Drop for Restores {
    fn drop(&mut self) {
        CONVERSION.set(self.0);
    }
}

impl Drop for OnDrop {
    fn drop(&mut self) {
        self.0.take().expect("it is dropped once")();
    }
}
