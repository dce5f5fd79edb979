//! Plots as inline SVG: lines or steps over two axes, with no script and no network.

use std::fmt::Write;

use crate::words::grouped;

const WIDTH: f64 = 720.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 96.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 44.0;

/// About so many marks on an axis.
const MARKS: f64 = 6.0;

/// What a plot shows.
pub(crate) struct Plot {
    /// For those who cannot see it.
    pub(crate) title: &'static str,
    pub(crate) x_label: &'static str,
    pub(crate) y_label: &'static str,
    /// Whether the space below a curve is filled.
    pub(crate) is_filled: bool,
    pub(crate) curves: Vec<Curve>,
}

/// One curve, in the colour of its class in the page's style sheet.
pub(crate) struct Curve {
    pub(crate) class: &'static str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// An axis from 0 to its end.
struct Axis {
    end: f64,
    step: f64,
}

// === impl Axis ===

impl Axis {
    /// One on which `most` has its place.
    fn up_to(most: f64) -> Axis {
        let most = if most > 0.0 { most } else { 1.0 };
        let rough = most / MARKS;
        let power = 10_f64.powf(rough.log10().floor());
        let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
        let step = steps.into_iter().find(|step| *step >= rough).unwrap_or(most);
        Axis { end: (most / step).ceil() * step, step }
    }

    fn marks(&self) -> impl Iterator<Item = f64> {
        let count = (self.end / self.step).round() as u32;
        (0..=count).map(|index| f64::from(index) * self.step)
    }

    fn text(&self, mark: f64) -> String {
        let digits = (-self.step.log10().floor()).max(0.0) as usize;
        // Both axes have a zero at the corner, where "0.0" would lie on the other's.
        let is_whole = mark == 0.0 || digits == 0;
        if is_whole { grouped(mark.round() as u64) } else { format!("{mark:.digits$}") }
    }
}

// === impl Plot ===

impl Plot {
    /// The `svg` element.
    pub(crate) fn draw(&self) -> String {
        let most = |pick: fn(&(f64, f64)) -> f64| {
            let points = self.curves.iter().flat_map(|curve| &curve.points);
            points.map(pick).fold(0.0, f64::max)
        };
        let (x, y) = (Axis::up_to(most(|point| point.0)), Axis::up_to(most(|point| point.1)));
        let at_x = |value: f64| LEFT + value / x.end * (WIDTH - LEFT - RIGHT);
        let at_y = |value: f64| HEIGHT - BOTTOM - value / y.end * (HEIGHT - TOP - BOTTOM);
        let (floor, right) = (HEIGHT - BOTTOM, WIDTH - RIGHT);

        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}\">\n",
            self.title
        );
        let mut put = |text: String| writeln!(svg, "{text}").expect("a string takes all");
        for mark in y.marks() {
            let (at, text) = (at_y(mark), y.text(mark));
            put(format!("<path class=\"grid\" d=\"M{LEFT} {at:.1}H{right}\"/>"));
            put(format!(
                "<text x=\"{}\" y=\"{:.1}\" class=\"y\">{text}</text>",
                LEFT - 6.0,
                at + 4.0
            ));
        }
        for mark in x.marks() {
            let (at, text) = (at_x(mark), x.text(mark));
            put(format!("<text x=\"{at:.1}\" y=\"{}\" class=\"x\">{text}</text>", floor + 16.0));
        }
        for curve in &self.curves {
            let point = |(x, y): &(f64, f64)| format!("{:.1} {:.1}", at_x(*x), at_y(*y));
            let line = curve.points.iter().map(point).collect::<Vec<_>>().join("L");
            if line.is_empty() {
                continue;
            }
            if self.is_filled {
                let ends =
                    [curve.points.first(), curve.points.last()].map(|end| end.map(|p| at_x(p.0)));
                if let [Some(first), Some(last)] = ends {
                    let area = format!("M{first:.1} {floor}L{line}L{last:.1} {floor}Z");
                    put(format!("<path class=\"area {}\" d=\"{area}\"/>", curve.class));
                }
            }
            put(format!("<path class=\"curve {}\" d=\"M{line}\"/>", curve.class));
        }
        let (middle, end) = ((LEFT + right) / 2.0, HEIGHT - 6.0);
        put(format!("<text x=\"{middle}\" y=\"{end}\" class=\"x\">{}</text>", self.x_label));
        let turned = format!("transform=\"translate(14 {}) rotate(-90)\"", (TOP + floor) / 2.0);
        put(format!("<text {turned} class=\"x\">{}</text>", self.y_label));
        svg + "</svg>"
    }
}

#[test]
fn an_axis_holds_what_is_most_and_has_round_marks() {
    for most in [0.0, 0.003, 1.0, 7.3, 99.0, 1_004_113.0] {
        let axis = Axis::up_to(most);
        let marks: Vec<f64> = axis.marks().collect();
        assert!(axis.end >= most && (2..=12).contains(&marks.len()), "{most}: {marks:?}");
    }
    let axis = Axis::up_to(1_004_113.0);
    assert_eq!(axis.text(axis.step), "200,000");
    let axis = Axis::up_to(1.0);
    assert_eq!([0.0, axis.step].map(|mark| axis.text(mark)), ["0", "0.2"]);
}
