//! Address spaces.
//!
//! One radix tree with the shape of the hardware's table (node/). Operations are a file each (op/); all are walks over leaves.
//!
//! Invariants: see DESIGN.md; each file names those it keeps.
//! Lock order: `exact` (count.rs) → `layout` (level Space, may sleep) → object → node. `layout` guards the choice of addresses and is held by fork
//! from its first leaf to its flush; faults take it only to wait for a fork or to grow a stack.
#![deny(unsafe_code)]
// An overflow is a panic, and a program chooses the numbers that come here: each sum says why it has none.
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

pub(crate) mod address;
pub(crate) mod count;
mod gain;
mod large;
mod moving;
pub(crate) mod pieces;
pub(crate) mod range;
pub(crate) mod seals;
mod spans;
#[allow(unsafe_code)] // The one low room here: it loads roots.
mod view;
pub(crate) mod walk;

pub use self::gain::ExecGain;
use self::spans::{SPAN_BYTES, Spans};
use self::view::Views;
use crate::entry::assert_fits;
use crate::error::VmError;
use crate::machine::Machine;
use crate::node::{Node, Root};
use crate::order::{Exact as ExactLevel, Space as SpaceLevel};
use crate::tlb::{OwnTlb, SpaceTlb};
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::sync::atomic::{AtomicBool, AtomicU16, AtomicUsize, Ordering};
use sync::level::Held;
use sync::{Mutex, lock_class, try_arc};

lock_class! {
    static LAYOUT: LockClass = ("vm space", SpaceLevel);
    static EXACT: LockClass = ("mappings counted", ExactLevel);
}

/// Addresses below are given only to who asks for them and may have them (vm.mmap_min_addr).
pub const USER_START: usize = 0x1_0000;

/// Where mappings without an address go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Placement {
    /// Below this address, or, with `upward`, from it on; a multiple of the page size.
    pub base: usize,
    pub upward: bool,
    /// How far below its end each span of a CPU (spans.rs) begins to be used; pages, so that addresses in it are as hard to guess as `base`.
    pub slide: usize,
}

impl Placement {
    /// Below the largest gap that exec leaves for a stack unless it is asked for more: 128 MiB and a little.
    #[expect(clippy::arithmetic_side_effects, reason = "constants")]
    const fn new<M: Machine>() -> Self {
        Self { base: M::USER_END - (136 << 20), upward: false, slide: 0 }
    }

    /// Where spans of CPUs end: a terabyte below `base`, so that mappings of before the second thread stay apart. None are taken where addresses
    /// go upward.
    const fn spans_end(&self) -> usize {
        if self.upward { 0 } else { self.base.saturating_sub(1 << 40) & !(SPAN_BYTES - 1) }
    }
}

/// Where things lie in a space.
#[derive(Clone, Copy)]
pub(crate) struct AddressLayout {
    pub brk_start: usize,
    pub placement: Placement,
    /// There is no free run of more than `hole` bytes between here and the placement's base.
    pub hint: usize,
    pub hole: usize,
    /// Spans of CPUs (spans.rs) are taken below.
    pub span_next: usize,
}

/// An address space.
pub struct Space<M: Machine> {
    pub(crate) root: Root,
    pub(crate) tlb: OwnTlb,
    pub(crate) layout: Mutex<AddressLayout, SpaceLevel>,
    /// The end of the heap. It changes under `layout`; who asks where it is writes nothing.
    pub(crate) brk: AtomicUsize,
    /// Who moves pages and who forks, where there are several threads (moving.rs).
    pub(crate) moving: moving::Moving,
    /// A fork is between its first shared leaf and its flush.
    pub(crate) forking: AtomicBool,
    pub(crate) multithreaded: AtomicBool,
    /// CPUs get views (view.rs).
    pub(crate) has_views: AtomicBool,
    pub(crate) large: large::Wish,
    /// Something in it may be not for children, or not with its pages (op/fork/inherit.rs). Children inherit this.
    pub(crate) has_parts: AtomicBool,
    /// What mseal has sealed (seals.rs).
    pub(crate) seals: seals::Seals,
    pub(crate) stack_limit: AtomicUsize,
    /// Bytes that may be mapped, asked when a stack grows (RLIMIT_AS).
    pub(crate) total_limit: AtomicUsize,
    /// Flags of new mappings (MCL_FUTURE); none in a child of fork.
    pub(crate) future_lock: AtomicU16,
    /// Whether memory may become executable (gain.rs).
    pub(crate) gain: gain::Gain,
    /// Mappings that may be added before they are counted (count.rs).
    pub(crate) credit: count::Credit,
    /// Their number, where that is kept.
    pub(crate) exact: Mutex<Option<usize>, ExactLevel>,
    pub(crate) spans: Spans,
    pub(crate) views: Views<M>,
    /// End of the part of the address space in which spans lie; changes only while nothing is mapped.
    pub(crate) spans_end: AtomicUsize,
    /// Everything has been taken out of it (op/exit.rs).
    pub(crate) exited: bool,
    pub(crate) attached: M::Attached,
    machine: PhantomData<M>,
}

/// What ends an operation early.
pub(crate) enum Stop {
    Failed(VmError),
    /// A fork of this space is under way: wait for it and begin again.
    Forking,
    /// Another thread should run: give way and go on where the walk came to. Of walks over ranges alone.
    GiveWay,
}

impl<T: Into<VmError>> From<T> for Stop {
    fn from(e: T) -> Self {
        Self::Failed(e.into())
    }
}

impl<M: Machine> Space<M> {
    /// An empty space.
    pub fn try_new() -> Result<Arc<Self>, VmError> {
        let placement = Placement::new::<M>();
        Self::with_layout(AddressLayout {
            brk_start: 0,
            placement,
            hint: placement.base,
            hole: 0,
            span_next: placement.spans_end(),
        })
    }

    pub(crate) fn with_layout(layout: AddressLayout) -> Result<Arc<Self>, VmError> {
        const { assert_fits::<M>() };
        let root = Root::try_new::<M>()?;
        Ok(try_arc(Self {
            root,
            tlb: OwnTlb::try_new()?,
            layout: Mutex::new(layout, &LAYOUT),
            brk: AtomicUsize::new(0),
            moving: moving::Moving::new(),
            forking: AtomicBool::new(false),
            multithreaded: AtomicBool::new(false),
            has_views: AtomicBool::new(false),
            large: large::Wish::new(),
            has_parts: AtomicBool::new(false),
            seals: seals::Seals::new(),
            stack_limit: AtomicUsize::new(8 << 20),
            total_limit: AtomicUsize::new(usize::MAX),
            future_lock: AtomicU16::new(0),
            gain: gain::Gain::new(),
            credit: count::Credit::first(),
            exact: Mutex::new(None, &EXACT),
            spans: Spans::new(),
            views: Views::new(),
            spans_end: AtomicUsize::new(layout.placement.spans_end()),
            exited: false,
            attached: M::Attached::default(),
            machine: PhantomData,
        })?)
    }

    #[inline]
    pub(crate) fn root(&self) -> &Node {
        self.root.node()
    }

    /// Unique among all spaces that ever were.
    pub fn id(&self) -> u64 {
        self.tlb.id()
    }

    /// What the kernel keeps with the space.
    #[inline]
    pub fn attached(&self) -> &M::Attached {
        &self.attached
    }

    /// Which CPUs may hold translations of this space.
    pub fn tlb(&self) -> &SpaceTlb {
        &self.tlb
    }

    /// Something is about to be in it that is not for children. It stays said, so that threads that say it again write nothing.
    pub(crate) fn note_parts(&self) {
        if !self.has_parts.load(Ordering::SeqCst) {
            self.has_parts.store(true, Ordering::SeqCst);
        }
    }

    pub fn set_multithreaded(&self) {
        if !self.multithreaded.load(Ordering::Relaxed) {
            self.multithreaded.store(true, Ordering::SeqCst);
            self.use_views();
        }
    }

    /// How large a stack may grow (RLIMIT_STACK), and how much may be mapped in all when it does (RLIMIT_AS); bytes.
    pub fn set_limits(&self, stack: usize, total: usize) {
        self.stack_limit.store(stack, Ordering::Relaxed);
        self.total_limit.store(total, Ordering::Relaxed);
    }

    /// Says where mappings without an address are placed from now on. For exec, before anything is mapped.
    pub fn set_placement(&self, placement: Placement) {
        let mut clean = Held::clean();
        let mut layout = self.layout.lock_in(&mut clean);
        layout.placement = Placement { base: placement.base.min(M::USER_END), ..placement };
        layout.hint = layout.placement.base;
        layout.hole = 0;
        layout.span_next = layout.placement.spans_end();
        self.spans_end.store(layout.span_next, Ordering::Relaxed);
    }

    /// Waits until no fork of this space is under way. No lock is held and no RCU section open. May sleep.
    pub(crate) fn wait_for_fork(&self) {
        drop(self.layout.lock_in(&mut Held::clean()));
    }
}

impl<M: Machine> Drop for Space<M> {
    fn drop(&mut self) {
        self.exit(false);
    }
}
