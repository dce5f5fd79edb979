//! A history of instances: what their handlers say, and what the logs of the shards have.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::thread;
use std::time::Duration;

use tickless_durable::Cluster;
use tickless_durable::cluster::{Builder, Firing};
use tickless_durable::store::nats::probe;

use super::instance::Starts;
use super::server::{Place, patiently};
use crate::common::history::{Change, History, Taking};
use crate::common::until::wait_until;

/// A place, and its history.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) shards: u32,
    pub(crate) starts: Starts,
}

// === impl Scene ===

impl Scene {
    pub(crate) fn new(place: Place, shards: u32) -> Scene {
        Scene { place, shards, starts: Starts::default() }
    }

    /// Waits until there are no timers.
    #[track_caller]
    pub(crate) fn wait_for_the_end(&mut self) {
        wait_until("no timers are left", || {
            // To look is to read all logs.
            thread::sleep(Duration::from_millis(50));
            self.left().is_empty()
        });
    }

    /// The timers that are in the logs.
    pub(crate) fn left(&self) -> Vec<String> {
        let mut left = BTreeSet::new();
        for change in self.logs().changes {
            if change.is_put {
                left.insert(change.timer);
            } else {
                left.remove(&change.timer);
            }
        }
        left.into_iter().collect()
    }

    pub(crate) fn read(&mut self) -> History {
        let logs = self.logs();
        History { starts: self.starts.all(&logs.changes), ..logs }
    }

    fn logs(&self) -> History {
        let mut history = History::default();
        for shard in 0..self.shards {
            let log = patiently(|| probe::history(&self.place.url, &self.place.name, shard));
            let log = log.unwrap_or_else(|error| panic!("{error}"));
            let mut fence = 0;
            for noted in log {
                if noted.is_taking {
                    fence = noted.fence.cast_signed();
                    let shard = shard.cast_signed();
                    history.takings.push(Taking { shard, fence, at_us: noted.at_us });
                }
                history.changes.extend(noted.changes.iter().map(|(position, is_put)| Change {
                    timer: format!("{shard}-{}", position.number),
                    is_put: *is_put,
                    under: Some(noted.fence.cast_signed()),
                    fence,
                    at_us: noted.at_us,
                }));
            }
        }
        history
    }
}

/// Starts an instance in this process.
pub(crate) fn start<E: Display>(
    (url, name): (&str, &str),
    shards: u32,
    configured: impl Fn(Builder) -> Builder,
    handler: impl Fn(&Firing<'_, String>) -> Result<(), E> + Clone + Send + Sync + 'static,
) -> Cluster<String> {
    let builder = || configured(Cluster::nats(url).schema(name).shards(shards));
    patiently(|| builder().start(handler.clone())).unwrap()
}

/// An instance does no more than all others.
pub(crate) fn does(_: &str, _: &Cluster<String>, _: &str) -> bool {
    false
}
