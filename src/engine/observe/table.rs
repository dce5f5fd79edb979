//! Small text tables.
//!
//! *Tested by*: `tests/tables.rs`.

use std::fmt;

/// Columns of text with headings. Columns of whole numbers are right-aligned.
pub(super) struct Table<const N: usize> {
    head: [&'static str; N],
    rows: Vec<[String; N]>,
}

// === impl Table ===

impl<const N: usize> Table<N> {
    pub(super) fn of(head: [&'static str; N]) -> Table<N> {
        Table { head, rows: Vec::new() }
    }

    pub(super) fn row(&mut self, cells: [String; N]) {
        self.rows.push(cells);
    }

    fn width(&self, column: usize) -> usize {
        let cells = self.rows.iter().map(|row| row[column].chars().count());
        cells.chain([self.head[column].len()]).max().unwrap_or(0)
    }

    /// Whether all cells of the column are whole numbers.
    fn is_of_numbers(&self, column: usize) -> bool {
        self.rows.iter().all(|row| row[column].bytes().all(|byte| byte.is_ascii_digit()))
    }
}

/// Prints an empty line and the table, or nothing if the table has no rows.
impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.rows.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        let widths: [usize; N] = std::array::from_fn(|column| self.width(column));
        let to_the_right: [bool; N] = std::array::from_fn(|column| self.is_of_numbers(column));
        let head = self.head.map(String::from);
        for row in [&head].into_iter().chain(&self.rows) {
            let cells: Vec<String> = (0..N)
                .map(|column| match (&row[column], widths[column]) {
                    (cell, width) if to_the_right[column] => format!("{cell:>width$}"),
                    (cell, width) => format!("{cell:<width$}"),
                })
                .collect();
            writeln!(f, "{}", cells.join("  ").trim_end())?;
        }
        Ok(())
    }
}

debug! { impl[const N: usize] Table[N] { rows = |this| this.rows.len() } }
