//! LockOrder at run time: which locks each CPU and each thread holds, checked at each `lock`.
//!
//! On with feature `lockdep`, and in hosted debug builds; elsewhere every function here is empty and [`held_locks`] finds nothing.
//! A violation is a bug of the kernel and panics at once, with both locks and both places.
//!
//! A spinning lock belongs to the CPU, since its holder does not sleep: the CPU has a list of them. A sleeping lock belongs to
//! the thread, which may go on elsewhere: the list is the thread's, and [`machine::with_thread_locks`] finds it. What is checked:
//!
//! * a lock is taken only while all locks held, of both lists, have a lower rank (or the same, by `lock_nested`),
//! * no lock is taken twice,
//! * nobody sleeps, or takes a lock that may sleep, under a spinning lock, in an RCU read section, in an RCU callback or in the idle
//!   loop ([`no_sleep`]),
//! * nothing is held where a thread goes back to user mode, ends, or idles ([`assert_none_held`]).
//!
//! `try_lock` waits for nobody and so needs no order; what it took is held like any other lock.

use super::class::Class;
use crate::machine;
use crate::per_cpu;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// Whether lock order is checked.
pub const CHECKED: bool = cfg!(any(feature = "lockdep", all(debug_assertions, not(target_os = "none"))));

/// Spinning locks that one CPU can hold, and sleeping ones that a thread can. One more is a panic.
const DEPTH: usize = 16;

struct Slot {
    class: AtomicPtr<Class>,
    lock: AtomicUsize,
    caller: AtomicPtr<Location<'static>>,
}

/// The locks that a CPU or a thread holds. Used by that CPU or thread alone, and atomic because interrupt handlers take locks too.
pub struct HeldLocks {
    slots: [Slot; DEPTH],
}

per_cpu! {
    static SPINNING: HeldLocks = HeldLocks::new();
    /// Where the part of the code began that this CPU runs and that must not sleep.
    static NO_SLEEP: AtomicPtr<Location<'static>> = AtomicPtr::new(ptr::null_mut());
}

/// A lock that is held.
#[derive(Clone, Copy)]
pub struct HeldLock {
    pub class: &'static str,
    pub level: &'static str,
    pub rank: u16,
    pub address: usize,
    pub caller: &'static Location<'static>,
}

impl Slot {
    const fn new() -> Self {
        Slot {
            class: AtomicPtr::new(ptr::null_mut()),
            lock: AtomicUsize::new(0),
            caller: AtomicPtr::new(ptr::null_mut()),
        }
    }

    fn get(&self) -> Option<HeldLock> {
        let address = self.lock.load(Relaxed);
        if address == 0 {
            return None;
        }
        // SAFETY: both are null or came from `&'static` references in `add`.
        let (class, caller) =
            unsafe { (self.class.load(Relaxed).as_ref()?, self.caller.load(Relaxed).as_ref()?) };
        Some(HeldLock { class: class.name, level: class.level, rank: class.rank, address, caller })
    }
}

impl HeldLocks {
    pub const fn new() -> Self {
        HeldLocks { slots: [const { Slot::new() }; DEPTH] }
    }

    fn iter(&self) -> impl Iterator<Item = HeldLock> {
        self.slots.iter().filter_map(Slot::get)
    }

    fn add(&self, class: &'static Class, lock: usize, caller: &'static Location<'static>) {
        let Some(slot) = self.slots.iter().find(|slot| slot.lock.load(Relaxed) == 0) else {
            panic!("lockdep: {} taken at {caller} while {DEPTH} locks are held", class.name);
        };
        slot.class.store(ptr::from_ref(class).cast_mut(), Relaxed);
        slot.caller.store(ptr::from_ref(caller).cast_mut(), Relaxed);
        slot.lock.store(lock, Relaxed);
    }

    fn remove(&self, class: &'static Class, lock: usize) {
        let Some(slot) = self.slots.iter().find(|slot| slot.lock.load(Relaxed) == lock) else {
            panic!("lockdep: {} is given back by a CPU or thread that does not hold it", class.name);
        };
        slot.lock.store(0, Relaxed);
    }
}

impl Default for HeldLocks {
    fn default() -> Self {
        Self::new()
    }
}

/// Runs `f` on the list on which a lock that sleeps or spins is: the thread's or the CPU's.
fn with_list<R>(sleeps: bool, f: impl FnOnce(&HeldLocks) -> R) -> R {
    if sleeps { machine::with_thread_locks(f) } else { f(SPINNING.this()) }
}

/// Calls `f` with each lock that this CPU and the thread on it hold.
pub fn held_locks(mut f: impl FnMut(HeldLock)) {
    if CHECKED {
        with_list(true, |locks| locks.iter().for_each(&mut f));
        with_list(false, |locks| locks.iter().for_each(&mut f));
    }
}

/// Before waiting for a lock that sleeps or spins.
#[inline(always)]
pub(super) fn check(
    class: &'static Class,
    lock: usize,
    nested: bool,
    sleeps: bool,
    caller: &'static Location<'static>,
) {
    if CHECKED {
        check_slow(class, lock, nested, sleeps, caller);
    }
}

#[inline(never)]
fn check_slow(
    class: &'static Class,
    lock: usize,
    nested: bool,
    sleeps: bool,
    caller: &'static Location<'static>,
) {
    if sleeps {
        may_sleep(caller);
    }
    held_locks(|held| {
        assert!(
            held.address != lock,
            "deadlock: {} taken at {} and again at {caller}",
            class.name,
            held.caller
        );
        assert!(
            held.rank < class.rank || nested && held.rank == class.rank,
            "LockOrder: {} ({}) taken at {caller} while {} ({}) is held since {}",
            class.name,
            class.level,
            held.class,
            held.level,
            held.caller,
        );
    });
}

/// A lock was taken.
#[inline(always)]
pub(super) fn acquired(class: &'static Class, lock: usize, sleeps: bool, caller: &'static Location<'static>) {
    if CHECKED {
        with_list(sleeps, |locks| locks.add(class, lock, caller));
    }
}

/// A lock is about to be given back.
#[inline(always)]
pub(super) fn released(class: &'static Class, lock: usize, sleeps: bool) {
    if CHECKED {
        with_list(sleeps, |locks| locks.remove(class, lock));
    }
}

/// Before a thread may sleep: it holds no spinning lock and is in no read section.
#[track_caller]
#[inline(always)]
pub fn assert_may_sleep() {
    if CHECKED {
        may_sleep(Location::caller());
    }
}

#[inline(never)]
fn may_sleep(caller: &'static Location<'static>) {
    if let Some(held) = SPINNING.this().iter().next() {
        panic!("may sleep at {caller} while {} ({}) is held since {}", held.class, held.level, held.caller);
    }
    assert!(!crate::rcu::reading(), "may sleep at {caller} in an RCU read section");
    // SAFETY: null, or a `&'static Location` that `no_sleep` put there.
    if let Some(since) = unsafe { NO_SLEEP.this().load(Relaxed).as_ref() } {
        panic!("may sleep at {caller}, which must not happen since {since}");
    }
}

/// While this lives nobody may sleep on this CPU: in an RCU callback, in the idle loop.
#[must_use]
pub struct NoSleep {
    outer: *mut Location<'static>,
}

/// Begins a part that must not sleep.
#[track_caller]
#[inline(always)]
pub fn no_sleep() -> NoSleep {
    let here = ptr::from_ref(Location::caller()).cast_mut();
    NoSleep { outer: if CHECKED { NO_SLEEP.this().swap(here, Relaxed) } else { ptr::null_mut() } }
}

impl Drop for NoSleep {
    #[inline(always)]
    fn drop(&mut self) {
        if CHECKED {
            NO_SLEEP.this().store(self.outer, Relaxed);
        }
    }
}

/// Where a thread leaves the kernel or ends (`place`, for the message): it holds nothing and is in no read section.
#[inline(always)]
pub fn assert_none_held(place: &str) {
    if CHECKED {
        none_held(place);
    }
}

#[inline(never)]
fn none_held(place: &str) {
    held_locks(|held| {
        panic!("{} ({}) is held at {place}, since {}", held.class, held.level, held.caller);
    });
    assert!(!crate::rcu::reading(), "an RCU read section reaches {place}");
}

#[cfg(all(test, any(debug_assertions, feature = "lockdep")))]
mod tests {
    use super::*;
    use crate::{Held, Mutex, SpinLock, lock_class, lock_order, rcu};
    use std::vec::Vec;

    lock_order! {
        level Directory = 1;
        level Object;
        level Leaf;
    }

    lock_class! {
        static DIRECTORY: LockClass = ("directory", Directory);
        static OBJECT: LockClass = ("object", Object);
        static LEAF: LockClass = ("leaf", Leaf);
    }

    fn held() -> Vec<&'static str> {
        let mut names = Vec::new();
        held_locks(|held| names.push(held.class));
        names
    }

    #[test]
    fn the_right_order_passes_and_leaves_nothing_held() {
        let (directory, object) = (Mutex::new((), &DIRECTORY), SpinLock::new((), &OBJECT));
        let leaf = SpinLock::new((), &LEAF);
        let (first, second, third) = (directory.lock(), object.lock(), leaf.lock());
        assert_eq!(held(), ["directory", "object", "leaf"]);
        drop(second);
        assert_eq!(held(), ["directory", "leaf"]);
        drop((first, third));
        assert_none_held("the end");
    }

    #[test]
    #[should_panic(expected = "LockOrder: object (Object) taken at")]
    fn the_wrong_order_panics() {
        let (object, leaf) = (SpinLock::new((), &OBJECT), SpinLock::new((), &LEAF));
        let _leaf = leaf.lock();
        let _object = object.lock();
    }

    #[test]
    #[should_panic(expected = "LockOrder: directory (Directory) taken at")]
    fn the_wrong_order_of_sleeping_locks_panics() {
        let (directory, object) = (Mutex::new((), &DIRECTORY), Mutex::new((), &OBJECT));
        let _object = object.lock();
        let _directory = directory.lock();
    }

    #[test]
    #[should_panic(expected = "LockOrder: object (Object) taken at")]
    fn a_spinning_lock_that_belongs_before_a_sleeping_one_panics_under_it() {
        let (object, leaf) = (SpinLock::new((), &OBJECT), Mutex::new((), &LEAF));
        let _leaf = leaf.lock();
        let _object = object.lock();
    }

    #[test]
    #[should_panic(expected = "LockOrder: leaf (Leaf) taken at")]
    fn a_second_lock_of_a_level_panics_unless_asked_for() {
        let (a, b) = (SpinLock::new((), &LEAF), SpinLock::new((), &LEAF));
        let first = a.lock();
        drop(b.lock_nested());
        drop(first);
        let _first = a.lock();
        let _second = b.lock();
    }

    #[test]
    fn a_lock_that_is_only_tried_needs_no_order_but_is_held() {
        let (object, leaf) = (SpinLock::new((), &OBJECT), Mutex::new((), &LEAF));
        let _object = object.lock();
        let tried = leaf.try_lock();
        assert_eq!(held(), ["leaf", "object"]);
        drop(tried);
        assert_eq!(held(), ["object"]);
    }

    #[test]
    #[should_panic(expected = "deadlock: leaf taken at")]
    fn taking_a_lock_twice_panics_instead_of_hanging() {
        let a = SpinLock::new((), &LEAF);
        let _first = a.lock();
        let _second = a.lock();
    }

    #[test]
    #[should_panic(expected = "deadlock: leaf taken at")]
    fn taking_a_sleeping_lock_twice_panics_instead_of_hanging() {
        let a = Mutex::new((), &LEAF);
        let _first = a.lock();
        let _second = a.lock();
    }

    #[test]
    #[should_panic(expected = "while object (Object) is held")]
    fn a_sleeping_lock_under_a_spinning_one_panics() {
        let (object, sleeping) = (SpinLock::new((), &OBJECT), Mutex::new((), &LEAF));
        let _object = object.lock();
        let _sleeping = sleeping.lock();
    }

    #[test]
    #[should_panic(expected = "in an RCU read section")]
    fn a_sleeping_lock_in_a_read_section_panics() {
        let sleeping = Mutex::new((), &LEAF);
        let _read = rcu::read();
        let _sleeping = sleeping.lock();
    }

    #[test]
    #[should_panic(expected = "which must not happen since")]
    fn a_sleeping_lock_in_an_rcu_callback_panics() {
        static SLEEPING: Mutex<(), Leaf> = Mutex::new((), &LEAF);
        struct Careless(rcu::RcuHead);
        impl Drop for Careless {
            fn drop(&mut self) {
                drop(SLEEPING.lock());
            }
        }
        crate::rcu_object!(Careless, 0);
        rcu::defer_box(std::boxed::Box::new(Careless(rcu::RcuHead::new())));
        rcu::drain();
    }

    #[test]
    #[should_panic(expected = "LockOrder: object (Object) taken at")]
    fn a_chain_that_begins_under_a_later_lock_panics_at_its_first() {
        let (object, leaf) = (SpinLock::new((), &OBJECT), SpinLock::new((), &LEAF));
        let _leaf = leaf.lock();
        let mut clean = Held::clean();
        let _object = object.lock_in(&mut clean);
    }

    #[test]
    #[should_panic(expected = "directory (Directory) is held at return to user mode, since")]
    fn a_lock_that_is_held_where_nothing_may_be_panics() {
        let directory = Mutex::new((), &DIRECTORY);
        let _directory = directory.lock();
        assert_none_held("return to user mode");
    }

    #[test]
    #[should_panic(expected = "lockdep: leaf taken at")]
    fn more_locks_than_can_be_remembered_panic() {
        let locks: Vec<_> = (0..=DEPTH).map(|_| SpinLock::new((), &LEAF)).collect();
        let _held: Vec<_> = locks.iter().map(SpinLock::lock_nested).collect();
    }

    #[test]
    #[should_panic(expected = "leaf is given back by a CPU or thread that does not hold it")]
    fn a_lock_that_another_thread_gives_back_panics() {
        let leaf = Mutex::new((), &LEAF);
        let held = leaf.lock();
        machine::with_thread_locks(|locks| locks.remove(LEAF.class(), locks.iter().next().unwrap().address));
        drop(held);
    }
}
