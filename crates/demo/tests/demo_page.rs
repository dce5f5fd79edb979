//! The page that `--report` writes: well-formed, complete, and on its own.

use std::fs;
use std::process::Command;

use roxmltree::{Document, Node, ParsingOptions};

/// The page of a run of so many seconds with these arguments.
fn page(seconds: u64, args: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("out.html");
    let mut program = Command::new(env!("CARGO_BIN_EXE_tickless-demo"));
    program.args(["--seconds", &seconds.to_string()]);
    program.args(["--connections", "20", "--json", "--report"]).arg(&path);
    let output = program.args(args).output().expect("the program starts");
    assert_eq!(output.status.code(), Some(0));
    fs::read_to_string(&path).expect("the page was written")
}

fn parsed(page: &str) -> Document<'_> {
    let options = ParsingOptions { allow_dtd: true, ..ParsingOptions::default() };
    Document::parse_with_options(page, options).expect("it is well-formed")
}

fn elements<'a, 'd: 'a>(node: Node<'a, 'd>, name: &str) -> Vec<Node<'a, 'd>> {
    node.descendants().filter(|node| node.has_tag_name(name)).collect()
}

/// The points of a curve, in the plot's own units.
fn points(curve: Node<'_, '_>) -> Vec<(f64, f64)> {
    let path = curve.attribute("d").expect("a path").trim_start_matches('M');
    let pair = |text: &str| {
        let (x, y) = text.split_once(' ').expect("two numbers");
        (x.parse().expect("a number"), y.parse().expect("a number"))
    };
    path.split('L').map(pair).collect()
}

fn is_curve(node: &Node<'_, '_>, engine: &str) -> bool {
    node.attribute("class") == Some(&format!("curve {engine}"))
}

/// Whether each plot has a curve of more than one point for each engine. On a machine that gets
/// little done, a run has to be longer for that.
fn has_curves(page: &str) -> bool {
    let document = parsed(page);
    elements(document.root(), "svg").into_iter().all(|plot| {
        ["tickless", "tokio"].iter().all(|engine| {
            let mut paths = elements(plot, "path").into_iter();
            paths.any(|node| is_curve(&node, engine) && points(node).len() > 1)
        })
    })
}

#[test]
fn three_plots_have_a_curve_for_each_engine_inside_their_frame() {
    let mut pages = [1, 4, 16, 64, 256].into_iter().map(|seconds| page(seconds, &["--compare"]));
    let page = pages.find(|page| has_curves(page)).expect("a run is long enough");
    let document = parsed(&page);
    let plots = elements(document.root(), "svg");
    assert_eq!(plots.len(), 3);
    for plot in plots {
        let frame = plot.attribute("viewBox").expect("a frame");
        let frame: Vec<f64> =
            frame.split(' ').map(|text| text.parse().expect("a number")).collect();
        for engine in ["tickless", "tokio"] {
            let paths = elements(plot, "path");
            let curve = paths.into_iter().find(|node| is_curve(node, engine)).expect("a curve");
            let points = points(curve);
            let is_inside = |(x, y): &(f64, f64)| *x <= frame[2] && *y <= frame[3];
            assert!(points.iter().all(|point| is_inside(point) && point.0 >= 0.0), "{points:?}");
            let (first, last) = (points[0].0, points[points.len() - 1].0);
            assert!(first < last, "time and lateness go to the right");
        }
    }
}

#[test]
fn what_the_page_needs_is_in_it() {
    let page = page(1, &[]);
    let document = parsed(&page);
    for node in document.descendants() {
        assert!(!["script", "link", "img", "iframe"].contains(&node.tag_name().name()));
        for attribute in ["src", "href", "srcset"] {
            assert_eq!(node.attribute(attribute), None, "{node:?}");
        }
    }
    assert!(!page.contains("://") && !page.contains("@import") && !page.contains("url("));
}

#[test]
fn the_page_has_the_verdict_and_the_figures() {
    let page = page(1, &[]);
    let document = parsed(&page);
    let texts = document.root().descendants().filter_map(|node| node.text());
    let text = texts.collect::<Vec<_>>().join("\n");
    for part in ["All well: every one of ", "lateness     p50 ", "\nearly: "] {
        assert!(text.contains(part), "{part} in {text}");
    }
    let cells = elements(document.root(), "td");
    assert!(cells.len() >= 6 && cells.iter().all(|cell| cell.text().is_some()));
}
