//! One connection: a request is read, the reply is written, and the rest is thrown away until the
//! other side has read it. Nothing here waits.

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

#[cfg(unix)]
use nix::poll::{PollFd, PollFlags};

use crate::ear::Waits;
use crate::listener::Socket;
use crate::site::{Site, reply_to, reply_to_too_much};

/// How long each of the three steps may take.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// How long the head of a request may be.
const MAX_HEAD: usize = 8 * 1024;

/// How much is thrown away.
const MAX_REST: usize = 256 * 1024;

pub(crate) struct Connection {
    socket: Box<dyn Socket>,
    step: Step,
    /// When the step has taken too long.
    pub(crate) deadline: Instant,
}

enum Step {
    /// With what was read so far.
    Read(Vec<u8>),
    /// The reply, and how much of it was written.
    Write(Vec<u8>, usize),
    /// Reads on, without a use for it: a socket that is closed before everything was read takes the
    /// reply back. With how much may come.
    End(usize),
}

// === impl Connection ===

impl Connection {
    pub(crate) fn new(socket: Box<dyn Socket>, now: Instant) -> Connection {
        Connection { socket, step: Step::Read(Vec::new()), deadline: now + PATIENCE }
    }

    /// Goes on as far as it can. Returns `false` if the connection is to be closed: by `now`, it
    /// has taken too long, for example.
    pub(crate) fn go_on(&mut self, now: Instant, site: &mut dyn Site) -> bool {
        loop {
            let next = match &mut self.step {
                Step::Read(head) => match read_head(&mut *self.socket, head) {
                    Ok(Some(end)) => Ok(Step::Write(reply_to(site, &head[..end]), 0)),
                    Ok(None) => Ok(Step::Write(reply_to_too_much(), 0)),
                    Err(error) => Err(error),
                },
                Step::Write(reply, written) => write(&mut *self.socket, reply, written).map(|()| {
                    self.socket.end_writing();
                    Step::End(MAX_REST)
                }),
                Step::End(left) => Err(throw_away(&mut *self.socket, left)),
            };
            match next {
                // The site may have taken long.
                Ok(step) => (self.step, self.deadline) = (step, Instant::now() + PATIENCE),
                Err(error) => return error.kind() == ErrorKind::WouldBlock && now < self.deadline,
            }
        }
    }
}

impl Waits for Connection {
    #[cfg(unix)]
    fn event(&self) -> PollFd<'_> {
        let is_written = matches!(self.step, Step::Write(..));
        let event = if is_written { PollFlags::POLLOUT } else { PollFlags::POLLIN };
        PollFd::new(self.socket.fd(), event)
    }
}

/// Reads on until the head of a request is complete: returns its length, or `None` if it is longer
/// than it may be.
fn read_head(socket: &mut dyn Socket, head: &mut Vec<u8>) -> io::Result<Option<usize>> {
    loop {
        let mut bytes = [0; 2048];
        let count = read(socket, &mut bytes)?;
        // The end may have come in parts.
        let from = head.len().saturating_sub(3);
        head.extend(&bytes[..count]);
        if let Some(at) = head[from..].windows(4).position(|end| end == b"\r\n\r\n") {
            let end = from + at + 4;
            return Ok((end <= MAX_HEAD).then_some(end));
        }
        if head.len() > MAX_HEAD {
            return Ok(None);
        }
    }
}

/// Reads at least a byte.
fn read(socket: &mut dyn Socket, bytes: &mut [u8]) -> io::Result<usize> {
    loop {
        match socket.read(bytes) {
            Ok(0) => return Err(io::Error::from(ErrorKind::UnexpectedEof)),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

fn write(socket: &mut dyn Socket, reply: &[u8], written: &mut usize) -> io::Result<()> {
    while *written < reply.len() {
        match socket.write(&reply[*written..]) {
            Ok(0) => return Err(io::Error::from(ErrorKind::WriteZero)),
            Ok(count) => *written += count,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads on until nothing is there, or too much has come.
fn throw_away(socket: &mut dyn Socket, left: &mut usize) -> io::Error {
    let mut bytes = [0; 8 * 1024];
    loop {
        match read(socket, &mut bytes) {
            Ok(count) if count <= *left => *left -= count,
            Ok(_) => return io::Error::from(ErrorKind::InvalidData),
            Err(error) => return error,
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use crate::site::{Reply, Request};
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    /// Takes longer than the clock needs to go on. With when it has replied.
    struct Slow(Option<Instant>);

    impl Site for Slow {
        fn reply(&mut self, _: &Request<'_>) -> Reply {
            let asked = Instant::now();
            while self.0.is_none_or(|replied| replied == asked) {
                self.0 = Some(Instant::now());
            }
            Reply::text("200 OK", "tea")
        }
    }

    #[test]
    fn the_time_that_a_site_takes_is_not_the_clients() {
        let (mut client, socket) = UnixStream::pair().unwrap();
        socket.set_nonblocking(true).unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
        let now = Instant::now();
        let (mut connection, mut site) = (Connection::new(Box::new(socket), now), Slow(None));
        assert!(connection.go_on(now, &mut site));
        assert!(connection.deadline >= site.0.unwrap() + PATIENCE);
    }
}
