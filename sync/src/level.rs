//! Lock levels as types (LockOrder): space → object → leaf → frame list → run queue.
//!
//! `Held<'_, L>` says that the innermost lock held is of level `L`; a guard carries it. `lock_in` borrows the caller's `Held`
//! mutably for as long as the new guard lives and asks for `L: Before<M>`, so a wrong order does not compile:
//!
//! ```compile_fail,E0277
//! use sync::{level::*, lock_class, SpinLock};
//! lock_class! { static LEAF: LockClass = ("leaf", Leaf); static OBJECT: LockClass = ("object", Object); }
//! let leaf: SpinLock<u32, Leaf> = SpinLock::new(0, &LEAF);
//! let object: SpinLock<u32, Object> = SpinLock::new(0, &OBJECT);
//! let mut clean = Held::clean();
//! let mut leaf = leaf.lock_in(&mut clean);
//! let object = object.lock_in(leaf.held()); // `Leaf: Before<Object>` is not satisfied
//! ```
//!
//! nor does taking an earlier lock by going back to the outer `Held`:
//!
//! ```compile_fail,E0499
//! use sync::{level::*, lock_class, SpinLock};
//! lock_class! { static LEAF: LockClass = ("leaf", Leaf); static OBJECT: LockClass = ("object", Object); }
//! let leaf: SpinLock<u32, Leaf> = SpinLock::new(0, &LEAF);
//! let object: SpinLock<u32, Object> = SpinLock::new(0, &OBJECT);
//! let mut clean = Held::clean();
//! let leaf = leaf.lock_in(&mut clean);
//! let object = object.lock_in(&mut clean); // `clean` is borrowed until the leaf is unlocked
//! drop(leaf);
//! ```
//!
//! while the right order does:
//!
//! ```
//! use sync::{level::*, lock_class, SpinLock};
//! lock_class! { static LEAF: LockClass = ("leaf", Leaf); static OBJECT: LockClass = ("object", Object); }
//! let leaf: SpinLock<u32, Leaf> = SpinLock::new(0, &LEAF);
//! let object: SpinLock<u32, Object> = SpinLock::new(0, &OBJECT);
//! let mut clean = Held::clean();
//! let mut object = object.lock_in(&mut clean);
//! let (pages, held) = object.split();
//! let mut leaf = leaf.lock_in(held);
//! *leaf += 1;
//! *pages += *leaf;
//! ```
//!
//! Two locks of one level are taken with `lock_nested` (the caller orders them, mostly by address). Locks of the rooms above `vm`
//! have level [`Other`] and their order is written at the top of their file.

use core::marker::PhantomData;

/// A lock level.
pub trait Level: 'static {
    /// Position in the order; a lock may be taken only under locks of lower rank. `Other` has none.
    const RANK: Option<u8>;
    const NAME: &'static str;
}

/// `Self` may be held while a lock of level `L` is taken.
#[diagnostic::on_unimplemented(
    message = "LockOrder: a lock of level `{L}` cannot be taken while one of level `{Self}` is held",
    note = "the order is space → object → leaf → frame list → run queue"
)]
pub trait Before<L: Level>: Level {}

macro_rules! levels {
    ($($(#[$meta:meta])* $name:ident = $rank:expr;)+) => {$(
        $(#[$meta])*
        #[derive(Debug)]
        pub enum $name {}
        impl Level for $name {
            const RANK: Option<u8> = $rank;
            const NAME: &'static str = stringify!($name);
        }
    )+};
}

levels! {
    /// No lock is held.
    Clean = Some(0);
    /// An address space.
    Space = Some(1);
    /// A file's or other object's pages.
    Object = Some(2);
    /// A leaf or another node of a space's tree.
    Leaf = Some(3);
    /// Free lists of frames.
    FrameList = Some(4);
    /// A CPU's run queue; the last.
    RunQueue = Some(5);
    /// Outside the order of `vm`.
    Other = None;
}

macro_rules! order {
    ($first:ident) => {};
    ($first:ident $($later:ident)+) => {
        $(impl Before<$later> for $first {})+
        order!($($later)+);
    };
}

order!(Clean Space Object Leaf FrameList RunQueue);
impl Before<Other> for Clean {}

/// The level of the innermost lock held, as a value that `lock_in` borrows.
#[derive(Debug)]
pub struct Held<'a, L: Level> {
    // Neither Send nor Sync: locks are held by one thread.
    _borrowed: PhantomData<&'a mut ()>,
    _here: PhantomData<*mut ()>,
    _level: PhantomData<fn() -> L>,
}

impl Held<'static, Clean> {
    /// The start of a chain of `lock_in`. With lock checking on, panics if this CPU holds a lock of the order.
    #[track_caller]
    #[inline(always)]
    pub fn clean() -> Self {
        crate::lock::order::assert_clean();
        Held::new()
    }
}

impl<'a, L: Level> Held<'a, L> {
    /// The same, taken as if a lock of level `M` were held: for code that is called with such a lock and without.
    #[inline(always)]
    pub fn lower<M: Level>(self) -> Held<'a, M>
    where
        L: Before<M>,
    {
        Held::new()
    }

    pub(crate) const fn new() -> Self {
        Held { _borrowed: PhantomData, _here: PhantomData, _level: PhantomData }
    }
}

/// See [`Held::clean`].
#[track_caller]
#[inline(always)]
pub fn clean() -> Held<'static, Clean> {
    Held::clean()
}
