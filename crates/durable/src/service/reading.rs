//! What only the writer can look up, because it has the store.
//!
//! *Owner*: any thread asks; the writer's thread answers.
//!
//! *Tested by*: `tests/durable/looking.rs`.

use crate::error::{Error, StoreError, StoreErrorKind};
use crate::foreign;
use crate::promise::Promise;
use crate::store::Store;

/// A question, without the type of its answer.
pub(super) trait Question: Send {
    /// Answers it. An error is the store's end.
    fn ask(self: Box<Self>, store: &mut dyn Store) -> Result<(), StoreError>;

    /// Tells who waits that there is no answer.
    fn fail(self: Box<Self>, error: Error);
}

struct Asked<T, F> {
    promise: Promise<T>,
    look: F,
}

pub(super) fn question<T: Send + 'static>(
    promise: Promise<T>,
    look: impl FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send + 'static,
) -> Box<dyn Question> {
    Box::new(Asked { promise, look })
}

/// What a call of the store has returned. Its panic is an error.
pub(super) fn called<T>(body: impl FnOnce() -> Result<T, StoreError>) -> Result<T, StoreError> {
    foreign::call(body).unwrap_or_else(|text| {
        let message = format!("the store has panicked: {text}");
        Err(StoreError::new(StoreErrorKind::Io, message))
    })
}

impl<T, F> Question for Asked<T, F>
where
    T: Send,
    F: FnOnce(&mut dyn Store) -> Result<T, StoreError> + Send,
{
    fn ask(self: Box<Self>, store: &mut dyn Store) -> Result<(), StoreError> {
        let Asked { promise, look } = *self;
        match called(|| look(store)) {
            Ok(found) => promise.keep(Ok(found)),
            Err(error) => {
                promise.keep(Err(Error::Store(error.clone())));
                // What cannot be read is no reason for the rest not to fire.
                if error.kind() != StoreErrorKind::Corrupt {
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    fn fail(self: Box<Self>, error: Error) {
        self.promise.keep(Err(error));
    }
}
