//! Why a wheel cannot have a shape.

use core::fmt;

use crate::MAX_SLOTS;

/// Why a geometry was refused.
///
/// ```
/// use tickless_wheel::{Geometry, GeometryError};
///
/// assert_eq!(Geometry::new(1, 1), Err(GeometryError::Slots { slots: 1 }));
/// let error = Geometry::new(64, 100).unwrap_err();
/// assert_eq!(error.to_string(), "reach must be between 2 and slots (64), got 100");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GeometryError {
    /// Fewer than 2 slots or more than [`MAX_SLOTS`].
    Slots {
        /// The number of slots that was asked for.
        slots: u32,
    },
    /// A reach below 2 (levels would not widen) or above the number of slots.
    Reach {
        /// The reach that was asked for.
        reach: u32,
        /// The slots that it was asked for with.
        slots: u32,
    },
}

impl fmt::Display for GeometryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            GeometryError::Slots { slots } => {
                write!(f, "slots must be between 2 and {MAX_SLOTS}, got {slots}")
            }
            GeometryError::Reach { reach, slots } => {
                write!(f, "reach must be between 2 and slots ({slots}), got {reach}")
            }
        }
    }
}

impl core::error::Error for GeometryError {}
