//! A connection to the database, with the settings that the statements of this crate rely on.
//!
//! Nothing here waits for the server for longer than the session's patience, which is less than a
//! lease: a server, or a network, that accepts and never replies would otherwise keep a thread for
//! hours. The session is over then, and the server ends what it was asked for by its own limit.
//!
//! *Owner*: the thread that has it. It must not be one that runs asynchronous tasks.
//!
//! *Tested by*: `tests/durable/postgres/`.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};
use tokio_postgres::error::SqlState;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::types::ToSql;
use tokio_postgres::{
    AsyncMessage, Client, Config, Notification, Row, SimpleQueryMessage, Socket, Statement,
};

use crate::error::{StoreError, StoreErrorKind};

/// How the statements' parameters are passed.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

type Connected = Result<(Client, Line), tokio_postgres::Error>;
type Connect = dyn Fn(&Config) -> Pin<Box<dyn Future<Output = Connected>>> + Send + Sync;

/// The connection's own work: it sends what the client asks for, and returns what the server tells.
type Line = Box<dyn FnMut(&mut Context<'_>) -> Poll<Option<Told>> + Send>;
type Told = Result<AsyncMessage, tokio_postgres::Error>;

/// Where the database is, and how it is reached.
#[derive(Clone)]
pub(crate) struct Database {
    config: Config,
    connect: Arc<Connect>,
    /// A name that needs no quotes.
    pub(crate) schema: String,
    /// How long a session waits for the server, and the server for a client in a transaction.
    patience: Duration,
}

/// A connection, and the statements that were prepared on it.
pub(crate) struct Session {
    client: Client,
    /// `None`: it is over.
    line: Option<Line>,
    told: VecDeque<Notification>,
    statements: HashMap<&'static str, Statement>,
    patience: Duration,
    runtime: Background,
}

/// A runtime that is not waited for when it ends: a name that is being looked up can take long.
struct Background(Option<Runtime>);

// === impl Background ===

impl Background {
    fn new() -> Result<Background, StoreError> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build();
        let runtime = runtime.map_err(|error| StoreError::io("a connection needs more", error))?;
        Ok(Background(Some(runtime)))
    }

    /// `None`: it took longer.
    fn within<T>(&self, limit: Duration, work: impl Future<Output = T>) -> Option<T> {
        let runtime = self.0.as_ref().expect("it is there until it is dropped");
        runtime.block_on(async { tokio::time::timeout(limit, work).await.ok() })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.0.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

// === impl Database ===

impl Database {
    pub(crate) fn new<T>(config: Config, tls: T, schema: &str, patience: Duration) -> Database
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::TlsConnect: Send,
        T::Stream: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
        let connect: Arc<Connect> = Arc::new(move |config| {
            let (config, tls) = (config.clone(), tls.clone());
            Box::pin(async move {
                let (client, mut connection) = config.connect(tls).await?;
                let line: Line = Box::new(move |context| connection.poll_message(context));
                Ok((client, line))
            })
        });
        Database { config, connect, schema: schema.to_owned(), patience }
    }

    /// Connects. `name` is what the server's own views call the connection.
    ///
    /// - A client that stops in the middle of a transaction loses it, so that it cannot keep a
    ///   shard's lock from the instance that takes the shard over. So does one that has given up a
    ///   statement: the server does a little earlier.
    /// - No statement is compiled, which takes longer than any of them.
    /// - A server that is told not to wait for its disk is told to, because a commit here means
    ///   that the batch is durable.
    /// - A statement sees what was committed before it, also if the database or the role asks for
    ///   another isolation: a writer of a list sees what the writer for whom it has waited wrote.
    /// - A session may be idle. A shard's is, as long as no timer is due.
    pub(crate) fn connect(&self, name: &str) -> Result<Session, StoreError> {
        let mut config = self.config.clone();
        config.application_name(format!("{name} in {}", self.schema));
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(self.patience);
        }
        let runtime = Background::new()?;
        let connected = runtime.within(self.patience, (self.connect)(&config));
        let (client, line) = connected.ok_or_else(|| silent(self.patience))?.map_err(failed)?;
        let mut session = Session {
            client,
            line: Some(line),
            told: VecDeque::new(),
            statements: HashMap::new(),
            patience: self.patience,
            runtime,
        };
        let (schema, patience_ms) = (&self.schema, self.patience.as_millis().max(10));
        let limit_ms = patience_ms * 9 / 10;
        session.batch(&format!(
            "SET search_path TO {schema}, pg_catalog;
             SET idle_in_transaction_session_timeout = {patience_ms};
             SET statement_timeout = {limit_ms};
             SET jit = off;
             SET default_transaction_isolation = 'read committed';
             SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off';
             SELECT set_config('idle_session_timeout', '0', false)
                 WHERE current_setting('idle_session_timeout', true) IS NOT NULL"
        ))?;
        Ok(session)
    }

    /// Connects for statements about timers and dead letters, which all go by an index. Without
    /// statistics about a new table, the server would plan to read all of it, and keep to that
    /// plan. The other tables have some rows, and their statements are planned as ever.
    pub(crate) fn connect_to_lists(&self, name: &str) -> Result<Session, StoreError> {
        let mut session = self.connect(name)?;
        session.batch(
            "SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off",
        )?;
        Ok(session)
    }
}

impl Database {
    /// Looks whether a pooler in between passes transactions of one session to several of the
    /// server's, which keeps neither settings, statements nor what a session listens to.
    ///
    /// While another session is in a transaction, and after that, this one has the same process.
    ///
    /// # Errors
    /// There is such a pooler.
    pub(crate) fn refuse_pooler(&self, session: &mut Session) -> Result<(), StoreError> {
        let mut other = self.connect("tickless pooling")?;
        let before = session.process()?;
        other.batch("BEGIN")?;
        let beside = session.process()?;
        other.batch("ROLLBACK")?;
        if [beside, session.process()?].iter().all(|process| *process == before) {
            return Ok(());
        }
        let message = "a pooler in between pools transactions: it has to pool sessions";
        Err(StoreError::new(StoreErrorKind::Denied, message))
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("schema", &self.schema).finish_non_exhaustive()
    }
}

// === impl Session ===

impl Session {
    /// Whether nothing is known of its end.
    pub(crate) fn is_open(&self) -> bool {
        self.line.is_some() && !self.client.is_closed()
    }

    /// Runs statements without parameters, one after another.
    pub(crate) fn batch(&mut self, sql: &str) -> Result<(), StoreError> {
        self.ask(async |client| client.batch_execute(sql).await)
    }

    /// Which of the server's processes this session has, asked for without a prepared statement.
    fn process(&mut self) -> Result<String, StoreError> {
        let told = self.ask(async |client| client.simple_query("SELECT pg_backend_pid()").await)?;
        let row = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
            _ => None,
        };
        let process = told.iter().find_map(row);
        process.ok_or_else(|| StoreError::new(StoreErrorKind::Io, "the database has no process"))
    }

    /// Runs a statement once.
    pub(crate) fn query_once(
        &mut self,
        sql: &str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        self.ask(async |client| client.query(sql, params).await)
    }

    /// Runs a statement, which is prepared the first time.
    pub(crate) fn query(
        &mut self,
        sql: &'static str,
        params: Params<'_>,
    ) -> Result<Vec<Row>, StoreError> {
        let statement = match self.statements.get(sql) {
            Some(statement) => statement.clone(),
            None => {
                let statement = self.ask(async |client| client.prepare(sql).await)?;
                self.statements.entry(sql).or_insert(statement).clone()
            }
        };
        self.ask(async |client| client.query(&statement, params).await)
    }

    /// Makes the changes of `body` in one transaction: all of them, or none if it fails. Where
    /// somebody's transaction and this one wait for each other and this one has to give way, it is
    /// made again.
    pub(crate) fn transaction<T>(
        &mut self,
        mut body: impl FnMut(&mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            self.batch("BEGIN")?;
            let error = match body(self) {
                Ok(value) => return self.batch("COMMIT").map(|()| value),
                Err(error) => error,
            };
            // If the connection is gone, the server has done it.
            let _ = self.batch("ROLLBACK");
            if !has_code(&error, &SqlState::T_R_DEADLOCK_DETECTED) {
                return Err(error);
            }
        }
    }

    /// Asks the server, and waits for its reply. One that does not come ends the session.
    fn ask<T>(
        &mut self,
        body: impl AsyncFnOnce(&Client) -> Result<T, tokio_postgres::Error>,
    ) -> Result<T, StoreError> {
        let Session { client, line, told, patience, runtime, .. } = self;
        let replied = {
            let mut work = pin!(body(client));
            let driven = poll_fn(|context| {
                if let Err(error) = drive(line, told, context) {
                    return Poll::Ready(Err(error));
                }
                work.as_mut().poll(context)
            });
            runtime.within(*patience, driven)
        };
        replied.map_or_else(
            || {
                self.line = None;
                Err(silent(self.patience))
            },
            |replied| replied.map_err(failed),
        )
    }

    /// Waits for notifications for that long at most, and returns all that are there; none, if the
    /// connection is over.
    pub(crate) fn hear(&mut self, left: Duration) -> Vec<Notification> {
        let Session { line, told, runtime, .. } = self;
        let driven = poll_fn(|context| {
            // What was wrong, the next question finds out.
            let is_over = drive(line, told, context).is_err() || line.is_none();
            if is_over || !told.is_empty() { Poll::Ready(()) } else { Poll::Pending }
        });
        let _ = runtime.within(left, driven);
        std::mem::take(told).into()
    }
}

/// Has the connection do its work, as far as it can now.
fn drive(
    line: &mut Option<Line>,
    told: &mut VecDeque<Notification>,
    context: &mut Context<'_>,
) -> Result<(), tokio_postgres::Error> {
    while let Some(drive) = line {
        match drive(context) {
            Poll::Pending => break,
            Poll::Ready(Some(Ok(AsyncMessage::Notification(one)))) => told.push_back(one),
            Poll::Ready(Some(Ok(_))) => {}
            Poll::Ready(Some(Err(error))) => {
                *line = None;
                return Err(error);
            }
            Poll::Ready(None) => *line = None,
        }
    }
    Ok(())
}

fn silent(patience: Duration) -> StoreError {
    let message = format!("the database has not replied within {patience:?}");
    StoreError::new(StoreErrorKind::Io, message)
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("statements", &self.statements.len())
            .finish_non_exhaustive()
    }
}

/// Whether the server has ended a statement because it took too long.
pub(super) fn is_out_of_time(error: &StoreError) -> bool {
    has_code(error, &SqlState::QUERY_CANCELED)
}

fn has_code(error: &StoreError, code: &SqlState) -> bool {
    let source = std::error::Error::source(error);
    let cause = source.and_then(|cause| cause.downcast_ref::<tokio_postgres::Error>());
    cause.and_then(tokio_postgres::Error::code) == Some(code)
}

/// What a failure of the server or of the connection means for a store.
pub(crate) fn failed(error: tokio_postgres::Error) -> StoreError {
    let kind = match error.code() {
        Some(&SqlState::DISK_FULL) => StoreErrorKind::Full,
        Some(
            &SqlState::INSUFFICIENT_PRIVILEGE
            | &SqlState::INVALID_PASSWORD
            | &SqlState::INVALID_AUTHORIZATION_SPECIFICATION
            | &SqlState::READ_ONLY_SQL_TRANSACTION,
        ) => StoreErrorKind::Denied,
        Some(
            &SqlState::DATA_CORRUPTED
            | &SqlState::INDEX_CORRUPTED
            | &SqlState::UNDEFINED_TABLE
            | &SqlState::UNDEFINED_COLUMN
            | &SqlState::UNIQUE_VIOLATION,
        ) => StoreErrorKind::Corrupt,
        Some(&SqlState::PROGRAM_LIMIT_EXCEEDED) => StoreErrorKind::TooLarge,
        Some(&SqlState::LOCK_NOT_AVAILABLE) => StoreErrorKind::InUse,
        _ => StoreErrorKind::Io,
    };
    let message = match error.as_db_error() {
        Some(told) => format!("the database says: {}", told.message()),
        None => format!("the database cannot be used: {error}"),
    };
    StoreError::caused(kind, message, error)
}
