//! The senders that a [`Channel`](super::Channel) takes, behind one interface.
//!
//! *Owner*: the channel.
//!
//! *Tested by*: `tests/races/dispatch/channel.rs`, `tests/suite/dispatch/senders.rs`.

use crossbeam_channel::{Sender, TrySendError};

use crate::sync::mpsc;

#[cfg(feature = "tokio")]
use tokio::sync::mpsc as tokio_mpsc;

/// A sender that a [`Channel`](super::Channel) takes: one of crossbeam's, of the standard library's
/// `mpsc` (bounded or not), or of tokio's (feature `tokio`). Sealed: other channels need a
/// [`Handler`](super::Handler) of your own, which is one line of code.
pub trait ChannelSender: sealed::Sealed {
    /// What is sent.
    type Payload;

    #[doc(hidden)]
    fn into_any(self) -> AnySender<Self::Payload>;
}

/// Any of the senders.
#[doc(hidden)]
pub enum AnySender<T> {
    Crossbeam(Sender<T>),
    Std(mpsc::Sender<T>),
    StdSync(mpsc::SyncSender<T>),
    #[cfg(feature = "tokio")]
    Tokio(tokio_mpsc::Sender<T>),
    #[cfg(feature = "tokio")]
    TokioUnbounded(tokio_mpsc::UnboundedSender<T>),
}

mod sealed {
    pub trait Sealed {}
}

/// Makes each sender one of the variants of [`AnySender`].
macro_rules! senders {
    ($($(#[$attribute:meta])* $variant:ident: $sender:ty,)*) => { $(
        $(#[$attribute])*
        impl<T> sealed::Sealed for $sender {}

        $(#[$attribute])*
        impl<T> ChannelSender for $sender {
            type Payload = T;

            fn into_any(self) -> AnySender<T> {
                AnySender::$variant(self)
            }
        }
    )* };
}

senders! {
    Crossbeam: Sender<T>,
    Std: mpsc::Sender<T>,
    StdSync: mpsc::SyncSender<T>,
    #[cfg(feature = "tokio")]
    Tokio: tokio_mpsc::Sender<T>,
    #[cfg(feature = "tokio")]
    TokioUnbounded: tokio_mpsc::UnboundedSender<T>,
}

// === impl AnySender ===

impl<T> AnySender<T> {
    /// Sends a payload, or returns it. Waits for room if the channel is full.
    ///
    /// # Panics
    /// Tokio's channel is full, and the thread runs asynchronous code. Or the waker of tokio's
    /// receiver panics: the payload was sent then.
    pub(super) fn wait_and_send(&self, payload: T) -> Result<(), TrySendError<T>> {
        match self {
            AnySender::Crossbeam(sender) => sender.send(payload).map_err(TrySendError::from),
            AnySender::StdSync(sender) => sender.send(payload).map_err(gone),
            #[cfg(feature = "tokio")]
            AnySender::Tokio(sender) => {
                let sent = sender.blocking_send(payload);
                sent.map_err(|error| TrySendError::Disconnected(error.0))
            }
            // They are never full.
            _ => self.try_send(payload),
        }
    }

    /// Sends a payload, or returns it. Never waits.
    ///
    /// # Panics
    /// The waker of tokio's receiver panics. The payload was sent then.
    pub(super) fn try_send(&self, payload: T) -> Result<(), TrySendError<T>> {
        match self {
            AnySender::Crossbeam(sender) => sender.try_send(payload),
            AnySender::Std(sender) => sender.send(payload).map_err(gone),
            AnySender::StdSync(sender) => sender.try_send(payload).map_err(|error| match error {
                mpsc::TrySendError::Full(payload) => TrySendError::Full(payload),
                mpsc::TrySendError::Disconnected(payload) => TrySendError::Disconnected(payload),
            }),
            #[cfg(feature = "tokio")]
            AnySender::Tokio(sender) => sender.try_send(payload).map_err(|error| match error {
                tokio_mpsc::error::TrySendError::Full(payload) => TrySendError::Full(payload),
                tokio_mpsc::error::TrySendError::Closed(payload) => {
                    TrySendError::Disconnected(payload)
                }
            }),
            #[cfg(feature = "tokio")]
            AnySender::TokioUnbounded(sender) => {
                sender.send(payload).map_err(|error| TrySendError::Disconnected(error.0))
            }
        }
    }
}

fn gone<T>(error: mpsc::SendError<T>) -> TrySendError<T> {
    TrySendError::Disconnected(error.0)
}

debug! { impl[T] AnySender[T] {} }
