//! What a space holds, for /proc and for futexes.
//!
//! Invariants: CountLocal — counts lie in the leaves; the reader adds them up.
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use crate::error::{FaultError, VmError};
use crate::machine::{Entry, Machine};
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::node::{Node, Sizes, WalkPath};
use crate::object::Object;
use crate::order;
use crate::policy::Policy;
use crate::request::{Access, Prot};
use crate::space::Space;
use crate::space::pieces::{Found, between_pieces};
use crate::swap;
use core::ops::{ControlFlow, Range};
use sync::machine::{give_way, should_give_way};
use sync::rcu::{self, RcuRead};

/// One mapping, as a line of /proc/PID/maps.
pub struct MappingInfo<'a> {
    pub start: usize,
    pub end: usize,
    pub prot: Prot,
    pub shared: bool,
    /// mprotect may make it writable.
    pub may_write: bool,
    /// Bytes into the object.
    pub offset: u64,
    pub object: Option<&'a Object>,
    pub growsdown: bool,
    pub locked: bool,
    /// A core dump does not have it.
    pub no_dump: bool,
    /// mprotect may make it executable.
    pub may_exec: bool,
    /// With `locked`: only pages that were touched.
    pub locked_on_fault: bool,
    /// A child of fork does not get it; gets it empty.
    pub no_fork: bool,
    pub wipe_on_fork: bool,
    /// It asks for large pages; refuses them; would get one somewhere.
    pub asks_large: bool,
    pub refuses_large: bool,
    pub large_eligible: bool,
    /// From where new pages come.
    pub policy: Policy,
}

/// Sizes in pages.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Usage {
    pub virtual_pages: usize,
    pub resident_pages: usize,
    /// Resident private memory.
    pub anon: usize,
    /// Resident pages of objects (and of zeros).
    pub file: usize,
    /// Mapped private writable, stack apart.
    pub data: usize,
    pub stack: usize,
    /// Mapped executable.
    pub exec: usize,
    /// Mapped locked.
    pub locked: usize,
    /// Page-table pages.
    pub tables: usize,
    /// Private pages in swap.
    pub swapped: usize,
}

/// What a futex word is known by.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FutexKey {
    /// Memory of one space: its id and the address.
    Private(u64, usize),
    /// Shared memory: the object's address, which is its identity while it is mapped, and the byte in it.
    Shared(usize, u64),
}

impl<M: Machine> Space<M> {
    /// Calls `f` with each mapping in order, or those before a fatal signal comes. No lock is held meanwhile; `f` may sleep, as this does.
    pub fn for_each_mapping(&self, f: &mut dyn FnMut(&MappingInfo<'_>)) {
        self.for_each_mapping_in(0..M::USER_END, f);
    }

    /// The same for what lies in `range`. The first begins there at the earliest; the last may end beyond, or there though it goes on.
    pub fn for_each_mapping_in(&self, range: Range<usize>, f: &mut dyn FnMut(&MappingInfo<'_>)) {
        self.visit_mappings(range, &mut |mapping| {
            f(mapping);
            true
        });
    }

    /// The same until `f` answers false. Says where it stopped, which is the end of the last mapping that `f` was shown; None: there are no more.
    pub fn visit_mappings(
        &self,
        range: Range<usize>,
        f: &mut dyn FnMut(&MappingInfo<'_>) -> bool,
    ) -> Option<usize> {
        let mut at = range.start;
        while let Some(mapping) = self.next_mapping_in(at, range.end, &mut order::begin()) {
            let attrs = &mapping.attrs;
            let goes_on = f(&MappingInfo {
                start: mapping.start,
                end: mapping.end,
                prot: attrs.prot,
                shared: attrs.is_shared(),
                may_write: !attrs.flags.contains(SegFlags::NO_WRITE),
                offset: attrs.offset << PAGE_SHIFT,
                object: attrs.object.as_deref(),
                growsdown: attrs.flags.contains(SegFlags::GROWSDOWN),
                locked: attrs.flags.contains(SegFlags::LOCKED),
                no_dump: attrs.flags.contains(SegFlags::NO_DUMP),
                may_exec: !attrs.flags.contains(SegFlags::NO_EXEC),
                locked_on_fault: attrs.flags.contains(SegFlags::LOCKED_ON_FAULT),
                no_fork: attrs.flags.contains(SegFlags::NO_FORK),
                wipe_on_fork: attrs.flags.contains(SegFlags::WIPE_ON_FORK),
                asks_large: attrs.flags.contains(SegFlags::LARGE),
                refuses_large: attrs.flags.contains(SegFlags::NO_LARGE),
                large_eligible: self.is_eligible_for_large(mapping.start..mapping.end, attrs),
                policy: attrs.policy,
            });
            at = mapping.end;
            if give_way() {
                return None;
            }
            if !goes_on {
                return Some(at);
            }
        }
        None
    }

    /// Sizes, added up now.
    pub fn usage(&self) -> Usage {
        let mut sizes = Sizes::default();
        let mut at = 0;
        while at < M::USER_END {
            at = self.add_run(at, &mut order::begin(), &mut sizes);
            if give_way() {
                break;
            }
        }
        let Sizes { mapped, data, stack, exec, locked } = sizes;
        Usage { virtual_pages: mapped, data, stack, exec, locked, ..self.count_nodes() }
    }

    /// Pages in memory: a walk over the nodes, without looking at mappings. For ru_maxrss.
    #[expect(clippy::arithmetic_side_effects, reason = "a count of pages of user memory")]
    pub fn resident_pages(&self) -> usize {
        let mut pages = 0;
        self.for_each_node(|node| {
            if node.is_leaf() {
                pages += usize::from(node.counts().present()).saturating_sub(node.swapped_pages());
            }
        });
        pages
    }

    /// Pages in memory that are not private: a walk as [`Self::resident_pages`] is. The page of zeros counts each time.
    #[expect(clippy::arithmetic_side_effects, reason = "a count of pages of user memory")]
    pub fn object_pages(&self) -> usize {
        let mut pages = 0;
        self.for_each_node(|node| {
            if node.is_leaf() {
                // Unlocked, the two need not be of one moment.
                pages += usize::from(node.counts().present().saturating_sub(node.counts().private()));
            }
        });
        pages
    }

    /// What nodes know without their mappings.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of pages of user memory")]
    fn count_nodes(&self) -> Usage {
        let mut usage = Usage::default();
        self.for_each_node(|node| {
            usage.tables += 1;
            if node.is_leaf() {
                let (present, private) = (node.counts().present(), node.counts().private());
                let swapped = node.swapped_pages();
                usage.swapped += swapped;
                // Unlocked, they need not be of one moment.
                usage.resident_pages += usize::from(present).saturating_sub(swapped);
                usage.anon += usize::from(private).saturating_sub(swapped);
                usage.file += usize::from(present.saturating_sub(private));
            }
        });
        usage
    }

    /// Calls `f` with each node and gives way between two of them. Nothing is locked, so no line of a node is written.
    #[inline]
    fn for_each_node(&self, mut f: impl FnMut(&Node)) {
        let mut reached = Some(0);
        while let Some(from) = reached {
            reached = nodes_from::<M>(self.root(), from, &mut f, &rcu::read());
            if reached.is_some() {
                between_pieces();
            }
        }
    }

    /// mincore: calls `f` for each page of the range with whether it is in memory. `NoSpace` (ENOMEM) at a hole. Nodes are locked meanwhile: the
    /// range is short, and `f` does not wait.
    pub fn incore(&self, start: VirtAddr, len: usize, f: &mut dyn FnMut(bool)) -> Result<(), VmError> {
        let end = start.0.checked_add(len).filter(|e| *e <= M::USER_END).ok_or(VmError::NoSpace)?;
        let mut at = start.page_start().0;
        while at < end {
            let piece = |(range, attrs, pages): Found<'_>| {
                (range.start == at).then(|| self.incore_piece(at..range.end.min(end), attrs, pages, f))
            };
            let done = self.look_at_next(at, at.saturating_add(1), &mut order::begin(), piece);
            at = done.flatten().ok_or(VmError::NoSpace)?;
        }
        Ok(())
    }

    /// The same of a part of a piece, which is `attrs` so many pages before; its node is locked. Returns the end of the part.
    #[expect(clippy::arithmetic_side_effects, reason = "a file's pages are below 2^51")]
    fn incore_piece(
        &self,
        part: Range<usize>,
        attrs: &MappingAttrs,
        pages: u64,
        f: &mut dyn FnMut(bool),
    ) -> usize {
        let rcu = rcu::read();
        let path = WalkPath::walk::<M>(self.root(), part.start, &rcu);
        let node = path.node();
        let is_leaf = node.is_leaf();
        let object = attrs.object.as_deref();
        for (page, offset) in part.clone().step_by(PAGE_SIZE).zip(attrs.offset + pages..) {
            let entry = if is_leaf { node.peek(node.index(page)) } else { Entry::ABSENT };
            if let Some(place) = entry.swap_place() {
                f(swap::is_cached(place));
                continue;
            }
            f(!entry.is_absent() || object.is_some_and(|object| object.frame(offset).is_some()));
        }
        part.end
    }

    /// msync. Pages of memory objects have nowhere to be written to, so this only checks that the range is mapped (`NoSpace`, ENOMEM).
    /// `invalidate`: `Busy` (EBUSY) where it is locked.
    pub fn sync(&self, start: VirtAddr, len: usize, invalidate: bool) -> Result<(), VmError> {
        let len = len.checked_next_multiple_of(PAGE_SIZE).ok_or(VmError::NoSpace)?;
        let end = start.0.checked_add(len).ok_or(VmError::NoSpace)?;
        if !start.is_page_aligned() {
            return Err(VmError::Invalid);
        }
        // What is locked is told before what is not mapped.
        let reached = end.min(M::USER_END);
        if invalidate && start.0 < reached && self.unlocked_until(start.0, reached) < reached {
            return Err(VmError::Busy);
        }
        if len == 0 || (end == reached && self.is_mapped(start.0, end, &mut order::begin())) {
            Ok(())
        } else {
            Err(VmError::NoSpace)
        }
    }

    /// The identity of the futex word at `addr`, which the program may read.
    pub fn futex_key(&self, addr: VirtAddr) -> Result<FutexKey, FaultError> {
        let page = addr.page_start().0;
        let key = |(_, attrs, pages): Found<'_>| self.futex_key_in(addr, attrs, pages);
        self.look_at_next(page, page.saturating_add(1), &mut order::begin(), key)
            .unwrap_or(Err(FaultError::NotMapped))
    }

    /// The same of a word in a mapping that is `attrs` so many pages before.
    #[expect(clippy::arithmetic_side_effects, reason = "a file's pages are below 2^51")]
    fn futex_key_in(&self, addr: VirtAddr, attrs: &MappingAttrs, pages: u64) -> Result<FutexKey, FaultError> {
        if !Access::READ.allowed(attrs.prot) {
            return Err(FaultError::Denied);
        }
        // What cannot be written through this mapping is known by its object; without one it cannot change, and there is
        // nothing to wait for, as Linux judges it.
        let written = Access::WRITE.allowed(attrs.prot);
        Ok(match &attrs.object {
            None if !written => return Err(FaultError::Denied),
            Some(object) if attrs.is_shared() || !written => {
                let offset = ((attrs.offset + pages) << PAGE_SHIFT) + addr.page_offset() as u64;
                FutexKey::Shared(core::ptr::from_ref::<Object>(object) as usize, offset)
            }
            _ => FutexKey::Private(self.id(), addr.0),
        })
    }
}

/// Calls `f` with the interior node `node`, which has interior nodes below it, if it begins at `from` or later, and with what is below it from there on.
/// Returns where it stopped for another thread to run: where a node above leaves begins, or one further up.
fn nodes_from<M: Machine>(
    node: &Node,
    from: usize,
    f: &mut impl FnMut(&Node),
    rcu: &RcuRead,
) -> Option<usize> {
    let is_whole = node.base() >= from;
    if is_whole {
        f(node);
    }
    // Before the first child of this walk nothing was done here: whoever stopped would come to the same place again.
    let mut is_first = true;
    node.each_child::<M, usize>(rcu, |child| {
        if !is_whole && child.end() <= from {
            return ControlFlow::Continue(());
        }
        if !is_first && should_give_way() {
            return ControlFlow::Break(child.base());
        }
        is_first = false;
        if child.level() == 1 {
            leaves_of::<M>(child, f, rcu);
            return ControlFlow::Continue(());
        }
        nodes_from::<M>(child, from, f, rcu).map_or(ControlFlow::Continue(()), ControlFlow::Break)
    })
    .break_value()
}

/// The same of a node above leaves, and of these: all at once.
#[inline(always)]
fn leaves_of<M: Machine>(node: &Node, f: &mut impl FnMut(&Node), rcu: &RcuRead) {
    f(node);
    let _all = node.each_child::<M, ()>(rcu, |leaf| {
        f(leaf);
        ControlFlow::Continue(())
    });
}
