//! LockOrder at run time: each CPU's stack of spinning locks held, checked at each `lock`.
//!
//! On with feature `lockdep`, and in hosted debug builds; elsewhere every function here is empty and [`held_locks_of`] finds nothing.
//! A violation is a bug of the kernel and panics at once, with both places. Sleeping locks belong to threads and are not on the
//! stack; that a thread which takes one holds no spinning lock is checked.

use super::class::Class;
use crate::machine::{self, CpuId};
use crate::per_cpu;
use core::panic::Location;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed};

/// Whether lock order is checked.
pub const CHECKED: bool = cfg!(any(feature = "lockdep", all(debug_assertions, not(target_os = "none"))));

/// Locks held by one CPU that are remembered; more are not checked.
const DEPTH: usize = 16;

struct Slot {
    class: AtomicPtr<Class>,
    lock: AtomicUsize,
    caller: AtomicPtr<Location<'static>>,
}

/// Written by its CPU alone; atomic because the panic screen reads it from another.
struct Stack {
    slots: [Slot; DEPTH],
}

per_cpu! {
    static STACK: Stack = Stack {
        slots: [const {
            Slot {
                class: AtomicPtr::new(ptr::null_mut()),
                lock: AtomicUsize::new(0),
                caller: AtomicPtr::new(ptr::null_mut()),
            }
        }; DEPTH],
    };
}

/// A spinning lock that a CPU holds.
#[derive(Clone, Copy)]
pub struct HeldLock {
    pub class: &'static str,
    pub level: &'static str,
    pub rank: Option<u8>,
    pub address: usize,
    pub caller: &'static Location<'static>,
}

impl Slot {
    fn get(&self) -> Option<HeldLock> {
        let address = self.lock.load(Relaxed);
        if address == 0 {
            return None;
        }
        // SAFETY: both are null or came from `&'static` references in `acquired`.
        let (class, caller) =
            unsafe { (self.class.load(Relaxed).as_ref()?, self.caller.load(Relaxed).as_ref()?) };
        Some(HeldLock { class: class.name, level: class.level, rank: class.rank, address, caller })
    }
}

/// The spinning locks that `cpu` holds, oldest first; exact if the CPU stands still.
pub fn held_locks_of(cpu: CpuId) -> impl Iterator<Item = HeldLock> {
    let slots: &'static [Slot] = if CHECKED { &STACK.of(cpu).slots } else { &[] };
    slots.iter().filter_map(Slot::get)
}

/// Before waiting for a spinning lock.
#[inline(always)]
pub(super) fn check(class: &'static Class, lock: usize, nested: bool, caller: &'static Location<'static>) {
    if CHECKED {
        check_slow(class, lock, nested, caller);
    }
}

#[inline(never)]
fn check_slow(class: &'static Class, lock: usize, nested: bool, caller: &'static Location<'static>) {
    for held in held_locks_of(machine::cpu_id()) {
        assert!(
            held.address != lock,
            "deadlock: {} taken at {} and again at {caller}",
            class.name,
            held.caller
        );
        if let (Some(have), Some(want)) = (held.rank, class.rank) {
            assert!(
                have < want || nested && have == want,
                "LockOrder: {} ({}) taken at {caller} while {} ({}) is held since {}",
                class.name,
                class.level,
                held.class,
                held.level,
                held.caller,
            );
        }
    }
}

/// A spinning lock was taken.
#[inline(always)]
pub(super) fn acquired(class: &'static Class, lock: usize, caller: &'static Location<'static>) {
    if CHECKED && let Some(slot) = STACK.this().slots.iter().find(|slot| slot.lock.load(Relaxed) == 0) {
        slot.class.store(ptr::from_ref(class).cast_mut(), Relaxed);
        slot.caller.store(ptr::from_ref(caller).cast_mut(), Relaxed);
        slot.lock.store(lock, Relaxed);
    }
}

/// A spinning lock is about to be given back.
#[inline(always)]
pub(super) fn released(lock: usize) {
    if CHECKED && let Some(slot) = STACK.this().slots.iter().find(|slot| slot.lock.load(Relaxed) == lock) {
        slot.lock.store(0, Relaxed);
    }
}

/// Before a thread may sleep: it holds no spinning lock and is in no read section.
#[track_caller]
#[inline(always)]
pub fn assert_may_sleep() {
    if CHECKED {
        if let Some(held) = held_locks_of(machine::cpu_id()).next() {
            panic!("may sleep while {} is held since {}", held.class, held.caller);
        }
        assert!(!crate::rcu::reading(), "may sleep in an RCU read section");
    }
}

/// At the start of a chain of `lock_in`.
#[track_caller]
#[inline(always)]
pub(crate) fn assert_clean() {
    if CHECKED && let Some(held) = held_locks_of(machine::cpu_id()).find(|held| held.rank.is_some()) {
        panic!("LockOrder: a chain begins while {} is held since {}", held.class, held.caller);
    }
}

#[cfg(all(test, any(debug_assertions, feature = "lockdep")))]
mod tests {
    use super::*;
    use crate::machine::cpu_id;
    use crate::{Held, Mutex, SpinLock, level, lock_class, rcu};

    lock_class! {
        static OBJECT: LockClass = ("object", level::Object);
        static LEAF: LockClass = ("leaf", level::Leaf);
        static SLEEPING: LockClass = ("sleeping", level::Other);
    }

    #[test]
    fn the_right_order_passes_and_leaves_nothing_held() {
        let (object, leaf) = (SpinLock::new((), &OBJECT), SpinLock::new((), &LEAF));
        let first = object.lock();
        let second = leaf.lock();
        let held: std::vec::Vec<_> = held_locks_of(cpu_id()).map(|held| held.class).collect();
        assert_eq!(held, ["object", "leaf"]);
        drop(first);
        drop(second);
        assert_eq!(held_locks_of(cpu_id()).count(), 0);
    }

    #[test]
    #[should_panic(expected = "LockOrder: object (Object) taken at")]
    fn the_wrong_order_panics() {
        let (object, leaf) = (SpinLock::new((), &OBJECT), SpinLock::new((), &LEAF));
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
    #[should_panic(expected = "deadlock: leaf taken at")]
    fn taking_a_lock_twice_panics_instead_of_hanging() {
        let a = SpinLock::new((), &LEAF);
        let _first = a.lock();
        let _second = a.lock();
    }

    #[test]
    #[should_panic(expected = "may sleep while leaf is held")]
    fn a_sleeping_lock_under_a_spinning_one_panics() {
        let (leaf, sleeping) = (SpinLock::new((), &LEAF), Mutex::new((), &SLEEPING));
        let _leaf = leaf.lock();
        let _sleeping = sleeping.lock();
    }

    #[test]
    #[should_panic(expected = "may sleep in an RCU read section")]
    fn a_sleeping_lock_in_a_read_section_panics() {
        let sleeping = Mutex::new((), &SLEEPING);
        let _read = rcu::read();
        let _sleeping = sleeping.lock();
    }

    #[test]
    #[should_panic(expected = "a chain begins while leaf is held")]
    fn a_chain_cannot_begin_under_a_lock_of_the_order() {
        let leaf = SpinLock::new((), &LEAF);
        let _leaf = leaf.lock();
        let _clean = Held::clean();
    }
}
