//! Sizes, colours and fonts that all figures share.

use plotters::prelude::*;

use crate::error::BenchError;
#[cfg(test)]
use crate::{kind::Kind, registry::ALL};

/// Of a figure, in pixels.
pub(super) const SIZE: (u32, u32) = (960, 560);

/// Every contender's colour, the same in all figures; those of no name share grey.
pub(super) fn colour(contender: &str) -> RGBColor {
    let (red, green, blue) = match contender {
        "tickless" => (200, 30, 30),
        "tickless-typed" => (240, 130, 40),
        "tickless-drive" => (240, 60, 110),
        "tickless-precise" => (250, 170, 120),
        "tickless-spinning" => (150, 60, 20),
        "tokio" => (30, 90, 200),
        "tokio-threads" => (90, 170, 240),
        "tokio-alt" => (40, 150, 70),
        "tokio-alt-threads" => (130, 190, 140),
        "delay-queue" => (20, 140, 110),
        "hhwt" => (140, 190, 60),
        "pingora" => (120, 60, 160),
        "async-io" => (200, 110, 200),
        "mutex-btreemap" => (110, 80, 50),
        "mutex-heap" => (180, 140, 90),
        "heap-timerfd" => (220, 180, 30),
        "shared-inbox-segqueue" => (70, 150, 150),
        "shared-inbox-intrusive" => (150, 200, 200),
        "floor" | "floor-load" | "none" => (90, 90, 90),
        "floor-tsc" | "floor-calendar" => (140, 140, 140),
        _ => (170, 170, 170),
    };
    RGBColor(red, green, blue)
}

/// A shade of a colour: the last of `count` is the colour itself, those before it are lighter.
pub(super) fn shade(RGBColor(red, green, blue): RGBColor, nth: usize, count: usize) -> RGBColor {
    let by = 0.6 * (count - 1 - nth) as f64 / count as f64;
    let lighter = |part: u8| (f64::from(part) + by * f64::from(255 - part)) as u8;
    RGBColor(lighter(red), lighter(green), lighter(blue))
}

/// Text of that size.
pub(super) fn font(size: i32) -> TextStyle<'static> {
    ("sans-serif", size).into_font().color(&RGBColor(40, 40, 40))
}

/// What went wrong with a figure.
pub(super) fn failed(name: &str) -> impl Fn(Box<dyn std::error::Error>) -> BenchError + '_ {
    |cause| BenchError::Plot { path: name.into(), cause: cause.to_string() }
}

#[test]
fn contenders_have_colours_of_their_own_and_shades_end_with_it() {
    let engines = ALL.iter().filter(|entry| entry.kind == Kind::Engine);
    let timers = engines.filter(|entry| !entry.name.starts_with("floor"));
    let mut colours: Vec<_> =
        timers.map(|entry| colour(entry.name)).map(|c| (c.0, c.1, c.2)).collect();
    let count = colours.len();
    colours.sort_unstable();
    colours.dedup();
    assert_eq!(colours.len(), count);
    let red = colour("tickless");
    assert_eq!(shade(red, 1, 2), red);
    assert!(shade(red, 0, 2).1 > red.1);
    assert_eq!(shade(red, 0, 1), red);
}
