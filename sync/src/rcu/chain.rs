//! Chains that are read under RCU: the buckets of a hash table.
//!
//! A chain owns its nodes, and nobody counts them: putting one in or taking it out writes the word that leads to it and no other node, so
//! nodes of different CPUs on one chain do not disturb each other. Writers exclude each other by a bit of the chain's first word; for
//! a chain that is changed much, whoever changes it holds a lock already. Protocol: [`crate::protocol::chain`].

use super::{RcuHead, RcuRead, defer_box};
use crate::heap::{AllocError, SlabType, allowed};
use crate::protocol::chain::{Head, Link, Linked};
use alloc::boxed::Box;
use core::alloc::Layout;
use core::marker::PhantomData;
use core::ptr;

/// A value on a chain.
struct Node<T> {
    link: Link<Node<T>>,
    value: T,
    rcu: RcuHead,
}

impl<T> Linked for Node<T> {
    fn link(&self) -> &Link<Self> {
        &self.link
    }
}

crate::rcu_object!([T: Send + Sync + 'static] Node<T>);

/// A value that has its place in memory but is on no chain yet: putting it on one cannot fail.
pub struct Prepared<T: Send + Sync + 'static>(Box<Node<T>>);

impl<T: Send + Sync + SlabType> Prepared<T> {
    pub fn try_new(value: T) -> Result<Self, AllocError> {
        Ok(Prepared(node(value)?))
    }

    pub fn value(&self) -> &T {
        &self.0.value
    }
}

/// Values in the reverse order of their arrival.
pub struct Chain<T: Send + Sync + 'static> {
    head: Head<Node<T>>,
    _owns: PhantomData<Box<Node<T>>>,
}

impl<T: Send + Sync> Chain<T> {
    /// The layout of what is allocated for a `T`.
    pub const LAYOUT: Layout = Layout::new::<Node<T>>();
    /// Where in it the value is.
    pub const VALUE_OFFSET: usize = core::mem::offset_of!(Node<T>, value);

    pub const fn new() -> Self {
        Chain { head: Head::new(), _owns: PhantomData }
    }

    /// The values. One that comes or goes meanwhile may be among them or not.
    #[inline]
    pub fn iter<'r>(&'r self, _read: &'r RcuRead) -> impl Iterator<Item = &'r T> {
        let mut at = self.head.first();
        core::iter::from_fn(move || {
            // SAFETY: a node met in the read section is freed after it at the earliest: by `remove` and `replace` a grace period after it
            // could be met last, by `drop` when nobody borrows the chain.
            let node: &'r Node<T> = unsafe { at.as_ref() }?;
            at = node.link.next();
            Some(&node.value)
        })
    }

    /// Puts a value in front.
    pub fn push(&self, value: T) -> Result<(), AllocError>
    where
        T: SlabType,
    {
        self.push_prepared(Prepared(node(value)?));
        Ok(())
    }

    /// Puts a prepared value in front.
    #[inline]
    pub fn push_prepared(&self, value: Prepared<T>) {
        let node = Box::into_raw(value.0);
        // SAFETY: the node is new, and leaves the chain only by way of a grace period.
        unsafe { self.head.write().push(node) };
    }

    /// Takes out the first value that `is_it`; it is dropped a grace period later. `is_it` does not sleep.
    pub fn remove<'r>(&'r self, is_it: impl FnMut(&T) -> bool, _read: &'r RcuRead) -> Option<&'r T> {
        self.exchange(is_it, ptr::null_mut())
    }

    /// Puts `value` in place of the first value that `is_it`, in one step, and gives back that one, which is dropped a grace period later.
    /// `None`: there is none, and `value` is dropped. `is_it` does not sleep.
    pub fn replace<'r>(
        &'r self,
        is_it: impl FnMut(&T) -> bool,
        value: T,
        _read: &'r RcuRead,
    ) -> Result<Option<&'r T>, AllocError>
    where
        T: SlabType,
    {
        Ok(self.replace_prepared(is_it, Prepared(node(value)?), _read))
    }

    /// The same with a prepared value.
    #[inline]
    pub fn replace_prepared<'r>(
        &'r self,
        is_it: impl FnMut(&T) -> bool,
        value: Prepared<T>,
        _read: &'r RcuRead,
    ) -> Option<&'r T> {
        let other = Box::into_raw(value.0);
        let old = self.exchange(is_it, other);
        if old.is_none() {
            // SAFETY: from `into_raw` above, and not on the chain.
            drop(unsafe { Box::from_raw(other) });
        }
        old
    }

    /// The caller gives out the value for a read section at most.
    fn exchange(&self, mut is_it: impl FnMut(&T) -> bool, other: *mut Node<T>) -> Option<&T> {
        let mut writer = self.head.write();
        // SAFETY: the nodes of a chain are in place. `other` is null or new. The node found is given up once nobody can meet it any more.
        unsafe {
            let (before, node) = writer.find(|node| is_it(&(*node).value));
            let value = &node.as_ref()?.value;
            writer.replace(before, node, other);
            drop(writer);
            defer_box(Box::from_raw(node));
            Some(value)
        }
    }
}

/// A node from the cache of its value's type.
fn node<T: Send + Sync + SlabType>(value: T) -> Result<Box<Node<T>>, AllocError> {
    const { assert!(T::CACHE.fits(Layout::new::<Node<T>>())) };
    allowed()?;
    let block = T::CACHE.take().cast::<Node<T>>();
    if block.is_null() {
        return Err(AllocError);
    }
    // SAFETY: `take` gave a block of this layout (asserted above) that the global allocator takes back, as the box will.
    unsafe {
        block.write(Node { link: Link::new(), value, rcu: RcuHead::new() });
        Ok(Box::from_raw(block))
    }
}

impl<T: Send + Sync> Default for Chain<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: Send + Sync> Drop for Chain<T> {
    fn drop(&mut self) {
        let mut at = self.head.first();
        while !at.is_null() {
            // SAFETY: the chain is not borrowed, so no read section uses its nodes through it; each came from `into_raw`.
            let node = unsafe { Box::from_raw(at) };
            at = node.link.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heap::{SlabCache, hosted};
    use crate::rcu::{drain, read};
    use alloc::sync::Arc;
    use alloc::vec::Vec;
    use std::thread;

    struct Value(u32, #[allow(dead_code)] Arc<()>);

    impl SlabType for Value {
        // SAFETY: hosted, nothing but the layout is used.
        const CACHE: SlabCache = unsafe { SlabCache::new(ptr::null(), Chain::<Value>::LAYOUT) };
    }

    fn numbers(chain: &Chain<Value>) -> Vec<u32> {
        chain.iter(&read()).map(|value| value.0).collect()
    }

    #[test]
    fn values_come_and_go_at_every_place_and_are_dropped_after_a_grace_period() {
        let watch = Arc::new(());
        let chain = Chain::new();
        for n in 1..=4 {
            chain.push(Value(n, watch.clone())).unwrap();
        }
        assert_eq!(numbers(&chain), [4, 3, 2, 1]);
        {
            let section = read();
            assert!(chain.remove(|v| v.0 == 9, &section).is_none());
            let gone = [2, 4, 1].map(|n| chain.remove(|v| v.0 == n, &section).unwrap());
            assert_eq!(gone.map(|v| v.0), [2, 4, 1]);
            let old = chain.replace(|v| v.0 == 3, Value(7, watch.clone()), &section).unwrap();
            assert_eq!(old.unwrap().0, 3);
            assert!(chain.replace(|v| v.0 == 3, Value(8, watch.clone()), &section).unwrap().is_none());
            assert_eq!(Arc::strong_count(&watch), 6, "dropped under a reader");
        }
        drain();
        assert_eq!((numbers(&chain), Arc::strong_count(&watch)), (alloc::vec![7], 2));
        drop(chain);
        assert_eq!(Arc::strong_count(&watch), 1);
    }

    #[test]
    fn a_prepared_value_is_put_in_without_memory() {
        let watch = Arc::new(());
        let chain = Chain::new();
        let [first, second] = [1, 2].map(|n| Prepared::try_new(Value(n, watch.clone())).unwrap());
        assert_eq!(second.value().0, 2);
        hosted::fail_after(0, || {
            chain.push_prepared(first);
            assert_eq!(chain.replace_prepared(|v| v.0 == 1, second, &read()).unwrap().0, 1);
        });
        let third = Prepared::try_new(Value(3, watch.clone())).unwrap();
        assert!(chain.replace_prepared(|v| v.0 == 9, third, &read()).is_none());
        drain();
        assert_eq!((numbers(&chain), Arc::strong_count(&watch)), (alloc::vec![2], 2));
    }

    #[test]
    fn without_memory_nothing_changes() {
        let watch = Arc::new(());
        let chain = Chain::new();
        chain.push(Value(1, watch.clone())).unwrap();
        hosted::fail_after(0, || {
            assert!(chain.push(Value(2, watch.clone())).is_err());
            assert!(chain.replace(|v| v.0 == 1, Value(3, watch.clone()), &read()).is_err());
        });
        assert_eq!((numbers(&chain), Arc::strong_count(&watch)), (alloc::vec![1], 2));
    }

    #[test]
    fn readers_meet_what_is_there_throughout_while_others_come_and_go() {
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let chain = Chain::new();
        let watch = Arc::new(());
        chain.push(Value(0, watch.clone())).unwrap();
        thread::scope(|scope| {
            for n in 1..=2 {
                let (chain, watch) = (&chain, &watch);
                scope.spawn(move || {
                    for _ in 0..rounds {
                        chain.push(Value(n, watch.clone())).unwrap();
                        assert!(numbers(chain).contains(&0));
                        assert!(chain.replace(|v| v.0 == n, Value(n + 2, watch.clone()), &read()).is_ok());
                        assert!(chain.remove(|v| v.0 == n + 2, &read()).is_some());
                    }
                    drain();
                });
            }
        });
        assert_eq!((numbers(&chain), Arc::strong_count(&watch)), (alloc::vec![0], 2));
    }
}
