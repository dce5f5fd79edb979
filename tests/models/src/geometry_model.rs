//! What placement promises for any geometry and any times: the body of the fuzz target
//! `geometry`.

use arbitrary::Arbitrary;
use tickless_wheel::{Geometry, MAX_SLOTS, Tick};

/// A geometry, a deadline, and the time from which it is seen. Slots and reach go round a little
/// beyond what is valid.
#[derive(Arbitrary, Clone, Copy, Debug)]
pub struct Case {
    pub slots: u32,
    pub reach: u32,
    pub deadline: u64,
    pub from: u64,
}

/// Files one deadline and takes it down to its tick.
pub fn run(case: &Case) {
    let slots = case.slots % (MAX_SLOTS + 8);
    let reach = case.reach % (slots + 4);
    let valid = (2..=MAX_SLOTS).contains(&slots) && (2..=slots).contains(&reach);
    let geometry = Geometry::new(slots, reach);
    assert_eq!(geometry.is_ok(), valid, "{geometry:?}");
    let Ok(geometry) = geometry else { return };
    let from = Tick::new(case.from);
    let due = Tick::new(case.deadline).max(from);
    let mut place = geometry.place(Tick::new(case.deadline), from);
    if place.level > 1 {
        assert!(place.expiration > from, "a higher bucket lies ahead");
        let below = geometry.width(place.level - 1);
        assert!(due.get() / below - from.get() / below >= u64::from(reach), "the lowest level");
    }
    loop {
        let width = geometry.width(place.level);
        assert!(place.expiration <= due, "opened in time");
        assert!(due.get() - place.expiration.get() < width, "inside the span");
        assert_eq!(place, geometry.place_on(due, place.level));
        if place.level == 1 {
            break;
        }
        let down = geometry.place(due, place.expiration);
        assert!(down.level < place.level, "a cascade makes progress");
        place = down;
    }
    assert_eq!(place.expiration, due);
}
