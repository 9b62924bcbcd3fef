//! Pages that a device reads and writes while the kernel does: the tables of its queues.
//!
//! A low room: a frame's bytes are raw memory. A device writes whenever it likes, so all that is ever made of such a page is atomic words, of one width
//! for each page.

use core::marker::PhantomData;
use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use super::{FrameKind, OwnedFrame, alloc_zeroed};
use crate::addr::{PAGE_SIZE, PhysAddr};

mod sealed {
    pub trait Word {}
}

/// A word that is valid whatever its bits are, and may change at any time.
pub trait Word: sealed::Word {}

macro_rules! words {
    ($($word:ty),*) => { $(impl sealed::Word for $word {} impl Word for $word {})* };
}
words!(AtomicU16, AtomicU32, AtomicU64);

/// A page of `W`s. Dropping it frees the page: who lets a device reach it has to have stopped that before.
pub struct DevicePage<W> {
    frame: OwnedFrame,
    words: PhantomData<W>,
}

impl<W: Word> DevicePage<W> {
    /// A page of zeros; `None`: no memory.
    pub fn try_new() -> Option<Self> {
        let frame = alloc_zeroed()?;
        frame.set_kind(FrameKind::Device);
        Some(Self { frame, words: PhantomData })
    }

    /// Where a device finds it: no unit translates between.
    pub fn addr(&self) -> PhysAddr {
        self.frame.addr()
    }

    #[inline]
    pub fn words(&self) -> &[W] {
        let base = self.frame.frame().bytes_ptr().cast::<W>();
        // SAFETY: the page is in the direct map, aligned and owned by `self`, and initialized. All references to it are of this one type, whose
        // values may be any bits and change under a shared reference.
        unsafe { core::slice::from_raw_parts(base, PAGE_SIZE / size_of::<W>()) }
    }
}
