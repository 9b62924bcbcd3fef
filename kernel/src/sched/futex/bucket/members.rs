//! What is done with the waiters of a bucket, which is locked and not split.

use super::super::super::wait::{Released, WaitNode};
use super::super::key::Word;
use super::super::pi::PiState;
use super::{CROWD, LOOKED_AT, MOST_MOVED, Members, Order, child_index, table};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;
use core::mem;
use core::sync::atomic::Ordering;
use intrusive_collections::UnsafeRef;
use sync::protocol::presence::Found;

impl Members<'_> {
    /// Are there many who wait on other futexes than `word`, and not too many to be moved?
    pub(super) fn are_a_crowd_beside(&self, word: Word) -> bool {
        matches!(self.bucket.presence.look(), Found::Waiters(count) if (CROWD..=MOST_MOVED).contains(&(count as usize)))
            && self.has_crowd_beside(word)
    }

    #[cold]
    fn has_crowd_beside(&self, word: Word) -> bool {
        let waiters = self.lists.waiters.iter().map(|node| node.word());
        let words = self.lists.states.iter().map(PiState::word).chain(waiters);
        words.take(LOOKED_AT).filter(|other| *other != word).count() >= CROWD
    }

    /// Puts all into children of the bucket. False: there is no memory for them.
    #[cold]
    pub(super) fn split(&mut self, bits: u32, order: &mut Order<'_>) -> bool {
        let Ok(children) = self.bucket.children.get_or_try(table) else { return false };
        while let Some(node) = self.lists.waiters.pop_front() {
            let child = &children[child_index(node.word().hash(), bits)];
            let mut lists = child.lists.lock_nested_in(order);
            // Who leaves finds the child by this, and locks it.
            node.set_bucket(child);
            child.presence.receive();
            lists.waiters.push_back(node);
        }
        while let Some(state) = self.lists.states.pop_front() {
            let child = &children[child_index(state.word().hash(), bits)];
            let mut lists = child.lists.lock_nested_in(order);
            child.presence.receive();
            lists.states.push_back(state);
        }
        self.bucket.presence.split();
        true
    }

    /// Puts a waiter in its place: by its priority when it began to wait, and then behind those that came before, as Linux does.
    #[inline]
    pub(super) fn insert(&mut self, node: UnsafeRef<WaitNode>) {
        if node.priority.load(Ordering::Relaxed) == 0 {
            self.lists.waiters.push_back(node);
        } else {
            self.insert_by_priority(node);
        }
    }

    #[cold]
    fn insert_by_priority(&mut self, node: UnsafeRef<WaitNode>) {
        let priority = |node: &WaitNode| node.priority.load(Ordering::Relaxed);
        let mut cursor = self.lists.waiters.front_mut();
        while cursor.get().is_some_and(|other| priority(other) >= priority(&node)) {
            cursor.move_next();
        }
        cursor.insert_before(node);
    }

    /// How many wait on `word` with one of `bits`.
    pub(in crate::sched::futex) fn count(&self, word: Word, bits: u32) -> usize {
        self.lists.waiters.iter().filter(|node| node.is_meant(word, bits)).count()
    }

    /// Is there a futex at `word` that lends priority? Nobody else wakes its waiters.
    pub(in crate::sched::futex) fn lends(&self, word: Word) -> bool {
        !self.lists.states.is_empty() && self.has_state(word)
    }

    #[cold]
    fn has_state(&self, word: Word) -> bool {
        self.lists.states.iter().any(|state| state.word() == word)
    }

    /// Wakes up to `count` who wait on `word` with one of `bits`; returns how many. The last of them wakes when `last` is dropped.
    ///
    /// # Errors
    /// EINVAL: the futex lends priority, or who waits there is to be moved to one that does.
    #[inline(always)]
    pub(in crate::sched::futex) fn wake(
        &mut self,
        word: Word,
        count: u32,
        bits: u32,
        last: &mut Option<Released>,
        order: &mut Order<'_>,
    ) -> Result<u32> {
        if self.lends(word) {
            return Err(Errno::EINVAL);
        }
        let mut woken = 0;
        let mut cursor = self.lists.waiters.front_mut();
        // Mostly it is the first.
        cursor.get().into_iter().for_each(WaitNode::claim_line);
        while woken < count {
            let Some(node) = cursor.get() else { break };
            if !node.is_meant(word, bits) {
                if node.is_to_be_moved() && node.word() == word {
                    return Err(Errno::EINVAL);
                }
                cursor.move_next();
                continue;
            }
            if let Some(node) = cursor.remove() {
                self.bucket.presence.leave();
                if let Some(before) = mem::replace(last, node.release()) {
                    before.wake_in(order.reborrow().lower());
                }
                woken += 1;
            }
        }
        Ok(woken)
    }

    /// Lets up to `limit` who wait on `from` wait on `to` instead, which lies in `target`, or in this bucket. Returns how many.
    pub(in crate::sched::futex) fn requeue(
        &mut self,
        mut target: Option<&mut Members<'_>>,
        from: Word,
        to: Word,
        limit: u32,
    ) -> Result<u32> {
        if self.lends(from) {
            return Err(Errno::EINVAL);
        }
        let mut moved = 0;
        let mut cursor = self.lists.waiters.front_mut();
        while moved < limit {
            let Some(node) = cursor.get() else { break };
            if node.word() != from {
                cursor.move_next();
                continue;
            }
            if node.is_to_be_moved() {
                return Err(Errno::EINVAL);
            }
            moved += 1;
            let Some(target) = &mut target else {
                node.set_word(to);
                cursor.move_next();
                continue;
            };
            if let Some(node) = cursor.remove() {
                self.bucket.presence.leave();
                target.bucket.presence.enter();
                node.set_word(to);
                node.set_bucket(target.bucket);
                target.insert(node);
            }
        }
        Ok(moved)
    }

    /// The state of the futex at `word`, if it lends priority and has waiters.
    pub(in crate::sched::futex) fn state_of(&self, word: Word) -> Option<Arc<PiState>> {
        let mut cursor = self.lists.states.front();
        while let Some(state) = cursor.get() {
            if state.word() == word {
                return cursor.clone_pointer();
            }
            cursor.move_next();
        }
        None
    }

    /// One more futex lends priority.
    pub(in crate::sched::futex) fn add_state(&mut self, state: Arc<PiState>) {
        self.bucket.presence.enter();
        self.lists.states.push_back(state);
    }

    /// The futex has no waiters any more.
    pub(in crate::sched::futex) fn remove_state(&mut self, state: &PiState) {
        let mut cursor = self.lists.states.front_mut();
        while let Some(other) = cursor.get() {
            if core::ptr::eq(other, state) {
                self.bucket.presence.leave();
                cursor.remove();
                return;
            }
            cursor.move_next();
        }
    }

    /// The first who waits on `word`, in no state.
    pub(in crate::sched::futex) fn first_of(&self, word: Word) -> Option<&WaitNode> {
        self.lists.waiters.iter().find(|node| node.word() == word)
    }

    /// Takes the first who waits on `word` off.
    pub(in crate::sched::futex) fn take_first_of(&mut self, word: Word) -> Option<UnsafeRef<WaitNode>> {
        let mut cursor = self.lists.waiters.front_mut();
        while cursor.get().is_some_and(|node| node.word() != word) {
            cursor.move_next();
        }
        let node = cursor.remove()?;
        self.bucket.presence.leave();
        Some(node)
    }

    /// How many wait on `word`, in no state.
    pub(in crate::sched::futex) fn count_of(&self, word: Word) -> usize {
        self.lists.waiters.iter().filter(|node| node.word() == word).count()
    }
}
