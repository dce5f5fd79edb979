//! Contenders that take turns: how many rounds there are, and the median of them.

/// The number of rounds that the arguments ask for, and `measured`; or one and `tried`, unless the
/// program is to measure.
pub fn rounds(measured: u64, tried: u64) -> (u32, u64) {
    let arguments: Vec<String> = std::env::args().collect();
    // `cargo bench` says so; `cargo test --benches` does not.
    let measures = arguments.iter().any(|argument| argument == "--bench");
    let asked = arguments.iter().find_map(|argument| argument.parse().ok());
    if measures { (asked.unwrap_or(11), measured) } else { (1, tried) }
}

/// The median; of an even number, the greater of the two in the middle.
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
