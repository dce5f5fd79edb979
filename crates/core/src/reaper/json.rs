//! What serde writes of the types that describe a reaper. The names and units are those of
//! `docs/json.md`, which users rely on.
//!
//! *Owner*: none: these are values.
//!
//! *Tested by*: `tests/suite/observe/json.rs`.

use serde::ser::{Serialize, SerializeStruct, Serializer};

use crate::time::saturating_ns;

use super::{Lateness, StuckTask};

impl Serialize for Lateness {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("Lateness", 5)?;
        fields.serialize_field("count", &self.count)?;
        fields.serialize_field("p50_ns", &saturating_ns(self.p50))?;
        fields.serialize_field("p99_ns", &saturating_ns(self.p99))?;
        fields.serialize_field("p999_ns", &saturating_ns(self.p999))?;
        fields.serialize_field("max_ns", &saturating_ns(self.max))?;
        fields.end()
    }
}

impl Serialize for StuckTask {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("StuckTask", 3)?;
        fields.serialize_field("shard", &self.shard)?;
        fields.serialize_field("thread", &self.thread)?;
        fields.serialize_field("age_ns", &saturating_ns(self.age))?;
        fields.end()
    }
}
