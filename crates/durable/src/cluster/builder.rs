//! How an instance is configured and started.

use std::fmt;
use std::sync::{Arc, Condvar, Mutex, Weak};
use std::thread;
use std::time::Duration;

#[cfg(feature = "postgres")]
use tokio_postgres::{
    Config, NoTls, Socket,
    tls::{MakeTlsConnect, TlsConnect},
};

use crate::error::{OpenError, StoreError, StoreErrorKind};
use crate::payload::Payload;
use crate::service::{self, Numbers, Retry};
use crate::store::Store;
#[cfg(feature = "nats")]
use crate::store::nats::{
    client::Nats,
    names::{self, Names},
    reply::failed as nats_failed,
};
#[cfg(feature = "postgres")]
use crate::store::postgres::{Database, Together, failed, prepare};
use crate::store::version::Makes;

use super::clerk::{Clerk, Work};
use super::clock::SharedClock;
use super::firing::{Firing, Got};
use super::handle::Cluster;
use super::held::Held;
use super::hub::{Hub, Keeping, is_named_well};
use super::inner::{Faults, Inner, Open, State};
use super::keeper::Keeper;
use super::lease::Lease;
use super::message::Message;
#[cfg(feature = "nats")]
use super::nats::Meeting;
use super::observer::Observer;
use super::owner::Owner;
#[cfg(feature = "postgres")]
use super::postgres::Postgres;

/// Configures and starts an instance of a [`Cluster`].
///
/// All instances need the same schema and the same lease; and the same handler, in effect.
#[must_use = "a builder does nothing until it starts"]
pub struct Builder {
    place: Place,
    schema: String,
    shards: Option<u32>,
    lease: Duration,
    service: service::Builder,
    migrate: bool,
    faults: Faults,
}

/// Where instances meet.
enum Place {
    #[cfg(feature = "postgres")]
    Postgres { config: Box<Result<Config, StoreError>>, reach: Box<Reach> },
    #[cfg(feature = "nats")]
    Nats(Box<Servers>),
}

/// Servers of NATS, and how they are used.
#[cfg(feature = "nats")]
struct Servers {
    addresses: String,
    options: async_nats::ConnectOptions,
    replicas: Option<usize>,
    directory: std::path::PathBuf,
}

/// How the schema of a database is reached, and for how long the server waits for a client.
#[cfg(feature = "postgres")]
type Reach = dyn FnOnce(Config, &str, Duration) -> Database + Send;

/// The shortest lease.
const MIN_LEASE: Duration = Duration::from_millis(100);

// === impl Cluster ===

impl Cluster {
    /// Returns a [`Builder`] for an instance whose timers are in this database:
    /// `host=.. user=..`, or a URL. See [`postgres::Config`](::postgres::Config).
    #[cfg(feature = "postgres")]
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    #[doc(alias = "postgres")]
    pub fn builder(database: &str) -> Builder {
        Builder::postgres(database.parse().map_err(failed))
    }

    /// As [`builder`](Cluster::builder), for a database whose address or password comes from
    /// elsewhere than a text.
    #[cfg(feature = "postgres")]
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub fn with_config(database: Config) -> Builder {
        Builder::postgres(Ok(database))
    }

    /// Returns a [`Builder`] for an instance whose timers are on these servers of NATS, with
    /// JetStream: `nats://one.example,nats://other.example`. See [NATS](super#nats).
    #[cfg(feature = "nats")]
    #[cfg_attr(docsrs, doc(cfg(feature = "nats")))]
    pub fn nats(servers: &str) -> Builder {
        Builder::nats(servers)
    }
}

// === impl Builder ===

impl Builder {
    #[cfg(feature = "postgres")]
    pub(super) fn postgres(database: Result<Config, StoreError>) -> Builder {
        let config = Box::new(database);
        let reach = Box::new(|config, schema: &str, patience| {
            Database::new(config, NoTls, schema, patience)
        });
        Builder::new(Place::Postgres { config, reach })
    }

    #[cfg(feature = "nats")]
    pub(super) fn nats(servers: &str) -> Builder {
        Builder::new(Place::Nats(Box::new(Servers {
            addresses: servers.to_owned(),
            options: async_nats::ConnectOptions::new().name("tickless"),
            replicas: None,
            directory: std::env::temp_dir(),
        })))
    }

    fn new(place: Place) -> Builder {
        Builder {
            place,
            schema: "tickless".to_owned(),
            shards: None,
            lease: Duration::from_secs(10),
            service: service::Builder::new(),
            migrate: false,
            faults: Faults::default(),
        }
    }

    /// Connects by TLS: with `postgres-native-tls`, for example. Default: without.
    #[cfg(feature = "postgres")]
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub fn tls<T>(mut self, connector: T) -> Builder
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        #[cfg_attr(
            not(feature = "nats"),
            expect(irrefutable_let_patterns, reason = "there is no other place without it")
        )]
        if let Place::Postgres { reach, .. } = &mut self.place {
            *reach = Box::new(move |config, schema, patience| {
                Database::new(config, connector, schema, patience)
            });
        }
        self
    }

    /// How the servers of NATS are connected to: with which credentials, for example. Default:
    /// without any. What a server asks for by an algorithm is a feature of `async-nats`.
    #[cfg(feature = "nats")]
    #[cfg_attr(docsrs, doc(cfg(feature = "nats")))]
    pub fn connect_options(self, options: async_nats::ConnectOptions) -> Builder {
        self.with_servers(|servers| servers.options = options)
    }

    /// On how many servers of NATS the streams of a new cluster are, from 1 to 5. Default: 3 if
    /// the server is one of several, or else 1.
    #[cfg(feature = "nats")]
    #[cfg_attr(docsrs, doc(cfg(feature = "nats")))]
    pub fn replicas(self, replicas: usize) -> Builder {
        self.with_servers(|servers| servers.replicas = Some(replicas.clamp(1, 5)))
    }

    /// Where the indexes are of logs on NATS, one file for each shard. Nothing in it is needed
    /// when the instance has ended. Default: the system's directory for such files.
    #[cfg(feature = "nats")]
    #[cfg_attr(docsrs, doc(cfg(feature = "nats")))]
    pub fn index_directory(self, path: impl Into<std::path::PathBuf>) -> Builder {
        self.with_servers(|servers| servers.directory = path.into())
    }

    #[cfg(feature = "nats")]
    fn with_servers(mut self, set: impl FnOnce(&mut Servers)) -> Builder {
        #[cfg_attr(
            not(feature = "postgres"),
            expect(irrefutable_let_patterns, reason = "there is no other place without it")
        )]
        if let Place::Nats(servers) = &mut self.place {
            set(servers);
        }
        self
    }

    /// The schema of the tables, which are made if they are not there: lower-case letters, digits
    /// and underscores, at most 48. Default: `tickless`.
    pub fn schema(mut self, name: impl Into<String>) -> Builder {
        self.schema = name.into();
        self
    }

    /// How many shards there are, from 1 to 10,000; on NATS at most 500, and more are taken as 500.
    /// Default: as many as there are, or 8 in a new schema. Another number than there are is
    /// refused: on PostgreSQL, the function `reshard` of the schema changes it while no instance
    /// runs.
    ///
    /// That is how many instances can share the work. A shard takes a service's threads and a
    /// connection, so it should be no more than a few for each instance.
    pub fn shards(mut self, shards: u32) -> Builder {
        self.shards = Some(shards.clamp(1, 10_000));
        self
    }

    /// How long an instance keeps its shards if it does not renew its leases, at least 100 ms.
    /// Default: 10 s.
    ///
    /// After this time at most, and the time that opening a shard takes, the timers of an instance
    /// that has died fire elsewhere. An instance that the database does not reply to for two thirds
    /// of it closes its shards. So does one that does not run for all of it, and handlers that ran
    /// meanwhile run again elsewhere: have it longer than the pauses of your machines.
    pub fn lease(mut self, lease: Duration) -> Builder {
        self.lease = lease.max(MIN_LEASE);
        self
    }

    /// The settings of the services, one for each shard: attempts, workers, and others. What counts
    /// as [missed](service::Builder::misfire_after) is at least two leases late.
    pub fn service(mut self, service: service::Builder) -> Builder {
        self.service = service;
        self
    }

    /// Whether tables or streams that an earlier version of this crate has made become such as this
    /// version needs, when this starts or [observes](Builder::observe). Default: they are refused.
    ///
    /// In PostgreSQL, each step is one transaction, which is refused while an instance runs: stop
    /// all of them first. What is in the tables is taken as it is. On NATS, instances of before are
    /// to be stopped, too, and nothing sees to that.
    pub fn migrate(mut self, migrate: bool) -> Builder {
        self.migrate = migrate;
        self
    }

    #[doc(hidden)]
    pub fn faults(mut self, faults: Faults) -> Builder {
        self.faults = faults;
        self
    }

    /// Starts the instance. It takes its share of the shards, and their timers begin to fire.
    ///
    /// `handler` is called with each timer of these shards that is due. If it returns `Ok`, the
    /// timer is over. If it returns an error or panics, the timer is tried again.
    ///
    /// It may be called inside a task of an asynchronous program, and blocks until the database has
    /// replied.
    ///
    /// # Errors
    /// The database cannot be used, or a thread cannot be started.
    pub fn start<P: Payload, E: Into<Retry>>(
        self,
        handler: impl Fn(&Firing<'_, P>) -> Result<(), E> + Send + Sync + 'static,
    ) -> Result<Cluster<P>, OpenError> {
        let open = open(self.service.clone(), Arc::new(handler));
        self.start_with(open)
    }

    /// Starts the instance with a handler that is asynchronous. Its futures are tasks of `runtime`:
    /// at most `tasks` at a time for each shard. See
    /// [`open_async`](service::Builder::open_async).
    ///
    /// When a shard's lease is over, its tasks are aborted where they wait next.
    ///
    /// # Errors
    /// As [`start`](Builder::start).
    #[cfg(feature = "tokio")]
    #[cfg_attr(docsrs, doc(cfg(feature = "tokio")))]
    pub fn start_async<P: Payload, E: Into<Retry>, F>(
        self,
        runtime: &tokio::runtime::Handle,
        tasks: usize,
        handler: impl Fn(Firing<'static, P>) -> F + Send + Sync + 'static,
    ) -> Result<Cluster<P>, OpenError>
    where
        F: Future<Output = Result<(), E>> + Send + 'static,
    {
        let open = open_async(self.service.clone(), runtime.clone(), tasks, Arc::new(handler));
        self.start_with(open)
    }

    /// Connects to a cluster that is there, to see its timers and to change some: as an operator
    /// does. This is no instance, and takes no shard. It must not be called, nor the result used,
    /// inside a task of an asynchronous program.
    ///
    /// # Errors
    /// The database cannot be used, or has no such cluster.
    pub fn observe(self) -> Result<Observer, OpenError> {
        self.is_named_well()?;
        let (hub, shards) = self.place.reach(
            &self.schema,
            self.shards,
            self.lease,
            false,
            Makes { new: false, newer: self.migrate },
        )?;
        let (clerking, shard_of) = (hub.clerking()?, hub.shard_of());
        Ok(Observer { clerking, shards, shard_of, lease: self.lease })
    }

    fn is_named_well(&self) -> Result<(), StoreError> {
        if is_named_well(&self.schema) {
            return Ok(());
        }
        let message = format!("a schema cannot be called {:?} here", self.schema);
        Err(StoreError::new(StoreErrorKind::Denied, message))
    }

    fn start_with<P: Send + 'static>(self, open: Box<Open<P>>) -> Result<Cluster<P>, OpenError> {
        self.is_named_well()?;
        let (faults, lease, wait) = (self.faults, self.lease, self.service.longest_wait());
        let (place, schema, shards) = (self.place, &self.schema, self.shards);
        let makes = Makes { new: true, newer: self.migrate };
        let join = move || {
            let (hub, shards) = place.reach(schema, shards, lease, faults.ignores_fence, makes)?;
            let mut keeping = hub.keeping()?;
            let numbers = Numbers::of_session(keeping.next_session()?)?;
            let instance = numbers.session();
            let reading = keeping.renew(instance, &[], lease)?.reading.ok_or_else(|| {
                let message = "the clock that instances share cannot be read";
                StoreError::new(StoreErrorKind::Io, message)
            })?;
            Ok::<_, OpenError>((hub, shards, keeping, numbers, reading))
        };
        // The client of PostgreSQL panics where asynchronous tasks run, and a program may call this
        // there. In a thread of its own, it does not.
        let (hub, shards, keeping, numbers, reading) = thread::scope(|scope| {
            let joining = thread::Builder::new().name("durable-start".to_owned());
            let joining = joining.spawn_scoped(scope, join).map_err(OpenError::Thread)?;
            joining.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        let clock = SharedClock::new(reading, faults.goes_by_own_clock);
        let inner = Arc::new(Inner {
            shards,
            lease: self.lease,
            instance: numbers.session(),
            clock: Arc::new(clock),
            held: Mutex::new(Held::new(self.service.timers_in_memory())),
            clerk: Arc::new(Clerk::new(wait)),
            numbers: Mutex::new(numbers),
            state: Mutex::new(State::default()),
            bell: Condvar::new(),
            open,
            faults,
            hub,
        });
        let weak = Arc::downgrade(&inner);
        inner.hub.set_ring(Box::new(move || {
            let services = weak.upgrade().map_or_else(Vec::new, |inner| inner.held().services());
            services.iter().filter(|durable| durable.write_now()).count()
        }));
        start(inner, keeping).map_err(OpenError::Thread)
    }
}

impl Place {
    /// Makes what is not there, if it is to, and returns how many shards there are.
    fn reach(
        self,
        schema: &str,
        shards: Option<u32>,
        lease: Duration,
        ignores_fence: bool,
        makes: Makes,
    ) -> Result<(Arc<dyn Hub>, u32), StoreError> {
        match self {
            #[cfg(feature = "postgres")]
            Place::Postgres { config, reach } => {
                // Two thirds of a lease are left when its renewal is asked for. So a transaction
                // that its client has left alone is over when the lease is.
                let database = reach((*config)?, schema, lease * 2 / 3);
                let shards = prepare(&database, shards, makes)?;
                let together = Together::new(database.clone(), ignores_fence);
                Ok((Arc::new(Postgres { database, shards, together }), shards))
            }
            #[cfg(feature = "nats")]
            Place::Nats(servers) => {
                let Servers { addresses, options, replicas, directory } = *servers;
                let nats = Nats::connect(&addresses, options)?;
                let names = Names(schema.to_owned());
                let starting = nats.patient();
                if !makes.new && starting.extent(&names.bucket()).map_err(nats_failed)?.is_none() {
                    let message = format!("there is no cluster called {schema}");
                    return Err(StoreError::new(StoreErrorKind::Denied, message));
                }
                let shards = names::prepare(&starting, &names, shards, replicas, makes.newer)?;
                let meeting = Meeting::new(nats, names, shards, lease, directory, ignores_fence);
                let meeting = meeting.starting(starting);
                Ok((Arc::new(meeting), shards))
            }
        }
    }
}

/// How the service of a shard is opened.
fn open<P: Payload, E: Into<Retry>>(
    service: service::Builder,
    handler: Arc<impl Fn(&Firing<'_, P>) -> Result<(), E> + Send + Sync + 'static>,
) -> Box<Open<P>> {
    Box::new(move |inner: &Arc<Inner<P>>, lease: &Arc<Lease>, store: Box<dyn Store>| {
        let (handler, shard, fence) = (handler.clone(), lease.taken.shard, lease.taken.fence);
        let (weak, service) = prepare_service(&service, inner, lease);
        service.open(store, move |firing: &service::Firing<P>| {
            let Some(inner) = weak.upgrade() else {
                return Err(Retry::from("the instance has ended"));
            };
            let cluster = Cluster { inner, owner: None };
            let firing = Firing { firing: Got::Borrowed(firing), shard, fence, cluster };
            handler(&firing).map_err(Into::into)
        })
    })
}

/// The same for a handler that is asynchronous.
#[cfg(feature = "tokio")]
fn open_async<P: Payload, E: Into<Retry>, F>(
    service: service::Builder,
    runtime: tokio::runtime::Handle,
    tasks: usize,
    handler: Arc<impl Fn(Firing<'static, P>) -> F + Send + Sync + 'static>,
) -> Box<Open<P>>
where
    F: Future<Output = Result<(), E>> + Send + 'static,
{
    Box::new(move |inner: &Arc<Inner<P>>, lease: &Arc<Lease>, store: Box<dyn Store>| {
        let (handler, shard, fence) = (handler.clone(), lease.taken.shard, lease.taken.fence);
        let (weak, service) = prepare_service(&service, inner, lease);
        service.open_async(store, &runtime, tasks, move |firing: service::Firing<P>| {
            let begun = weak.upgrade().map(|inner| {
                let cluster = Cluster { inner, owner: None };
                handler(Firing { firing: Got::Owned(Box::new(firing)), shard, fence, cluster })
            });
            async move {
                match begun {
                    Some(begun) => begun.await.map_err(Into::into),
                    None => Err(Retry::from("the instance has ended")),
                }
            }
        })
    })
}

/// The settings of a shard's service, and the instance for its handler.
fn prepare_service<P: Send + 'static>(
    service: &service::Builder,
    inner: &Arc<Inner<P>>,
    lease: &Arc<Lease>,
) -> (Weak<Inner<P>>, service::Builder) {
    // The service is the instance's, which would never end if that were the service's, too.
    let weak = Arc::downgrade(inner);
    let waking = Weak::clone(&weak);
    let wake = move || waking.upgrade().iter().for_each(|inner| inner.wake());
    let service = service.clone().share(lease.clone(), inner.lease * 2).on_failure_first(wake);
    let held = inner.held();
    let service = service.window(held.window_of_each()).pauses(held.pauses());
    drop(held);
    let service = service.recurring_in(|name| inner.shard_of(name) == lease.taken.shard);
    (weak, service)
}

fn start<P: Send + 'static>(
    inner: Arc<Inner<P>>,
    keeping: Box<dyn Keeping>,
) -> Result<Cluster<P>, std::io::Error> {
    let owner = Owner { instance: inner.clone(), threads: Arc::default() };
    {
        // If a thread cannot be started, dropping the owner ends the other.
        let mut threads = owner.threads.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let clerks = inner.clone();
        let builder = thread::Builder::new().name("durable-clerk".to_owned());
        threads.clerk = Some(builder.spawn(move || {
            let (hub, lease) = (clerks.hub.clone(), clerks.lease);
            Work { clerk: &clerks.clerk, hub, lease, clerking: None, down: None }.run();
        })?);
        let keeper = Keeper { inner: inner.clone(), keeping: Some(keeping) };
        let builder = thread::Builder::new().name("durable-keeper".to_owned());
        threads.keeper = Some(builder.spawn(move || keeper.run())?);
    }
    // The others have to look how many they are now.
    inner.clerk.tell(Message::Look);
    Ok(Cluster { inner, owner: Some(Arc::new(owner)) })
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("schema", &self.schema)
            .field("lease", &self.lease)
            .finish_non_exhaustive()
    }
}
