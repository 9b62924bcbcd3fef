//! The tree of record locks: a balanced one (AVL) of boxed items, each of which knows a summary of all that lies below it. That is what the red-black
//! trees of `intrusive-collections`, which others use, do not have.
//!
//! Whoever inserts brings the box, so inserting does not fail. Recursion goes down one path: with n items it is at most 1.45·log₂(n) deep,
//! 46 calls for 2³² items.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use core::cmp::Ordering;

use sync::{AllocError, try_box};

pub trait Item {
    type Key: Ord;
    /// What a tree knows of its items.
    type Summary: Copy;

    fn key(&self) -> Self::Key;
    fn summary(&self) -> Self::Summary;
    /// Adds `other` to `sum`.
    fn join(sum: &mut Self::Summary, other: &Self::Summary);
}

pub struct Node<I: Item> {
    pub item: I,
    summary: I::Summary,
    height: u8,
    left: Link<I>,
    right: Link<I>,
}

type Link<I> = Option<Box<Node<I>>>;

/// Puts `below` where nothing is: so nothing is dropped in the depth of the tree, which would take the stack.
fn put<I: Item>(place: &mut Link<I>, below: Link<I>) {
    let nothing = core::mem::replace(place, below);
    debug_assert!(nothing.is_none());
    core::mem::forget(nothing);
}

fn height<I: Item>(link: &Link<I>) -> u8 {
    link.as_ref().map_or(0, |node| node.height)
}

impl<I: Item> Node<I> {
    pub fn try_new(item: I) -> Result<Box<Self>, AllocError> {
        let summary = item.summary();
        try_box(Node { item, summary, height: 1, left: None, right: None })
    }

    pub fn left(&self) -> Option<&Self> {
        self.left.as_deref()
    }

    pub fn right(&self) -> Option<&Self> {
        self.right.as_deref()
    }

    /// Of this item and all below it.
    pub fn summary(&self) -> I::Summary {
        self.summary
    }

    fn update(&mut self) {
        self.height = height(&self.left).max(height(&self.right)).saturating_add(1);
        let mut summary = self.item.summary();
        if let Some(left) = &self.left {
            I::join(&mut summary, &left.summary);
        }
        if let Some(right) = &self.right {
            I::join(&mut summary, &right.summary);
        }
        self.summary = summary;
    }

    /// How much higher the left side is.
    fn lean(&self) -> i16 {
        i16::from(height(&self.left)).saturating_sub(i16::from(height(&self.right)))
    }

    fn turned_right(mut self: Box<Self>) -> Box<Self> {
        let Some(mut top) = self.left.take() else { return self };
        put(&mut self.left, top.right.take());
        self.update();
        put(&mut top.right, Some(self));
        top.update();
        top
    }

    fn turned_left(mut self: Box<Self>) -> Box<Self> {
        let Some(mut top) = self.right.take() else { return self };
        put(&mut self.right, top.left.take());
        self.update();
        put(&mut top.left, Some(self));
        top.update();
        top
    }

    /// Both sides are balanced and differ by two at the most.
    fn balanced(mut self: Box<Self>) -> Box<Self> {
        match self.lean() {
            2.. => {
                if self.left.as_ref().is_some_and(|left| left.lean() < 0) {
                    let turned = self.left.take().map(Self::turned_left);
                    put(&mut self.left, turned);
                }
                self.turned_right()
            }
            ..=-2 => {
                if self.right.as_ref().is_some_and(|right| right.lean() > 0) {
                    let turned = self.right.take().map(Self::turned_right);
                    put(&mut self.right, turned);
                }
                self.turned_left()
            }
            _ => {
                self.update();
                self
            }
        }
    }

    fn with(mut self: Box<Self>, new: Box<Self>) -> Box<Self> {
        let side = if new.item.key() < self.item.key() { &mut self.left } else { &mut self.right };
        let below = match side.take() {
            Some(below) => below.with(new),
            None => new,
        };
        put(side, Some(below));
        self.balanced()
    }

    /// Changes the item with `key`, which stays its key.
    fn change(&mut self, key: &I::Key, f: impl FnOnce(&mut I)) {
        let here = self.item.key();
        let side = match key.cmp(&here) {
            Ordering::Equal => {
                f(&mut self.item);
                return self.update();
            }
            Ordering::Less => &mut self.left,
            Ordering::Greater => &mut self.right,
        };
        if let Some(below) = side {
            below.change(key, f);
            self.update();
        }
    }

    /// What is left, and what was taken out.
    fn without(mut self: Box<Self>, key: &I::Key) -> (Link<I>, Link<I>) {
        let here = self.item.key();
        if *key == here {
            let (left, right) = (self.left.take(), self.right.take());
            let rest = match (left, right) {
                (left, Some(right)) => {
                    let (right, mut top) = right.without_first();
                    put(&mut top.left, left);
                    put(&mut top.right, right);
                    Some(top.balanced())
                }
                (left, None) => left,
            };
            // What it knows of those below it is made anew where it is put in again.
            return (rest, Some(self));
        }
        let side = if *key < here { &mut self.left } else { &mut self.right };
        let Some(below) = side.take() else { return (Some(self), None) };
        let (rest, taken) = below.without(key);
        put(side, rest);
        (Some(self.balanced()), taken)
    }

    fn without_first(mut self: Box<Self>) -> (Link<I>, Box<Self>) {
        match self.left.take() {
            Some(left) => {
                let (rest, first) = left.without_first();
                put(&mut self.left, rest);
                (Some(self.balanced()), first)
            }
            None => (self.right.take(), self),
        }
    }
}

pub struct Tree<I: Item> {
    root: Link<I>,
}

impl<I: Item> Tree<I> {
    pub const fn new() -> Self {
        Tree { root: None }
    }

    pub fn root(&self) -> Option<&Node<I>> {
        self.root.as_deref()
    }

    /// Puts `node` in, which is in no tree. No other item has its key.
    pub fn insert(&mut self, mut node: Box<Node<I>>) {
        node.update();
        self.root = Some(match self.root.take() {
            Some(root) => root.with(node),
            None => node,
        });
    }

    /// Changes the item with `key`, if there is one; its key stays.
    pub fn change(&mut self, key: &I::Key, f: impl FnOnce(&mut I)) {
        if let Some(root) = &mut self.root {
            root.change(key, f);
        }
    }

    pub fn remove(&mut self, key: &I::Key) -> Option<Box<Node<I>>> {
        let (rest, taken) = self.root.take()?.without(key);
        self.root = rest;
        taken
    }

    /// The last item whose key is not above `key`.
    pub fn last_to(&self, key: &I::Key) -> Option<&I> {
        let (mut at, mut found) = (self.root(), None);
        while let Some(node) = at {
            at = if node.item.key() <= *key {
                found = Some(&node.item);
                node.right()
            } else {
                node.left()
            };
        }
        found
    }

    /// The first item whose key is above `key`.
    pub fn first_above(&self, key: &I::Key) -> Option<&I> {
        let (mut at, mut found) = (self.root(), None);
        while let Some(node) = at {
            at = if node.item.key() > *key {
                found = Some(&node.item);
                node.left()
            } else {
                node.right()
            };
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A key; a tree knows how many items it has and their sum.
    #[derive(Clone, Copy, Debug, PartialEq)]
    struct Number(u16);

    impl Item for Number {
        type Key = u16;
        type Summary = (usize, u64);
        fn key(&self) -> u16 {
            self.0
        }
        fn summary(&self) -> (usize, u64) {
            (1, u64::from(self.0))
        }
        fn join(sum: &mut (usize, u64), other: &(usize, u64)) {
            *sum = (sum.0 + other.0, sum.1 + other.1);
        }
    }

    /// Checks order, balance and summaries; returns the number of items.
    fn examine(link: &Link<Number>) -> usize {
        let Some(node) = link else { return 0 };
        assert!(node.lean().abs() <= 1);
        assert!(node.left().is_none_or(|l| l.item.0 < node.item.0));
        assert!(node.right().is_none_or(|r| r.item.0 > node.item.0));
        let count = 1 + examine(&node.left) + examine(&node.right);
        assert_eq!(node.summary().0, count);
        count
    }

    #[test]
    fn a_tree_agrees_with_a_map() {
        check(300, &prop::collection::vec((0u16..60, any::<bool>()), 1..200), |ops| {
            let (mut tree, mut map) = (Tree::<Number>::new(), BTreeMap::new());
            for (key, add) in ops {
                if !add {
                    assert_eq!(tree.remove(&key).map(|n| n.item.0), map.remove(&key).map(|()| key));
                } else if map.insert(key, ()).is_none() {
                    tree.insert(Node::try_new(Number(key)).unwrap());
                }
                assert_eq!(examine(&tree.root), map.len());
                tree.change(&key, |_| ());
                assert_eq!(examine(&tree.root), map.len());
                let sum: u64 = map.keys().map(|&k| u64::from(k)).sum();
                assert_eq!(tree.root().map_or(0, |n| n.summary().1), sum);
                assert_eq!(tree.last_to(&key).map(|n| n.0), map.range(..=key).next_back().map(|(k, ())| *k));
                assert_eq!(
                    tree.first_above(&key).map(|n| n.0),
                    map.range(key + 1..).next().map(|(k, ())| *k)
                );
            }
        });
    }
}
