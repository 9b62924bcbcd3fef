//! Addresses for several threads: each CPU takes gigabytes of its own and places mappings in them, so that threads that map and
//! unmap at the same time work in different leaves and write no line in common. A gigabyte is the span of one interior node.
//!
//! Placement is top-down within the span, and leaves out leaves that other CPUs look at. Unmapping the lowest mapping gives its addresses back at once; other holes are
//! found when the span is used up. Mappings larger than a quarter of a span are placed as in a single-threaded space.
//!
//! Lock order: a CPU's span (sleeping, contended only where a thread was moved while it mapped) → layout → node.
#![forbid(unsafe_code)]

use super::Space;
use super::moving::OwnMoving;
use super::pieces::between_pieces;
use crate::addr::{LEAF_SPAN, PAGE_SIZE};
use crate::error::VmError;
use crate::machine::Machine;
use crate::once::OnceBox;
use crate::op::map::MapOp;
use crate::order::Span as SpanLevel;
use crate::order::{self, Order};
use alloc::boxed::Box;
use core::sync::atomic::{AtomicUsize, Ordering};
use sync::level::Held;
use sync::protocol::readers::Count;
use sync::{Mutex, lock_class, machine, try_box};

lock_class! {
    static SPAN: LockClass = ("vm span", SpanLevel);
}

/// Bytes of a span.
pub(crate) const SPAN_BYTES: usize = 1 << 30;

/// One CPU's span.
struct Span {
    start: usize,
    end: usize,
    /// Nothing was placed below since the span was taken or searched.
    next: usize,
}

#[repr(align(64))]
struct Slot {
    span: Mutex<Span, SpanLevel>,
    /// See count.rs; written by this CPU, but for being set to 0.
    credit: AtomicUsize,
    /// Changes of mappings for which who seals waits (seals.rs).
    changes: Count,
    moving: OwnMoving,
}

/// The spans of a space; allocated with its second thread.
pub(crate) struct Spans(OnceBox<Box<[Slot]>>);

impl Spans {
    pub const fn new() -> Self {
        Self(OnceBox::new())
    }

    fn this(&self) -> Result<Option<&Slot>, VmError> {
        let slots = self.0.get_or_try(|| {
            let slots = sync::heap::try_box_slice(machine::cpus() as usize, |_| Slot {
                span: Mutex::new(Span { start: 0, end: 0, next: 0 }, &SPAN),
                credit: AtomicUsize::new(0),
                changes: Count::new(),
                moving: OwnMoving::new(),
            })?;
            try_box(slots)
        })?;
        Ok(slots.get(machine::cpu_id() as usize))
    }

    /// This CPU's credit; None: no memory.
    pub fn credit(&self) -> Option<&AtomicUsize> {
        self.this().ok().flatten().map(|slot| &slot.credit)
    }

    /// What this CPU's moves of pages hold; None: no memory.
    pub fn own_moving(&self) -> Option<&OwnMoving> {
        self.this().ok().flatten().map(|slot| &slot.moving)
    }

    /// What the moves of all CPUs hold.
    pub fn each_moving(&self) -> impl Iterator<Item = &OwnMoving> {
        self.0.get().into_iter().flat_map(|slots| slots.iter()).map(|slot| &slot.moving)
    }

    /// Makes the slots, if there is memory.
    pub fn prepare(&self) {
        let _ = self.this();
    }

    /// This CPU's count of changes for which who seals waits; None: there are no slots.
    pub fn changes_here(&self) -> Option<&Count> {
        let slots = self.0.get()?;
        slots.get(machine::cpu_id() as usize).map(|slot| &slot.changes)
    }

    /// Those of all CPUs.
    pub fn each_changes(&self) -> impl Iterator<Item = &Count> {
        self.0.get().into_iter().flat_map(|slots| slots.iter()).map(|slot| &slot.changes)
    }

    /// No CPU has credit any more.
    pub fn forget_credit(&self) {
        for slot in self.0.get().into_iter().flat_map(|slots| slots.iter()) {
            slot.credit.store(0, Ordering::Relaxed);
        }
    }
}

impl<M: Machine> Space<M> {
    /// Maps `len` bytes in this CPU's span; `op.start` says where. False: too large for that, or there is no span to be had.
    #[expect(clippy::arithmetic_side_effects, reason = "a span in user memory")]
    pub(crate) fn map_in_span(&self, len: usize, op: &mut MapOp) -> Result<bool, VmError> {
        if len > SPAN_BYTES / 4 {
            return Ok(false);
        }
        let Some(slot) = self.spans.this()? else { return Ok(false) };
        let mut span = slot.span.lock();
        let order = &mut order::begin();
        let align = if len >= LEAF_SPAN { LEAF_SPAN } else { PAGE_SIZE };
        let place = |end: usize, floor: usize| {
            end.checked_sub(len).map(|s| s & !(align - 1)).filter(|s| *s >= floor && floor != 0)
        };
        let start = match place(span.next, span.start) {
            Some(start) => start,
            None => match self.search(&span, &place, order) {
                Some(start) => start,
                None => {
                    let Some((start, next)) = self.take_span() else { return Ok(false) };
                    *span = Span { start, end: start + SPAN_BYTES, next };
                    match place(span.next, span.start) {
                        Some(start) => start,
                        None => return Ok(false),
                    }
                }
            },
        };
        span.next = span.next.min(start);
        op.start = start;
        match self.map_free(op, start + len, order) {
            // Another thread has asked for just this address.
            Err(VmError::Exists) => {
                span.next = 0;
                span.start = 0;
                Ok(false)
            }
            result => result.map(|()| true),
        }
    }

    /// A hole in the span, from the top.
    fn search(
        &self,
        span: &Span,
        place: &dyn Fn(usize, usize) -> Option<usize>,
        order: &mut Order<'_>,
    ) -> Option<usize> {
        let mut end = span.end;
        while end > span.start {
            let below = self.previous_extent_in(end, span.start, order);
            let floor = below.as_ref().map_or(span.start, |p| p.end.max(span.start));
            if let Some(start) = place(end, floor) {
                return Some(start);
            }
            end = below?.start;
            between_pieces();
        }
        None
    }

    /// A gigabyte in which nothing is mapped, and the address in it below which mappings go first.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "a span in user memory; the slide is at most half of one"
    )]
    fn take_span(&self) -> Option<(usize, usize)> {
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        let (layout, order) = layout.split();
        loop {
            let start = layout.span_next.checked_sub(SPAN_BYTES).filter(|s| *s >= SPAN_BYTES)?;
            layout.span_next = start;
            if self.is_free(start, start + SPAN_BYTES, order) {
                let slide = layout.placement.slide.min(SPAN_BYTES / 2 / PAGE_SIZE) * PAGE_SIZE;
                return Some((start, start + SPAN_BYTES - slide));
            }
        }
    }

    /// `start..end` was unmapped. True: it lies where spans are, and the layout need not know.
    #[expect(clippy::arithmetic_side_effects, reason = "end is not zero")]
    pub(crate) fn note_free_in_span(&self, start: usize, end: usize) -> bool {
        if let Ok(Some(slot)) = self.spans.this()
            && let Some(mut span) = slot.span.try_lock()
            && span.start <= start
            && end <= span.end
        {
            if start <= span.next && span.next < end {
                // Where other CPUs look too (a thread's stack lies there), each unmapping would interrupt them: go on in a leaf
                // of this CPU's own, below.
                let leaf = (end - 1) & !(LEAF_SPAN - 1);
                span.next = if self.is_seen_elsewhere(leaf, &mut order::begin()) {
                    leaf.max(span.start)
                } else {
                    end
                };
            }
            return true;
        }
        end <= self.spans_end.load(Ordering::Relaxed)
    }
}
