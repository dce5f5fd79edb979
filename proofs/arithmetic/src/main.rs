//! Calls the arithmetic of the engine and its wheels, and prints what went in and what came out.
//! `prove.py` compares that with the formulas that it proves something about.
//!
//! Arguments: how many calls of each function (4000), and the seed (1).

mod clocks;
mod constants;
mod draw;
mod lines;
mod scales;
mod shards;
mod wheels;
mod words;

use std::env;
use std::io::{self, Write};

use draw::Draw;
use lines::Lines;

fn main() -> io::Result<()> {
    let numbers: Vec<u64> = env::args().skip(1).filter_map(|text| text.parse().ok()).collect();
    let count = numbers.first().map_or(4_000, |&count| count as usize);
    let draw = &mut Draw(numbers.get(1).map_or(1, |&seed| seed));
    let lines = &mut Lines::default();
    constants::print(lines);
    scales::print(lines, draw, count);
    wheels::print(lines, draw, count);
    shards::print(lines, draw, count);
    clocks::print(lines, draw, count);
    words::print(lines, draw, count);
    io::stdout().write_all(lines.text().as_bytes())
}
