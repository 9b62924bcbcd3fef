//! brk: the heap that grows from the end of the program.
//!
//! Lock order: layout → node.
#![forbid(unsafe_code)]

use super::map::MapOp;
use crate::addr::{PAGE_SIZE, VirtAddr};
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::request::Prot;
use crate::space::Space;
use crate::space::address::guarded_start;
use crate::space::count::Tally;
use crate::space::seals::is_sealed;
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
                at = match self.brk_counted(want, prot, true, tally) {
                    Err(VmError::Sealed) => {
                        // Before the layout is locked. Sealed parts are looked for when it is: until then nobody knows which are asked for.
                        let _changing = self.start_changing();
                        self.brk_counted(want, prot, false, tally).ok()
                    }
                    at => at.ok(),
                };
                Ok(())
            },
        );
        match (moved, at) {
            (Ok(()), Some(at)) => at,
            _ => now(),
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "constants")]
    fn brk_counted(
        &self,
        want: VirtAddr,
        prot: Prot,
        heeds_seals: bool,
        tally: &mut Tally,
    ) -> Result<VirtAddr, VmError> {
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        let (layout, order) = layout.split();
        let now = self.brk.load(Ordering::Relaxed);
        if layout.brk_start == 0 || want.0 < layout.brk_start || want.0 >= M::USER_END - PAGE_SIZE {
            return Ok(VirtAddr(now));
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
            let mut grow = || self.map_free(&mut MapOp::new(old_end, attrs.clone()), new_end, order);
            if !clear || tally.of(self, old_end..new_end, &mut grow).is_err() {
                return Ok(VirtAddr(now));
            }
        } else if new_end < old_end {
            if !heeds_seals && self.find_piece(new_end, old_end, &is_sealed, order).is_some() {
                return Err(VmError::Sealed);
            }
            tally.of(self, new_end..old_end, || self.remove(new_end, old_end, heeds_seals, order))?;
        }
        self.brk.store(want.0, Ordering::Release);
        Ok(want)
    }
}
