//! Signals of input and output: a file with O_ASYNC on sends its owner a signal whenever bytes have moved (fcntl(2); Linux calls it fasync). A directory
//! sends its owner those of F_NOTIFY, whether or not that is on.
//!
//! A file gets an `AsyncIo` with the first call that says something about its owner; most never have one. It stays on the queues that it
//! once joined for as long as it lives; `on` says whether anybody is told.
//!
//! Lock order: `state` is a leaf. A signal is sent when it has been let go.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use core::mem::replace;

use crate::lock_order as level;
use sync::rcu::RcuHead;
use sync::{SpinLock, lock_class, try_arc};

use super::poll::PollQueue;
use super::{File, OpenFlags};
use crate::errno::{Errno, Result};
use crate::fs::caller::{self, Band, Owner, OwnerKind};
use crate::fs::vfs::locks::Holder;
use crate::fs::vfs::notify::signals;

lock_class! { static STATE: LockClass = ("file owner", level::FileOwner); }

/// The queues whose changes a kind of file tells by signal.
pub struct AsyncQueues<'a> {
    pub input: Option<&'a PollQueue>,
    pub output: Option<&'a PollQueue>,
    /// Whom it tells if nobody has been named.
    pub owner: Option<(OwnerKind, u32)>,
}

struct State {
    owner: Owner,
    /// 0: SIGIO, without siginfo_t.
    signal: u32,
    /// O_ASYNC is on, and was set through this descriptor.
    on: Option<i32>,
    /// It has joined the file's queues.
    joined: bool,
}

pub struct AsyncIo {
    state: SpinLock<State, level::FileOwner>,
    rcu: RcuHead,
}

sync::rcu_object!(AsyncIo);

/// An owner's place on a queue.
#[derive(Clone)]
pub struct Place {
    pub(super) to: Weak<AsyncIo>,
    pub(super) band: Band,
}

impl AsyncIo {
    fn try_new() -> Result<Arc<AsyncIo>> {
        let state = State { owner: Owner::NOBODY, signal: 0, on: None, joined: false };
        Ok(try_arc(AsyncIo { state: SpinLock::new(state, &STATE), rcu: RcuHead::new() })?)
    }

    /// Something can be done with the file.
    pub(super) fn tell(&self, band: Band) {
        let (owner, signal, fd) = {
            let state = self.state.lock();
            let Some(fd) = state.on else { return };
            (state.owner.clone(), state.signal, fd)
        };
        owner.send(signal, fd, band);
    }

    /// Nobody is told any more.
    pub(super) fn turn_off(&self) {
        self.state.lock().on = None;
    }

    /// The file has a lease from now on, which was asked for through descriptor `fd`. `owner` is told if nobody has been named.
    pub(super) fn begin_lease(&self, fd: i32, owner: Owner) {
        let mut state = self.state.lock();
        state.on = Some(fd);
        let unused = if state.owner.is_somebody() { owner } else { replace(&mut state.owner, owner) };
        drop(state);
        drop(unused);
    }

    pub fn owner(&self) -> Owner {
        self.state.lock().owner.clone()
    }

    pub fn set_owner(&self, owner: Owner) {
        // The old one may be the last to know a process.
        let old = replace(&mut self.state.lock().owner, owner);
        drop(old);
    }

    pub fn signal(&self) -> u32 {
        self.state.lock().signal
    }

    pub fn set_signal(&self, signal: u32) {
        self.state.lock().signal = signal;
    }

    fn is_on(&self) -> bool {
        self.state.lock().on.is_some()
    }
}

/// What has contents tells of no input and output, so `on` and the owner are its lease's.
impl Holder for AsyncIo {
    fn broken(&self) {
        self.tell(Band::Message);
    }

    fn ended(&self) {
        let mut state = self.state.lock();
        state.on = None;
        state.signal = 0;
        let old = replace(&mut state.owner, Owner::NO_PROCESS);
        drop(state);
        drop(old);
    }
}

impl signals::Owner for AsyncIo {
    fn tell(&self, fd: i32) {
        let (owner, signal) = {
            let state = self.state.lock();
            (state.owner.clone(), state.signal)
        };
        owner.send(signal, fd, Band::Message);
    }
}

impl File {
    /// Who is told of its input and output, if anybody ever said so.
    pub fn async_io(&self) -> Option<Arc<AsyncIo>> {
        self.async_io.get(&sync::rcu::read())
    }

    /// The same, made where there is none.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn need_async_io(&self) -> Result<Arc<AsyncIo>> {
        if let Some(there) = self.async_io() {
            return Ok(there);
        }
        let new = AsyncIo::try_new()?;
        // Another thread may be first.
        let _ = self.async_io.put_if_empty(new);
        self.async_io().ok_or(Errno::ENOMEM)
    }

    /// What F_GETFL says of O_ASYNC. One that open(2) was given is only remembered, as on Linux.
    pub fn is_async(&self) -> bool {
        self.flags().contains(OpenFlags::ASYNC) || self.async_io().is_some_and(|io| io.is_on())
    }

    /// Turns O_ASYNC on or off, by a call for descriptor `fd`. None: this kind of file sends no signals, and nothing happened.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn set_async(&self, fd: i32, on: bool) -> Result<Option<()>> {
        if self.is_async() == on {
            return Ok(Some(()));
        }
        let Some(queues) = self.ops().async_queues() else { return Ok(None) };
        if !on {
            self.stop_async();
            return Ok(Some(()));
        }
        let io = self.need_async_io()?;
        if let Some((kind, number)) = queues.owner
            && !io.owner().is_somebody()
            && let Ok(owner) = Owner::find(kind, number)
        {
            io.set_owner(owner);
        }
        let joined = replace(&mut io.state.lock().joined, true);
        if !joined {
            let place = |band| Place { to: Arc::downgrade(&io), band };
            let join = |queue: Option<&PollQueue>, band| queue.map_or(Ok(()), |q| q.join(place(band)));
            let both = join(queues.input, Band::Input).and_then(|()| join(queues.output, Band::Output));
            if both.is_err() {
                // On the next try it may be on a queue twice, and tell twice: better than never.
                io.state.lock().joined = false;
            }
            both?;
        }
        io.state.lock().on = Some(fd);
        Ok(Some(()))
    }

    /// Its last descriptor is being closed, or O_ASYNC goes.
    pub(super) fn stop_async(&self) {
        if let Some(io) = self.async_io.load(&sync::rcu::read()) {
            io.turn_off();
        }
    }
}

/// The running process, as the owner of what has no better one.
pub fn running_process() -> (OwnerKind, u32) {
    (OwnerKind::Process, caller::pid())
}
