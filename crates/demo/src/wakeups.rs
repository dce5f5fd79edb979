//! How often the threads that serve timers woke up: their voluntary context switches, from `/proc`
//! (Linux alone).

use std::collections::HashMap;
use std::fs;

use crate::engine::THREAD_NAME;

/// Follows the engine's threads. One that ended counts with what was seen of it last.
#[derive(Debug, Default)]
pub(crate) struct WakeUps {
    seen: HashMap<String, u64>,
}

// === impl WakeUps ===

impl WakeUps {
    /// Looks at the threads that there are now.
    pub(crate) fn update(&mut self) {
        let Ok(tasks) = fs::read_dir("/proc/self/task") else { return };
        for task in tasks.flatten() {
            let status = fs::read_to_string(task.path().join("status")).unwrap_or_default();
            if let Some(switches) = switches_of_timer_thread(&status) {
                let thread = task.file_name().to_string_lossy().into_owned();
                self.seen.insert(thread, switches);
            }
        }
    }

    /// The sum over all threads; `None` where none was found.
    pub(crate) fn sum(&self) -> Option<u64> {
        (!self.seen.is_empty()).then(|| self.seen.values().sum())
    }
}

/// The count in one thread's status, if the thread is an engine's.
fn switches_of_timer_thread(status: &str) -> Option<u64> {
    let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name));
    field("Name:").filter(|name| name.trim().starts_with(THREAD_NAME))?;
    field("voluntary_ctxt_switches:")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn voluntary_switches_of_timer_threads_alone_count() {
        let counts = "voluntary_ctxt_switches:\t41\nnonvoluntary_ctxt_switches:\t7\n";
        let of = |name: &str| switches_of_timer_thread(&format!("Name:\t{name}\n{counts}"));
        assert_eq!(of("timers-0"), Some(41));
        assert_eq!(of("server"), None);
    }
}
