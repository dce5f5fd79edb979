//! Numbers of one kind, and what stands where when they are put in order.

/// Numbers in order.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sample<T>(Vec<T>);

// === impl Sample ===

impl<T: Copy + PartialOrd + Default> Sample<T> {
    /// Puts them in order. They can all be compared.
    pub(crate) fn new(mut values: Vec<T>) -> Sample<T> {
        values.sort_unstable_by(|a, b| a.partial_cmp(b).expect("no value is not a number"));
        Sample(values)
    }

    /// The smallest value that at least the share `share` of all do not exceed (nearest rank);
    /// the default of an empty sample.
    pub(crate) fn quantile(&self, share: f64) -> T {
        let rank = (share * self.0.len() as f64).ceil() as usize;
        let last = self.0.len().saturating_sub(1);
        self.0.get(rank.saturating_sub(1).min(last)).copied().unwrap_or_default()
    }

    /// The first of them.
    pub(crate) fn min(&self) -> T {
        self.0.first().copied().unwrap_or_default()
    }

    /// The last of them.
    pub(crate) fn max(&self) -> T {
        self.0.last().copied().unwrap_or_default()
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl Sample<f64> {
    /// The middle one, or what lies half-way between the two in the middle.
    pub(crate) fn median(&self) -> f64 {
        let middle = self.0.len() / 2;
        match self.0.len() {
            0 => 0.0,
            n if n % 2 == 1 => self.0[middle],
            _ => f64::midpoint(self.0[middle - 1], self.0[middle]),
        }
    }
}

/// Decimal places such that there are about three digits, and commas between thousands.
pub(crate) fn short(value: f64) -> String {
    let text = match value.abs() {
        0.0 => return "0".to_owned(),
        size if size < 0.0995 => format!("{value:.3}"),
        size if size < 0.995 => format!("{value:.2}"),
        size if size < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    };
    let (sign, digits) = text.strip_prefix('-').map_or(("", &*text), |digits| ("-", digits));
    if digits.contains('.') {
        return text;
    }
    let groups: Vec<_> = digits.as_bytes().rchunks(3).rev().map(<[u8]>::escape_ascii).collect();
    let groups: Vec<_> = groups.iter().map(ToString::to_string).collect();
    format!("{sign}{}", groups.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_values_of_the_sample() {
        let sample = Sample::new((1..=100_u64).rev().collect());
        assert_eq!(sample.quantile(0.5), 50);
        assert_eq!(sample.quantile(0.99), 99);
        assert_eq!(sample.quantile(0.991), 100);
        assert_eq!(sample.quantile(1.0), 100);
        assert_eq!(sample.quantile(0.0), 1);
        assert_eq!((sample.min(), sample.max(), sample.len()), (1, 100, 100));
    }

    #[test]
    fn the_highest_quantile_of_a_small_sample_is_its_maximum() {
        assert_eq!(Sample::new(vec![3, 1, 2]).quantile(0.999), 3);
        assert_eq!(Sample::new(vec![7]).quantile(0.5), 7);
    }

    #[test]
    fn an_empty_sample_has_zeros() {
        let empty = Sample::<u64>::new(Vec::new());
        assert_eq!((empty.quantile(0.5), empty.min(), empty.max()), (0, 0, 0));
        assert_eq!(Sample::<f64>::default().median(), 0.0);
    }

    #[test]
    fn the_median_of_an_even_number_lies_between() {
        assert_eq!(Sample::new(vec![4.0, 1.0, 3.0]).median(), 3.0);
        assert_eq!(Sample::new(vec![4.0, 1.0, 3.0, 2.0]).median(), 2.5);
    }

    #[test]
    fn numbers_have_about_three_digits_and_commas_between_thousands() {
        let written = [0.0, 0.0123, 0.123, 1.23, 12.34, 123.4, 12_345.6, -1_234_567.0].map(short);
        assert_eq!(written, ["0", "0.012", "0.12", "1.2", "12.3", "123", "12,346", "-1,234,567"]);
    }
}
