//! The sockets that an inspector serves on.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
#[cfg(unix)]
use std::{
    fs::{self, Permissions},
    os::fd::{AsFd, BorrowedFd},
    os::unix::fs::{MetadataExt, PermissionsExt},
    os::unix::net::{UnixListener, UnixStream},
    path::{self, Path, PathBuf},
};

#[cfg(unix)]
use nix::poll::{PollFd, PollFlags};

use crate::ear::Waits;

/// A socket that accepts connections, without waiting for them.
pub(crate) enum Listener {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(UnixListener, File),
}

/// A connection that nobody waits for.
pub(crate) trait Socket: Read + Write + Send {
    /// Tells the other side that this was all.
    fn end_writing(&self);

    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_>;
}

/// The file of a Unix socket, which is removed with this if it is still the same.
#[cfg(unix)]
pub(crate) struct File {
    path: PathBuf,
    device_and_inode: Option<(u64, u64)>,
}

// === impl Listener ===

impl Listener {
    pub(crate) fn tcp(address: SocketAddr) -> io::Result<Listener> {
        if !address.ip().is_loopback() {
            let message = format!("{address} is not a loopback address");
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let listener = TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        Ok(Listener::Tcp(listener))
    }

    #[cfg(unix)]
    pub(crate) fn unix(path: &Path) -> io::Result<Listener> {
        let listener = UnixListener::bind(path)?;
        let file = File::at(path);
        fs::set_permissions(path, Permissions::from_mode(0o600))?;
        listener.set_nonblocking(true)?;
        // Connections from before that are dropped.
        while listener.accept().is_ok() {}
        Ok(Listener::Unix(listener, file))
    }

    pub(crate) fn address(&self) -> io::Result<(String, Option<SocketAddr>)> {
        match self {
            Listener::Tcp(listener) => {
                let address = listener.local_addr()?;
                Ok((format!("http://{address}/"), Some(address)))
            }
            #[cfg(unix)]
            Listener::Unix(_, file) => Ok((file.path.display().to_string(), None)),
        }
    }

    /// A connection that waits.
    ///
    /// # Errors
    /// `WouldBlock`: there is none. Another: the system refuses it.
    pub(crate) fn accept(&self) -> io::Result<Box<dyn Socket>> {
        match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
            #[cfg(unix)]
            Listener::Unix(listener, _) => {
                let (stream, _) = listener.accept()?;
                stream.set_nonblocking(true)?;
                Ok(Box::new(stream))
            }
        }
    }
}

impl Waits for Listener {
    #[cfg(unix)]
    fn event(&self) -> PollFd<'_> {
        let fd = match self {
            Listener::Tcp(listener) => listener.as_fd(),
            Listener::Unix(listener, _) => listener.as_fd(),
        };
        PollFd::new(fd, PollFlags::POLLIN)
    }
}

// === impl Socket ===

impl Socket for TcpStream {
    fn end_writing(&self) {
        // If the other side is gone, it knows.
        let _ = self.shutdown(Shutdown::Write);
    }

    #[cfg(unix)]
    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

#[cfg(unix)]
impl Socket for UnixStream {
    fn end_writing(&self) {
        let _ = self.shutdown(Shutdown::Write);
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.as_fd()
    }
}

// === impl File ===

#[cfg(unix)]
impl File {
    fn at(path: &Path) -> File {
        // The process may work in another directory by the time that it is removed.
        let whole = path::absolute(path).unwrap_or_else(|_| path.to_owned());
        File { path: whole, device_and_inode: File::device_and_inode(path) }
    }

    fn device_and_inode(path: &Path) -> Option<(u64, u64)> {
        fs::symlink_metadata(path).ok().map(|file| (file.dev(), file.ino()))
    }
}

#[cfg(unix)]
impl Drop for File {
    fn drop(&mut self) {
        let now = File::device_and_inode(&self.path);
        if now.is_some() && now == self.device_and_inode {
            // If it cannot be removed, it stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}
