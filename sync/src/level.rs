//! Lock levels as types (LockOrder). A crate writes its order of locks down once, as a list of levels, by [`lock_order!`]: a lock may be
//! taken only while all locks held are of levels further up in the list. sync's own list is at the end of this file.
//!
//! A level is a type, [`Before`] is the relation of two levels, and a level's rank is the number that the check at run time
//! compares ([`crate::lock::order`]).
//!
//! `Held<'_, L>` says that the innermost lock held is of level `L`; a guard carries it. `lock_in` borrows the caller's `Held`
//! mutably for as long as the new guard lives and asks for `L: Before<M>`, so a wrong order does not compile:
//!
//! ```compile_fail,E0277
//! # sync::lock_order! { level Object = 100; level Leaf; }
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
//! # sync::lock_order! { level Object = 100; level Leaf; }
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
//! sync::lock_order! {
//!     /// The pages of an object.
//!     level Object = 100;
//!     /// A leaf of the page table.
//!     level Leaf;
//! }
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
//! A lock cannot be without a level, nor a level without a rank:
//!
//! ```compile_fail,E0107
//! sync::lock_order! { level Object = 100; }
//! sync::lock_class! { static OBJECT: LockClass = ("object", Object); }
//! static LOCK: sync::SpinLock<u32> = sync::SpinLock::new(0, &OBJECT); // it is a `SpinLock<u32, Object>`
//! ```
//!
//! Two locks of one level are taken with `lock_nested` or `lock_nested_in`: the caller has a rule for their order, and writes it down
//! there. By the types only a lock of that level may be held then, which is the rule's business, and none of a later one:
//!
//! ```
//! # sync::lock_order! { level Rename = 1; level Directory; }
//! # use sync::{level::*, lock_class, Mutex};
//! # lock_class! { static RENAME: LockClass = ("rename", Rename); static NAMES: LockClass = ("names", Directory); }
//! # let (rename, upper, lower) = (Mutex::new((), &RENAME), Mutex::new(1, &NAMES), Mutex::new(2, &NAMES));
//! let mut clean = Held::clean();
//! let mut rename = rename.lock_in(&mut clean);
//! let mut upper = upper.lock_in(rename.held());
//! let (above, held) = upper.split();
//! let lower = lower.lock_nested_in(held); // the upper directory is locked first
//! *above += *lower;
//! ```
//!
//! ```compile_fail,E0308
//! # sync::lock_order! { level Rename = 1; level Directory; }
//! # use sync::{level::*, lock_class, Mutex};
//! # lock_class! { static RENAME: LockClass = ("rename", Rename); static NAMES: LockClass = ("names", Directory); }
//! # let (rename, names) = (Mutex::new((), &RENAME), Mutex::new(1, &NAMES));
//! let mut clean = Held::clean();
//! let mut names = names.lock_in(&mut clean);
//! let rename = rename.lock_nested_in(names.held()); // a directory is no `Rename`
//! ```
#![forbid(unsafe_code)]

use core::marker::PhantomData;

/// A lock level. Declared by [`lock_order!`](crate::lock_order).
pub trait Level: 'static {
    /// Position in the order: a lock may be taken only while all locks held have a lower rank.
    const RANK: u16;
    const NAME: &'static str;
}

/// `Self` may be held while a lock of level `L` is taken.
#[diagnostic::on_unimplemented(
    message = "LockOrder: a lock of level `{L}` cannot be taken while one of level `{Self}` is held",
    note = "the order is the list in `lock_order!` where the levels are declared"
)]
pub trait Before<L: Level>: Level {}

/// No lock is held.
#[derive(Debug)]
pub enum Clean {}

impl Level for Clean {
    const RANK: u16 = 0;
    const NAME: &'static str = "Clean";
}

impl<L: Level> Before<L> for Clean {}

/// Declares levels in the order in which their locks are taken, the outermost first.
///
/// `level Name = rank;` or, one rank further, `level Name;` declares a level, and `from path::Name;` says where in the order a level
/// of another crate stands. (A crate with a long list raises its `recursion_limit`.) A list that contradicts the ranks does not compile:
///
/// ```compile_fail,E0080
/// mod vm {
///     sync::lock_order! { level Space = 100; level Leaf; }
/// }
/// sync::lock_order! {
///     from vm::Leaf;
///     level RunQueue;
///     from vm::Space; // `Leaf` stands behind it
/// }
/// ```
#[macro_export]
macro_rules! lock_order {
    ($($items:tt)+) => {
        $crate::__lock_order! { [$crate::level::Clean] [] $($items)+ }
    };
}

/// The rank of a level behind one of rank `before`: the one that it is given, or the next.
///
/// # Panics
/// The given one is not above `before`: the list is not in order.
#[doc(hidden)]
pub const fn rank(before: u16, given: &[u16]) -> u16 {
    match given {
        [] => before + 1,
        [rank, ..] => {
            assert!(
                *rank > before,
                "the rank of a level is not above that of the level before it in the list"
            );
            *rank
        }
    }
}

/// `[the level before] [levels so far, each `own` or `foreign`] the rest of the list`.
#[doc(hidden)]
#[macro_export]
macro_rules! __lock_order {
    ([$before:ty] [$($so_far:tt)*] $(#[$meta:meta])* level $name:ident $(= $rank:expr)?; $($rest:tt)*) => {
        $(#[$meta])*
        #[derive(Debug)]
        pub enum $name {}
        impl $crate::level::Level for $name {
            const RANK: u16 =
                $crate::level::rank(<$before as $crate::level::Level>::RANK, &[$($rank)?]);
            const NAME: &'static str = stringify!($name);
        }
        $crate::__lock_order! { [$name] [$($so_far)* (own $name)] $($rest)* }
    };
    ([$before:ty] [$($so_far:tt)*] from $foreign:path; $($rest:tt)*) => {
        const _: u16 = $crate::level::rank(
            <$before as $crate::level::Level>::RANK,
            &[<$foreign as $crate::level::Level>::RANK],
        );
        $crate::__lock_order! { [$foreign] [$($so_far)* (foreign $foreign)] $($rest)* }
    };
    ([$before:ty] [$($so_far:tt)*]) => {
        $crate::__lock_order! { @pairs $($so_far)* }
    };
    // Who declares one of two levels says how they stand; of two foreign ones their own crate does.
    (@pairs (own $first:path) $(($whose:tt $later:path))*) => {
        $(impl $crate::level::Before<$later> for $first {})*
        $crate::__lock_order! { @pairs $(($whose $later))* }
    };
    (@pairs (foreign $first:path) $(($whose:tt $later:path))*) => {
        $($crate::__lock_order! { @foreign $first, $whose $later })*
        $crate::__lock_order! { @pairs $(($whose $later))* }
    };
    (@pairs) => {};
    (@foreign $first:path, own $later:path) => {
        impl $crate::level::Before<$later> for $first {}
    };
    (@foreign $first:path, foreign $later:path) => {};
}

/// The level of the innermost lock held, as a value that `lock_in` borrows.
#[derive(Debug)]
pub struct Held<'a, L: Level> {
    // Neither Send nor Sync: locks are held by one thread.
    _borrowed: PhantomData<&'a mut ()>,
    _here: PhantomData<*mut ()>,
    _level: PhantomData<fn() -> L>,
}

impl Held<'static, Clean> {
    /// The start of a chain of `lock_in`. What is held already is not known to the types here, but to the check at run time, which each
    /// lock of the chain passes.
    #[inline(always)]
    pub const fn clean() -> Self {
        Held::new()
    }
}

impl<'a, L: Level> Held<'a, L> {
    /// The same, taken as if a lock of level `M` were held: for code that is called with such a lock and without.
    #[inline(always)]
    pub const fn lower<M: Level>(self) -> Held<'a, M>
    where
        L: Before<M>,
    {
        Held::new()
    }

    /// The same for as long as `self` is borrowed. By value it costs nothing where it is handed to a function that is not inlined.
    #[inline(always)]
    pub const fn reborrow(&mut self) -> Held<'_, L> {
        Held::new()
    }

    pub(crate) const fn new() -> Self {
        Held { _borrowed: PhantomData, _here: PhantomData, _level: PhantomData }
    }
}

/// See [`Held::clean`].
#[inline(always)]
pub const fn clean() -> Held<'static, Clean> {
    Held::clean()
}

// Behind all other crates' levels: what is counted by references may be used under any lock.
crate::lock_order! {
    /// The numbers of per-CPU counters that can be had ([`crate::percpu_ref`]). Nothing is allocated under it.
    level PerCpuCounters = 1000;
}
