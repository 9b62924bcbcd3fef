//! The queue lock (Mellor-Crummey and Scott 1991, with the tail and a locked bit in one word as in Linux's qspinlock): each waiter
//! spins on a node of its own CPU, and the lock passes in order of arrival.
//!
//! Word: bit 0 LOCKED, above it the code of the last waiter's node, 0 none. A node is used only while waiting, so the
//! holder needs none. The word is taken without queueing only if nobody waits. `queue.enqueue` orders a node's
//! initialisation before its successor's link to it; `queue.link` and `queue.grant` pass the turn; `queue.lock` and `queue.unlock` the data.

use crate::atomic::{AtomicU32, Ordering, const_new, relax, site, step};

const LOCKED: u32 = 1;

/// A waiter's place.
#[derive(Debug)]
pub struct Node {
    /// The code of the node behind this one, 0 none yet.
    next: AtomicU32,
    /// Whether this node is the first of the queue.
    first: AtomicU32,
}

impl Node {
    const_new! {
        pub fn new() -> Self {
            Node { next: AtomicU32::new(0), first: AtomicU32::new(0) }
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

/// Finds nodes by code: a number from 1 below 2^31.
pub trait Nodes {
    fn node(&self, code: u32) -> &Node;
}

/// A lock without its data.
#[derive(Debug)]
pub struct RawQueue {
    word: AtomicU32,
}

impl RawQueue {
    const_new! {
        pub fn new() -> Self {
            RawQueue { word: AtomicU32::new(0) }
        }
    }

    /// Takes the lock if it is free and nobody waits.
    #[inline(always)]
    pub fn try_lock(&self) -> bool {
        self.word.compare_exchange(0, LOCKED, site("queue.try", Ordering::Acquire), Ordering::Relaxed).is_ok()
    }

    /// Waits in the queue with node `code`, which is this CPU's and not in use, and takes the lock.
    pub fn lock_queued(&self, nodes: &impl Nodes, code: u32) {
        let me = nodes.node(code);
        me.next.store(0, Ordering::Relaxed);
        me.first.store(0, Ordering::Relaxed);
        let before = self.enqueue(code);
        if before != 0 {
            nodes.node(before).next.store(code, Ordering::Release);
            while me.first.load(Ordering::Acquire) == 0 {
                relax();
            }
        }
        if self.take(code) {
            return;
        }
        // Somebody is behind: the word named another node. Its link to this one may still be on its way.
        let behind = loop {
            match me.next.load(Ordering::Acquire) {
                0 if step("queue.behind") => relax(),
                0 => return,
                behind => break behind,
            }
        };
        nodes.node(behind).first.store(1, Ordering::Release);
    }

    /// Makes `code` the tail and says which node was.
    fn enqueue(&self, code: u32) -> u32 {
        let mut word = self.word.load(Ordering::Relaxed);
        loop {
            let order = Ordering::AcqRel;
            match self.word.compare_exchange_weak(word, word & LOCKED | code << 1, order, Ordering::Relaxed) {
                Ok(_) => return word >> 1,
                Err(now) => word = now,
            }
        }
    }

    /// As the first of the queue: waits for the holder and takes the lock. True if nobody is behind.
    fn take(&self, code: u32) -> bool {
        loop {
            let word = self.word.load(Ordering::Relaxed);
            if word & LOCKED != 0 {
                relax();
                continue;
            }
            let alone = word >> 1 == code;
            let taken = if alone { LOCKED } else { word | LOCKED };
            let order = site("queue.lock", Ordering::Acquire);
            if self.word.compare_exchange(word, taken, order, Ordering::Relaxed).is_ok() {
                return alone;
            }
        }
    }

    /// Gives the lock back; only its holder may.
    #[inline(always)]
    pub fn unlock(&self) {
        self.word.fetch_and(!LOCKED, site("queue.unlock", Ordering::Release));
    }

    /// Whether anybody holds the lock just now.
    pub fn is_locked(&self) -> bool {
        self.word.load(Ordering::Relaxed) & LOCKED != 0
    }

    /// The code of the last waiter's node, 0 none.
    #[cfg(test)]
    pub fn tail(&self) -> u32 {
        self.word.load(Ordering::Relaxed) >> 1
    }
}

impl Default for RawQueue {
    fn default() -> Self {
        Self::new()
    }
}
