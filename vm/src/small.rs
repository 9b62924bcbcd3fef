//! A list whose first few elements lie in place, and which grows only into a store that was made beforehand: so that it can
//! live under a lock beneath which nothing is allocated (NothingSlowUnderLeaf).
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use arrayvec::ArrayVec;
use core::ops::Range;
use sync::{AllocError, TryVec};

/// Up to `N` elements in place, more in a vector.
pub struct SmallList<T, const N: usize> {
    store: Store<T, N>,
}

enum Store<T, const N: usize> {
    Inline(ArrayVec<T, N>),
    Spilled(Vec<T>),
}

impl<T, const N: usize> SmallList<T, N> {
    pub const fn new() -> Self {
        Self { store: Store::Inline(ArrayVec::new_const()) }
    }

    #[inline]
    pub fn as_slice(&self) -> &[T] {
        match &self.store {
            Store::Inline(a) => a.as_slice(),
            Store::Spilled(v) => v.as_slice(),
        }
    }

    #[inline]
    pub fn as_mut_slice(&mut self) -> &mut [T] {
        match &mut self.store {
            Store::Inline(a) => a.as_mut_slice(),
            Store::Spilled(v) => v.as_mut_slice(),
        }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.as_slice().len()
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Can `n` more be put in?
    #[inline]
    pub fn has_capacity(&self, n: usize) -> bool {
        match &self.store {
            Store::Inline(a) => a.remaining_capacity() >= n,
            Store::Spilled(v) => v.capacity() - v.len() >= n,
        }
    }

    /// A store for [`Self::adopt`], twice as large as a list of `len` elements needs. Made outside the lock.
    pub fn bigger(len: usize) -> Result<Vec<T>, AllocError> {
        sync::heap::try_vec((len + 2) * 2)
    }

    /// Moves the list into `bigger` if that is larger. What is given back is dropped outside the lock.
    #[must_use]
    pub fn adopt(&mut self, mut bigger: Vec<T>) -> Vec<T> {
        let now = match &self.store {
            Store::Inline(_) => N,
            Store::Spilled(v) => v.capacity(),
        };
        if bigger.capacity() <= now {
            return bigger;
        }
        match &mut self.store {
            Store::Inline(a) => bigger.extend(a.drain(..)),
            Store::Spilled(v) => bigger.append(v),
        }
        match core::mem::replace(&mut self.store, Store::Spilled(bigger)) {
            Store::Inline(_) => Vec::new(),
            Store::Spilled(v) => v,
        }
    }

    /// Puts `value` at `at`. Room has been made.
    pub fn insert(&mut self, at: usize, value: T) {
        debug_assert!(self.has_capacity(1) && at <= self.len(), "no room was made");
        match &mut self.store {
            Store::Inline(a) => drop(a.try_insert(at, value)),
            Store::Spilled(v) => drop(v.insert_reserved(at, value)),
        }
    }

    /// Puts `value` at the end. Room has been made.
    pub fn push(&mut self, value: T) {
        self.insert(self.len(), value);
    }

    /// Takes the elements `at` out, in order.
    pub fn drain(&mut self, at: Range<usize>, mut sink: impl FnMut(T)) {
        match &mut self.store {
            Store::Inline(a) => a.drain(at).for_each(&mut sink),
            Store::Spilled(v) => v.drain(at).for_each(&mut sink),
        }
    }

    /// Takes the element `at` out; the last one takes its place.
    pub fn swap_remove(&mut self, at: usize) -> Option<T> {
        match &mut self.store {
            Store::Inline(a) => (at < a.len()).then(|| a.swap_remove(at)),
            Store::Spilled(v) => (at < v.len()).then(|| v.swap_remove(at)),
        }
    }

    /// Takes everything out.
    pub fn take(&mut self) -> Self {
        core::mem::take(self)
    }
}

impl<T, const N: usize> Default for SmallList<T, N> {
    fn default() -> Self {
        Self::new()
    }
}
