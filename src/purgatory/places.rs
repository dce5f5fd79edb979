//! The places where an operation is watched.

/// The number of places that need no allocation.
const FEW: usize = 3;

/// The place of an operation under one of its keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place {
    /// The number of the part.
    pub(super) part: u32,
    pub(super) slot: u32,
}

/// All places of an operation, in the order in which they were added.
#[derive(Debug, Default)]
pub(super) struct Places {
    count: u32,
    few: [Place; FEW],
    more: Vec<Place>,
}

// === impl Places ===

impl Places {
    pub(super) fn push(&mut self, place: Place) {
        match self.few.get_mut(self.count as usize) {
            Some(free) => *free = place,
            None => self.more.push(place),
        }
        self.count += 1;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = Place> {
        let few = &self.few[..FEW.min(self.count as usize)];
        few.iter().chain(&self.more).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_come_in_the_order_in_which_they_were_added() {
        for count in 0..3 * FEW as u32 {
            let mut places = Places::default();
            assert!(places.is_empty());
            let all: Vec<Place> = (0..count).map(|slot| Place { part: slot % 2, slot }).collect();
            all.iter().for_each(|place| places.push(*place));
            assert_eq!(places.iter().collect::<Vec<_>>(), all);
            assert_eq!(places.is_empty(), count == 0);
        }
    }
}
