//! The protocol: frames of sixteen bytes, a request's number and what to do with it. An answer is
//! the request's frame sent back. The server opens with a greeting: until that arrives a client
//! cannot know whether its connection has been accepted or waits in the kernel's queue.
//!
//! A connection has at most one request under way, so a socket's send buffer always has room for
//! a frame, and a write that finds none means that the connection is broken.

use std::io::{self, ErrorKind, Read, Write};

use mio::net::TcpStream;

const FRAME_LEN: usize = 16;

/// A request, or its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) number: u64,
    /// Asks the server to say nothing, so that the request's timeout fires.
    pub(crate) unanswered: bool,
}

/// What the server says first; no request has this number.
pub(crate) const GREETING: Frame = Frame { number: u64::MAX, unanswered: false };

/// Bytes of a frame that has not arrived whole.
#[derive(Debug, Default)]
pub(crate) struct Partial {
    bytes: [u8; FRAME_LEN],
    len: usize,
}

/// What a socket had to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    Frame(Frame),
    /// Nothing more until the next readiness event.
    Nothing,
    /// The other side is gone, in good order or not.
    End,
}

/// Sends one frame.
pub(crate) fn send(stream: &mut TcpStream, frame: Frame) -> io::Result<()> {
    let mut bytes = [0; FRAME_LEN];
    bytes[..8].copy_from_slice(&frame.number.to_le_bytes());
    bytes[8] = u8::from(frame.unanswered);
    match stream.write(&bytes)? {
        FRAME_LEN => Ok(()),
        _ => Err(ErrorKind::WriteZero.into()),
    }
}

/// Reads on until a frame is whole. Events are edge-triggered: call until it says `Nothing`.
pub(crate) fn receive(stream: &mut TcpStream, partial: &mut Partial) -> Incoming {
    loop {
        match stream.read(&mut partial.bytes[partial.len..]) {
            Ok(0) => return Incoming::End,
            Ok(count) => partial.len += count,
            Err(error) => match error.kind() {
                // Not connected: the dial is still under way, and some systems say it like this.
                ErrorKind::WouldBlock | ErrorKind::NotConnected => return Incoming::Nothing,
                ErrorKind::Interrupted => {}
                _ => return Incoming::End,
            },
        }
        if partial.len == FRAME_LEN {
            partial.len = 0;
            let (number, rest) = partial.bytes.split_at(8);
            let number = u64::from_le_bytes(number.try_into().expect("eight bytes"));
            return Incoming::Frame(Frame { number, unanswered: rest[0] != 0 });
        }
    }
}
