//! A history of instances: what their handlers say, and what triggers write.

use std::fmt::Display;
use std::sync::Mutex;

use postgres::{Client, NoTls};
use tickless_durable::Cluster;
use tickless_durable::cluster::{Builder, Firing};

use super::history::Recorder;
use super::instance::Starts;
use super::server::Place;
use crate::common::history::History;

/// A place, and its history.
pub(crate) struct Scene {
    pub(crate) place: Place,
    pub(crate) shards: u32,
    pub(crate) starts: Starts,
    pub(crate) recorder: Recorder,
}

// === impl Scene ===

impl Scene {
    pub(crate) fn new(place: Place, shards: u32) -> Scene {
        let recorder = Recorder::new(&place, shards);
        Scene { place, shards, starts: Starts::default(), recorder }
    }

    /// Waits until there are no timers.
    #[track_caller]
    pub(crate) fn wait_for_the_end(&mut self) {
        self.recorder.wait_for_the_end();
    }

    pub(crate) fn read(&mut self) -> History {
        let rows = self.recorder.read();
        History { starts: self.starts.all(&rows.changes), ..rows }
    }
}

/// Starts an instance in this process.
pub(crate) fn start<E: Display>(
    (url, name): (&str, &str),
    shards: u32,
    configured: impl Fn(Builder) -> Builder,
    handler: impl Fn(&Firing<'_, String>) -> Result<(), E> + Clone + Send + Sync + 'static,
) -> Cluster<String> {
    let builder = configured(Cluster::builder(url).schema(name).shards(shards));
    builder.start(handler).unwrap()
}

/// `enter` schedules a timer that is due at once within a transaction, which it leaves open, and
/// `commit` commits that.
pub(crate) fn does(url: &str, cluster: &Cluster<String>, command: &str) -> bool {
    static CLIENT: Mutex<Option<Client>> = Mutex::new(None);
    let mut kept = CLIENT.lock().unwrap();
    match command {
        "enter" => {
            let client = kept.insert(Client::connect(url, NoTls).unwrap());
            client.batch_execute("BEGIN").unwrap();
            cluster.schedule_in(client, None, cluster.now(), "plain".to_owned()).unwrap();
        }
        "commit" => kept.as_mut().unwrap().batch_execute("COMMIT").unwrap(),
        _ => return false,
    }
    true
}
