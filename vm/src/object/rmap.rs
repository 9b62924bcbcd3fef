//! The reverse map: which leaves map an object. One entry per leaf and object, on lists kept per CPU.
//!
//! Invariants: RegisterBeforeMap, MatchBeforeClear (protocol/evict.rs) — a leaf is registered before a segment of the object is put
//! into it, so before its first entry. An entry on a list keeps no
//! reference to its leaf; the leaf takes itself off the lists before its grace period begins.
//!
//! The first CPU that maps the object uses the list in the object; others get a list each, allocated when they come.
//!
//! Lock order: a list's lock is of level Object; a visit locks one leaf after the other under it.
#![forbid(unsafe_code)]

use crate::machine::{CpuSet, FlushRange, Machine};
use crate::node::flush::SharersFlushed;
use crate::node::{Locked, Node, NodeRef, OwnPage, Retired, Taken};
use crate::once::OnceBox;
use crate::order::Order;
use crate::order::{Object as ObjectLevel, ReverseMap as ReverseMapLevel};
use crate::protocol::evict;
use crate::tlb::SpaceTlb;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU32, Ordering};
use sync::level::Held;
use sync::rcu::RcuRead;
use sync::{AllocError, SpinLock, TryVec, lock_class, machine};

lock_class! {
    static REVERSE: LockClass = ("vm reverse map", ReverseMapLevel);
}

/// Where a leaf stands on an object's lists. The leaf's alone: who takes it off once more would take off another leaf.
pub struct Place {
    /// 0: the list in the object; else the CPU's number plus one.
    list: u32,
    index: u32,
}

/// What a visit needs of the machine whose entries the leaf holds: objects do not know the machine's type.
pub struct ReverseOps {
    /// Clears entry `index` if it maps, without owning it, the frame at `address`.
    pub clear: fn(&mut Locked<'_>, u16, crate::addr::PhysAddr) -> bool,
    /// Takes out of entry `index` a page that the leaf owns: a private copy. One that is just being made comes to nothing.
    pub take_owned: fn(&mut Locked<'_>, u16) -> Option<Taken>,
    pub flush: fn(&SpaceTlb, FlushRange, &CpuSet),
    /// Lets what [`Self::take_owned`] took go.
    pub release: fn(Taken, SharersFlushed<'_>),
}

impl ReverseOps {
    pub fn of<M: Machine>() -> &'static Self {
        struct Of<M>(core::marker::PhantomData<M>);
        impl<M: Machine> Of<M> {
            const OPS: ReverseOps = ReverseOps {
                clear: clear::<M>,
                take_owned: take_owned::<M>,
                flush: |tlb, range, viewers| tlb.flush::<M>(range, viewers),
                release: |page, proof| Retired::entry::<M>(page, proof),
            };
        }
        &Of::<M>::OPS
    }
}

fn clear<M: Machine>(leaf: &mut Locked<'_>, index: u16, frame: crate::addr::PhysAddr) -> bool {
    let matches = evict::shows::<M>(leaf.entry(index), frame);
    if matches {
        // The frame is the object's, so nothing comes out with the entry.
        let _borrowed = leaf.take::<M>(index);
    }
    matches
}

fn take_owned<M: Machine>(leaf: &mut Locked<'_>, index: u16) -> Option<Taken> {
    if leaf.entry(index).is_busy() {
        // Who made it busy finds it gone, and lets both pages go.
        let _busy = leaf.take::<M>(index);
        return None;
    }
    leaf.take_private::<M>(index).map(OwnPage::into_taken)
}

struct Listed {
    node: NodeRef,
    ops: &'static ReverseOps,
}

/// Leaves of one CPU. Places stay valid while others come and go.
struct List {
    leaves: Vec<Result<Listed, u32>>,
    /// First free place; `u32::MAX`: none.
    free: u32,
    used: usize,
}

impl List {
    const fn new() -> Self {
        Self { leaves: Vec::new(), free: u32::MAX, used: 0 }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "counts of leaves in memory")]
    fn add(&mut self, leaf: Listed) -> Result<u32, AllocError> {
        let index = match self.leaves.get_mut(self.free as usize) {
            Some(place) => {
                let index = self.free;
                if let Err(next) = *place {
                    self.free = next;
                }
                *place = Ok(leaf);
                index
            }
            None => {
                self.leaves.try_push(Ok(leaf))?;
                self.leaves.len() as u32 - 1
            }
        };
        self.used += 1;
        Ok(index)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "each leaf that leaves was counted")]
    fn remove(&mut self, index: u32) {
        if let Some(place) = self.leaves.get_mut(index as usize) {
            *place = Err(self.free);
            self.free = index;
            self.used -= 1;
        }
        if self.used == 0 && self.leaves.len() > 64 {
            *self = Self::new();
        }
    }
}

#[repr(align(64))]
struct PaddedList(SpinLock<List, ReverseMapLevel>);

/// All leaves that map an object.
pub struct Leaves {
    /// CPU whose list lies in the object; `u32::MAX`: not taken yet. Read by all, so not on the list's line.
    first: AtomicU32,
    inline: PaddedList,
    others: OnceBox<Box<[PaddedList]>>,
}

impl Leaves {
    pub const fn new() -> Self {
        Self {
            first: AtomicU32::new(u32::MAX),
            inline: PaddedList(SpinLock::new(List::new(), &REVERSE)),
            others: OnceBox::new(),
        }
    }

    fn list(&self, number: u32) -> &SpinLock<List, ReverseMapLevel> {
        let other = number.checked_sub(1).and_then(|cpu| self.others.get()?.get(cpu as usize));
        &other.unwrap_or(&self.inline).0
    }

    /// The list of this CPU; where memory for one fails, the object's own will do.
    #[expect(clippy::arithmetic_side_effects, reason = "numbers of CPUs")]
    fn my_number(&self) -> u32 {
        let cpu = machine::cpu_id();
        let mut first = self.first.load(Ordering::Relaxed);
        if first == u32::MAX {
            first = self
                .first
                .compare_exchange(u32::MAX, cpu, Ordering::Relaxed, Ordering::Relaxed)
                .map_or_else(|other| other, |_| cpu);
        }
        if first == cpu {
            return 0;
        }
        let lists = self.others.get_or_try(|| {
            let lists = sync::heap::try_box_slice(machine::cpus() as usize, |_| {
                PaddedList(SpinLock::new(List::new(), &REVERSE))
            })?;
            sync::try_box(lists)
        });
        if lists.is_ok_and(|l| l.len() > cpu as usize) { cpu + 1 } else { 0 }
    }

    /// Puts `node` on this CPU's list.
    pub fn register(
        &self,
        node: NodeRef,
        ops: &'static ReverseOps,
        order: &mut Order<'_>,
    ) -> Result<Place, AllocError> {
        let list = self.my_number();
        let add = || self.list(list).lock_in(order).add(Listed { node, ops });
        let index = evict::register(add)?;
        Ok(Place { list, index })
    }

    pub fn unregister(&self, place: &Place, order: &mut Order<'_>) {
        self.list(place.list).lock_in(order).remove(place.index);
    }

    /// Was a leaf ever put on a list?
    pub fn were_used(&self) -> bool {
        self.first.load(Ordering::Relaxed) != u32::MAX
    }

    /// Does any leaf map the object?
    pub fn is_empty(&self, order: &mut Held<'_, ObjectLevel>) -> bool {
        let others = self.others.get().map_or(&[][..], |l| l);
        self.inline.0.lock_in(order).used == 0 && others.iter().all(|l| l.0.lock_in(order).used == 0)
    }

    /// Calls `f` for each leaf from `reached` on, and says there how far it came: false if it stopped between two leaves, for another thread to run. A leaf
    /// that is on a list from before the first call until after the last is visited. The leaves live as long as `rcu`.
    pub fn visit(
        &self,
        reached: &mut Reached,
        rcu: &RcuRead,
        order: &mut Held<'_, ObjectLevel>,
        mut f: impl FnMut(&Node, &ReverseOps, &mut Held<'_, ReverseMapLevel>),
    ) -> bool {
        let others = self.others.get().map_or(&[][..], |l| l);
        for list in core::iter::once(&self.inline).chain(others).skip(reached.list) {
            let mut list = list.0.lock_in(order);
            let (list, held) = list.split();
            for leaf in list.leaves.iter().skip(reached.place) {
                reached.place = reached.place.saturating_add(1);
                if let Ok(leaf) = leaf {
                    f(leaf.node.get(rcu), leaf.ops, held);
                }
                if machine::should_give_way() {
                    return false;
                }
            }
            *reached = Reached { list: reached.list.saturating_add(1), place: 0 };
        }
        true
    }
}

/// How far a visit of all leaves has come. Places stay: a leaf that comes to one before it came after the visit began.
#[derive(Default)]
pub struct Reached {
    list: usize,
    place: usize,
}

impl Default for Leaves {
    fn default() -> Self {
        Self::new()
    }
}
