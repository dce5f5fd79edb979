//! Purgatories: where operations wait under keys until they are answered or time out.
//!
//! To add one, write its file and name it in [`ALL`](crate::registry::ALL).

pub(crate) mod floor;
pub(crate) mod mutex_purge;
pub(crate) mod request;
pub(crate) mod tickless_purgatory;

use std::sync::Arc;
use std::time::Duration;

use crate::error::BenchError;
use crate::purgatories::request::Request;

/// Under how many keys each operation waits.
pub(crate) const KEYS_EACH: usize = 3;

/// Where [requests](Request) wait. It tries them once before they are watched and once after.
pub(crate) trait Purgatory: Sized + 'static {
    /// What it is called.
    const NAME: &'static str;
    /// What it is, in half a line.
    const ABOUT: &'static str;
    /// Whether what is not completed times out.
    const EXPIRES: bool = true;

    /// What a request that waits is completed by.
    type Ticket: 'static;

    /// An empty one, and whatever threads it needs.
    fn start() -> Result<Self, BenchError>;

    /// Lets a request wait.
    fn watch(
        &self,
        request: Arc<Request>,
        keys: [u32; KEYS_EACH],
        timeout: Duration,
    ) -> Self::Ticket;

    /// Completes a request by force. `false`: it had timed out.
    fn complete(&self, ticket: Self::Ticket) -> bool;

    /// How many times requests are still kept under keys.
    fn kept(&self) -> usize;
}
