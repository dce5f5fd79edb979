//! No purgatory: what the load itself costs. It makes the same requests, keeps them in the same
//! queue until they are to be answered, and answers them, those that would time out too.

use std::sync::Arc;
use std::time::Duration;

use tickless_purgatory::Operation;

use super::request::Request;
use super::{KEYS_EACH, Purgatory};
use crate::error::BenchError;

/// The pseudo-contender.
#[derive(Debug)]
pub(crate) struct Floor;

impl Purgatory for Floor {
    const NAME: &'static str = "purgatory-floor";
    const ABOUT: &'static str = "the load alone, without any purgatory";
    const EXPIRES: bool = false;

    type Ticket = Arc<Request>;

    fn start() -> Result<Floor, BenchError> {
        Ok(Floor)
    }

    #[inline]
    fn watch(&self, request: Arc<Request>, _: [u32; KEYS_EACH], _: Duration) -> Arc<Request> {
        request
    }

    #[inline]
    fn complete(&self, request: Arc<Request>) -> bool {
        request.on_complete();
        true
    }

    fn kept(&self) -> usize {
        0
    }
}
