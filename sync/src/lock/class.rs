//! Lock classes: the name, level and counts that locks of one kind share.
//!
//! `lock_class!` makes a static and enters it in a table that the linker gathers (section `lock_classes`; the kernel's linker script
//! keeps it between `__start_lock_classes` and `__stop_lock_classes`), so that reading statistics needs no registration at run time.

use super::stats::ClassStats;
use crate::level::Level;
use crate::percpu::PerCpu;
use core::marker::PhantomData;

/// A class of locks of level `L`. Declared by [`lock_class!`](crate::lock_class).
pub struct LockClass<L: Level> {
    class: Class,
    _level: PhantomData<fn() -> L>,
}

/// A class, whatever its level.
pub struct Class {
    pub name: &'static str,
    pub level: &'static str,
    pub(crate) rank: u16,
    pub stats: PerCpu<ClassStats>,
}

impl<L: Level> LockClass<L> {
    /// For `lock_class!`, which puts the class where `stats` has to lie.
    #[doc(hidden)]
    pub const fn new(name: &'static str, stats: PerCpu<ClassStats>) -> Self {
        LockClass { class: Class { name, level: L::NAME, rank: L::RANK, stats }, _level: PhantomData }
    }

    #[inline(always)]
    pub const fn class(&self) -> &Class {
        &self.class
    }
}

/// Declares lock classes:
///
/// ```
/// # use sync::{lock_class, SpinLock};
/// sync::lock_order! { level Pipe = 1; level Leaf; }
/// lock_class! {
///     pub static LEAF: LockClass = ("leaf", Leaf);
///     pub static PIPE: LockClass = ("pipe", Pipe);
/// }
/// static LOCK: SpinLock<u32, Leaf> = SpinLock::new(0, &LEAF);
/// static PIPES: SpinLock<u32, Pipe> = SpinLock::new(0, &PIPE);
/// ```
#[macro_export]
macro_rules! lock_class {
    ($($(#[$meta:meta])* $vis:vis static $name:ident : LockClass = ($text:expr, $level:ty $(,)?));+ $(;)?) => {$(
        $(#[$meta])*
        #[cfg_attr(target_os = "none", unsafe(link_section = ".percpu"))]
        $vis static $name: $crate::lock::LockClass<$level> =
            $crate::lock::LockClass::new($text, $crate::__per_cpu_init!($crate::lock::stats::ClassStats::new()));
        const _: () = {
            #[used]
            #[cfg_attr(any(target_os = "none", target_os = "linux"), unsafe(link_section = "lock_classes"))]
            static ENTRY: &$crate::lock::Class = $name.class();
        };
    )+};
}

/// All classes linked into this program, in the linker's order.
pub(super) fn all() -> &'static [&'static Class] {
    #[cfg(all(any(target_os = "none", target_os = "linux"), not(miri)))]
    {
        unsafe extern "C" {
            static __start_lock_classes: usize;
            static __stop_lock_classes: usize;
        }
        let first = (&raw const __start_lock_classes).cast::<&'static Class>();
        let end = (&raw const __stop_lock_classes).cast::<&'static Class>();
        let n = (end.addr() - first.addr()) / size_of::<&Class>();
        // SAFETY: the section holds nothing but the `ENTRY` statics of `lock_class!`, one pointer each, and the linker
        // puts the two symbols at its ends.
        unsafe { core::slice::from_raw_parts(first, n) }
    }
    #[cfg(not(all(any(target_os = "none", target_os = "linux"), not(miri))))]
    {
        &[]
    }
}
