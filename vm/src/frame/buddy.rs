//! The buddy of a NUMA node: free blocks of 1 to 1,024 pages that join with their neighbours when both are free.
//!
//! Reached in batches only (a magazine and the colour lists are empty, or a large block is wanted), so one lock per NUMA node.
//! A free block is marked at its first frame (`Frame::block`), under the lock.
//!
//! Blocks from [`HOST_ORDER`] on lie on one of three lists, so that a host can be told of them ([`super::idle`]):
//!
//! ```text
//!   formed --> fresh -- a tick --> aged -- take_aged, the host is told, give_told --> told
//! ```
//!
//! Joined with a neighbour a block is fresh again, unless the host was told of both; split, its parts are what it was. Allocations take what the host was
//! told of last: it has no memory behind it.

use super::chain::Chain;
use super::{Frame, FrameKind, MAX_NUMA_NODES, MAX_ORDER, idle};
use crate::order::FrameList;
use core::sync::atomic::{AtomicU64, Ordering};
use sync::{SpinLock, lock_class};

lock_class! { static BUDDY: LockClass = ("frame buddy", FrameList); }

/// Blocks of this order and above are told of to a host: 2 MiB, what hosts map as one.
pub(super) const HOST_ORDER: usize = 9;
const HOST_ORDERS: usize = MAX_ORDER + 1 - HOST_ORDER;

/// Heads of the lists of free blocks, by order; 0: empty.
struct Lists {
    heads: [u32; MAX_ORDER + 1],
    /// From `HOST_ORDER` on: those that lay there at the last tick.
    aged: [u32; HOST_ORDERS],
    /// The same: those that the host was told of.
    told: [u32; HOST_ORDERS],
    /// How many blocks there are, of whichever list.
    counts: [u32; MAX_ORDER + 1],
}

impl Lists {
    const EMPTY: Self = Self {
        heads: [0; MAX_ORDER + 1],
        aged: [0; HOST_ORDERS],
        told: [0; HOST_ORDERS],
        counts: [0; MAX_ORDER + 1],
    };
}

#[repr(align(64))]
pub(super) struct Buddy {
    lists: SpinLock<Lists, FrameList>,
    /// Free pages, for readers of sums; written under the lock.
    free: AtomicU64,
}

static NUMA_NODES: [Buddy; MAX_NUMA_NODES] =
    [const { Buddy { lists: SpinLock::new(Lists::EMPTY, &BUDDY), free: AtomicU64::new(0) } }; MAX_NUMA_NODES];

pub(super) fn of_numa_node(n: usize) -> &'static Buddy {
    &NUMA_NODES[n % MAX_NUMA_NODES]
}

/// Gives each page of `pages` to the buddy of its NUMA node, where large blocks form.
pub(super) fn give_pages(mut pages: Chain) {
    while let Some(frame) = pages.pop() {
        of_numa_node(frame.numa_node()).give(frame, 0);
    }
}

/// Gives single frames to the buddies of their NUMA nodes: those of a row that have one node at once.
pub(super) fn give_frames(frames: &[u32]) {
    let node = |number: &u32| Frame::by_number(*number).numa_node();
    for part in frames.chunk_by(|a, b| node(a) == node(b)) {
        if let Some(first) = part.first() {
            of_numa_node(node(first)).give_all(part);
        }
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
            lists.insert(number, order, false);
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
        let formed = self.join(&mut self.lists.lock(), frame, order, false);
        if formed >= HOST_ORDER {
            idle::freed();
        }
    }

    /// As [`Self::give`], of single pages, all of this NUMA node.
    pub(super) fn give_all(&self, pages: &[u32]) {
        let formed = {
            let mut lists = self.lists.lock();
            let join = |number: &u32| self.join(&mut lists, Frame::by_number(*number), 0, false);
            pages.iter().map(join).max()
        };
        if formed >= Some(HOST_ORDER) {
            idle::freed();
        }
    }

    /// As [`Self::give`], of a block from [`Self::take_aged`] that the host was told of.
    pub(super) fn give_told(&self, frame: &Frame, order: usize) {
        self.join(&mut self.lists.lock(), frame, order, true);
    }

    /// A tick: where no block is aged, the fresh ones are from now on. Says whether any is aged.
    pub(super) fn age(&self) -> bool {
        let mut lists = self.lists.lock();
        let Lists { heads, aged, .. } = &mut *lists;
        for (fresh, aged) in heads[HOST_ORDER..].iter_mut().zip(aged.iter_mut()) {
            if *aged == 0 {
                *aged = core::mem::take(fresh);
            }
        }
        aged.iter().any(|head| *head != 0)
    }

    /// Are there blocks of which a host can be told, now or after a tick?
    pub(super) fn has_untold(&self) -> bool {
        let lists = self.lists.lock();
        lists.heads[HOST_ORDER..].iter().chain(&lists.aged).any(|head| *head != 0)
    }

    /// An aged block of at most `most` pages, the largest there is: its first page and its order. Its frames stay marked free.
    pub(super) fn take_aged(&self, most: u64) -> Option<(u32, usize)> {
        let mut lists = self.lists.lock();
        let fits = |order: &usize| 1 << order <= most;
        let order = (HOST_ORDER..=MAX_ORDER).rev().filter(fits).find(|o| lists.aged[o - HOST_ORDER] != 0)?;
        let number = lists.aged[order - HOST_ORDER];
        lists.remove(number, order);
        self.count(-(1 << order));
        Some((number, order))
    }

    /// Puts a block in, joined with its free neighbours; says of which order the joined one is.
    fn join(&self, lists: &mut Lists, frame: &Frame, order: usize, is_told: bool) -> usize {
        self.count(1 << order);
        let mut number = frame.number();
        let (mut order, mut is_told) = (order, is_told);
        while order < MAX_ORDER {
            let other = number ^ (1 << order);
            let neighbour = Frame::by_number(other);
            // A mark is set only on free blocks, but on those of other NUMA nodes too.
            if neighbour.block() != order as u8 + 1 || neighbour.numa_node() != frame.numa_node() {
                break;
            }
            is_told &= neighbour.is_told();
            lists.remove(other, order);
            number &= !(1 << order);
            order += 1;
        }
        lists.insert(number, order, is_told);
        order
    }

    fn count(&self, pages: i64) {
        self.free.store(self.free.load(Ordering::Relaxed).wrapping_add_signed(pages), Ordering::Relaxed);
    }
}

impl Lists {
    fn insert(&mut self, number: u32, order: usize, is_told: bool) {
        let frame = Frame::by_number(number);
        let list = if is_told && order >= HOST_ORDER {
            &mut self.told[order - HOST_ORDER]
        } else {
            &mut self.heads[order]
        };
        let head = core::mem::replace(list, number);
        frame.set_block(order as u8 + 1, is_told);
        frame.set_prev(0);
        frame.set_next(head);
        if head != 0 {
            Frame::by_number(head).set_prev(number);
        }
        self.counts[order] += 1;
    }

    /// The list of `order` that begins with `number`.
    fn list_of(&mut self, number: u32, order: usize) -> &mut u32 {
        if let Some(n) = order.checked_sub(HOST_ORDER) {
            for list in [&mut self.aged[n], &mut self.told[n]] {
                if *list == number {
                    return list;
                }
            }
        }
        &mut self.heads[order]
    }

    fn remove(&mut self, number: u32, order: usize) {
        let frame = Frame::by_number(number);
        frame.set_block(0, false);
        self.counts[order] -= 1;
        let (prev, next) = (frame.prev(), frame.next());
        if prev == 0 {
            *self.list_of(number, order) = next;
        } else {
            Frame::by_number(prev).set_next(next);
        }
        if next != 0 {
            Frame::by_number(next).set_prev(prev);
        }
    }

    /// A block of exactly `order`, split from a larger one if need be.
    fn take(&mut self, order: usize) -> Option<u32> {
        let fresh = (order..=MAX_ORDER).map(|o| (o, self.heads[o])).find(|(_, head)| *head != 0);
        let (from, number) = fresh.or_else(|| self.aged_or_told(order))?;
        let is_told = Frame::by_number(number).is_told();
        self.remove(number, from);
        for o in (order..from).rev() {
            self.insert(number + (1 << o), o, is_told);
        }
        Some(number)
    }

    /// The first of a list of blocks that are not fresh, of `order` or above.
    fn aged_or_told(&self, order: usize) -> Option<(usize, u32)> {
        let orders = || order.max(HOST_ORDER)..=MAX_ORDER;
        let aged = orders().map(|o| (o, self.aged[o - HOST_ORDER]));
        let told = orders().map(|o| (o, self.told[o - HOST_ORDER]));
        aged.chain(told).find(|(_, head)| *head != 0)
    }
}
