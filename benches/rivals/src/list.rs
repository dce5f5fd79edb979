//! What there is to measure, and who can do what.

use std::fmt::Write;

use crate::registry::{ALL, DEFAULT_TICK_US};
use crate::workload::{Threads, Workload};

/// The workloads, the contenders, and why some of them cannot do some of those.
pub(crate) fn list() -> String {
    let mut text = "workloads\n".to_owned();
    for workload in Workload::ALL {
        let threads = match workload.threads() {
            Threads::Any => "any threads",
            Threads::Fixed(1) => "1 thread",
            Threads::Fixed(_) => "2 threads",
        };
        let _ = writeln!(text, "  {:<13} {} ({threads})", workload.name(), workload.about());
    }
    text.push_str("\ncontenders\n");
    for entry in ALL {
        let _ = writeln!(text, "  {:<24} {}", entry.name, entry.about);
    }
    text.push_str("\nwho cannot do what, and why\n");
    for workload in Workload::ALL {
        let _ = writeln!(text, "  {}", workload.name());
        for (why, names) in reasons(workload) {
            let _ = writeln!(text, "    n/a {}: {why}", names.join(", "));
        }
    }
    text.push_str("\nat another --tick-us: only ");
    let settable: Vec<_> = ALL.iter().filter(|entry| entry.has_tick).map(|e| e.name).collect();
    let _ = writeln!(text, "{}", settable.join(", "));
    text
}

/// Contenders that cannot do a workload, by the reason.
fn reasons(workload: Workload) -> Vec<(&'static str, Vec<&'static str>)> {
    let mut reasons: Vec<(&str, Vec<&str>)> = Vec::new();
    for entry in ALL {
        let Some(why) = entry.lacks(workload, DEFAULT_TICK_US) else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == why) {
            Some((_, names)) => names.push(entry.name),
            None => reasons.push((why, vec![entry.name])),
        }
    }
    reasons
}

#[test]
fn the_list_names_everything() {
    let text = list();
    assert!(ALL.iter().all(|entry| text.contains(entry.name)));
    assert!(Workload::ALL.iter().all(|workload| text.contains(workload.name())));
    assert!(text.contains("n/a"));
}
