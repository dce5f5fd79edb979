//! Numbers as people read them.

use std::time::Duration;

/// With a comma before every third digit from the right.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index) % 3 == 0 {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// In milliseconds.
pub(crate) fn ms(duration: Duration) -> String {
    let ms = duration.as_secs_f64() * 1e3;
    if ms < 100.0 { format!("{ms:.2} ms") } else { format!("{} ms", grouped(ms as u64)) }
}

#[test]
fn digits_come_in_groups_of_three() {
    let cases = [(0, "0"), (999, "999"), (1_000, "1,000"), (1_234_567, "1,234,567")];
    for (number, text) in cases {
        assert_eq!(grouped(number), text);
    }
}

#[test]
fn milliseconds_have_two_digits_behind_the_point_while_they_are_few() {
    assert_eq!(ms(Duration::from_micros(1_054)), "1.05 ms");
    assert_eq!(ms(Duration::from_millis(12_345)), "12,345 ms");
}
