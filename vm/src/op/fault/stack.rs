//! Mappings that grow downwards when a program touches what lies below them.
//!
//! Lock order: layout → node.
#![forbid(unsafe_code)]

use super::no_memory;
use crate::addr::PAGE_SIZE;
use crate::error::{FaultError, VmError};
use crate::machine::Machine;
use crate::node::segment::SegFlags;
use crate::op::map::MapOp;
use crate::space::address::STACK_GUARD;
use crate::space::{Space, USER_START};
use crate::token;
use core::sync::atomic::Ordering;
use sync::level::Held;

impl<M: Machine> Space<M> {
    /// `addr` is not mapped: extends the mapping above down to it, if that one grows downwards, the limit allows it and the guard
    /// gap to the mapping below stays. Success means: try the access again. Without `may_grow` it only looks whether it is mapped by now. May sleep.
    #[expect(clippy::arithmetic_side_effects, reason = "mappings do not overlap")]
    pub(crate) fn grow_stack(&self, addr: usize, may_grow: bool) -> Result<(), FaultError> {
        let _token = token::hold();
        // The sum is made without the lock, and only for who has a limit.
        let total = self.total_limit.load(Ordering::Relaxed);
        let used = if total == usize::MAX { 0 } else { self.usage().virtual_pages.saturating_mul(PAGE_SIZE) };
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        let order = layout.held();
        let start = addr & !(PAGE_SIZE - 1);
        let above = self.next_piece(start, order).ok_or(FaultError::NotMapped)?;
        let top = self.next_mapping(start, order).map_or(above.end, |mapping| mapping.end);
        if above.start == start {
            // Another thread was faster; or the fault saw a moment of change.
            return if above.attrs.is_quarantine() { Err(FaultError::NotMapped) } else { Ok(()) };
        }
        let limit = self.stack_limit.load(Ordering::Relaxed);
        let fits = may_grow
            && above.attrs.flags.contains(SegFlags::GROWSDOWN)
            && start >= USER_START
            && top.saturating_sub(start) <= limit
            && self.previous_extent_in(start, 0, order).is_none_or(|p| {
                p.flags.contains(SegFlags::GROWSDOWN) || p.prot.is_empty() || start - p.end >= STACK_GUARD
            });
        if !fits || used.saturating_add(above.start.saturating_sub(start)) > total {
            return Err(FaultError::NotMapped);
        }
        let mut attrs = above.attrs;
        if attrs.object.is_some() {
            return Err(FaultError::NotMapped);
        }
        attrs.offset = 0;
        match self.map_free(&mut MapOp::new(start, attrs), above.start, order) {
            // Another thread has mapped something there: the access finds it, or comes again.
            Err(VmError::Exists) => Ok(()),
            result => result.map_err(no_memory),
        }
    }
}
