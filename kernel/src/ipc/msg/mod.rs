//! Queues of messages (msgget(2), msgctl(2)).
//!
//! * `queue`   messages and who waits for them
//! * `message` a message, and which ones somebody asks for
//! * `send`, `receive`   msgsnd(2), msgrcv(2)
//!
//! A queue has one lock. Messages are copied from and to programs with no lock held. A message for which somebody waits goes to him at once.
//!
//! Lock order: the queue's lock, then a message's handover; who is to be woken is woken when both have been given back.
#![deny(unsafe_code)]

mod message;
mod queue;
mod receive;
mod send;

use alloc::sync::Arc;
use core::sync::atomic::AtomicU64;

use sync::rcu::RcuHead;
use sync::{GlobalQuota, SpinGuard, SpinLock, lock_class, per_cpu, slab_arc};

use self::queue::Contents;
use super::ids::{self, Found, Table};
use super::perm::{self, NewOwner, Perm, Shown};
use super::{limits, now};
use crate::account::{Charge, Kind};
use crate::errno::{EIDRM, EINVAL, ENOMEM, EPERM, Result};
use crate::fs::caller::{self, Capability};
use crate::lock_order as level;

pub use self::message::{Message, Wanted};
pub use self::receive::{COPY, EXCEPT, receive};
pub use self::send::send;

lock_class! { static QUEUE: LockClass = ("message queue", level::IpcObject); }

per_cpu! {
    static SPARES: AtomicU64 = AtomicU64::new(0);
    static CURSORS: AtomicU64 = AtomicU64::new(0);
    static MESSAGE_SPARES: AtomicU64 = AtomicU64::new(0);
    static BYTE_SPARES: AtomicU64 = AtomicU64::new(0);
}

pub static TABLE: Table<Queue> = Table::new(&SPARES, &CURSORS);
/// Messages in all queues, and their bytes.
static MESSAGES: GlobalQuota = GlobalQuota::new(&MESSAGE_SPARES);
static BYTES: GlobalQuota = GlobalQuota::new(&BYTE_SPARES);

/// A queue.
pub struct Queue {
    perm: Perm,
    state: SpinLock<State, level::IpcObject>,
    _charge: Charge,
    rcu: RcuHead,
}

vm::slab_type!(Queue, "message-queue", Arc);
sync::rcu_object!(Queue);

impl ids::Object for Queue {
    fn perm(&self) -> &Perm {
        &self.perm
    }
}

struct State {
    contents: Contents,
    times: Times,
    /// It is in the table no more.
    removed: bool,
}

#[derive(Clone, Copy, Default)]
struct Times {
    sent: i64,
    received: i64,
    changed: i64,
    sender: u32,
    receiver: u32,
}

type Guard<'a> = SpinGuard<'a, State, level::IpcObject>;

/// What IPC_STAT shows.
pub struct Status {
    pub perm: Shown,
    pub send_time: i64,
    pub receive_time: i64,
    pub change_time: i64,
    pub bytes: u64,
    pub messages: u64,
    pub most_bytes: u64,
    pub last_sender: u32,
    pub last_receiver: u32,
}

/// msgget(2): the number of the queue with that key, or of a new one.
///
/// # Errors
/// Linux's.
pub fn get(key: i32, flags: u32) -> Result<i32> {
    let make = |id| Queue::try_new(id, key, flags);
    match TABLE.get(key, flags, limits::MSGMNI.get(), &make)? {
        Found::New(id) => Ok(id),
        Found::Old(queue) => queue.perm.check(flags).map(|()| queue.perm.id),
    }
}

impl Queue {
    fn try_new(id: i32, key: i32, flags: u32) -> Result<Arc<Queue>> {
        let charge = Charge::try_new(caller::uid(), Kind::Ipc, 1, sync::quota::UNLIMITED);
        let times = Times { changed: now(), ..Times::default() };
        let state = State { contents: Contents::new(limits::MSGMNB.get()), times, removed: false };
        Ok(slab_arc(Queue {
            perm: Perm::new(id, key, flags),
            state: SpinLock::new(state, &QUEUE),
            _charge: charge.map_err(|_| ENOMEM)?,
            rcu: RcuHead::new(),
        })?)
    }

    /// # Errors
    /// EIDRM: it was removed.
    fn lock(&self) -> Result<Guard<'_>> {
        let state = self.state.lock();
        if state.removed { Err(EIDRM) } else { Ok(state) }
    }

    fn status(&self) -> Result<Status> {
        let state = self.lock()?;
        Ok(Status {
            perm: self.perm.shown(),
            send_time: state.times.sent,
            receive_time: state.times.received,
            change_time: state.times.changed,
            bytes: state.contents.bytes(),
            messages: state.contents.count(),
            most_bytes: state.contents.most_bytes,
            last_sender: state.times.sender,
            last_receiver: state.times.receiver,
        })
    }
}

/// IPC_STAT; `at`: of the place of that number (MSG_STAT), by anybody if `any`.
///
/// # Errors
/// EINVAL, EACCES, EIDRM.
pub fn status(id: i32, at: bool, any: bool) -> Result<Status> {
    let queue = if at { TABLE.find_at(id) } else { TABLE.find(id) }?;
    if !any {
        queue.perm.check(perm::READ)?;
    }
    queue.status()
}

/// IPC_SET. Who waits looks again whether he may, and whether there is room.
///
/// # Errors
/// EINVAL, EPERM, EIDRM.
pub fn set(id: i32, to: &NewOwner, most_bytes: u64) -> Result {
    let queue = TABLE.find(id)?;
    queue.perm.check_owner()?;
    if most_bytes > limits::MSGMNB.get() && !caller::capable(Capability::SYS_RESOURCE) {
        return Err(EPERM);
    }
    {
        let mut state = queue.lock()?;
        queue.perm.set(to)?;
        state.contents.most_bytes = most_bytes;
        state.times.changed = now();
    }
    receive::look_again(&queue, None);
    send::let_senders(&queue, false);
    Ok(())
}

/// IPC_RMID. Who waits goes on with EIDRM; the messages are gone.
///
/// # Errors
/// EINVAL, EPERM.
pub fn remove(id: i32) -> Result {
    let queue = TABLE.find(id)?;
    queue.perm.check_owner()?;
    queue.lock().map_err(|_| EINVAL)?.removed = true;
    TABLE.remove(&queue);
    receive::look_again(&queue, Some(EIDRM));
    send::let_senders(&queue, true);
    loop {
        let gone = queue.state.lock().contents.take_first();
        if gone.is_none() {
            return Ok(());
        }
        drop(gone);
        let _ = crate::sched::give_way();
    }
}

/// Queues, messages in them, and their bytes (MSG_INFO).
pub fn sums() -> (u64, u64, u64) {
    (TABLE.used(), MESSAGES.used(), BYTES.used())
}

/// Shows `f` all queues.
///
/// # Errors
/// Those of `f`.
pub fn for_each(mut f: impl FnMut(&Status) -> Result) -> Result {
    TABLE.for_each(|queue| queue.status().map_or(Ok(()), |status| f(&status)))
}
