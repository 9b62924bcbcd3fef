//! Which CPUs may translate through a space, asked by who changes its entries.
//!
//! | CPU is in     | it translates through        | it may hold translations of           |
//! |---------------|------------------------------|---------------------------------------|
//! | neither       | another space                | nothing of this one                   |
//! | `root`        | the space's own root         | everything                            |
//! | `views`       | a view of its own (view.rs)  | leaves that have it among their viewers |
//!
//! ```text
//! come         insert, fence, load the root, the hardware walks
//! change       change entries, fence, read the masks, flush those CPUs
//! enter_view   (in `root`) insert into `views`, load the view and drop all translations, remove from `root`
//! ```
//!
//! MaskBeforeRoot: a CPU is in a mask before it loads a root of the space.
//!
//! - Of the two fences (`mask.come`, `mask.flush`) one is first: either the CPU is seen, or its walks see the changed entries.
//! - What a CPU held through the root is gone before it leaves `root` (`mask.reload`): who does not find it there need not flush it for that.
//! - A link to a leaf is made later than the CPU's coming into `views` (`mask.view`), under the leaf's lock. So who has read the leaf's viewers
//!   under that lock and finds the CPU there finds it in `views` too. No fence is needed for it.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU64, Ordering, fence_after_rmw, fence_at, step};
use core::array;

/// A set of CPUs that all may read and write; `N` words.
pub struct CpuMask<const N: usize>([AtomicU64; N]);

impl<const N: usize> CpuMask<N> {
    fn new() -> Self {
        Self(array::from_fn(|_| AtomicU64::new(0)))
    }

    #[inline]
    fn word(&self, cpu: u32) -> (&AtomicU64, u64) {
        (&self.0[cpu as usize / 64 % N], 1 << (cpu % 64))
    }

    #[inline]
    fn contains(&self, cpu: u32) -> bool {
        let (word, bit) = self.word(cpu);
        word.load(Ordering::Relaxed) & bit != 0
    }

    fn insert(&self, cpu: u32) {
        let (word, bit) = self.word(cpu);
        word.fetch_or(bit, Ordering::SeqCst);
    }

    fn remove(&self, cpu: u32) {
        let (word, bit) = self.word(cpu);
        word.fetch_and(!bit, Ordering::SeqCst);
    }
}

/// The CPUs of a space.
pub struct SpaceCpus<const N: usize> {
    /// Those that may hold translations through the space's own root. A CPU stays when it goes to another space, until a flush finds it
    /// elsewhere; so a space that stays where it is never writes here.
    root: CpuMask<N>,
    /// Those with a view, for good.
    views: CpuMask<N>,
}

impl<const N: usize> SpaceCpus<N> {
    pub fn new() -> Self {
        Self { root: CpuMask::new(), views: CpuMask::new() }
    }

    #[inline]
    pub fn has_view(&self, cpu: u32) -> bool {
        self.views.contains(cpu)
    }

    /// `cpu`, this one, comes: `load` loads its view, or the space's root. A mask that has the CPU is not written.
    #[inline]
    pub fn come(&self, cpu: u32, load: impl FnOnce()) {
        if !self.root.contains(cpu) && !self.views.contains(cpu) {
            self.root.insert(cpu);
            fence_after_rmw("mask.come");
        }
        load();
    }

    /// `cpu`, this one, goes from the root to a view: `load` loads the view, which leads nowhere yet, and drops all translations of the space.
    #[inline]
    pub fn enter_view(&self, cpu: u32, load: impl FnOnce()) {
        if step("mask.view") {
            self.views.insert(cpu);
        }
        if step("mask.reload") {
            load();
        }
        self.root.remove(cpu);
    }

    /// `cpu`, this one, has dropped all translations of the space.
    #[inline]
    pub fn go(&self, cpu: u32) {
        if self.root.contains(cpu) {
            self.root.remove(cpu);
        }
    }

    /// CPUs that may hold translations, made before the call, through leaves with these `viewers`.
    #[inline]
    pub fn to_flush(&self, viewers: [u64; N]) -> [u64; N] {
        fence_at("mask.flush");
        self.may_translate(viewers)
    }

    /// The same of all leaves.
    #[inline]
    pub fn all_to_flush(&self) -> [u64; N] {
        fence_at("mask.flush");
        self.all()
    }

    /// CPUs that may have the space loaded.
    #[inline]
    pub fn all(&self) -> [u64; N] {
        self.may_translate([u64::MAX; N])
    }

    #[inline]
    fn may_translate(&self, mut viewers: [u64; N]) -> [u64; N] {
        for (word, views) in viewers.iter_mut().zip(&self.views.0) {
            // A shared leaf knows other spaces' viewers too.
            if *word != 0 {
                *word &= views.load(Ordering::SeqCst);
            }
        }
        for (word, root) in viewers.iter_mut().zip(&self.root.0) {
            *word |= root.load(Ordering::SeqCst);
        }
        viewers
    }
}

impl<const N: usize> Default for SpaceCpus<N> {
    fn default() -> Self {
        Self::new()
    }
}
