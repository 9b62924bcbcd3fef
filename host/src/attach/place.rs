//! Where the sockets are: a folder that only its user may enter, with a socket for each process that owns a machine, named by the process's number.
//!
//! It is $XDG_RUNTIME_DIR/darter, or /tmp/darter-UID where that variable names no folder of the user's own. A socket gets its name when it listens already, so
//! one that refuses is that of a process that ended without a chance to remove it; who finds it removes it.
#![forbid(unsafe_code)]

use std::fs::{DirBuilder, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Rights of others.
const OTHERS: u32 = 0o077;

/// The folder, whether it is there or not.
fn folder() -> PathBuf {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = runtime.filter(|path| path.is_absolute() && path.metadata().is_ok_and(|about| is_own(&about)));
    let user = rustix::process::geteuid().as_raw();
    own.map_or_else(|| format!("/tmp/darter-{user}").into(), |path| path.join("darter"))
}

fn is_own(about: &Metadata) -> bool {
    about.is_dir() && about.uid() == rustix::process::geteuid().as_raw()
}

/// # Errors
/// It is not there, or others may enter it, or it is somebody else's.
fn check(folder: &Path) -> Result<()> {
    // A link to a folder is none: who may write where it stands could change it.
    let about = folder.symlink_metadata().with_context(|| folder.display().to_string())?;
    if !is_own(&about) || about.mode() & OTHERS != 0 {
        bail!("{} is not a folder of this user's that nobody else may enter", folder.display());
    }
    Ok(())
}

/// The socket of this process. Its name goes when it is dropped.
pub struct Socket {
    pub listener: UnixListener,
    path: PathBuf,
}

impl Socket {
    /// # Errors
    /// There is no such folder and none can be made, or the socket cannot be made there.
    pub fn listen() -> Result<Self> {
        Self::listen_in(&folder(), std::process::id())
    }

    /// The socket of process `pid` in `folder`, which is made if it is not there.
    ///
    /// # Errors
    /// As [`Socket::listen`].
    pub fn listen_in(folder: &Path, pid: u32) -> Result<Self> {
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => {
                return Err(error).with_context(|| format!("cannot make {}", folder.display()));
            }
            _ => check(folder)?,
        }
        let path = folder.join(pid.to_string());
        // A container that has this folder too may have a process of this number.
        if UnixStream::connect(&path).is_ok() {
            bail!("another process listens at {}", path.display());
        }
        let unnamed = folder.join(format!(".{pid}"));
        let _ = std::fs::remove_file(&unnamed);
        let listener = UnixListener::bind(&unnamed)
            .and_then(|listener| {
                listener.set_nonblocking(true)?;
                std::fs::rename(&unnamed, &path)?;
                Ok(listener)
            })
            .with_context(|| format!("cannot listen at {}", path.display()))?;
        Ok(Self { listener, path })
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A connection to the socket of process `pid`; None: it has none.
///
/// # Errors
/// The folder is not the user's own, or the socket cannot be reached.
pub fn connect(pid: u32) -> Result<Option<UnixStream>> {
    connect_in(&folder(), pid)
}

/// Connections to all sockets, by the number of the process.
///
/// # Errors
/// As [`connect`].
pub fn all() -> Result<Vec<(u32, UnixStream)>> {
    all_in(&folder())
}

fn connect_in(folder: &Path, pid: u32) -> Result<Option<UnixStream>> {
    if !is_there(folder)? {
        return Ok(None);
    }
    let path = folder.join(pid.to_string());
    match UnixStream::connect(&path) {
        Ok(socket) => Ok(Some(socket)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => {
            let _ = std::fs::remove_file(&path);
            Ok(None)
        }
        Err(error) => Err(error).with_context(|| path.display().to_string()),
    }
}

fn all_in(folder: &Path) -> Result<Vec<(u32, UnixStream)>> {
    if !is_there(folder)? {
        return Ok(Vec::new());
    }
    let names = std::fs::read_dir(folder)
        .and_then(|entries| entries.map(|entry| Ok(entry?.file_name())).collect::<io::Result<Vec<_>>>());
    let names = names.with_context(|| folder.display().to_string())?;
    let mut pids: Vec<u32> = names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    let mut found = Vec::new();
    for pid in pids {
        found.extend(connect_in(folder, pid)?.map(|socket| (pid, socket)));
    }
    Ok(found)
}

fn is_there(folder: &Path) -> Result<bool> {
    match folder.symlink_metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        _ => check(folder).map(|()| true),
    }
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn numbers(folder: &Path) -> Vec<u32> {
        all_in(folder).unwrap().iter().map(|(pid, _)| *pid).collect()
    }

    #[test]
    fn sockets_of_processes_that_ended_are_removed_by_who_finds_them() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("darter");
        assert!(connect_in(&folder, 7).unwrap().is_none());
        let (seven, nine) = (Socket::listen_in(&folder, 7).unwrap(), Socket::listen_in(&folder, 9).unwrap());
        assert_eq!(numbers(&folder), [7, 9]);
        assert!(connect_in(&folder, 9).unwrap().is_some());
        assert!(Socket::listen_in(&folder, 9).is_err(), "one of this number listens");
        // A process that is killed closes its socket and leaves the name.
        let left = nine.path.clone();
        let closed = nine.listener.try_clone().unwrap();
        std::mem::forget(nine);
        rustix::net::shutdown(&closed, rustix::net::Shutdown::Both).unwrap();
        assert!(left.exists());
        assert_eq!(numbers(&folder), [7]);
        assert!(!left.exists());
        drop(seven);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    }

    #[test]
    fn a_folder_that_others_may_enter_is_refused() {
        let place = tempfile::tempdir().unwrap();
        let folder = place.path().join("open");
        std::fs::create_dir(&folder).unwrap();
        std::fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
        assert!(Socket::listen_in(&folder, 7).is_err());
        assert!(all_in(&folder).is_err());
        let (own, link) = (place.path().join("own"), place.path().join("link"));
        DirBuilder::new().mode(0o700).create(&own).unwrap();
        std::os::unix::fs::symlink(&own, &link).unwrap();
        assert!(Socket::listen_in(&link, 7).is_err());
        assert!(Socket::listen_in(&own, 7).is_ok());
    }
}
