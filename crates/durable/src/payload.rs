//! What timers carry: bytes, or values that serde writes.

use std::convert::Infallible;
use std::fmt::Display;

/// A value that a timer can carry to its handler, also after a restart.
///
/// It is implemented for bytes and text, and with the feature `serde` for [`Json`] of any type that
/// serde knows. What was written by one version of a program is read by the next, so choose a form
/// that can grow.
pub trait Payload: Sized + Send + 'static {
    /// Why a value cannot be written or read.
    type Error: Display;

    /// The value as bytes.
    ///
    /// # Errors
    /// It cannot be written.
    fn to_bytes(&self) -> Result<Vec<u8>, Self::Error>;

    /// The value that these bytes are. A timer whose payload cannot be read becomes a dead letter.
    ///
    /// # Errors
    /// They are no such value.
    fn from_bytes(bytes: &[u8]) -> Result<Self, Self::Error>;
}

impl Payload for Vec<u8> {
    type Error = Infallible;

    fn to_bytes(&self) -> Result<Vec<u8>, Infallible> {
        Ok(self.clone())
    }

    fn from_bytes(bytes: &[u8]) -> Result<Vec<u8>, Infallible> {
        Ok(bytes.to_vec())
    }
}

impl Payload for String {
    type Error = std::string::FromUtf8Error;

    fn to_bytes(&self) -> Result<Vec<u8>, Self::Error> {
        Ok(self.clone().into_bytes())
    }

    fn from_bytes(bytes: &[u8]) -> Result<String, Self::Error> {
        String::from_utf8(bytes.to_vec())
    }
}

/// A payload of any type that serde knows, stored as JSON.
///
/// A later version of a program can read what an earlier one has written if the type only gained
/// fields with a default (`#[serde(default)]`).
///
/// ```
/// use std::time::SystemTime;
/// use serde::{Deserialize, Serialize};
/// use tickless_durable::{Durable, Json, RedbStore};
///
/// #[derive(Debug, Serialize, Deserialize)]
/// struct Reminder {
///     to: String,
///     text: String,
/// }
///
/// # let directory = tempfile::tempdir()?;
/// # let path = directory.path().join("timers.redb");
/// let (sender, sent) = std::sync::mpsc::channel();
/// let timers = Durable::builder().open(RedbStore::open(path)?, move |firing| {
///     let Json(reminder): &Json<Reminder> = firing.payload();
///     sender.send(reminder.text.clone())
/// })?;
/// let reminder = Reminder { to: "ada".into(), text: "tea is ready".into() };
/// timers.schedule(SystemTime::now(), Json(reminder))?.wait()?;
/// assert_eq!(sent.recv()?, "tea is ready");
/// timers.stop()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[cfg(feature = "serde")]
#[cfg_attr(docsrs, doc(cfg(feature = "serde")))]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Json<T>(pub T);

#[cfg(feature = "serde")]
impl<T: serde::Serialize + serde::de::DeserializeOwned + Send + 'static> Payload for Json<T> {
    type Error = serde_json::Error;

    fn to_bytes(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&self.0)
    }

    fn from_bytes(bytes: &[u8]) -> Result<Json<T>, serde_json::Error> {
        serde_json::from_slice(bytes).map(Json)
    }
}
