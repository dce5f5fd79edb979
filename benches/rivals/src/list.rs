//! What there is to measure, and who can do what.

use std::fmt::Write;

use crate::kind::{Kind, Threads, Workload};
use crate::registry::{ALL, DEFAULT_TICK_US};

/// The workloads, the contenders, and why some of them cannot do some of those.
pub(crate) fn list() -> String {
    let mut text = "workloads\n".to_owned();
    for workload in Workload::ALL {
        let threads = match workload.threads() {
            Threads::Any => "any threads",
            Threads::Fixed(1) => "1 thread",
            Threads::Fixed(_) => "2 threads",
        };
        let _ = writeln!(text, "  {:<15} {} ({threads})", workload.name(), workload.about());
    }
    for kind in Kind::ALL {
        let _ = writeln!(text, "\n{}", kind.heading());
        for entry in ALL.iter().filter(|entry| entry.kind == kind) {
            let _ = writeln!(text, "  {:<24} {}", entry.name, entry.about);
        }
    }
    text.push_str("\nnot applicable, and why\n");
    for (why, names, workloads) in reasons() {
        let (names, workloads) = (names.join(", "), workloads.join(", "));
        let _ = writeln!(text, "  {names}: {why}\n    {workloads}");
    }
    text.push_str("\nat another --tick-us: only ");
    let settable: Vec<_> = ALL.iter().filter(|entry| entry.has_tick).map(|e| e.name).collect();
    let _ = writeln!(text, "{}", settable.join(", "));
    text
}

/// Why contenders cannot do workloads, which contenders, and which workloads, beyond what the
/// headings say.
fn reasons() -> Vec<(&'static str, Vec<&'static str>, Vec<&'static str>)> {
    let mut reasons: Vec<(&str, Vec<&str>, Vec<&str>)> = Vec::new();
    for entry in ALL {
        for workload in Workload::ALL.into_iter().filter(|w| w.kind() == entry.kind) {
            let Some(why) = entry.lacks(workload, DEFAULT_TICK_US) else { continue };
            let at = reasons.iter().position(|(known, ..)| *known == why).unwrap_or_else(|| {
                reasons.push((why, Vec::new(), Vec::new()));
                reasons.len() - 1
            });
            let (_, names, workloads) = &mut reasons[at];
            names.push(entry.name);
            workloads.push(workload.name());
        }
    }
    for (_, names, workloads) in &mut reasons {
        names.dedup();
        workloads.sort_unstable();
        workloads.dedup();
    }
    reasons
}

#[test]
fn the_list_names_everything() {
    let text = list();
    assert!(ALL.iter().all(|entry| text.contains(entry.name)));
    assert!(Workload::ALL.iter().all(|workload| text.contains(workload.name())));
    assert!(text.contains("the same with tasks"));
}
