//! Dead letters of shards that this instance holds, and of others.

#[path = "../common/letters.rs"]
mod suite;

use crate::server::Place;

fn place() -> Option<Place> {
    Place::new()
}
