//! What one store in the database does.

use tickless_durable::store::PostgresStore;
use tickless_durable::{Op, Position, Record, Store, StoreErrorKind, conformance};

use crate::server::Place;

#[test]
fn a_shard_conforms() {
    if Place::new().is_none() {
        return;
    }
    conformance::all(|| {
        let place = Place::new().unwrap();
        move || PostgresStore::take(&place.config(), &place.schema)
    });
}
