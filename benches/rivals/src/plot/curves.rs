//! Curves over an axis, each with its points.

use std::error::Error;
use std::ops::Range;

use plotters::coord::combinators::BindKeyPoints;
use plotters::coord::ranged1d::{AsRangedCoord, ValueFormatter};
use plotters::prelude::*;

use super::ink;
use crate::error::BenchError;

/// A figure with curves.
#[derive(Debug)]
pub(super) struct Curves {
    /// Above all.
    pub(super) title: String,
    /// From left to right.
    pub(super) x: Axis,
    /// From bottom to top.
    pub(super) y: Axis,
    /// What is drawn.
    pub(super) curves: Vec<Curve>,
}

/// An axis.
#[derive(Debug)]
pub(super) struct Axis {
    /// What it shows, and in what unit.
    pub(super) label: String,
    /// Whether it is logarithmic: all values are above zero then.
    pub(super) is_log: bool,
}

/// A curve.
#[derive(Debug)]
pub(super) struct Curve {
    /// Whose it is, which gives it its colour.
    pub(super) contender: String,
    /// How it is called.
    pub(super) name: String,
    /// From left to right.
    pub(super) points: Vec<(f64, f64)>,
    /// Whether it belongs to the curve before it: thinner.
    pub(super) is_second: bool,
}

// === impl Curves ===

impl Curves {
    /// The figure, unless it is empty.
    pub(super) fn draw(&self, name: &str) -> Result<Option<String>, BenchError> {
        let mut text = String::new();
        if self.curves.iter().all(|curve| curve.points.is_empty()) {
            return Ok(None);
        }
        let (x, y) = (self.range(|point| point.0, &self.x), self.range(|point| point.1, &self.y));
        let drawn = match (self.x.is_log, self.y.is_log) {
            // Of a few numbers of threads, those are named which were measured.
            (true, true) if self.curves.iter().all(|curve| curve.points.len() < 10) => {
                let points = self.curves.iter().flat_map(|curve| &curve.points);
                let mut at: Vec<f64> = points.map(|point| point.0).collect();
                at.sort_by(f64::total_cmp);
                at.dedup();
                let marks = marks(&y);
                let (x, y) = (x.log_scale().with_key_points(at), y.log_scale());
                self.try_draw(&mut text, x, y.with_key_points(marks))
            }
            (true, true) => self.try_draw(&mut text, x.log_scale(), y.log_scale()),
            (true, false) => self.try_draw(&mut text, x.log_scale(), y),
            (false, true) => self.try_draw(&mut text, x, y.log_scale()),
            (false, false) => self.try_draw(&mut text, x, y),
        };
        drawn.map_err(ink::failed(name))?;
        Ok(Some(text))
    }

    /// The values that occur on an axis, with some room beyond.
    fn range(&self, of: impl Fn(&(f64, f64)) -> f64, axis: &Axis) -> Range<f64> {
        let values = self.curves.iter().flat_map(|curve| &curve.points).map(of);
        let (least, most) = values
            .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
        match axis.is_log {
            true => 0.8 * least..1.25 * most,
            false => least.min(0.0)..most + 0.02 * (most - least).max(1.0),
        }
    }

    fn try_draw<X, Y>(&self, text: &mut String, x: X, y: Y) -> Result<(), Box<dyn Error>>
    where
        X: AsRangedCoord<Value = f64>,
        Y: AsRangedCoord<Value = f64>,
        X::CoordDescType: ValueFormatter<f64>,
        Y::CoordDescType: ValueFormatter<f64>,
    {
        let area = SVGBackend::with_string(text, ink::SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        // The names go beside the curves, which fill their field.
        let (field, names) = area.split_horizontally(ink::SIZE.0 - 230);
        let mut chart = ChartBuilder::on(&field)
            .caption(&self.title, ink::font(18))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(64)
            .build_cartesian_2d(x, y)?;
        let short = |value: &f64| short(*value);
        chart
            .configure_mesh()
            .x_desc(&self.x.label)
            .y_desc(&self.y.label)
            .x_label_formatter(&short)
            .y_label_formatter(&short)
            .label_style(ink::font(13))
            .axis_desc_style(ink::font(14))
            .light_line_style(TRANSPARENT)
            .draw()?;
        for (row, curve) in self.curves.iter().enumerate() {
            let width = if curve.is_second { 1 } else { 2 };
            let style = ink::colour(&curve.contender).stroke_width(width);
            chart.draw_series(LineSeries::new(curve.points.iter().copied(), style))?;
            if curve.points.len() < 20 {
                let dots = curve.points.iter().map(|&at| Circle::new(at, 3, style.filled()));
                chart.draw_series(dots)?;
            }
            let y = 50 + 20 * row as i32;
            names.draw(&PathElement::new([(0, y), (16, y)], style))?;
            names.draw(&Text::new(curve.name.clone(), (22, y - 6), ink::font(12)))?;
        }
        area.present()?;
        Ok(())
    }
}

/// What a logarithmic axis names: powers of ten and, if they are few, some numbers between them.
fn marks(range: &Range<f64>) -> Vec<f64> {
    let is_narrow = range.end < 10.0 * range.start;
    let between: &[f64] = if is_narrow { &[1.0, 2.0, 3.0, 4.0, 6.0, 8.0] } else { &[1.0] };
    let powers = range.start.log10().floor() as i32..=range.end.log10().ceil() as i32;
    let marks = powers.flat_map(|power| between.iter().map(move |mark| mark * 10f64.powi(power)));
    marks.filter(|mark| range.contains(mark)).collect()
}

/// 1500 as 1.5 k, and so on.
fn short(value: f64) -> String {
    let (value, unit) = match value.abs() {
        size if size >= 1e6 => (value / 1e6, " M"),
        size if size >= 1e3 => (value / 1e3, " k"),
        _ => (value, ""),
    };
    let text = format!("{value:.1}");
    format!("{}{unit}", text.strip_suffix(".0").unwrap_or(&text))
}

#[test]
fn large_numbers_are_written_short() {
    let written = [0.5, 20.0, 1_000.0, 1_500.0, 10_000_000.0].map(short);
    assert_eq!(written, ["0.5", "20", "1 k", "1.5 k", "10 M"]);
}

#[test]
fn an_axis_without_a_power_of_ten_has_marks_as_well() {
    let narrow: Vec<_> = marks(&(0.13..0.99)).into_iter().map(short).collect();
    assert_eq!(narrow, ["0.2", "0.3", "0.4", "0.6", "0.8"]);
    assert_eq!(marks(&(0.05..150.0)).len(), 4);
}
