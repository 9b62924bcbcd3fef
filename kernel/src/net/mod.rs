//! Unix sockets.
//!
//! * `address`   names: paths, abstract names, the table of these
//! * `queue`     what was sent and not yet received
//! * `message`   one message or piece of a stream
//! * `connect`   pairs, listen, connect, accept
//! * `stream`    sending and receiving of streams
//! * `datagram`  the same of messages (datagrams and SOCK_SEQPACKET)
//! * `rights`    open files in messages (SCM_RIGHTS); `collect` those that nobody can receive any more
//! * `options`   what getsockopt and setsockopt know
//! * `file`      a socket as an open file: read, write, poll, ioctl
//! * `lookers`   who is told by poll when there is room in another's queue
//! * `roster`    sockets in the order in which they came
//! * `count`     how many sockets there may be
//! * `list`      all sockets, for /proc/net/unix
//!
//! What one socket sends lies in the other's queue. So each direction of a connection has a lock of its own, and two CPUs that send to each
//! other share what the two ends share and nothing else. What is common to all sockets is a table of abstract names with a lock for
//! each bucket, and a list of sockets for each CPU.
//!
//! A socket refers to its peer, and the peer to it; so both would stay for ever. The last close (`Socket::release`) takes the reference out,
//! a grace period before it is dropped: who sends finds the peer in a read section and counts nothing.
//!
//! Lock order: `queue::reading` (sleeping, user memory is copied under it) → files in flight (sleeping) → a socket's state → its queue.
//! A bind holds its own sleeping lock while a name is made.
#![deny(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub mod address;
mod collect;
mod connect;
mod count;
mod datagram;
mod file;
pub mod list;
mod lookers;
pub mod message;
pub mod options;
mod queue;
pub mod rights;
mod roster;
mod stream;
#[cfg(test)]
mod tests;

use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU32, AtomicUsize, Ordering::*};

use sync::rcu::{RcuArc, RcuHead, RcuRead};
use sync::{Mutex, SpinLock, lock_class, slab_arc};

use crate::account::{Charge, Kind as Counted, limits};
use crate::errno::{EAGAIN, EINTR, ERESTARTSYS, ETIMEDOUT, Errno, Result};
use crate::fs::caller::{self, Identity};
use crate::fs::file::File;
use crate::fs::file::poll::PollQueue;
use crate::fs::vfs::mount::Path;
use crate::lock_order as level;
use crate::sched::Deadline;
use lookers::{Lookers, Looking};
use options::Options;
use queue::Queue;
use sync::quota::UNLIMITED;

pub use address::Address;
pub use collect::collect;
pub use connect::pair;
pub use file::{of_file, open, receive_wait, send_wait};
pub use message::Sender;
pub use rights::Rights;
pub use stream::{Incoming, Outgoing};

lock_class! {
    static STATE: LockClass = ("socket", level::SocketState);
    static IDENTITY: LockClass = ("socket peer", level::SocketIdentity);
    static BIND: LockClass = ("socket bind", level::SocketBind);
    static CHARGE: LockClass = ("socket charge", level::SocketCharge);
}

/// The kinds of sockets, with Linux's numbers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    Stream = 1,
    Datagram = 2,
    SeqPacket = 5,
}

impl Kind {
    /// Do its sockets connect to one that listens?
    pub fn is_connected(self) -> bool {
        self != Kind::Datagram
    }
}

/// How far a socket is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Phase {
    Unconnected,
    Listening,
    Connected,
}

/// Bits of `shutdown`.
pub const NO_RECEIVE: u8 = 1;
pub const NO_SEND: u8 = 2;
pub const NEITHER: u8 = NO_RECEIVE | NO_SEND;

/// What changes seldom. Under a lock of its own.
struct State {
    name: Option<Arc<Address>>,
    /// Its name stands in the table of abstract names.
    is_in_table: bool,
    /// Where a name that is a path leads, until the socket is closed.
    path: Option<Path>,
    /// Connections that wait to be accepted.
    waiting: VecDeque<Arc<Socket>>,
    /// The file that descriptors refer to. None: it waits to be accepted.
    file: Weak<File>,
    /// Where it waits for that.
    listener: Weak<Socket>,
}

pub struct Socket {
    pub kind: Kind,
    /// The inode's number, 0 before there is one.
    number: AtomicUsize,
    phase: AtomicU8,
    shutdown: AtomicU8,
    released: AtomicBool,
    /// What the next call fails with; 0: nothing.
    error: AtomicI32,
    pub options: Options,
    peer: RcuArc<Socket>,
    /// Who waits to receive, and who waits to send.
    readable: PollQueue,
    writable: PollQueue,
    /// Who waits until there is room in this socket's queue.
    room: PollQueue,
    /// Bytes that it has sent and nobody has received, as Linux counts them (`message::size`).
    sent: AtomicUsize,
    /// How many of them are charged to its user.
    charged: AtomicUsize,
    charge: SpinLock<Option<Charge>, level::SocketCharge>,
    queue: Queue,
    state: SpinLock<State, level::SocketState>,
    /// Connections that wait to be accepted.
    waiting: AtomicU32,
    /// How many messages, or connections, wait at the most before the last.
    backlog: AtomicU32,
    /// Who is told when there is room in the queue; and at whose it looks.
    lookers: Lookers,
    looking: Looking,
    /// Whose it is, if it listens.
    identity: SpinLock<Option<Identity>, level::SocketIdentity>,
    /// The same of the other side.
    peer_identity: SpinLock<Option<Identity>, level::SocketIdentity>,
    binding: Mutex<(), level::SocketBind>,
    /// Its place among all sockets.
    place: list::Place,
    mark: collect::Mark,
    uid: u32,
    counted: count::Counted,
    rcu: RcuHead,
}

vm::slab_type!(Socket, "socket", Arc);
sync::rcu_object!(Socket);

impl Socket {
    /// A socket that no descriptor refers to yet. May sleep.
    ///
    /// # Errors
    /// ENOMEM. ENFILE: there are too many.
    pub fn try_new(kind: Kind) -> Result<Arc<Socket>> {
        Socket::try_new_for(kind, None)
    }

    /// The same, whose peer is `peer`'s.
    fn try_new_for(kind: Kind, peer: Option<Identity>) -> Result<Arc<Socket>> {
        collect::collect_what_is_left();
        Socket::build(kind, peer)
    }

    /// Apart: the socket is built on the stack, below which nothing deep is called.
    #[inline(never)]
    fn build(kind: Kind, peer: Option<Identity>) -> Result<Arc<Socket>> {
        let state = State {
            name: None,
            is_in_table: false,
            path: None,
            waiting: VecDeque::new(),
            file: Weak::new(),
            listener: Weak::new(),
        };
        let socket = slab_arc(Socket {
            kind,
            number: AtomicUsize::new(0),
            phase: AtomicU8::new(Phase::Unconnected as u8),
            shutdown: AtomicU8::new(0),
            released: AtomicBool::new(false),
            error: AtomicI32::new(0),
            options: Options::new(),
            peer: RcuArc::empty(),
            readable: PollQueue::new(),
            writable: PollQueue::new(),
            room: PollQueue::new(),
            sent: AtomicUsize::new(0),
            charged: AtomicUsize::new(0),
            charge: SpinLock::new(None, &CHARGE),
            queue: Queue::new(),
            state: SpinLock::new(state, &STATE),
            waiting: AtomicU32::new(0),
            backlog: AtomicU32::new(limits::MAX_DGRAM_QLEN.get() as u32),
            lookers: Lookers::new(),
            looking: Looking::new(),
            identity: SpinLock::new(None, &IDENTITY),
            peer_identity: SpinLock::new(peer, &IDENTITY),
            binding: Mutex::new((), &BIND),
            place: list::Place::new(),
            mark: collect::Mark::new(),
            uid: caller::uid(),
            counted: count::Counted::try_new()?,
            rcu: RcuHead::new(),
        })?;
        list::enter(&socket)?;
        Ok(socket)
    }

    pub fn phase(&self) -> Phase {
        match self.phase.load(Acquire) {
            1 => Phase::Listening,
            2 => Phase::Connected,
            _ => Phase::Unconnected,
        }
    }

    fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Release);
    }

    pub fn shutdown_bits(&self) -> u8 {
        self.shutdown.load(Acquire)
    }

    fn may_not(&self, what: u8) -> bool {
        self.shutdown_bits() & what != 0
    }

    /// Is its last descriptor closed?
    fn is_dead(&self) -> bool {
        self.released.load(Acquire)
    }

    /// The error that waits, which is told once.
    pub fn take_error(&self) -> Result {
        if self.error.load(Relaxed) == 0 {
            return Ok(());
        }
        match self.error.swap(0, Relaxed) {
            0 => Ok(()),
            error => Err(Errno(error)),
        }
    }

    fn set_error(&self, error: Errno) {
        self.error.store(error.0, Release);
    }

    /// What a call could not tell any more: the next one does.
    pub fn tell_later(&self, error: Errno) {
        self.set_error(error);
    }

    /// SO_SNDBUF has changed.
    pub fn tell_of_buffer(&self) {
        self.writable.wake();
    }

    fn peer<'r>(&'r self, read: &'r RcuRead) -> Option<&'r Socket> {
        self.peer.load(read)
    }

    /// The other side, counted.
    pub fn peer_counted(&self) -> Option<Arc<Socket>> {
        self.peer.get(&sync::rcu::read())
    }

    fn is_peer(&self, other: &Socket) -> bool {
        self.peer(&sync::rcu::read()).is_some_and(|peer| core::ptr::eq(peer, other))
    }

    /// What it is bound to.
    pub fn name(&self) -> Option<Arc<Address>> {
        self.state.lock().name.clone()
    }

    /// The credentials of the other side, as they were when the connection was made.
    pub fn peer_identity(&self) -> Option<Identity> {
        self.peer_identity.lock().clone()
    }

    /// The number of its inode.
    pub fn number(&self) -> u64 {
        self.number.load(Relaxed) as u64
    }

    fn wake_all(&self) {
        self.readable.wake();
        self.writable.wake();
        self.room.wake();
    }

    /// shutdown(2): what this side will not do any more, the other need not.
    pub fn shut_down(&self, what: u8) {
        self.shutdown.fetch_or(what, AcqRel);
        self.wake_all();
        if self.kind.is_connected()
            && let Some(peer) = self.peer_counted()
        {
            let opposite = (what & NO_RECEIVE) << 1 | (what & NO_SEND) >> 1;
            peer.shutdown.fetch_or(opposite, AcqRel);
            peer.wake_all();
            if opposite & NO_RECEIVE != 0 {
                peer.readable.signal_owners();
            }
        }
    }

    /// Its last descriptor is closed. May sleep. What was sent to it is dropped, with the files therein.
    pub fn release(self: &Arc<Socket>) {
        let messages = self.close();
        rights::drop_messages(messages);
        collect::collect_if_needed();
    }

    /// Makes it dead, and gives out what it has not received. Waits for who receives just now. May sleep; gives way.
    fn close(self: &Arc<Socket>) -> rights::Heap {
        let mut heap = rights::Heap::new();
        if self.released.swap(true, AcqRel) {
            return heap;
        }
        list::leave(self);
        self.counted.end();
        let was = self.phase();
        self.queue.close();
        self.shutdown.store(NEITHER, Release);
        let (waiting, name, path) = {
            let mut state = self.state.lock();
            self.set_phase(Phase::Unconnected);
            self.waiting.store(0, Relaxed);
            let name = if state.is_in_table { state.name.clone() } else { None };
            (core::mem::take(&mut state.waiting), name, state.path.take())
        };
        self.forget_name(name, path);
        self.wake_all();
        let had_unread = self.queue.has_some();
        self.queue.drain(self, &mut heap);
        self.look_no_more();
        self.lookers.tell();
        if let Some(peer) = self.peer.take()
            && self.kind.is_connected()
        {
            peer.shutdown.store(NEITHER, Release);
            if had_unread || was != Phase::Listening && self.number() == 0 {
                peer.set_error(crate::errno::ECONNRESET);
            }
            peer.wake_all();
            peer.readable.signal_owners();
        }
        for embryo in waiting {
            heap.append(embryo.close());
            let _ = crate::sched::give_way();
        }
        heap
    }

    /// Counts `size` bytes more as sent, and charges the user for the most that there ever were.
    #[inline]
    fn count_sent(&self, size: usize) {
        let sent = self.sent.fetch_add(size, AcqRel).saturating_add(size);
        if sent > self.charged.load(Relaxed) {
            self.charge_more(sent);
        }
    }

    #[cold]
    fn charge_more(&self, sent: usize) {
        const PAGE: usize = 4096;
        const STEP: usize = 4 * PAGE;
        let charged = sent.next_multiple_of(STEP);
        if self.charge.lock().is_none() {
            // A user may have to be made, which is not done under a lock. What fails for want of memory is tried again with the next bytes.
            let Ok(new) = Charge::try_new(self.uid, Counted::SocketPages, 0, UNLIMITED) else { return };
            self.charge.lock().get_or_insert(new);
        }
        let mut charge = self.charge.lock();
        let pages = (charged / PAGE) as u64;
        // Nobody is refused here: SO_SNDBUF bounds it.
        if charge.as_mut().is_some_and(|charge| charge.set(pages.max(charge.n()), UNLIMITED).is_ok()) {
            self.charged.fetch_max(charged, Relaxed);
        }
    }

    /// What it sent was received, or dropped: `size` bytes.
    fn count_received(&self, size: usize) {
        let _ = self.sent.fetch_update(AcqRel, Relaxed, |sent| Some(sent.saturating_sub(size)));
        if self.may_send_more() {
            self.writable.wake_for_io();
        }
    }

    /// Does poll say that it can be written? On Linux while no more than a quarter of the buffer is taken.
    fn may_send_more(&self) -> bool {
        let used = self.sent.load(Acquire).saturating_add(1);
        self.phase() != Phase::Listening && used.saturating_mul(4) <= self.options.send_buffer()
    }
}

/// Who waits in a call, if anybody does, and how long.
pub struct Wait<'a> {
    /// It stays open meanwhile. None: what would wait is EAGAIN.
    file: Option<&'a File>,
    /// Nanoseconds; 0: without end.
    timeout: u64,
    deadline: core::cell::Cell<Option<u64>>,
}

impl<'a> Wait<'a> {
    pub fn new(file: Option<&'a File>, timeout: u64) -> Wait<'a> {
        Wait { file, timeout, deadline: core::cell::Cell::new(None) }
    }

    /// Does it wait at all?
    fn may_wait(&self) -> bool {
        self.file.is_some()
    }

    fn prepare(&self) -> Result<(crate::fs::file::KeptOpen<'a>, Option<Deadline>)> {
        let kept = self.file.ok_or(EAGAIN)?.keep_open()?;
        if self.timeout == 0 {
            return Ok((kept, None));
        }
        let at = self.deadline.get().unwrap_or_else(|| crate::arch::time::now().saturating_add(self.timeout));
        self.deadline.set(Some(at));
        Ok((kept, Some(Deadline::of_sleep(at))))
    }

    /// The error of a sleep: a call with a time limit is not made again after a signal.
    fn failed(&self, error: Errno) -> Errno {
        match error {
            ETIMEDOUT => EAGAIN,
            ERESTARTSYS if self.timeout != 0 => EINTR,
            error => error,
        }
    }

    /// Sleeps until `condition` gives a value.
    ///
    /// # Errors
    /// EAGAIN: it does not wait, or its time is over. EBADF, or a signal.
    fn on<R>(&self, queue: &PollQueue, condition: impl FnMut() -> Option<R>) -> Result<R> {
        let (_kept, deadline) = self.prepare()?;
        queue.wait(deadline, condition).map_err(|error| self.failed(error))
    }

    /// The same for what one takes and no other has then: the caller wakes the next if it leaves anything (`Turn`).
    fn alone<R>(&self, queue: &PollQueue, condition: impl FnMut() -> Option<R>) -> Result<R> {
        let (_kept, deadline) = self.prepare()?;
        queue.wait_alone_until(deadline, condition).map_err(|error| self.failed(error))
    }
}

/// Who was woken alone for room at a socket. What it leaves, whatever became of it, is for the next.
struct Turn(Arc<Socket>);

impl Drop for Turn {
    fn drop(&mut self) {
        if self.0.has_room() {
            self.0.room.wake_next();
        }
    }
}
