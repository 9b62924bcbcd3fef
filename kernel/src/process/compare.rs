//! Whether two threads have something in common (kcmp(2)).
//!
//! Things are told apart by where they lie, which no program learns: a place is mixed with random words, another two for each kind of thing, so that the order is
//! the same in each call and says nothing. Who asks looks in a read section and counts nothing.
#![forbid(unsafe_code)]

use super::access::{self, By};
use super::{Current, Process, Thread, current, find_process, find_thread, ids};
use crate::errno::{Errno, Result};
use crate::fs::anon::epoll;
use crate::fs::{self, File};
use alloc::sync::Arc;
use core::cmp::Ordering;
use core::num::NonZeroUsize;
use once_cell::race::OnceNonZeroUsize;
use sync::percpu::Padded;

/// What is compared. In Linux's order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    File(u32, u32),
    Memory,
    Files,
    Fs,
    SignalActions,
    IoContext,
    /// What semop(2) is to undo.
    SemaphoreUndo,
}

impl Kind {
    fn number(self) -> usize {
        match self {
            Kind::File(..) => 0,
            Kind::Memory => 1,
            Kind::Files => 2,
            Kind::Fs => 3,
            Kind::SignalActions => 4,
            Kind::IoContext => 5,
            Kind::SemaphoreUndo => 6,
        }
    }
}

/// Random words for each kind, made when they are first asked for.
static MIXES: Padded<[[OnceNonZeroUsize; 2]; 7]> =
    Padded([const { [const { OnceNonZeroUsize::new() }; 2] }; 7]);

/// How `a` and `b` stand to each other, things of one kind.
fn order(kind: Kind, a: usize, b: usize) -> Ordering {
    let Some([plus, times]) = MIXES.get(kind.number()) else { return Ordering::Equal };
    let random = || {
        let [a, b, c, d, e, f, g, h, ..] = fs::random_bytes();
        NonZeroUsize::MIN | usize::from_ne_bytes([a, b, c, d, e, f, g, h])
    };
    let (plus, times) = (plus.get_or_init(random).get(), times.get_or_init(random).get());
    // The second is odd, so no two places become one.
    let mixed = |place: usize| (place ^ plus).wrapping_mul(times).cast_signed();
    mixed(a).cmp(&mixed(b))
}

/// A thread, or a process that has exited and was not waited for.
enum Whom<'a> {
    Thread(&'a Thread),
    Zombie(&'a Process),
}

impl Whom<'_> {
    fn process(&self) -> &Process {
        match self {
            Whom::Thread(thread) => &thread.process,
            Whom::Zombie(process) => process,
        }
    }

    fn may_be_inspected(&self, caller: &Current) -> bool {
        match self {
            Whom::Thread(thread) => access::may_inspect_thread(caller, thread, By::RealIds),
            Whom::Zombie(process) => {
                access::may_inspect(caller, process, By::RealIds) || caller.ids().uid == process.uid_at_exit()
            }
        }
    }

    /// Where its thing of that kind lies; 0: it has none. Takes no sleeping lock.
    fn place(&self, kind: Kind) -> usize {
        let place = match (self, kind) {
            (_, Kind::SignalActions) => Some(self.process().signals.actions_place()),
            (Whom::Thread(thread), Kind::Memory) => thread.space_place(),
            (Whom::Thread(thread), Kind::Files) => thread.look_at_files(|files| files.address()),
            (Whom::Thread(thread), Kind::Fs) => thread.look_at_fs(|fs| core::ptr::from_ref(fs).addr()),
            (Whom::Thread(thread), Kind::IoContext) => thread.attributes.io_context(),
            (Whom::Thread(thread), Kind::SemaphoreUndo) => thread.undo().place(),
            (Whom::Zombie(_), _) | (_, Kind::File(..)) => None,
        };
        place.unwrap_or(0)
    }

    fn file(&self, fd: u32) -> Result<usize> {
        match self {
            Whom::Thread(thread) => thread.look_at_files(|files| files.place_of_file(fd)).flatten(),
            Whom::Zombie(_) => None,
        }
        .ok_or(Errno::EBADF)
    }
}

/// What `f` says of whoever has number `tid`. In a read section.
fn look_at<R>(tid: u32, f: impl FnOnce(Whom<'_>) -> R) -> Result<R> {
    let mut f = Some(f);
    let thread = ids::look_at_thread(tid, |thread| f.take().map(|f| f(Whom::Thread(thread)))).flatten();
    let zombie = || ids::look_at(tid, |process| f.take().map(|f| f(Whom::Zombie(process)))).flatten();
    thread.or_else(zombie).ok_or(Errno::ESRCH)
}

/// What `f` says of both, if the caller may look into both.
fn look_at_both<R>(a: u32, b: u32, f: impl FnOnce(Whom<'_>, Whom<'_>) -> Result<R>) -> Result<R> {
    let caller = current();
    look_at(a, |a| {
        look_at(b, |b| {
            if a.may_be_inspected(&caller) && b.may_be_inspected(&caller) {
                f(a, b)
            } else {
                Err(Errno::EPERM)
            }
        })
    })??
}

/// May the caller look into both?
///
/// # Errors
/// ESRCH: one is not there. EPERM.
pub fn check(a: u32, b: u32) -> Result {
    look_at_both(a, b, |_, _| Ok(()))
}

/// How the things of threads `a` and `b` stand to each other.
///
/// # Errors
/// ESRCH: one is not there. EPERM. EBADF: no such descriptor.
pub fn compare(a: u32, b: u32, kind: Kind) -> Result<Ordering> {
    look_at_both(a, b, |a, b| {
        let (a, b) = match kind {
            Kind::File(fd, other) => (a.file(fd)?, b.file(other)?),
            _ => (a.place(kind), b.place(kind)),
        };
        Ok(order(kind, a, b))
    })
}

/// How the file of descriptor `fd` of thread `a` stands to that which an epoll watches, descriptor `epoll` of thread `b`: of what it watches as number `watched`
/// that with `before` others before it. May sleep.
///
/// # Errors
/// ESRCH: one is not there. EPERM. EBADF: no such descriptor. EINVAL: it is no epoll. ENOENT: it watches no such file. EINTR: a fatal signal came.
pub fn compare_watched(
    a: u32,
    fd: u32,
    b: u32,
    (epoll, watched, before): (u32, u32, u32),
) -> Result<Ordering> {
    let place = look_at_both(a, b, |a, _| a.file(fd))?;
    let target = file_of(b, epoll)?;
    let other = epoll::place_of_watched(&target, watched, before)?;
    Ok(order(Kind::File(fd, watched), place, other))
}

/// The file of a descriptor of thread `tid`, counted.
fn file_of(tid: u32, fd: u32) -> Result<Arc<File>> {
    let fd = i32::try_from(fd).map_err(|_| Errno::EBADF)?;
    let Some(thread) = find_thread(tid) else {
        return Err(if find_process(tid).is_some() { Errno::EBADF } else { Errno::ESRCH });
    };
    thread.with_files(|files| files.get(fd)).unwrap_or(Err(Errno::EBADF))
}
