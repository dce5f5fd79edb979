//! Points in time for the models: told so that the interesting ones are likely.

use arbitrary::Arbitrary;
use tickless_wheel::{Geometry, Tick};

/// A point in time, told so that interesting ones are likely.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub enum When {
    /// So many ticks ago.
    Ago(u16),
    /// So many ticks from now.
    Ahead(u16),
    /// Around the start of a bucket that lies `buckets` ahead on a level.
    Edge { level: u8, buckets: u8, offset: i8 },
    /// Around the end of what a level reaches.
    Reach { level: u8, offset: i8 },
    /// Anywhere.
    Absolute(u64),
    /// So many ticks before the end of time, which comes after the last tick.
    End(u8),
}

// === impl When ===

impl When {
    /// The tick that is meant, seen from `now`.
    pub fn resolve(self, geometry: &Geometry, now: Tick) -> Tick {
        match self {
            When::Ago(ticks) => now.saturating_sub(u64::from(ticks)),
            When::Ahead(ticks) => now.saturating_add(u64::from(ticks)),
            When::Edge { level, buckets, offset } => {
                let level = level % geometry.levels() + 1;
                let width = geometry.width(level);
                let start = geometry.place_on(now, level).expiration.get();
                near(start.saturating_add(width.saturating_mul(u64::from(buckets))), offset)
            }
            When::Reach { level, offset } => {
                let width = geometry.width(level % geometry.levels() + 1);
                let reach = width.saturating_mul(u64::from(geometry.reach()));
                near(now.get().saturating_add(reach), offset)
            }
            When::Absolute(count) => Tick::new(count),
            When::End(ticks) => Tick::NEVER.saturating_sub(u64::from(ticks)),
        }
    }
}

fn near(count: u64, offset: i8) -> Tick {
    Tick::new(count.saturating_add_signed(i64::from(offset)))
}
