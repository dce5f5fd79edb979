//! For crates that show something else in the same way: what a server of this machine's own replies
//! to, and how. `tickless-durable page` is made of it.
//!
//! What holds for the [inspector](crate) holds for each [`Site`]: requests have a `Host` of this
//! machine, and one that a browser sends for another web site gets nothing but `/`.
//!
//! ```
//! use tickless_inspect::site::{Reply, Request, Site, serve};
//!
//! struct Tea(u32);
//!
//! impl Site for Tea {
//!     fn reply(&mut self, request: &Request<'_>) -> Reply {
//!         match (request.method, request.path) {
//!             ("GET", "/cups.json") => Reply::json(&self.0),
//!             _ => Reply::text("404 Not Found", "there is no such page"),
//!         }
//!     }
//! }
//!
//! let inspector = serve(Tea(2), ([127, 0, 0, 1], 0).into())?;
//! # drop(inspector);
//! # Ok::<(), std::io::Error>(())
//! ```

use std::io;
use std::net::SocketAddr;

use crate::Inspector;
use crate::listener::Listener;
pub use crate::reply::{Page, Reply};
pub use crate::request::Request;
use crate::request::parse;

/// What is served. It is asked on the server's thread, one request after another.
pub trait Site: Send + 'static {
    /// Replies to a request. One with a body gets a reply, too, but nobody reads the body.
    fn reply(&mut self, request: &Request<'_>) -> Reply;

    /// Whether there is nothing to serve any more, which ends the server.
    fn is_over(&self) -> bool {
        false
    }
}

/// Serves a site at a loopback address, on a thread of its own, until the result is dropped.
///
/// # Errors
/// As of [`tickless_inspect::serve`](crate::serve()).
pub fn serve(site: impl Site, address: SocketAddr) -> io::Result<Inspector> {
    Inspector::new(Box::new(site), Listener::tcp(address)?)
}

/// The whole reply to a head that was read.
pub(crate) fn reply_to(site: &mut dyn Site, head: &[u8]) -> Vec<u8> {
    let reply = match parse(head) {
        // A link to the page may stand anywhere. What it shows is for the page.
        Ok(request) if request.is_foreign && request.path != "/" => {
            Reply::text("400 Bad Request", "the request comes from another site")
        }
        Ok(request) => site.reply(&request),
        Err(message) => Reply::text("400 Bad Request", message),
    };
    reply.written()
}

/// The reply to a head that is too long.
pub(crate) fn reply_to_too_much() -> Vec<u8> {
    Reply::text("400 Bad Request", "the head is too long").written()
}
