//! Namespaces of mounts: a process sees and changes the mounts of one, that of its [`FsContext`](crate::fs::FsContext). The first is there from boot on and for ever; unshare(2)
//! and clone(2) copy that of the caller (CLONE_NEWNS), setns(2) goes to that of another process. What is shared is so with the copies, too (`peers`).
//!
//! A mount has the number of its namespace. A namespace other than the first ends soon after its last user: users come and go on all CPUs and count so on their own
//! (`sync::protocol::attendance`), and a thread of the kernel's looks whether anybody is left, twenty times a second at most and only when somebody has left.
//!
//! Lock order: `MOUNTS`, then the list of namespaces.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::lock_order as level;
use sync::machine;
use sync::percpu_ref::{PerCpuArc as HotRef, PerCpuOwner as Owner};
use sync::protocol::attendance::{Asked, Seat, is_over};
use sync::{Mutex, TryVec, lock_class};

use super::anonymous::clear;
use super::change::{Part, copy_as_peers, forget, hang, links_of, list_tree, mount_point};
use super::table::{self, Held};
use super::{MOUNTS, Mount, MountRef, Path};
use crate::arch::time;
use crate::errno::{ENOENT, Result};
use crate::sched::{Sleep, WaitQueue, schedule_if_needed, spawn};

lock_class! { static LIST: LockClass = ("mount namespaces", level::MountNamespaces); }

/// The number of the first namespace. Lower ones say of a mount that it is in none: `super::NOWHERE`, `super::HELD`.
pub const FIRST_NUMBER: u64 = 1 << 32;
/// Between two looks whether anybody is left, ns.
const REST: u64 = 50_000_000;

static NEXT: AtomicU64 = AtomicU64::new(FIRST_NUMBER + 1);
static FIRST: Namespace =
    Namespace { number: FIRST_NUMBER, mounts: Total(AtomicUsize::new(0)), root: None, seats: Vec::new() };
/// All but the first.
static OTHERS: Mutex<Vec<Owner<Namespace>>, level::MountNamespaces> = Mutex::new(Vec::new(), &LIST);
static ASKED: Asked = Asked::new();
static CAME: WaitQueue = WaitQueue::new();
/// Nobody wakes who rests here.
static RESTS: WaitQueue = WaitQueue::new();

pub struct Namespace {
    number: u64,
    /// How many mounts are in it. Changed under `MOUNTS`.
    mounts: Total,
    /// The mount that all others hang below; of the first that of `super::root`.
    root: Option<Path>,
    /// Who uses it, by CPU. The first is always used.
    seats: Vec<OwnLine>,
}

/// A count in a line of its own: who only looks at a namespace shares nothing with who mounts.
#[repr(align(64))]
struct Total(AtomicUsize);

/// A seat in a line of its CPU's.
#[repr(align(64))]
struct OwnLine(Seat);

/// The namespace from boot on.
pub fn first() -> &'static Namespace {
    &FIRST
}

impl Namespace {
    /// By which programs know it.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// How many mounts are in it.
    pub fn count(&self) -> usize {
        self.mounts.0.load(Relaxed)
    }

    /// So many mounts more are in it. With `MOUNTS`.
    pub(super) fn add(&self, count: usize) {
        self.mounts.0.fetch_add(count, Relaxed);
    }

    /// A mount less is in it. With `MOUNTS`.
    pub(super) fn take(&self) {
        self.mounts.0.fetch_sub(1, Relaxed);
    }

    /// # Errors
    /// ENOENT: there are no mounts yet.
    pub fn root(&self) -> Result<Path> {
        self.root.as_ref().map_or_else(super::root, |root| Ok(root.clone()))
    }

    /// A copy of the caller's namespace, with what `root` and `cwd` are there. They stay what they are where they lie in another namespace. May sleep.
    ///
    /// # Errors
    /// EINTR: a fatal signal came. ENOMEM.
    pub fn copy(&self, root: Path, cwd: Path) -> Result<(Member, Path, Path)> {
        let mut seats = Vec::new();
        for _ in 0..machine::cpus() {
            seats.try_push(OwnLine(Seat::new()))?;
        }
        let top = self.root()?;
        let mut peers = MOUNTS.lock();
        let list = list_tree(&top, true)?;
        let mut copies = Vec::new();
        let made = copy_as_peers(&mut peers, &top, &list, None, &mut copies).and_then(|()| {
            let links = links_of(copies.iter().map(|(copy, _)| copy))?;
            let (top, _) = copies.first().ok_or(ENOENT)?;
            let top = Path { mount: top.share(), dentry: top.root.clone() };
            let number = NEXT.fetch_add(1, Relaxed);
            let space =
                Namespace { number, mounts: Total(AtomicUsize::new(0)), root: Some(top.clone()), seats };
            let member = Member::enter(Owner::try_new(space)?)?;
            for ((copy, _), link) in copies.iter().zip(links) {
                match mount_point(copy) {
                    Some(point) => hang(link, &point, Some(&member), None),
                    None => {
                        copy.tree.store(number, Relaxed);
                        member.add(1);
                        table::enter(link, Some(&top), None);
                    }
                }
                schedule_if_needed();
            }
            Ok(member)
        });
        if made.is_err() {
            copies.iter().for_each(|(copy, _)| forget(&mut peers, copy));
        }
        let member = made?;
        let there = |path: Path| Path { mount: copy_of(&path.mount, &list, &copies), dentry: path.dentry };
        Ok((member, there(root), there(cwd)))
    }

    fn is_over(&self) -> bool {
        is_over(|| self.seats.iter().map(|seat| &seat.0))
    }

    fn own_seat(&self) -> Option<&Seat> {
        self.seats.get(machine::cpu_id() as usize).map(|seat| &seat.0)
    }
}

/// The copy of a mount, or the mount itself if it was not copied.
fn copy_of(mount: &MountRef, list: &[Part], copies: &[(Held, usize)]) -> MountRef {
    let found = list.iter().zip(copies).find(|((listed, _), _)| ptr::eq::<Mount>(&**listed, &**mount));
    found.map_or_else(|| mount.clone(), |(_, (copy, _))| copy.share())
}

/// The use of a namespace other than the first.
pub struct Member(HotRef<Namespace>);

impl Member {
    /// The first user of a namespace.
    fn enter(space: Owner<Namespace>) -> Result<Member> {
        let reference = space.share();
        if let Some(seat) = reference.own_seat() {
            seat.come();
        }
        let member = Member(reference);
        OTHERS.lock().try_push(space)?;
        Ok(member)
    }
}

impl Deref for Member {
    type Target = Namespace;
    fn deref(&self) -> &Namespace {
        &self.0
    }
}

impl Clone for Member {
    fn clone(&self) -> Self {
        if let Some(seat) = self.0.own_seat() {
            seat.come();
        }
        Member(self.0.clone())
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        leave(&self.0);
    }
}

/// One uses the namespace no more. By itself, so that it is seen where this is not called from (tests/stack).
#[cold]
#[inline(never)]
fn leave(space: &Namespace) {
    if let Some(seat) = space.own_seat() {
        seat.leave();
    }
    if ASKED.ask() {
        CAME.wake_one();
    }
}

/// A namespace that is looked at, which may end meanwhile.
pub enum Known {
    First,
    Other(HotRef<Namespace>),
}

impl Deref for Known {
    type Target = Namespace;
    fn deref(&self) -> &Namespace {
        match self {
            Known::First => &FIRST,
            Known::Other(space) => space,
        }
    }
}

/// The namespace with that number. May sleep.
pub fn of_number(number: u64) -> Option<Known> {
    if number == FIRST_NUMBER {
        return Some(Known::First);
    }
    OTHERS.lock().iter().find(|space| space.number == number).map(|space| Known::Other(space.share()))
}

/// Makes the thread that ends namespaces. At boot.
///
/// # Errors
/// No memory.
pub fn start() -> Result {
    spawn(None, run, 0).map(drop)
}

fn run(_: usize) {
    loop {
        // No signal comes to a thread of the kernel's.
        if CAME.wait_until(Sleep::Killable, None, || ASKED.take().then_some(())).is_ok() {
            end_all();
        }
        let until = time::now().saturating_add(REST);
        let _ = RESTS.wait_until(Sleep::Killable, Some(until.into()), || None::<()>);
    }
}

/// Ends each that nobody uses any more.
fn end_all() {
    let mut at = 0;
    while let Some(space) = next_over(&mut at) {
        if let Some(root) = &space.root {
            clear(&mut MOUNTS.lock(), &root.mount);
        }
    }
}

/// Takes the next from the list, from place `at` on, that nobody uses any more.
fn next_over(at: &mut usize) -> Option<Owner<Namespace>> {
    let mut others = OTHERS.lock();
    while let Some(space) = others.get(*at) {
        if space.is_over() {
            return Some(others.swap_remove(*at));
        }
        *at = at.saturating_add(1);
        schedule_if_needed();
    }
    None
}
