//! What is printed: a line per call, with what went in and what came out.

use std::fmt::Write as _;

/// The lines so far.
#[derive(Debug, Default)]
pub(crate) struct Lines {
    text: String,
}

/// What stands for "none" and "never".
pub(crate) const NONE: i128 = -1;

// === impl Lines ===

impl Lines {
    /// Adds a call of `function`.
    pub(crate) fn call(&mut self, function: &str, inputs: &[i128], outputs: &[i128]) {
        self.text.push_str(function);
        inputs.iter().for_each(|number| self.number(*number));
        self.text.push_str(" =");
        outputs.iter().for_each(|number| self.number(*number));
        self.text.push('\n');
    }

    /// Adds a constant.
    pub(crate) fn constant(&mut self, name: &str, value: impl Into<i128>) {
        self.text.push_str("const ");
        self.text.push_str(name);
        self.number(value.into());
        self.text.push('\n');
    }

    /// All of it.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    fn number(&mut self, number: i128) {
        write!(self.text, " {number}").expect("a string takes everything");
    }
}

/// Numbers of any type as one list.
macro_rules! numbers {
    ($($number:expr),* $(,)?) => { &[$(i128::from($number)),*] };
}
pub(crate) use numbers;

/// A result that may be none.
pub(crate) fn or_none(number: Option<impl Into<i128>>) -> i128 {
    number.map_or(NONE, Into::into)
}
