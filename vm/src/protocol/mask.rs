//! Which CPUs may translate through a space, asked by who changes its entries.
//!
//! | CPU is in     | it translates through        | it may hold translations of           |
//! |---------------|------------------------------|---------------------------------------|
//! | neither       | another space                | nothing of this one                   |
//! | `root`        | the space's own root         | everything                            |
//! | `views`       | a view of its own (view.rs)  | leaves that have it among their viewers |
//!
//! A CPU stays in its mask when it goes to another space, and when no program runs on it any more. So each CPU shows what it has loaded:
//!
//! | a CPU's [`Loaded`] | it has loaded                                        | for a flush of the space it is              |
//! |--------------------|------------------------------------------------------|---------------------------------------------|
//! | the space's id     | the space                                            | interrupted                                 |
//! | id and `LAZY`      | the space, but runs no program: it uses no address of it | interrupted if page tables go; else marked |
//! | `BETWEEN`          | this one or that one                                 | interrupted                                 |
//! | else               | another space, or none                               | marked                                      |
//!
//! ```text
//! come         show BETWEEN, insert, fence, take the mark away, load the root (and drop all translations, if there was a mark), show the id
//! rest         show LAZY: no program runs here until the CPU comes again
//! change       change entries, fence, read the masks; for each CPU: mark it, fence, interrupt it if it shows that it uses the space
//! enter_view   (in `root`) insert into `views`, load the view and drop all translations, remove from `root`
//! ```
//!
//! MaskBeforeRoot: a CPU is in a mask before it loads a root of the space.
//!
//! - Of the two fences (`mask.come`, `mask.flush`) one is first: either the CPU is seen, or its walks see the changed entries.
//! - Of the fences of `mask.come` and `mask.ask`, too: either the CPU shows that it comes, and is interrupted, or it finds the mark (`mask.mark`), drops what it
//!   held (`mask.stale`), and its walks see the changed entries.
//! - What a CPU did in the space is done before it shows that it rests or that it is elsewhere (`mask.rest`, `mask.there`, `mask.seen`). It has left the tables by the time
//!   it shows another space, and not before: it shows BETWEEN meanwhile (`mask.between`).
//! - A CPU that rests keeps pointers to tables, which the processor may follow ahead of need (SDM vol. 3, 5.10.3.1). So it is interrupted if tables go, and leaves.
//! - What a CPU held through the root is gone before it leaves `root` (`mask.reload`): who does not find it there need not flush it for that.
//! - A link to a leaf is made later than the CPU's coming into `views` (`mask.view`), under the leaf's lock. So who has read the leaf's viewers
//!   under that lock and finds the CPU there finds it in `views` too. No fence is needed for it.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU64, Ordering, const_new, fence_after_rmw, fence_at, site, step};
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
    /// Those that drop all translations of the space when they come again.
    marked: CpuMask<N>,
}

/// What a CPU has loaded, for all to see. It alone changes it, with interrupts disabled.
pub struct Loaded(AtomicU64);

/// With a space's id, which never has this bit.
const LAZY: u64 = 1 << 63;
/// No space's id.
const BETWEEN: u64 = u64::MAX;

impl Loaded {
    const_new! {
        pub fn new() -> Self {
            Loaded(AtomicU64::new(0))
        }
    }

    /// On this CPU: is the space loaded, and a program of it runs?
    #[inline]
    pub fn runs(&self, space: u64) -> bool {
        self.0.load(Ordering::Relaxed) == space
    }

    /// On this CPU: is the space loaded?
    #[inline]
    pub fn has(&self, space: u64) -> bool {
        self.0.load(Ordering::Relaxed) & !LAZY == space
    }

    /// This CPU runs no program from now on until it comes to a space again. It uses no address of one.
    #[inline]
    pub fn rest(&self) {
        let space = self.0.load(Ordering::Relaxed);
        if space != 0 && space & LAZY == 0 {
            self.0.store(space | LAZY, site("mask.rest", Ordering::Release));
        }
    }

    /// This CPU has left its space for the kernel's own root.
    pub fn leave(&self) {
        self.0.store(0, Ordering::Release);
    }

    /// Does the CPU use translations of the space? `tables`: or pointers to its tables.
    #[inline]
    fn uses(&self, space: u64, tables: bool) -> bool {
        let loaded = self.0.load(site("mask.seen", Ordering::Acquire));
        loaded == space || loaded == BETWEEN || (tables && loaded == space | LAZY)
    }
}

/// What a CPU that comes to a space still has of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Kept {
    /// Its root; translations are valid.
    Root,
    /// Translations under the space's address-space id, if any: they are valid.
    Translations,
    /// Translations that may be of before a change: all have to be dropped.
    Stale,
}

impl<const N: usize> SpaceCpus<N> {
    pub fn new() -> Self {
        Self { root: CpuMask::new(), views: CpuMask::new(), marked: CpuMask::new() }
    }

    #[inline]
    pub fn has_view(&self, cpu: u32) -> bool {
        self.views.contains(cpu)
    }

    /// `cpu`, this one, which shows in `loaded` what it has, comes to this space, whose id is `space`: `load` loads its view or the space's root, if need be. A mask that
    /// has the CPU is not written.
    #[inline]
    pub fn come(&self, cpu: u32, loaded: &Loaded, space: u64, load: impl FnOnce(Kept)) {
        let before = if step("mask.between") {
            loaded.0.swap(BETWEEN, Ordering::SeqCst)
        } else {
            loaded.0.swap(space, Ordering::SeqCst)
        };
        if !self.root.contains(cpu) && !self.views.contains(cpu) {
            self.root.insert(cpu);
        }
        fence_after_rmw("mask.come");
        let kept = if self.marked.contains(cpu) {
            self.marked.remove(cpu);
            if step("mask.stale") { Kept::Stale } else { Kept::Translations }
        } else if before == space | LAZY {
            Kept::Root
        } else {
            Kept::Translations
        };
        load(kept);
        loaded.0.store(space, site("mask.there", Ordering::Release));
    }

    /// Entries of the space were changed, and `cpu` was found in its masks after that ([`Self::to_flush`]). Has it to be interrupted? If not, it drops all
    /// translations before a program of the space runs there again. `tables`: tables were taken out, too.
    #[inline]
    pub fn must_ask(&self, cpu: u32, loaded: &Loaded, space: u64, tables: bool) -> bool {
        if loaded.uses(space, tables) {
            return true;
        }
        if step("mask.mark") && !self.marked.contains(cpu) {
            self.marked.insert(cpu);
        }
        fence_at("mask.ask");
        loaded.uses(space, tables)
    }

    /// The same for a space that no CPU comes to any more.
    #[inline]
    pub fn must_leave(&self, loaded: &Loaded, space: u64) -> bool {
        loaded.uses(space, true)
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

    /// As [`Self::to_flush`], without an order: what may have changed meanwhile.
    #[inline]
    pub fn may_translate(&self, mut viewers: [u64; N]) -> [u64; N] {
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
