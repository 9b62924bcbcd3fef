//! A list in the order of arrival that is read without a lock: each node leads to the next, and one writer at a time puts nodes at its end and takes
//! them out.
//!
//! Readers follow `first` and `next`, or look at the last; `before` is the writers'. A node taken out keeps its `next`, so a reader that stands on it goes
//! on to what came after it. So a reader meets every node that is there throughout. Writers exclude each other by a lock of their own. When a node may
//! be used again is not decided here (`rcu`).
//!
//! - `list.set`, `list.begin` and `list.end` release a node before it can be reached; `list.first`, `list.next` and `list.last` acquire it.

use crate::atomic::{AtomicPtr, Ordering, const_new, site};
use core::ptr;

/// Where a list begins and ends.
#[derive(Debug)]
pub struct Head<N> {
    first: AtomicPtr<N>,
    last: AtomicPtr<N>,
}

/// A node's neighbours.
#[derive(Debug)]
pub struct Link<N> {
    next: AtomicPtr<N>,
    before: AtomicPtr<N>,
}

/// A node: with a link of its own.
pub trait Linked: Sized {
    fn link(&self) -> &Link<Self>;
}

impl<N> Link<N> {
    const_new! {
        pub fn new() -> Self {
            Link { next: AtomicPtr::new(ptr::null_mut()), before: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// The next node, null at the end.
    #[inline(always)]
    pub fn next(&self) -> *mut N {
        self.next.load(site("list.next", Ordering::Acquire))
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
            Head { first: AtomicPtr::new(ptr::null_mut()), last: AtomicPtr::new(ptr::null_mut()) }
        }
    }

    /// The first node, null if there is none.
    #[inline(always)]
    pub fn first(&self) -> *mut N {
        self.first.load(site("list.first", Ordering::Acquire))
    }

    /// The last node, null if there is none.
    #[inline(always)]
    pub fn last(&self) -> *mut N {
        self.last.load(site("list.last", Ordering::Acquire))
    }

    /// What comes after `before`, or first if that is None, is `next` from now on.
    #[inline]
    fn lead(&self, before: Option<&N>, next: *mut N) {
        match before {
            Some(before) => before.link().next.store(next, site("list.set", Ordering::Release)),
            None => self.first.store(next, site("list.begin", Ordering::Release)),
        }
    }

    /// Puts `node` at the end.
    ///
    /// # Safety
    /// The caller is the only writer, and the nodes of the list are in place. `node` was never on a list, and stays in place until it is taken out and all
    /// who may have met it have gone on.
    #[inline]
    pub unsafe fn push_back(&self, node: *mut N) {
        let last = self.last.load(Ordering::Relaxed);
        // SAFETY: the caller's promise.
        let (new, last_node) = unsafe { (&*node, last.as_ref()) };
        new.link().before.store(last, Ordering::Relaxed);
        self.last.store(node, site("list.end", Ordering::Release));
        self.lead(last_node, node);
    }

    /// Takes `node` out.
    ///
    /// # Safety
    /// The caller is the only writer, and the nodes of the list, of which `node` is one, are in place.
    #[inline]
    pub unsafe fn remove(&self, node: *mut N) {
        // SAFETY: the caller's promise.
        let link = unsafe { &*node }.link();
        let (before, next) = (link.before.load(Ordering::Relaxed), link.next.load(Ordering::Relaxed));
        // SAFETY: its neighbours are nodes of the list, or null.
        let (before_node, next_node) = unsafe { (before.as_ref(), next.as_ref()) };
        self.lead(before_node, next);
        match next_node {
            Some(next) => next.link().before.store(before, Ordering::Relaxed),
            None => self.last.store(before, site("list.end", Ordering::Release)),
        }
    }
}

impl<N: Linked> Default for Head<N> {
    fn default() -> Self {
        Self::new()
    }
}
