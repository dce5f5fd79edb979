//! Handlers that are asynchronous: tasks of a runtime of Tokio's.
//!
//! One worker takes what is due and starts a task for it, as long as no more run than may. A second
//! task waits for the first, and tells the service what became of it. The end of the service, or of
//! its lease, aborts the tasks that still run: they end where they wait next.
//!
//! *Owner*: the worker's thread starts tasks. Threads of the runtime tell of their ends.
//!
//! *Tested by*: `tests/durable/tasks.rs`.

use std::future::Future;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::task::JoinError;
#[cfg(feature = "tracing")]
use tracing::Instrument;

#[cfg(feature = "tracing")]
use crate::events;
use crate::foreign;
use crate::payload::Payload;
use crate::record::Record;

use super::core::Core;
use super::firing::{Firing, firing};
use super::retry::Retry;
use super::worker::{Failure, Run};

/// Hides the types of a handler whose futures run there.
pub(super) fn erase<P: Payload, E: Into<Retry>, F>(
    runtime: Handle,
    handler: impl Fn(Firing<P>) -> F + Send + Sync + 'static,
) -> Arc<Run>
where
    F: Future<Output = Result<(), E>> + Send + 'static,
{
    Arc::new(move |core, record| {
        let begun = foreign::call(|| match firing(core, &record) {
            Ok(Ok(firing)) => Ok(handler(firing)),
            Ok(Err(error)) => Err(Ok(Err(error))),
            Err(failure) => Err(Err(failure)),
        });
        let future = match begun.map_err(|text| Err(Failure::panicked(&text))) {
            Ok(Ok(future)) => future,
            Ok(Err(result)) | Err(result) => return core.over(&record, result),
        };
        #[cfg(feature = "tracing")]
        let future = future.instrument(events::attempt(&core.config.thread_name, &record));
        let task = runtime.spawn(async { future.await.map_err(Into::into) });
        let abort = task.abort_handle();
        core.can_abort(&record, Box::new(move || abort.abort()));
        let end = End(Some((core.clone(), record)));
        drop(runtime.spawn(async { end.tell(task.await) }));
    })
}

/// The end of a task, of which the service has to hear in any case.
struct End(Option<(Arc<Core>, Arc<Record>)>);

// === impl End ===

impl End {
    fn tell(mut self, ended: Result<Result<(), Retry>, JoinError>) {
        let Some((core, record)) = self.0.take() else { return };
        match ended.map_err(JoinError::try_into_panic) {
            Ok(Ok(())) => core.over(&record, Ok(Ok(()))),
            Ok(Err(error)) => core.over(&record, Err(Failure::of_handler(error))),
            Err(Ok(panic)) => {
                core.over(&record, Err(Failure::panicked(&foreign::text_of(panic))));
            }
            Err(Err(_)) => core.aborted(&record),
        }
    }
}

impl Drop for End {
    fn drop(&mut self) {
        // The runtime has dropped the task that was to tell it.
        if let Some((core, record)) = self.0.take() {
            core.aborted(&record);
        }
    }
}
