//! A chain that is read without a lock: each node leads to the next, and one writer at a time puts nodes in and takes them out.
//!
//! The head leads to the first node; its lowest bit says that a writer is here. What a writer changes is one word: the link
//! of the node before, or the head when it leaves. A node taken out keeps its link, so a reader that stands on it goes on to what came after
//! it. So a reader meets every node that is there throughout. When a node may be used again is not decided here (`rcu`).
//!
//! - `chain.end` and `chain.set` release a node before it can be reached; `chain.first` and `chain.next` acquire it.
//! - `chain.begin` acquires what the writers before did.

use crate::atomic::{AtomicPtr, Ordering, const_new, relax, site};
use core::ptr;

const WRITING: usize = 1;

/// Where a chain begins.
#[derive(Debug)]
pub struct Head<N> {
    first: AtomicPtr<N>,
}

/// Where a node leads.
#[derive(Debug)]
pub struct Link<N> {
    next: AtomicPtr<N>,
}

/// A node: at an even address, with a link of its own.
pub trait Linked: Sized {
    fn link(&self) -> &Link<Self>;
}

/// The only writer of a chain, until it is dropped.
pub struct Writer<'a, N: Linked> {
    head: &'a Head<N>,
    first: *mut N,
}

impl<N> Link<N> {
    const_new! {
        pub fn new() -> Self {
            Link { next: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// The next node, null at the end.
    #[inline]
    pub fn next(&self) -> *mut N {
        self.next.load(site("chain.next", Ordering::Acquire))
    }

    #[inline]
    fn set(&self, next: *mut N) {
        self.next.store(next, site("chain.set", Ordering::Release));
    }
}

impl<N> Default for Link<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Linked> Head<N> {
    const_new! {
        pub fn new() -> Self {
            Head { first: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// The first node, null if there is none.
    #[inline]
    pub fn first(&self) -> *mut N {
        self.first.load(site("chain.first", Ordering::Acquire)).map_addr(|address| address & !WRITING)
    }

    /// Becomes the writer, spinning while there is another.
    #[inline]
    pub fn write(&self) -> Writer<'_, N> {
        loop {
            let first = self.first.load(Ordering::Relaxed);
            let writing = first.map_addr(|address| address | WRITING);
            let order = site("chain.begin", Ordering::Acquire);
            if first != writing
                && self.first.compare_exchange(first, writing, order, Ordering::Relaxed).is_ok()
            {
                return Writer { head: self, first };
            }
            relax();
        }
    }
}

impl<N: Linked> Default for Head<N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<N: Linked> Writer<'_, N> {
    /// The first node that `is_it`, null if none is, and the node before it, null at the front.
    ///
    /// # Safety
    /// All nodes of the chain are in place.
    #[inline]
    pub unsafe fn find(&self, mut is_it: impl FnMut(*mut N) -> bool) -> (*mut N, *mut N) {
        let (mut before, mut at) = (ptr::null_mut(), self.first);
        while !at.is_null() && !is_it(at) {
            // SAFETY: a node of the chain.
            (before, at) = (at, unsafe { &*at }.link().next());
        }
        (before, at)
    }

    /// Puts `node` in front.
    ///
    /// # Safety
    /// The node was never on a chain, and stays in place until it is taken out and all who may have met it have gone on.
    #[inline]
    pub unsafe fn push(&mut self, node: *mut N) {
        // SAFETY: the caller's promise.
        unsafe { &*node }.link().set(self.first);
        self.first = node;
    }

    /// Takes `node` out, and puts `other` in its place unless that is null.
    ///
    /// # Safety
    /// `before` and `node` are what `find` gave, and nothing has changed since; for `other` as for `push`.
    #[inline]
    pub unsafe fn replace(&mut self, before: *mut N, node: *mut N, other: *mut N) {
        // SAFETY: as the caller promises, these are in place or null.
        let (before, node, other) = unsafe { (before.as_ref(), &*node, (other, other.as_ref())) };
        let mut next = node.link().next();
        if let (address, Some(other)) = other {
            other.link().set(next);
            next = address;
        }
        match before {
            Some(before) => before.link().set(next),
            None => self.first = next,
        }
    }
}

impl<N: Linked> Drop for Writer<'_, N> {
    #[inline]
    fn drop(&mut self) {
        self.head.first.store(self.first, site("chain.end", Ordering::Release));
    }
}
