//! What senders of signals that may not rest leave to a thread of the kernel's, which is there since boot: so that takes no memory and cannot fail.
//!
//! A process with many threads ([`Crowd`]) or a group with many members lies on a list once, however many signals are left; which, lies with it.
//!
//! LockOrder: whatever a sender holds → the lists → wait queue.
#![deny(unsafe_code)]

use super::crowd::Crowd;
use super::{Info, bit, send};
use crate::errno::Result;
use crate::lock_order as level;
use crate::process::session::group::Group;
use crate::sched::{Sleep, WaitQueue, give_way, spawn};
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use intrusive_collections::{LinkedList, LinkedListAtomicLink, intrusive_adapter};
use linux_raw_sys::general::SIGKILL;
use sync::{SpinLock, lock_class};

lock_class! { static ERRANDS: LockClass = ("signal errands", level::SignalErrands); }

intrusive_adapter!(Crowds = Arc<Crowd>: Crowd { errand => LinkedListAtomicLink });
intrusive_adapter!(Groups = Arc<Group>: Group { errand => LinkedListAtomicLink });

struct Errands {
    crowds: LinkedList<Crowds>,
    groups: LinkedList<Groups>,
}

static LEFT: SpinLock<Errands, level::SignalErrands> = SpinLock::new(
    Errands { crowds: LinkedList::new(Crowds::NEW), groups: LinkedList::new(Groups::NEW) },
    &ERRANDS,
);
static CAME: WaitQueue = WaitQueue::new();

/// Threads of the process are told of `signals`, which wait for all of it, soon.
pub(super) fn leave_to_tell(crowd: &Arc<Crowd>, signals: u64) {
    crowd.to_tell.fetch_or(signals, Ordering::AcqRel);
    {
        let mut left = LEFT.lock();
        if !crowd.errand.is_linked() {
            left.crowds.push_back(crowd.clone());
        }
    }
    CAME.wake_one();
}

/// The members of the group are sent `signal` soon.
pub(super) fn leave_to_send(group: &Arc<Group>, signal: u32) {
    group.to_send.fetch_or(bit(signal), Ordering::AcqRel);
    {
        let mut left = LEFT.lock();
        if !group.errand.is_linked() {
            left.groups.push_back(group.clone());
        }
    }
    CAME.wake_one();
}

/// Makes the thread. At boot.
///
/// # Errors
/// No memory.
pub fn start() -> Result {
    spawn(None, run, 0).map(drop)
}

enum Errand {
    Tell(Arc<Crowd>),
    Send(Arc<Group>),
}

fn take() -> Option<Errand> {
    let mut left = LEFT.lock();
    left.crowds.pop_front().map(Errand::Tell).or_else(|| left.groups.pop_front().map(Errand::Send))
}

fn run(_: usize) {
    loop {
        match CAME.wait_until(Sleep::Killable, None, take) {
            Ok(Errand::Tell(crowd)) => tell(&crowd),
            Ok(Errand::Send(group)) => send_to_group(&group),
            // No signal comes to a thread of the kernel's.
            Err(_) => {}
        }
        let _ = give_way();
    }
}

/// What is left while this goes on puts the process on the list again.
fn tell(crowd: &Crowd) {
    let signals = crowd.to_tell.swap(0, Ordering::AcqRel);
    let Some(process) = crowd.process.upgrade() else { return };
    if signals & bit(SIGKILL) != 0 {
        process.visit_threads(|thread| thread.notify(true));
        process.signals.wake_stopped();
    }
    let others = signals & !bit(SIGKILL);
    if others != 0 {
        send::tell_threads(&process, others);
    }
}

fn send_to_group(group: &Group) {
    let mut signals = group.to_send.swap(0, Ordering::AcqRel);
    while signals != 0 {
        let signal = signals.trailing_zeros().saturating_add(1);
        signals &= signals.wrapping_sub(1);
        group.visit(true, |process| {
            send::to_member(process, Info::kernel(signal));
            true
        });
    }
}
