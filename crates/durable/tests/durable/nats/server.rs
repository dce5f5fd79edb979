//! Places on servers that tests share, or have to themselves.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub(crate) use crate::common::nats::{Servers, patiently};

/// A cluster of instances' own place on the servers.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// How to connect.
    pub(crate) url: String,
    /// A name that nobody has used yet.
    pub(crate) name: String,
}

// === impl Place, Servers ===

impl Place {
    /// How to connect, and to what.
    pub(crate) fn parts(&self) -> (&str, &str) {
        (&self.url, &self.name)
    }
}

impl Servers {
    /// A place on them.
    pub(crate) fn place(&self) -> Place {
        static PLACES: AtomicU32 = AtomicU32::new(0);
        let name = format!("place_{}", PLACES.fetch_add(1, Ordering::Relaxed));
        Place { url: self.url(), name }
    }
}

/// A place on one server, which all tests share.
pub(crate) fn on_one() -> Option<Place> {
    static ONE: OnceLock<Option<Servers>> = OnceLock::new();
    Some(ONE.get_or_init(|| Servers::start(1)).as_ref()?.place())
}

/// A place on three servers, which the tests share that leave them alone.
pub(crate) fn on_three() -> Option<Place> {
    static THREE: OnceLock<Option<Servers>> = OnceLock::new();
    Some(THREE.get_or_init(|| Servers::start(3)).as_ref()?.place())
}
