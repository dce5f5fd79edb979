//! Makes a history that fails small, by leaving out steps (delta debugging: halves first, then
//! ever smaller parts, until no single step can be left out).

use std::time::{Duration, Instant};

/// For how long to try.
const MOST: Duration = Duration::from_secs(60);

/// The steps, of `length`, without which it no longer fails, as far as was found out.
pub(crate) fn shrink(length: usize, mut fails: impl FnMut(&[usize]) -> bool) -> Vec<usize> {
    let begin = Instant::now();
    let mut steps: Vec<usize> = (0..length).collect();
    let mut parts = 2;
    while steps.len() > 1 && begin.elapsed() < MOST {
        let size = steps.len().div_ceil(parts);
        let starts = (0..steps.len()).step_by(size);
        let without = |start: usize| -> Vec<usize> {
            let end = (start + size).min(steps.len());
            [&steps[..start], &steps[end..]].concat()
        };
        // The last first: what comes after the failure is of no use.
        let smaller = starts.rev().map(without).find(|rest| fails(rest));
        match smaller {
            Some(rest) => {
                steps = rest;
                parts = parts.saturating_sub(1).max(2);
            }
            None if size == 1 => break,
            None => parts = (2 * parts).min(steps.len()),
        }
    }
    steps
}

#[cfg(test)]
mod tests {
    use super::shrink;

    #[test]
    fn what_is_left_is_what_it_takes() {
        let takes = [3, 40, 41, 99];
        let fails = |steps: &[usize]| takes.iter().all(|step| steps.contains(step));
        assert_eq!(shrink(100, fails), takes);
        assert_eq!(shrink(1, |_| true), [0]);
    }
}
