//! Timers that are scheduled within a transaction of the user's, by the functions of the schema:
//! see `crates/durable/src/store/postgres/people.sql`.
//!
//! *Tested by*: `tests/durable/postgres/people.rs`.

use std::time::SystemTime;

use tokio_postgres::Error;
use tokio_postgres::types::ToSql;

use crate::error::{ScheduleError, ScheduleReason};
use crate::payload::Payload;
use crate::position::ms_at_or_after;
use crate::service::bytes_of;
use crate::store::postgres::failed;

use super::handle::Cluster;
use super::id::TimerId;

/// What is asked of the database.
struct Question {
    sql: String,
    due_ms: i64,
    payload: Vec<u8>,
}

// === impl Cluster ===

/// # In a transaction of yours (PostgreSQL)
impl<P: Payload> Cluster<P> {
    /// Schedules a timer within a transaction of yours, in the cluster's database: the timer exists
    /// if and when that is committed, and its shard's holder then hears of it. With a `key`, the
    /// timer replaces the one that has this key.
    ///
    /// Until the transaction ends, whatever else is done under this key waits for it, and with it
    /// what the holder writes in the same batch. So keep it short: a holder that has waited for two
    /// thirds of a lease opens its shard anew. A timer without a key keeps nobody waiting.
    ///
    /// Other programs call the function of the schema, `tickless.schedule(due, payload, key)`: see
    /// [`ddl`](super::ddl).
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tickless_durable::Cluster;
    ///
    /// # fn order(cluster: &Cluster<String>, client: &mut postgres::Client)
    /// #     -> Result<(), Box<dyn std::error::Error>> {
    /// let mut transaction = client.transaction()?;
    /// transaction.execute("INSERT INTO orders (id) VALUES (17)", &[])?;
    /// let at = cluster.now() + Duration::from_secs(3600);
    /// cluster.schedule_in(&mut transaction, Some(b"order 17"), at, "remind".to_owned())?;
    /// transaction.commit()?; // Both, or neither.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The payload cannot be written, or has more than 256 MiB, or the database cannot do it.
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub fn schedule_in(
        &self,
        transaction: &mut impl postgres::GenericClient,
        key: Option<&[u8]>,
        at: SystemTime,
        payload: P,
    ) -> Result<TimerId, ScheduleError<P>> {
        let mut ask = |question: &Question| {
            let row = transaction.query_one(&question.sql, &question.params(&key))?;
            row.try_get(0)
        };
        let asked = self.question(key, at, &payload);
        let told = asked.and_then(|question| ask(&question).map_err(refused));
        told.map(named).map_err(|reason| ScheduleError { payload, reason })
    }

    /// As [`schedule_in`](Cluster::schedule_in), in a transaction of `tokio-postgres`.
    ///
    /// # Errors
    /// As `schedule_in`.
    #[cfg_attr(docsrs, doc(cfg(feature = "postgres")))]
    pub async fn schedule_in_async(
        &self,
        transaction: &impl tokio_postgres::GenericClient,
        key: Option<&[u8]>,
        at: SystemTime,
        payload: P,
    ) -> Result<TimerId, ScheduleError<P>> {
        let ask = async |question: &Question| {
            let row = transaction.query_one(&question.sql, &question.params(&key)).await?;
            row.try_get(0)
        };
        let told = match self.question(key, at, &payload) {
            Ok(question) => ask(&question).await.map_err(refused),
            Err(reason) => Err(reason),
        };
        told.map(named).map_err(|reason| ScheduleError { payload, reason })
    }

    fn question(
        &self,
        key: Option<&[u8]>,
        at: SystemTime,
        payload: &P,
    ) -> Result<Question, ScheduleReason> {
        let sql = format!("SELECT {}.schedule_ms($1, $2, $3)", self.inner.hub.name());
        let payload = bytes_of(key, payload)?.to_vec();
        Ok(Question { sql, due_ms: ms_at_or_after(at).cast_signed(), payload })
    }
}

impl Question {
    fn params<'a>(&'a self, key: &'a Option<&[u8]>) -> [&'a (dyn ToSql + Sync); 3] {
        [&self.due_ms, &self.payload, key]
    }
}

fn refused(error: Error) -> ScheduleReason {
    ScheduleReason::Store(failed(error))
}

/// The function returns the timer's number.
fn named(text: String) -> TimerId {
    text.parse().expect("it is written as this crate writes it")
}
