//! The report as one page that needs nothing else: figures, verdict and plots of each run.

use std::time::Duration;

use crate::compare;
use crate::live::Sample;
use crate::run::Outcome;
use crate::svg::{Curve, Plot};
use crate::verdict::{TERMS, verdict};

const STYLE: &str = include_str!("page.css");

/// A curve has about so many points at most.
const POINTS: usize = 500;

/// CPU time is averaged over so long.
const CPU_WINDOW: Duration = Duration::from_millis(500);

/// The histogram's bins are a multiple of this ..
const BIN_MS: f64 = 0.1;

/// .. so that there are about so many up to the end, which 1 in 1,000 timers passes.
const BINS: f64 = 40.0;

/// The whole page.
pub(crate) fn page(outcomes: &[Outcome]) -> String {
    let runs: String = outcomes.iter().map(section).collect();
    let legend: String = outcomes.iter().map(|run| key(run.engine)).collect();
    let plots: String = plots(outcomes).iter().map(|plot| figure(plot, &legend)).collect();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width\"/>\n<title>tickless-demo</title>\n\
         <style>\n{STYLE}</style>\n</head>\n<body>\n<h1>tickless-demo</h1>\n{}\n{runs}{plots}\
         <h2>Terms</h2>\n<pre>{}</pre>\n</body>\n</html>\n",
        table(outcomes),
        escaped(TERMS)
    )
}

fn table(outcomes: &[Outcome]) -> String {
    let heads: String = compare::heads().iter().map(|head| format!("<th>{head}</th>")).collect();
    let row = |outcome: &Outcome| {
        let [name, cells @ ..] = compare::row(outcome);
        let cells: String =
            cells.iter().map(|cell| format!("<td>{}</td>", escaped(cell))).collect();
        format!("<tr><th>{}</th>{cells}</tr>\n", escaped(&name))
    };
    let rows: String = outcomes.iter().map(row).collect();
    format!("<table>\n<tr><th></th>{heads}</tr>\n{rows}</table>")
}

fn section(outcome: &Outcome) -> String {
    let violations: String =
        outcome.violations().iter().map(|text| format!("<li>{}</li>\n", escaped(text))).collect();
    format!(
        "<section>\n<h2>On the timers of {}</h2>\n<p>{}</p>\n<pre>{}</pre>\n\
         <ul>{violations}</ul>\n</section>\n",
        outcome.engine,
        escaped(&verdict(outcome)),
        escaped(&outcome.text()),
    )
}

fn figure(plot: &Plot, legend: &str) -> String {
    format!(
        "<figure>\n<figcaption>{} {legend}</figcaption>\n{}\n</figure>\n",
        plot.title,
        plot.draw()
    )
}

fn key(engine: &str) -> String {
    format!("<span class=\"key {engine}\">{engine}</span> ")
}

fn plots(outcomes: &[Outcome]) -> [Plot; 3] {
    let end_ms = outcomes.iter().map(|run| run.late(0.999).as_secs_f64() * 1e3).fold(1.0, f64::max);
    let bin_ms = (end_ms / BINS / BIN_MS).ceil() * BIN_MS;
    let bins = (end_ms / bin_ms).ceil() as usize;
    let curves = |points: &dyn Fn(&Outcome) -> Vec<(f64, f64)>| {
        let curve = |run: &Outcome| Curve { class: run.engine, points: points(run) };
        outcomes.iter().map(curve).collect()
    };
    [
        Plot {
            title: "Lateness of the timers that fired",
            x_label: "late by (ms); 1 in 1,000 or fewer were later than the end of this axis",
            y_label: "timers (%)",
            is_filled: true,
            curves: curves(&|run| histogram(run, bin_ms, bins)),
        },
        Plot {
            title: "Timers pending",
            x_label: "time (s)",
            y_label: "timers",
            is_filled: false,
            curves: curves(&|run| thinned(&run.samples, |at| at.pending as f64)),
        },
        Plot {
            title: "CPU time of the whole process",
            x_label: "time (s)",
            y_label: "cores in use",
            is_filled: false,
            curves: curves(&|run| cores_in_use(&run.samples)),
        },
    ]
}

/// Steps: the share of the timers in each bin, in per cent.
fn histogram(outcome: &Outcome, bin_ms: f64, bins: usize) -> Vec<(f64, f64)> {
    let late = &outcome.books.lateness_ns;
    let mut counts = vec![0; bins];
    for value in late.iter_recorded() {
        let bin = (value.value_iterated_to() as f64 / 1e6 / bin_ms) as usize;
        if let Some(count) = counts.get_mut(bin) {
            *count += value.count_since_last_iteration();
        }
    }
    let percent = |count: u64| 100.0 * count as f64 / late.len().max(1) as f64;
    let steps = counts.into_iter().enumerate().map(|(bin, count)| (bin as f64, percent(count)));
    steps.flat_map(|(bin, y)| [(bin * bin_ms, y), ((bin + 1.0) * bin_ms, y)]).collect()
}

fn thinned(samples: &[Sample], y: impl Fn(&Sample) -> f64) -> Vec<(f64, f64)> {
    let every = samples.len().div_ceil(POINTS).max(1);
    samples.iter().step_by(every).map(|at| (at.at.as_secs_f64(), y(at))).collect()
}

/// Over windows, each shown at its end.
fn cores_in_use(samples: &[Sample]) -> Vec<(f64, f64)> {
    let last = samples.last().map_or(Duration::ZERO, |sample| sample.at);
    let window = CPU_WINDOW.max(last / POINTS as u32);
    let mut points = Vec::new();
    let mut from = samples.first();
    for to in samples {
        let Some(begin) = from.filter(|begin| to.at - begin.at >= window) else { continue };
        if let (Some(before), Some(now)) = (begin.usage, to.usage) {
            let cores = now.since(before).cpu.as_secs_f64() / (to.at - begin.at).as_secs_f64();
            points.push((to.at.as_secs_f64(), cores));
        }
        from = Some(to);
    }
    points
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[test]
fn text_cannot_become_markup() {
    assert_eq!(escaped("a < b & <i>"), "a &lt; b &amp; &lt;i&gt;");
}
