//! Dead letters of shards that this instance holds, and of others.

#[path = "../shared/letters.rs"]
mod suite;

use super::server::Place;

fn place() -> Option<Place> {
    Place::new()
}
