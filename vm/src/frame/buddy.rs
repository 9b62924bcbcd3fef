//! The buddy of a NUMA node: free blocks of 1 to 1,024 pages that join with their neighbours when both are free.
//!
//! Reached in batches only (a magazine and the colour lists are empty, or a large block is wanted), so one lock per NUMA node.
//! A free block is marked at its first frame (`Frame::block`), under the lock.

use super::chain::Chain;
use super::{Frame, FrameKind, MAX_NUMA_NODES, MAX_ORDER};
use crate::order::FrameList;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::{SpinLock, lock_class};

lock_class! { static BUDDY: LockClass = ("frame buddy", FrameList); }

/// Heads of the lists of free blocks, by order; 0: empty.
struct Lists {
    heads: [u32; MAX_ORDER + 1],
    /// Their lengths.
    counts: [u32; MAX_ORDER + 1],
}

#[repr(align(64))]
pub(super) struct Buddy {
    lists: SpinLock<Lists, FrameList>,
    /// Free pages, for readers of sums; written under the lock.
    free: AtomicU64,
}

static NUMA_NODES: [Buddy; MAX_NUMA_NODES] = [const {
    Buddy {
        lists: SpinLock::new(Lists { heads: [0; MAX_ORDER + 1], counts: [0; MAX_ORDER + 1] }, &BUDDY),
        free: AtomicU64::new(0),
    }
}; MAX_NUMA_NODES];

pub(super) fn of_numa_node(n: usize) -> &'static Buddy {
    &NUMA_NODES[n % MAX_NUMA_NODES]
}

/// Gives each page of `pages` to the buddy of its NUMA node, where large blocks form.
pub(super) fn give_pages(mut pages: Chain) {
    while let Some(frame) = pages.pop() {
        of_numa_node(frame.numa_node()).give(frame, 0);
    }
}

impl Buddy {
    pub(super) fn free(&self) -> u64 {
        self.free.load(Ordering::Relaxed)
    }

    /// Free blocks, by order.
    pub(super) fn blocks(&self) -> [u32; MAX_ORDER + 1] {
        self.lists.lock().counts
    }

    /// Takes in the pages `first..last`, all of this NUMA node, as the largest aligned blocks that fit.
    pub(super) fn add(&self, first: u32, last: u32) {
        let mut lists = self.lists.lock();
        let mut number = first;
        while number < last {
            let mut order = (number.trailing_zeros() as usize).min(MAX_ORDER);
            while u64::from(number) + (1 << order) > u64::from(last) {
                order -= 1;
            }
            for page in number..number + (1 << order) {
                Frame::by_number(page).set_kind(FrameKind::Free);
            }
            lists.insert(number, order);
            self.count(1 << order);
            number += 1 << order;
        }
    }

    /// A block of `1 << order` pages. The frames stay marked free.
    pub(super) fn take(&self, order: usize) -> Option<&'static Frame> {
        let mut block = [0];
        (self.take_blocks(order, &mut block) != 0).then(|| Frame::by_number(block[0]))
    }

    /// Fills `out` with the first pages of blocks of `1 << order`; says how many. The frames stay marked free.
    pub(super) fn take_blocks(&self, order: usize, out: &mut [u32]) -> usize {
        if self.free() >> order == 0 {
            return 0;
        }
        let mut lists = self.lists.lock();
        let blocks = core::iter::from_fn(|| lists.take(order));
        let taken = out.iter_mut().zip(blocks).map(|(place, block)| *place = block).count();
        self.count(-((taken as i64) << order));
        taken
    }

    /// Fills `out` with single pages, as far as they go, from as few blocks as possible. The frames stay marked free.
    pub(super) fn take_pages(&self, out: &mut [u32]) -> usize {
        if self.free() == 0 {
            return 0;
        }
        let mut lists = self.lists.lock();
        let mut taken = 0;
        while taken < out.len() {
            let fit = (out.len() - taken).ilog2() as usize;
            let Some((number, order)) =
                (0..=fit.min(MAX_ORDER)).rev().find_map(|o| lists.take(o).map(|n| (n, o)))
            else {
                break;
            };
            // Highest first, so that the magazine hands them out in ascending order.
            for page in (number..number + (1 << order)).rev() {
                out[taken] = page;
                taken += 1;
            }
        }
        self.count(-(taken as i64));
        taken
    }

    /// Takes back a block whose frames are marked free, and joins it with its free neighbours.
    pub(super) fn give(&self, frame: &Frame, order: usize) {
        let mut lists = self.lists.lock();
        self.count(1 << order);
        let mut number = frame.number();
        let mut order = order;
        while order < MAX_ORDER {
            let other = number ^ (1 << order);
            let neighbour = Frame::by_number(other);
            // A mark is set only on free blocks, but on those of other NUMA nodes too.
            if neighbour.block() != order as u8 + 1 || neighbour.numa_node() != frame.numa_node() {
                break;
            }
            lists.remove(other, order);
            number &= !(1 << order);
            order += 1;
        }
        lists.insert(number, order);
    }

    fn count(&self, pages: i64) {
        self.free.store(self.free.load(Ordering::Relaxed).wrapping_add_signed(pages), Ordering::Relaxed);
    }
}

impl Lists {
    fn insert(&mut self, number: u32, order: usize) {
        let frame = Frame::by_number(number);
        let head = self.heads[order];
        frame.set_block(order as u8 + 1);
        frame.set_prev(0);
        frame.set_next(head);
        if head != 0 {
            Frame::by_number(head).set_prev(number);
        }
        self.heads[order] = number;
        self.counts[order] += 1;
    }

    fn remove(&mut self, number: u32, order: usize) {
        let frame = Frame::by_number(number);
        frame.set_block(0);
        self.counts[order] -= 1;
        let (prev, next) = (frame.prev(), frame.next());
        if prev == 0 {
            self.heads[order] = next;
        } else {
            Frame::by_number(prev).set_next(next);
        }
        if next != 0 {
            Frame::by_number(next).set_prev(prev);
        }
    }

    /// A block of exactly `order`, split from a larger one if need be.
    fn take(&mut self, order: usize) -> Option<u32> {
        let from = (order..=MAX_ORDER).find(|o| self.heads[*o] != 0)?;
        let number = self.heads[from];
        self.remove(number, from);
        for o in (order..from).rev() {
            self.insert(number + (1 << o), o);
        }
        Some(number)
    }
}
