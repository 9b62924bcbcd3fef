//! brk: the heap that grows from the end of the program.
//!
//! Lock order: layout → node.
#![forbid(unsafe_code)]

use super::map::MapOp;
use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::machine::Machine;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::request::Prot;
use crate::space::Space;
use crate::space::address::guarded_start;
use crate::space::count::Tally;
use core::sync::atomic::Ordering;
use sync::level::Held;

impl<M: Machine> Space<M> {
    /// The heap begins at `base` and is empty. For exec.
    pub fn set_brk(&self, base: VirtAddr) {
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        layout.brk_start = base.0;
        self.brk.store(base.0, Ordering::Release);
    }

    /// As `brk_with`, for memory that may be read and written.
    pub fn brk(&self, want: VirtAddr) -> VirtAddr {
        self.brk_with(want, Prot::READ | Prot::WRITE)
    }

    /// Moves the end of the heap to `want` and returns where it is then: unchanged if that cannot be. What is new allows `prot`. May sleep.
    pub fn brk_with(&self, want: VirtAddr, prot: Prot) -> VirtAddr {
        let now = || VirtAddr(self.brk.load(Ordering::Acquire));
        if want.0 == 0 {
            return now();
        }
        let mut at = None;
        let moved = self.counted(
            1,
            |count, limit| count > limit,
            |tally| {
                at = Some(self.brk_counted(want, prot, tally));
                Ok(())
            },
        );
        match (moved, at) {
            (Ok(()), Some(at)) => at,
            _ => now(),
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "constants")]
    fn brk_counted(&self, want: VirtAddr, prot: Prot, tally: &mut Tally) -> VirtAddr {
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        let (layout, order) = layout.split();
        let now = self.brk.load(Ordering::Relaxed);
        if layout.brk_start == 0 || want.0 < layout.brk_start || want.0 >= M::USER_END - PAGE_SIZE {
            return VirtAddr(now);
        }
        let old_end = now.next_multiple_of(PAGE_SIZE);
        let new_end = want.0.next_multiple_of(PAGE_SIZE);
        if new_end > old_end {
            let clear = self
                .next_extent(old_end, order)
                .is_none_or(|p| guarded_start(&p).min(p.start.saturating_sub(PAGE_SIZE)) >= new_end);
            let attrs = MappingAttrs { prot, flags: self.future_flags(), ..MappingAttrs::nothing() };
            if attrs.flags.contains(SegFlags::LOCKED) {
                self.note_parts();
            }
            let mut grow =
                || self.map_free(&mut MapOp { start: old_end, attrs: attrs.clone() }, new_end, order);
            if !clear || tally.of(self, old_end..new_end, &mut grow).is_err() {
                return VirtAddr(now);
            }
        } else if new_end < old_end {
            let shrink = || self.remove(new_end, old_end, order);
            if tally.of(self, new_end..old_end, shrink).is_err() {
                return VirtAddr(now);
            }
        }
        self.brk.store(want.0, Ordering::Release);
        want
    }
}
