//! Every atomic access says what it is for, and every handshake has a name, a row and a model.

use std::fs;

use super::source::{Source, has_word, is_primitive, is_product, numbered, root};

/// The handshakes between threads.
const HANDSHAKES: [&str; 25] = [
    "BUCKET-PUSH",
    "BUCKET-ARM",
    "DOORBELL",
    "CANCEL-FIRE",
    "RESET-FIRE",
    "SEAT",
    "RELEASE",
    "BLOCK",
    "DEPOT",
    "BUCKET-READ",
    "CLOSABLE",
    "PUBLISHED",
    "STOP",
    "SWEEP",
    "TAKEOVER",
    "LEAD",
    "TWIN",
    "COUNTERS",
    "DISMANTLE",
    "HOLD",
    "WAKER",
    "HEARTBEAT",
    "KEYED",
    "LATCH",
    "REVOKE",
];

const ORDERINGS: [&str; 5] = ["Relaxed", "Acquire", "Release", "AcqRel", "SeqCst"];

/// A note serves accesses on at most so many lines below its first.
const REACH_LINES: usize = 8;

/// An `// ORDER` comment.
#[derive(Debug)]
struct Note {
    /// Of its first line.
    line: usize,
    /// In the parentheses.
    names: Vec<String>,
    /// All of it, without the names.
    text: String,
}

/// Whether the rules on atomic accesses hold in that file: the door to the atomics only passes
/// them on.
fn is_judged(source: &Source) -> bool {
    is_product(&source.path) && !is_primitive(&source.path)
}

/// The orderings that a line of code names.
fn orderings(line: &str) -> Vec<&'static str> {
    let named = |ordering: &&str| has_word(line, &format!("Ordering::{ordering}"));
    ORDERINGS.into_iter().filter(named).collect()
}

/// Atomic accesses without a note, and with one that speaks of something else.
pub(crate) fn unexplained_accesses(files: &[Source]) -> Vec<String> {
    files.iter().filter(|source| is_judged(source)).flat_map(unexplained_in).collect()
}

fn unexplained_in(source: &Source) -> Vec<String> {
    let code: Vec<&str> = source.product.lines().collect();
    let notes = notes(source);
    let mut complaints = Vec::new();
    for (line, text) in numbered(&source.product) {
        if has_word(text, "Ordering::*") || has_word(text, "use") && !orderings(text).is_empty() {
            complaints.push(source.complaint(line, "spell `Ordering::` out at each access"));
        }
        let used = orderings(text);
        if used.is_empty() {
            continue;
        }
        let Some(note) = note_for(line, &code, &notes) else {
            complaints.push(source.complaint(line, "an atomic access without an `// ORDER` note"));
            continue;
        };
        // The ordering of an exchange that fails goes without saying: it stands behind the other.
        let is_failure = is_inside_exchange(line, &code);
        if !is_failure && !used.iter().any(|ordering| has_word(&note.text, ordering)) {
            let message = format!("{} is not what its note on line {} says", used[0], note.line);
            complaints.push(source.complaint(line, &message));
        }
    }
    complaints
}

/// The nearest note above, in the same function.
fn note_for<'a>(line: usize, code: &[&str], notes: &'a [Note]) -> Option<&'a Note> {
    let first = line.saturating_sub(REACH_LINES).max(1);
    let begun = (first..line).rev().find(|&above| has_word(code[above - 1], "fn"));
    let first = begun.unwrap_or(first);
    notes.iter().rev().find(|note| (first..=line).contains(&note.line))
}

/// Whether the line above names an ordering too, as the second of an exchange's two does.
fn is_inside_exchange(line: usize, code: &[&str]) -> bool {
    let is_alone = |line: usize| {
        let text = code[line - 1].trim();
        text.starts_with("Ordering::") && text.ends_with(',')
    };
    line > 1 && is_alone(line) && is_alone(line - 1)
}

fn notes(source: &Source) -> Vec<Note> {
    let lines: Vec<&str> = source.comments.lines().map(str::trim).collect();
    let mut notes = Vec::new();
    for (i, text) in lines.iter().enumerate() {
        let Some(text) = text.strip_prefix("// ORDER") else { continue };
        let (names, text) = match text.strip_prefix('(').and_then(|text| text.split_once(')')) {
            Some((names, text)) => (names.split(", ").map(str::to_owned).collect(), text),
            None => (Vec::new(), text),
        };
        let more = lines[i + 1..].iter().take_while(|line| {
            line.starts_with("//") && !line.starts_with("///") && !line.starts_with("// ORDER")
        });
        let text = more.fold(text.to_owned(), |text, line| text + " " + line);
        notes.push(Note { line: i + 1, names, text });
    }
    notes
}

/// Notes that do not have the form `ORDER(NAME, ..): an ordering ..`.
pub(crate) fn malformed_notes(files: &[Source]) -> Vec<String> {
    let mut complaints = Vec::new();
    for source in files {
        for note in notes(source) {
            let begins = |text: &str| ORDERINGS.iter().any(|ordering| text.starts_with(ordering));
            if !note.text.strip_prefix(": ").is_some_and(begins) {
                let message = "a note reads `// ORDER(NAME): Ordering - what for`";
                complaints.push(source.complaint(note.line, message));
            }
            for name in note.names.iter().filter(|name| !HANDSHAKES.contains(&name.as_str())) {
                let message = format!("`{name}` is the name of no handshake");
                complaints.push(source.complaint(note.line, &message));
            }
        }
    }
    complaints
}

/// Handshakes that no access takes part in.
pub(crate) fn unused_handshakes(files: &[Source]) -> Vec<String> {
    let used: Vec<String> = files
        .iter()
        .filter(|source| is_judged(source))
        .flat_map(notes)
        .flat_map(|n| n.names)
        .collect();
    let is_unused = |name: &&str| !used.iter().any(|other| other == name);
    let unused = HANDSHAKES.into_iter().filter(is_unused);
    unused.map(|name| format!("src: no access is marked `// ORDER({name})`")).collect()
}

/// Handshakes without a row in the table of ARCHITECTURE.md, and without a model of their own.
pub(crate) fn undocumented_handshakes(architecture: &str) -> Vec<String> {
    let mut complaints = Vec::new();
    for name in HANDSHAKES {
        let model = name.to_lowercase().replace('-', "_");
        let row = numbered(architecture).find(|(_, line)| {
            line.strip_prefix('|').and_then(|row| row.split('|').next()).map(cell) == Some(name)
        });
        match row {
            None => complaints.push(format!("ARCHITECTURE.md:1: no row for the handshake {name}")),
            Some((line, row)) if !row.split('|').any(|text| cell(text) == model) => {
                complaints.push(format!("ARCHITECTURE.md:{line}: {name}'s model is `{model}`"));
            }
            Some(_) => {}
        }
    }
    complaints
}

/// What a cell of a table says.
fn cell(text: &str) -> &str {
    text.trim().trim_matches('`')
}

/// Handshakes without a model that the model checker runs.
pub(crate) fn unmodelled_handshakes() -> Vec<String> {
    let mut complaints = Vec::new();
    for name in HANDSHAKES {
        let path = format!("loom-tests/tests/{}.rs", name.to_lowercase().replace('-', "_"));
        match fs::read_to_string(root().join(&path)) {
            Err(_) => complaints.push(format!("{path}:1: {name} has no model")),
            Ok(text) if !Source::new(&path, &text).code.contains("#[test]") => {
                complaints.push(format!("{path}:1: the model of {name} has no test"));
            }
            Ok(_) => {}
        }
    }
    complaints
}

#[test]
fn an_access_without_its_note_is_found() {
    let found = |body: &str| {
        let text = format!("fn a() {{\n{body}\n}}\n");
        unexplained_accesses(&[Source::new("src/memory/a.rs", &text)]).len()
    };
    assert_eq!(found("a.load(Ordering::Acquire);"), 1);
    assert_eq!(found("// ORDER: Acquire - b.\na.load(Ordering::Acquire);"), 0);
    assert_eq!(found("// ORDER: Relaxed - b.\na.load(Ordering::Acquire);"), 1);
    assert_eq!(found("// ORDER: Acquire - b.\n}\nfn c() {\na.load(Ordering::Acquire);"), 1);
    assert_eq!(found("// ORDER: AcqRel - b.\na.c(\nOrdering::AcqRel,\nOrdering::Relaxed,\n);"), 0);
    assert_eq!(found(&format!("// ORDER: Acquire{}a.b(Ordering::Acquire);", "\n".repeat(9))), 1);
    assert_eq!(found("// Acquire.\n\"Ordering::Acquire\"; a.cmp(Ordering::Less);"), 0);
    assert_eq!(found("// ORDER: Relaxed - b.\nuse crate::sync::Ordering::Relaxed;"), 1);
}

#[test]
fn a_note_that_says_nothing_is_found() {
    let found = |note: &str| malformed_notes(&[Source::new("src/memory/a.rs", note)]).len();
    assert_eq!(found("// ORDER(DEPOT, STOP): AcqRel - a."), 0);
    assert_eq!(found("// ORDER(DEPOT): because."), 1);
    assert_eq!(found("// ORDER(BUCKET): AcqRel - a."), 1);
    assert_eq!(found("// ORDER AcqRel"), 1);
}

#[test]
fn a_handshake_without_its_row_is_found() {
    assert_eq!(undocumented_handshakes("").len(), HANDSHAKES.len());
    let row = "| handshake | model |\n|---|---|\n| STOP | `stop` |\n| `SEAT` | `bucket_arm` |\n";
    let complaints = undocumented_handshakes(row);
    assert_eq!(complaints.len(), HANDSHAKES.len() - 1);
    assert!(complaints.contains(&"ARCHITECTURE.md:4: SEAT's model is `seat`".to_owned()));
}
