//! The channels of [`std::sync::mpsc`], whose code is compiled once for all types of messages: each
//! message is in a box.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::mpsc;
use std::time::Duration;

pub use std::sync::mpsc::{RecvError, RecvTimeoutError, SendError, TryRecvError, sync_channel};

type Message = Box<dyn Any + Send>;

pub struct Sender<T>(mpsc::Sender<Message>, PhantomData<fn(T)>);

pub struct Receiver<T>(mpsc::Receiver<Message>, PhantomData<fn() -> T>);

pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let (sender, receiver) = mpsc::channel();
    (Sender(sender, PhantomData), Receiver(receiver, PhantomData))
}

fn open<T: 'static>(message: Message) -> T {
    *message.downcast().expect("the channel has messages of one type")
}

// === impl Sender ===

impl<T: Send + 'static> Sender<T> {
    pub fn send(&self, message: T) -> Result<(), SendError<T>> {
        match self.0.send(Box::new(message)) {
            Ok(()) => Ok(()),
            Err(SendError(message)) => Err(SendError(open(message))),
        }
    }
}

impl<T> Clone for Sender<T> {
    fn clone(&self) -> Sender<T> {
        Sender(self.0.clone(), PhantomData)
    }
}

// === impl Receiver ===

impl<T: 'static> Receiver<T> {
    pub fn recv(&self) -> Result<T, RecvError> {
        self.0.recv().map(open)
    }

    pub fn recv_timeout(&self, timeout: Duration) -> Result<T, RecvTimeoutError> {
        self.0.recv_timeout(timeout).map(open)
    }

    pub fn try_recv(&self) -> Result<T, TryRecvError> {
        self.0.try_recv().map(open)
    }

    pub fn iter(&self) -> impl Iterator<Item = T> {
        self.0.iter().map(open)
    }

    pub fn try_iter(&self) -> impl Iterator<Item = T> {
        self.0.try_iter().map(open)
    }
}

impl<T: 'static> IntoIterator for Receiver<T> {
    type Item = T;
    type IntoIter = std::iter::Map<mpsc::IntoIter<Message>, fn(Message) -> T>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter().map(open)
    }
}
