//! A connection to the database, with the settings that the statements of this crate rely on.
//!
//! *Owner*: the thread that has it.
//!
//! *Tested by*: `durable/tests/postgres/`.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use postgres::error::SqlState;
use postgres::tls::{MakeTlsConnect, TlsConnect};
use postgres::types::ToSql;
use postgres::{Client, Config, Row, Socket, Statement};

use crate::error::{StoreError, StoreErrorKind};

/// How the statements' parameters are passed.
pub(crate) type Params<'a> = &'a [&'a (dyn ToSql + Sync)];

type Connect = dyn Fn(&Config) -> Result<Client, postgres::Error> + Send + Sync;

/// Where the database is, and how it is reached.
#[derive(Clone)]
pub(crate) struct Database {
    config: Config,
    connect: Arc<Connect>,
    /// A name that needs no quotes.
    pub(crate) schema: String,
    /// How long the server lets a transaction wait for its client.
    patience: Duration,
}

/// A connection, and the statements that were prepared on it.
pub(crate) struct Session {
    client: Client,
    statements: HashMap<&'static str, Statement>,
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
        let connect: Arc<Connect> = Arc::new(move |config| config.connect(tls.clone()));
        Database { config, connect, schema: schema.to_owned(), patience }
    }

    /// The channel on which instances tell each other what they did.
    pub(crate) fn channel(&self) -> String {
        format!("tickless_{}", self.schema)
    }

    /// Connects. `name` is what the server's own views call the connection.
    ///
    /// - A client that stops in the middle of a transaction loses it, so that it cannot keep a
    ///   shard's lock from the instance that takes the shard over.
    /// - All statements go by an index. Without statistics about a new table, the server would plan
    ///   to read all of it, and keep to that plan.
    /// - A server that is told not to wait for its disk is told to, because a commit here means
    ///   that the batch is durable.
    /// - A statement sees what was committed before it, also if the database or the role asks for
    ///   another isolation: a writer of a list sees what the writer for whom it has waited wrote.
    /// - A session may be idle. A shard's is, as long as no timer is due.
    pub(crate) fn connect(&self, name: &str) -> Result<Session, StoreError> {
        let mut config = self.config.clone();
        config.application_name(&format!("{name} in {}", self.schema));
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(self.patience);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(self.patience);
        }
        let mut client = (self.connect)(&config).map_err(failed)?;
        let (schema, patience_ms) = (&self.schema, self.patience.as_millis().max(1));
        let settings = format!(
            "SET search_path TO {schema}, pg_catalog;
             SET idle_in_transaction_session_timeout = {patience_ms};
             SET enable_seqscan = off; SET enable_hashjoin = off; SET enable_mergejoin = off;
             SET default_transaction_isolation = 'read committed';
             SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off';
             SELECT set_config('idle_session_timeout', '0', false)
                 WHERE current_setting('idle_session_timeout', true) IS NOT NULL"
        );
        client.batch_execute(&settings).map_err(failed)?;
        Ok(Session { client, statements: HashMap::new() })
    }
}

impl fmt::Debug for Database {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Database").field("schema", &self.schema).finish_non_exhaustive()
    }
}

// === impl Session ===

impl Session {
    /// The connection itself, for what is done once.
    pub(crate) fn client(&mut self) -> &mut Client {
        &mut self.client
    }

    /// Whether nothing is known of its end.
    pub(crate) fn is_open(&self) -> bool {
        !self.client.is_closed()
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
                let statement = self.client.prepare(sql).map_err(failed)?;
                self.statements.entry(sql).or_insert(statement).clone()
            }
        };
        self.client.query(&statement, params).map_err(failed)
    }

    /// Makes the changes of `body` in one transaction: all of them, or none if it fails.
    pub(crate) fn transaction<T>(
        &mut self,
        body: impl FnOnce(&mut Session) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.client.batch_execute("BEGIN").map_err(failed)?;
        match body(self) {
            Ok(value) => self.client.batch_execute("COMMIT").map(|()| value).map_err(failed),
            Err(error) => {
                // If the connection is gone, the server has done it.
                let _ = self.client.batch_execute("ROLLBACK");
                Err(error)
            }
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("statements", &self.statements.len())
            .finish_non_exhaustive()
    }
}

/// What a failure of the server or of the connection means for a store.
pub(crate) fn failed(error: postgres::Error) -> StoreError {
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
