//! What PERF.md, README.md and RESULTS.md show: measured part by part (`parts`, `matrix`), kept in
//! a file (`crate::book`), and drawn from that file alone: tables (`tables`, `shape`) and single
//! figures
//! (`quote`), between marks in the documents (`page`), and plots.
//!
//! A part is measured as a whole and replaces what was kept of it, with the machine and the commit.

mod matrix;
mod page;
mod parts;
mod quote;
mod shape;
mod tables;

use std::fs;
use std::path::PathBuf;
use std::time::Instant;

pub(crate) use matrix::Effort;
pub(crate) use parts::{ALL as PARTS, Part, RUNS};

use crate::book::{Book, Kept};
use crate::error::BenchError;
use crate::host::Host;
use crate::plot;

/// Where all that is kept lies, and where it shows.
#[derive(Debug)]
pub(crate) struct Places {
    /// Results.
    pub(crate) json: PathBuf,
    /// Plots.
    pub(crate) plots: PathBuf,
    /// Documents that users see at docs.rs.
    pub(crate) pages: PathBuf,
    /// Documents with marks.
    pub(crate) documents: Vec<PathBuf>,
}

/// What to measure, and how much of it.
#[derive(Debug)]
pub(crate) struct Extent {
    /// Which parts.
    pub(crate) parts: Vec<&'static Part>,
    pub(crate) effort: Effort,
}

/// Measures parts, keeps each of them when it is done, and draws everything anew.
pub(crate) fn measure(extent: &Extent, places: &Places) -> Result<(), BenchError> {
    let mut book = Book::read_or_new(&places.json)?;
    extent.parts.iter().try_for_each(|part| part.is_in_build())?;
    let (mut failures, begun) = (0, Instant::now());
    for part in &extent.parts {
        let (runs, failed) = part.measure(&extent.effort)?;
        failures += failed;
        if !runs.is_empty() {
            book.put(Kept { name: part.name.to_owned(), host: Host::here(), runs });
            book.write(&places.json)?;
        }
        println!("{:>6.0} s  {}", begun.elapsed().as_secs_f64(), part.name);
    }
    redraw(places)?;
    if failures == 0 { Ok(()) } else { Err(BenchError::Failures(failures)) }
}

/// Draws everything from what is kept.
pub(crate) fn redraw(places: &Places) -> Result<(), BenchError> {
    let book = Book::read(&places.json)?;
    for drawn in draw(&book, places)? {
        if drawn.found.as_ref() != Some(&drawn.text) {
            drawn.write()?;
            println!("{}", drawn.path.display());
        }
    }
    Ok(())
}

/// Complains of what is not as it would be drawn, and of what is kept but no full measurement.
pub(crate) fn check(places: &Places) -> Result<(), BenchError> {
    let book = Book::read(&places.json)?;
    let drawn = draw(&book, places)?;
    let stale = drawn.iter().filter(|drawn| drawn.found.as_ref() != Some(&drawn.text));
    let stale: Vec<_> = stale.map(|drawn| drawn.path.display().to_string()).collect();
    if !stale.is_empty() {
        let hint = "see `rivals --redraw`";
        return Err(BenchError::Stale(format!("{}: {hint}", stale.join(", "))));
    }
    let small = book.parts.iter().filter(|kept| !kept.is_full());
    let small: Vec<_> = small.map(|kept| kept.name.as_str()).collect();
    if !small.is_empty() {
        let what = format!("{}: measured at less than full scale", small.join(", "));
        return Err(BenchError::Stale(what));
    }
    Ok(())
}

/// A file as it is and as it would be.
struct Drawn {
    path: PathBuf,
    found: Option<String>,
    text: String,
}

// === impl Drawn ===

impl Drawn {
    fn write(&self) -> Result<(), BenchError> {
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let made = folder.map_or(Ok(()), fs::create_dir_all);
        made.and_then(|()| fs::write(&self.path, &self.text))
            .map_err(BenchError::in_file(&self.path))
    }
}

/// The plot on the README's first screen, and the document that has it for docs.rs: there are no
/// files beside a page there, so the definition of a link has all of it.
const FRONT: (&str, &str) = ("http.svg", "http.md");

/// The definition of the link `requests`, which is the picture itself.
fn definition(svg: &str) -> String {
    let mut text = String::from("[requests]: data:image/svg+xml,");
    for byte in svg.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'/' | b':' | b'=' | b',' => {
                text.push(char::from(byte));
            }
            _ => text += &format!("%{byte:02X}"),
        }
    }
    text + "\n"
}

fn draw(book: &Book, places: &Places) -> Result<Vec<Drawn>, BenchError> {
    let mut drawn = Vec::new();
    for (name, text) in plot::draw(book)? {
        let path = places.plots.join(&name);
        if name == FRONT.0 {
            let path = places.pages.join(FRONT.1);
            let found = fs::read_to_string(&path).ok();
            drawn.push(Drawn { found, path, text: definition(&text) });
        }
        drawn.push(Drawn { found: fs::read_to_string(&path).ok(), path, text });
    }
    for path in &places.documents {
        let found = fs::read_to_string(path).map_err(BenchError::in_file(path))?;
        let text = page::fill(&found, &|name| tables::table(book, name), &|words| {
            quote::quote(book, words)
        });
        let text = text.map_err(|what| BenchError::Stale(format!("{}:{what}", path.display())))?;
        drawn.push(Drawn { path: path.clone(), found: Some(found), text });
    }
    Ok(drawn)
}
