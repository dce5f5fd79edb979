//! One measurement in a process of its own: what one contender leaves behind cannot touch the
//! next one's memory, allocator, threads or CPU time.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::error::BenchError;
use crate::machine::{clock, handoff};
use crate::plan::Plan;
use crate::record::Record;
use crate::registry::Entry;

/// The option with which this program calls itself.
pub(crate) const OPTION: &str = "measure-one";

/// Measures in this process.
pub(crate) fn measure(plan: &Plan) -> Result<Record, BenchError> {
    let entry = Entry::able(&plan.contender, plan.workload)?;
    // SAFETY: has no preconditions; the process is killed when the time is up.
    unsafe { libc::alarm(u32::try_from(plan.limit_s).unwrap_or(u32::MAX)) };
    clock::start();
    let probe = || {
        let is_shared = plan.threads > 1;
        is_shared.then(|| handoff::one_way_ns(plan.time(handoff::PLAY, Duration::from_millis(2))))
    };
    let before = probe();
    let mut record = (entry.run)(plan)?;
    if let (Some(before), Some(after)) = (before, probe()) {
        record.extra.insert("handoff_ns_before".to_owned(), before.into());
        record.extra.insert("handoff_ns_after".to_owned(), after.into());
        record.extra.insert("unsteady".to_owned(), handoff::has_changed(before, after).into());
    }
    record.extra.insert("variant".to_owned(), plan.variant.into());
    record.extra.insert("scale".to_owned(), plan.scale.into());
    Ok(record)
}

/// Has a process of this same program measure.
pub(crate) fn measure_elsewhere(plan: &Plan) -> Result<Record, BenchError> {
    let failed = |cause: String| BenchError::Child { what: plan.label(), cause };
    let plan_line = serde_json::to_string(plan).expect("a plan is plain data");
    let program = std::env::current_exe().map_err(|error| failed(error.to_string()))?;
    let output = Command::new(program)
        .arg(format!("--{OPTION}"))
        .arg(plan_line)
        // What the allocator was given it keeps: fresh pages are dear.
        .env("MIMALLOC_PURGE_DELAY", "-1")
        .stdin(Stdio::null())
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if output.status.signal() == Some(libc::SIGALRM) {
        let limit = Duration::from_secs(plan.limit_s);
        return Err(BenchError::TooSlow { what: plan.label(), limit });
    }
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.trim().trim_start_matches("rivals: ");
        return Err(failed(format!("{}: {said}", output.status)));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| failed(error.to_string()))
}
