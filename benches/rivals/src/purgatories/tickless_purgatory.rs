//! tickless's purgatory, with an engine with default settings.

use std::sync::Arc;
use std::time::Duration;

use tickless_purgatory::{Arrival, Delayed};

use super::request::Request;
use super::{KEYS_EACH, Purgatory};
use crate::error::BenchError;

/// The purgatory.
#[derive(Debug)]
pub(crate) struct Tickless(tickless_purgatory::Purgatory<u32, Request>);

impl Purgatory for Tickless {
    const NAME: &'static str = "tickless-purgatory";
    const ABOUT: &'static str = "tickless_purgatory::Purgatory";

    type Ticket = Delayed<u32, Request>;

    fn start() -> Result<Tickless, BenchError> {
        tickless_purgatory::Purgatory::new().map(Tickless).map_err(BenchError::setup(Self::NAME))
    }

    #[inline]
    fn watch(
        &self,
        request: Arc<Request>,
        keys: [u32; KEYS_EACH],
        timeout: Duration,
    ) -> Self::Ticket {
        match self.0.try_complete_else_watch(request, keys, timeout) {
            Ok(Arrival::Delayed(ticket)) => ticket,
            Ok(Arrival::Completed) => unreachable!("a request is never complete by itself"),
            Err(error) => panic!("the engine runs and has no limit: {error}"),
        }
    }

    #[inline]
    fn complete(&self, ticket: Self::Ticket) -> bool {
        ticket.force_complete()
    }

    fn kept(&self) -> usize {
        self.0.watched()
    }
}
