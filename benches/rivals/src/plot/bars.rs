//! Horizontal bars: a group for each contender in its colour, a bar for each number of threads in a
//! shade of it.

use std::error::Error;

use plotters::prelude::*;

use super::ink;
use crate::error::BenchError;
use crate::sample::short;

/// A figure with bars.
#[derive(Debug)]
pub(super) struct Bars {
    /// Above all.
    pub(super) title: String,
    /// What the bars of each group stand for.
    pub(super) legend: Vec<String>,
    /// Groups and their bars; some may be missing.
    pub(super) rows: Vec<(String, Vec<Option<f64>>)>,
}

// === impl Bars ===

impl Bars {
    /// The figure, unless it is empty.
    pub(super) fn draw(&self, name: &str) -> Result<Option<String>, BenchError> {
        let mut text = String::new();
        if self.rows.is_empty() {
            return Ok(None);
        }
        self.try_draw(&mut text).map_err(ink::failed(name))?;
        Ok(Some(text))
    }

    fn try_draw(&self, text: &mut String) -> Result<(), Box<dyn Error>> {
        let area = SVGBackend::with_string(text, ink::SIZE).into_drawing_area();
        area.fill(&WHITE)?;
        let most = self.rows.iter().flat_map(|(_, values)| values.iter().flatten());
        let most = most.fold(1.0_f64, |most, value| most.max(*value));
        let rows = self.rows.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, ink::font(20))
            .margin(16)
            .x_label_area_size(32)
            .y_label_area_size(180)
            .build_cartesian_2d(0.0..1.3 * most, rows..0.0)?;
        let names = |at: &f64| self.row_name(*at);
        let whole = |value: &f64| format!("{value:.0}");
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .y_labels(0)
            .x_label_formatter(&whole)
            .y_label_formatter(&names)
            .x_label_style(ink::font(13))
            .light_line_style(TRANSPARENT)
            .draw()?;
        let bars = self.legend.len().max(1);
        let height = 0.8 / bars as f64;
        let grey = RGBColor(90, 90, 90);
        for (nth, label) in self.legend.iter().enumerate() {
            let boxes = self.rows.iter().enumerate().filter_map(|(row, (name, values))| {
                let value = (*values.get(nth)?)?;
                let top = row as f64 + 0.1 + height * nth as f64;
                Some((value, top, ink::shade(ink::colour(name), nth, bars)))
            });
            let boxes: Vec<_> = boxes.collect();
            let in_legend = ink::shade(grey, nth, bars).filled();
            chart
                .draw_series(boxes.iter().map(|&(value, top, colour)| {
                    Rectangle::new([(0.0, top), (value, top + height)], colour.filled())
                }))?
                .label(label)
                .legend(move |(x, y)| Rectangle::new([(x, y - 5), (x + 12, y + 5)], in_legend));
            // A line of text is some 14 pixels high, whatever a row is.
            let half = 7.0 * rows / f64::from(ink::SIZE.1 - 100);
            chart.draw_series(boxes.iter().map(|&(value, top, _)| {
                let at = (value + 0.005 * most, top + height / 2.0 - half);
                Text::new(short(value), at, ink::font(12))
            }))?;
        }
        for (row, (name, _)) in self.rows.iter().enumerate() {
            let (_, y) = chart.backend_coord(&(0.0, row as f64 + 0.5));
            area.draw(&Text::new(name.clone(), (16, y - 7), ink::font(14)))?;
        }
        chart
            .configure_series_labels()
            .position(SeriesLabelPosition::LowerRight)
            .background_style(WHITE.mix(0.8))
            .label_font(ink::font(13))
            .draw()?;
        area.present()?;
        Ok(())
    }

    fn row_name(&self, at: f64) -> String {
        self.rows.get(at as usize).map(|(name, _)| name.clone()).unwrap_or_default()
    }
}
