//! The reverse map: which leaves map an object. One entry per leaf and object, on lists kept per CPU, each of which finds leaves by the pages that
//! they may show (list.rs).
//!
//! Invariants: RegisterBeforeMap, MatchBeforeClear (protocol/evict.rs) — a leaf is registered before a segment of the object is put
//! into it, so before its first entry, and for all pages of the object that its segments name. An entry on a list keeps no
//! reference to its leaf; the leaf takes itself off the lists before its grace period begins.
//!
//! The first CPU that maps the object uses the list in the object; others get a list each, allocated when they come.
//!
//! Lock order: a list's lock is of level Object; a visit locks one leaf after the other under it.
#![forbid(unsafe_code)]

mod count;

use super::list::{self, List, Pages};
use crate::machine::{CpuSet, FlushCause, FlushRange, Machine};
use crate::node::flush::SharersFlushed;
use crate::node::{Locked, Node, NodeRef, OwnPage, Retired, Taken};
use crate::once::OnceBox;
use crate::order::Order;
use crate::order::{Object as ObjectLevel, ReverseMap as ReverseMapLevel};
use crate::protocol::evict;
use crate::tlb::SpaceTlb;
use alloc::boxed::Box;
use core::sync::atomic::{AtomicU32, Ordering};
use sync::level::Held;
use sync::rcu::RcuRead;
use sync::{AllocError, SpinLock, lock_class, machine};

lock_class! {
    static REVERSE: LockClass = ("vm reverse map", ReverseMapLevel);
}

/// Where a leaf stands on an object's lists. The leaf's alone: who takes it off once more would take off another leaf.
pub struct Place {
    /// 0: the list in the object; else the CPU's number plus one.
    list: u32,
    index: u32,
}

impl Place {
    pub fn list(&self) -> u32 {
        self.list
    }

    pub fn index(&self) -> u32 {
        self.index
    }
}

/// What a visit needs of the machine whose entries the leaf holds: objects do not know the machine's type.
pub struct ReverseOps {
    /// Clears entry `index` if it maps, without owning it, the frame at `address`.
    pub clear: fn(&mut Locked<'_>, u16, crate::addr::PhysAddr) -> bool,
    /// Takes out of entry `index` a page that the leaf owns: a private copy. One that is just being made comes to nothing.
    pub take_owned: fn(&mut Locked<'_>, u16) -> Option<Taken>,
    /// Takes the right to write away in entry `index` if it shows, without owning it, the frame at `address`. Says whether it had it.
    pub protect: fn(&mut Locked<'_>, u16, crate::addr::PhysAddr) -> bool,
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
                protect: |leaf, index, frame| leaf.look(index).take_write::<M>(frame),
                flush: |tlb, range, viewers| tlb.flush::<M>(range, viewers, false, FlushCause::Object),
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

#[repr(align(64))]
struct PaddedList(SpinLock<List<Listed>, ReverseMapLevel>);

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

    fn list(&self, number: u32) -> &SpinLock<List<Listed>, ReverseMapLevel> {
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

    /// Puts `node`, which may show `pages`, on this CPU's list.
    pub fn register(
        &self,
        node: NodeRef,
        pages: Pages,
        ops: &'static ReverseOps,
        order: &mut Order<'_>,
    ) -> Result<Place, AllocError> {
        let list = self.my_number();
        let draw = node.draw();
        let add = || self.list(list).lock_in(order).add(Listed { node, ops }, pages, draw);
        let index = evict::register(add)?;
        Ok(Place { list, index })
    }

    pub fn unregister(&self, place: &Place, order: &mut Order<'_>) {
        self.list(place.list).lock_in(order).remove(place.index);
    }

    /// Has what is on list `number` show more pages. `find` is called with that list locked, and says at which place and what in all; it has looked there
    /// whether the leaf still is on this list.
    pub fn widen(
        &self,
        number: u32,
        order: &mut Order<'_>,
        find: impl FnOnce(&mut Held<'_, ReverseMapLevel>) -> Option<(u32, Pages)>,
    ) {
        let mut list = self.list(number).lock_in(order);
        let (list, held) = list.split();
        if let Some((index, pages)) = find(held) {
            list.widen(index, pages);
        }
    }

    /// Was a leaf ever put on a list?
    pub fn were_used(&self) -> bool {
        self.first.load(Ordering::Relaxed) != u32::MAX
    }

    /// Does any leaf map the object?
    pub fn is_empty(&self, order: &mut Held<'_, ObjectLevel>) -> bool {
        let others = self.others.get().map_or(&[][..], |l| l);
        self.inline.0.lock_in(order).is_empty() && others.iter().all(|l| l.0.lock_in(order).is_empty())
    }

    /// Calls `f` for each leaf that may show some of `pages`, from `reached` on, and says there how far it came: false if it stopped between two leaves, for
    /// another thread to run. A leaf that is on a list from before the first call until after the last is visited. The leaves live as long as `rcu`.
    pub fn visit(
        &self,
        pages: Pages,
        reached: &mut Reached,
        rcu: &RcuRead,
        order: &mut Held<'_, ObjectLevel>,
        mut f: impl FnMut(&Node, &ReverseOps, &mut Held<'_, ReverseMapLevel>),
    ) -> bool {
        let others = self.others.get().map_or(&[][..], |l| l);
        for list in core::iter::once(&self.inline).chain(others).skip(reached.list) {
            let mut list = list.0.lock_in(order);
            let (list, held) = list.split();
            while let Some(step) = list.next(pages, &mut reached.within) {
                if let Some(leaf) = step.leaf {
                    f(leaf.node.get(rcu), leaf.ops, held);
                }
                if machine::should_give_way() {
                    return false;
                }
            }
            *reached = Reached { list: reached.list.saturating_add(1), within: list::Reached::default() };
        }
        true
    }
}

/// How far a visit of all leaves has come.
#[derive(Default)]
pub struct Reached {
    list: usize,
    within: list::Reached,
}

impl Default for Leaves {
    fn default() -> Self {
        Self::new()
    }
}
