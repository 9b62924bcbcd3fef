//! mlock and its kin. To lock pages is to fault them in, and to remember it: for what is counted, for the calls that refuse what is locked, and
//! for who takes pages out to swap, which leaves them (op/page_out.rs).
//!
//! Locked is a property of a segment. A child of fork does not inherit it, so fork copies such leaves (op/fork/inherit.rs).
#![forbid(unsafe_code)]

use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::order;
use crate::request::{Access, Prot};
use crate::space::Space;
use crate::space::pieces::Extent;
use core::sync::atomic::Ordering;
use sync::machine::give_way;

/// How pages are locked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lock {
    /// All of them, now.
    Now,
    /// Each when it is touched (MLOCK_ONFAULT).
    OnFault,
}

impl Lock {
    pub(crate) fn flags(lock: Option<Self>) -> SegFlags {
        match lock {
            None => SegFlags::empty(),
            Some(Self::Now) => SegFlags::LOCKED,
            Some(Self::OnFault) => SegFlags::OF_PARENT,
        }
    }
}

/// What a program does with a page to have it in memory: a write, where that makes a page of its own. None: it may do nothing with it.
fn touch(extent: &Extent) -> Option<Access> {
    match extent.prot {
        prot if prot.is_empty() => None,
        prot if prot.contains(Prot::WRITE) && !extent.flags.contains(SegFlags::SHARED) => Some(Access::WRITE),
        _ => Some(Access::READ),
    }
}

impl<M: Machine> Space<M> {
    /// Locks or unlocks `start..start + len`, whole pages. `NoSpace` (ENOMEM) at the first hole; what lies before it is changed then, as on
    /// Linux. Pages are not faulted in by this. May sleep.
    pub fn set_lock(&self, start: VirtAddr, len: usize, lock: Option<Lock>) -> Result<(), VmError> {
        let end = start.0.checked_add(len).filter(|e| *e <= M::USER_END).ok_or(VmError::NoSpace)?;
        if len == 0 {
            return Ok(());
        }
        let order = &mut order::begin();
        let mapped = self.mapped_until(start.0, end, order);
        if mapped > start.0 {
            self.change_flags(start.0..mapped, Lock::flags(lock), SegFlags::OF_PARENT)?;
        }
        if mapped < end { Err(VmError::NoSpace) } else { Ok(()) }
    }

    /// The same for all that is mapped. Goes on after a failure, as Linux does.
    pub fn set_lock_of_all(&self, lock: Option<Lock>) {
        self.for_each_mapping(&mut |m| {
            let _ = self.change_flags(m.start..m.end, Lock::flags(lock), SegFlags::OF_PARENT);
        });
    }

    /// What new mappings get (MCL_FUTURE). Children of fork do not inherit it.
    pub fn set_future_lock(&self, lock: Option<Lock>) {
        self.future_lock.store(Lock::flags(lock).bits(), Ordering::Relaxed);
    }

    /// May anything be locked? False: certainly not.
    pub fn may_have_locks(&self) -> bool {
        self.has_parts.load(Ordering::Relaxed)
    }

    /// Is the page at `addr` of a locked mapping, and of one whose private pages count as data (RLIMIT_DATA)? None: nothing is mapped there.
    pub fn kind_at(&self, addr: VirtAddr) -> Option<(bool, bool)> {
        let page = addr.page_start().0;
        let Extent { prot, flags, .. } =
            self.next_extent(page, &mut order::begin()).filter(|p| p.start == page)?;
        let is_data = prot.contains(Prot::WRITE) && !flags.intersects(SegFlags::SHARED | SegFlags::GROWSDOWN);
        Some((flags.contains(SegFlags::LOCKED), is_data))
    }

    /// Does it lock new mappings?
    pub fn locks_future(&self) -> bool {
        self.future_lock.load(Ordering::Relaxed) != 0
    }

    /// The flags of a new mapping, besides its own.
    #[inline]
    pub(crate) fn future_flags(&self) -> SegFlags {
        SegFlags::from_bits_truncate(self.future_lock.load(Ordering::Relaxed))
    }

    /// Faults in what is locked in `start..end`, but for what is locked on fault. `Fault` where a program may do nothing with a page or there is
    /// none behind it; with `on` it goes on then. Ends early when a fatal signal comes. May sleep.
    pub fn populate_locked(&self, start: usize, end: usize, on: bool) -> Result<(), VmError> {
        let mut at = start;
        while at < end {
            let Some(piece) = self.next_extent_in(at, end, &mut order::begin()) else {
                break;
            };
            let stop = piece.end.min(end);
            if piece.flags.intersection(SegFlags::OF_PARENT) == SegFlags::LOCKED {
                let populated = match touch(&piece) {
                    Some(access) => {
                        self.populate(VirtAddr(piece.start), stop.saturating_sub(piece.start), access)
                    }
                    None => Err(VmError::Fault),
                };
                if !on {
                    populated?;
                }
            }
            at = stop;
            if give_way() {
                break;
            }
        }
        Ok(())
    }

    /// Pages of `start..end` that are locked, or all that are mapped there.
    pub fn count_pages(&self, start: usize, end: usize, locked: bool) -> usize {
        let mut pages = 0usize;
        let mut at = start;
        while let Some(piece) = self.next_extent_in(at, end, &mut order::begin()) {
            let counts = !piece.is_quarantine() && (!locked || piece.flags.contains(SegFlags::LOCKED));
            let stop = piece.end.min(end);
            if counts {
                pages = pages.saturating_add(stop.saturating_sub(piece.start) / PAGE_SIZE);
            }
            at = stop;
            if give_way() {
                break;
            }
        }
        pages
    }

    /// Where the first locked piece of `start..end` begins; `end` if there is none. Who never locked anything pays nothing.
    pub(crate) fn unlocked_until(&self, start: usize, end: usize) -> usize {
        if !self.has_parts.load(Ordering::Relaxed) {
            return end;
        }
        let locked = |attrs: &MappingAttrs| attrs.flags.contains(SegFlags::LOCKED);
        self.find_piece(start, end, &locked, &mut order::begin()).unwrap_or(end)
    }
}
