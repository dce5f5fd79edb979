//! Sizes, colours and fonts that all figures share.

use std::path::{Path, PathBuf};

use plotters::prelude::*;

use crate::error::BenchError;

/// Of a figure, in pixels.
pub(super) const SIZE: (u32, u32) = (960, 560);

/// One of some colours that can be told apart, again from the start when they run out.
pub(super) fn colour(nth: usize) -> RGBColor {
    const COLOURS: [(u8, u8, u8); 12] = [
        (200, 30, 30),
        (240, 130, 40),
        (30, 90, 200),
        (90, 170, 240),
        (20, 140, 110),
        (140, 190, 60),
        (120, 60, 160),
        (200, 110, 200),
        (110, 80, 50),
        (90, 90, 90),
        (220, 180, 30),
        (150, 150, 170),
    ];
    let (red, green, blue) = COLOURS[nth % COLOURS.len()];
    RGBColor(red, green, blue)
}

/// Text of that size.
pub(super) fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&RGBColor(40, 40, 40))
}

/// Where a figure goes.
pub(super) fn path(folder: &Path, name: &str) -> PathBuf {
    folder.join(name)
}

/// What went wrong with a figure.
pub(super) fn failed(path: &Path) -> impl Fn(Box<dyn std::error::Error>) -> BenchError + '_ {
    |cause| BenchError::Plot { path: path.to_owned(), cause: cause.to_string() }
}
