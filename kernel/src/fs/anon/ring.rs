//! A ring of pages that holds the bytes of a pipe. Pages come with the first byte and go with the last, so an idle pipe holds
//! at most one. No locks: the pipe's own guards it.
//!
//! One page that has been read is kept for the bytes that come next, in the place where these go: behind the page of the last byte, and in an empty ring at its
//! beginning. So who sends and who receives a few bytes at a time write no place of a page.
//!
//! Packets have pages of their own (`packets`).
#![forbid(unsafe_code)]

mod packets;

use alloc::boxed::Box;
use alloc::vec::Vec;

use sync::TryVec;
use sync::heap::try_box_slice;

use self::packets::Mark;
use crate::errno::{EBUSY, Result};
use crate::fs::file::buffer::{Input, Output};

pub const PAGE: usize = 4096;

struct Page {
    bytes: Option<Box<[u8; PAGE]>>,
    /// Where its bytes end, if that is early.
    mark: Mark,
    /// In the first page's place: of the ring's `len`, what stays free behind marks. (The ring itself has no room: it shares a line with its pipe's lock.)
    unused: u32,
}

const _: () = assert!(size_of::<Page>() == 16, "a page's mark lies beside the page");

pub struct Ring {
    pages: Box<[Page]>,
    /// Position of the first byte, below the capacity, and number of bytes. That is 2 GiB at most. The first bit of the position says whether pages may have marks: it is
    /// set with the first packet and stays.
    head: u32,
    len: u32,
}

const MARKED: u32 = 1 << 31;

impl Ring {
    /// A ring of `pages` pages.
    pub fn try_new(pages: usize) -> Result<Ring> {
        let page = |_| Page { bytes: None, mark: Mark::NONE, unused: 0 };
        Ok(Ring { pages: try_box_slice(pages, page)?, head: 0, len: 0 })
    }

    #[expect(clippy::arithmetic_side_effects, reason = "places in memory")]
    pub fn capacity(&self) -> usize {
        self.pages.len() * PAGE
    }

    /// Bytes from the first to behind the last, with what stays free where a page ends early.
    pub fn len(&self) -> usize {
        self.len as usize
    }

    /// Of `len`: what stays free where a page ends early.
    pub fn unused(&self) -> usize {
        if self.is_marked() { self.pages.first().map_or(0, |first| first.unused as usize) } else { 0 }
    }

    fn head(&self) -> usize {
        (self.head & !MARKED) as usize
    }

    fn is_marked(&self) -> bool {
        self.head & MARKED != 0
    }

    fn set_head(&mut self, to: usize) {
        self.head = self.head & MARKED | to as u32;
    }

    /// Puts out as much as there is and fits, to the end of the first packet.
    #[expect(clippy::arithmetic_side_effects, reason = "no more is read than is there")]
    pub fn read(&mut self, out: &mut Output<'_>) -> usize {
        if self.is_marked() {
            return self.read_packet(out);
        }
        let mut done = 0;
        while self.len() > 0 && out.left() > 0 {
            let Some(bytes) = self.bytes(self.head(), self.len()) else { break };
            let taken = out.put(bytes);
            // A piece that ends in a fault stays whole.
            if taken == 0 || out.faulted() {
                break;
            }
            self.consume(taken);
            done += taken;
        }
        done
    }

    /// As `read`, but the bytes stay. No more than a page's, where pages may end early.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring, which is at most a GiB")]
    pub fn peek(&self, out: &mut Output<'_>) -> usize {
        if self.is_marked() {
            return self.piece(0).map_or(0, |piece| out.put(piece.bytes));
        }
        let mut done = 0;
        while done < self.len() && out.left() > 0 {
            let Some(bytes) = self.bytes(self.head() + done, self.len() - done) else { break };
            let taken = out.put(bytes);
            if taken == 0 {
                break;
            }
            done += taken;
        }
        done
    }

    /// Copies up to `most` bytes into another ring, as many as there is room for; packets stay packets. Out of memory it copies less.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring, which is at most a GiB")]
    pub fn copy_to(&self, other: &mut Ring, most: usize) -> usize {
        if self.is_marked() {
            return self.copy_packets_to(other, most);
        }
        let (mut done, most) = (0, most.min(self.len()));
        while done < most {
            let Some(bytes) = self.bytes(self.head() + done, most - done) else { break };
            let taken = other.write(&mut Input::kernel(bytes));
            done += taken;
            if taken < bytes.len() {
                break;
            }
        }
        done
    }

    /// Takes out the first `n` bytes, which there must be.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring; no more than there is")]
    pub fn skip(&mut self, n: usize) {
        if self.is_marked() {
            return self.skip_pieces(n);
        }
        let mut left = n.min(self.len());
        while left > 0 {
            let (_, offset) = self.place(self.head());
            let part = left.min(PAGE - offset);
            self.consume(part);
            left -= part;
        }
    }

    /// Takes in as much as there is room for. Out of memory it takes less.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring, which is at most a GiB")]
    pub fn write(&mut self, from: &mut Input<'_>) -> usize {
        let mut done = 0;
        while self.len() < self.capacity() && from.left() > 0 {
            let (index, offset) = self.place(self.head() + self.len());
            // The last page may be the first one, come round.
            let n = (PAGE - offset).min(self.capacity() - self.len());
            let Some(slot) = self.pages.get_mut(index).map(|page| &mut page.bytes) else { break };
            if slot.is_none() {
                *slot = page();
            }
            let Some(to) = slot.as_deref_mut().and_then(|p| p.get_mut(offset..offset + n)) else { break };
            let taken = from.take(to);
            if taken == 0 || from.faulted() {
                break;
            }
            self.len += taken as u32;
            done += taken;
        }
        done
    }

    /// What lies from position `at` on in one page, `most` bytes at the most.
    #[expect(clippy::arithmetic_side_effects, reason = "the place is inside its page")]
    fn bytes(&self, at: usize, most: usize) -> Option<&[u8]> {
        let (index, offset) = self.place(at);
        self.pages.get(index)?.bytes.as_deref()?.get(offset..offset + most.min(PAGE - offset))
    }

    #[expect(clippy::arithmetic_side_effects, reason = "no division by zero: max(1)")]
    fn place(&self, at: usize) -> (usize, usize) {
        (at / PAGE % self.pages.len().max(1), at % PAGE)
    }

    /// Takes out the first `n` bytes, which lie in one page.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring; n is at most what is there")]
    fn consume(&mut self, n: usize) {
        let (index, offset) = self.place(self.head());
        self.len -= n as u32;
        if self.len == 0 {
            self.set_head(0);
            return self.keep_one(index);
        }
        let (head, capacity) = (self.head() + n, self.capacity());
        self.set_head(if head < capacity { head } else { head - capacity });
        if offset + n == PAGE && self.len() + PAGE <= capacity {
            let (last, _) = self.place(self.head() + self.len() - 1);
            let page = self.pages.get_mut(index).and_then(|page| page.bytes.take());
            let next = if last + 1 < self.pages.len() { last + 1 } else { 0 };
            if let Some(slot) = self.pages.get_mut(next)
                && slot.bytes.is_none()
            {
                slot.bytes = page;
            }
        }
    }

    /// The ring is empty, and its last byte was in the page `index`: one page stays, at the beginning.
    #[expect(clippy::arithmetic_side_effects, reason = "a place in the ring")]
    fn keep_one(&mut self, index: usize) {
        if index != 0 {
            let page = self.pages.get_mut(index).and_then(|page| page.bytes.take());
            if let Some(first) = self.pages.first_mut()
                && first.bytes.is_none()
            {
                first.bytes = page;
            }
        }
        if let Some(kept) = self.pages.get_mut(index + 1)
            && kept.bytes.is_some()
        {
            kept.bytes = None;
        }
    }

    /// Changes the size. EBUSY if what is in it does not fit.
    #[expect(clippy::arithmetic_side_effects, reason = "the ring is at most a GiB")]
    pub fn resize(&mut self, pages: usize) -> Result<()> {
        if self.is_marked() {
            return self.resize_packets(pages);
        }
        if self.len() > pages * PAGE {
            return Err(EBUSY);
        }
        let mut new = Ring::try_new(pages)?;
        let mut buffer = Vec::new();
        buffer.try_resize(self.len(), 0)?;
        self.read(&mut Output::kernel(&mut buffer));
        let mut from = Input::kernel(&buffer);
        while from.left() > 0 && new.write(&mut from) > 0 {}
        *self = new;
        Ok(())
    }
}

fn page() -> Option<Box<[u8; PAGE]>> {
    let mut page = Vec::new();
    page.try_resize(PAGE, 0).ok()?;
    page.into_boxed_slice().try_into().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec;

    #[derive(Clone, Debug)]
    enum Op {
        Write(usize),
        Read(usize),
        Peek(usize),
        Resize(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let len = || prop_oneof![3 => 0usize..40, 2 => 1usize..3 * PAGE, 1 => Just(PAGE)];
        let op = prop_oneof![
            4 => len().prop_map(Op::Write),
            4 => len().prop_map(Op::Read),
            1 => len().prop_map(Op::Peek),
            1 => (1usize..5).prop_map(Op::Resize),
        ];
        prop::collection::vec(op, 1..60)
    }

    fn read(ring: &mut Ring, len: usize) -> Vec<u8> {
        let mut buffer = vec![0; len];
        let n = ring.read(&mut Output::kernel(&mut buffer));
        buffer.truncate(n);
        buffer
    }

    #[test]
    fn a_ring_is_a_queue_of_bytes_with_a_bound() {
        check(200, &ops(), |ops| {
            let mut ring = Ring::try_new(2).unwrap();
            let (mut model, mut next) = (VecDeque::new(), 0u8);
            for op in ops {
                match op {
                    Op::Write(len) => {
                        let bytes: Vec<u8> = (0..len).map(|n| next.wrapping_add(n as u8)).collect();
                        let n = ring.write(&mut Input::kernel(&bytes));
                        assert_eq!(n, len.min(ring.capacity() - model.len()));
                        model.extend(&bytes[..n]);
                        next = next.wrapping_add(n as u8);
                    }
                    Op::Read(len) => {
                        let expected: Vec<u8> = model.drain(..len.min(model.len())).collect();
                        assert_eq!(read(&mut ring, len), expected);
                    }
                    Op::Peek(len) => {
                        let mut buffer = vec![0; len];
                        let n = ring.peek(&mut Output::kernel(&mut buffer));
                        assert_eq!(n, len.min(model.len()));
                        assert!(buffer[..n].iter().eq(model.iter().take(n)));
                    }
                    Op::Resize(pages) if model.len() > pages * PAGE => {
                        assert_eq!(ring.resize(pages), Err(EBUSY));
                    }
                    Op::Resize(pages) => {
                        ring.resize(pages).unwrap();
                        assert_eq!(ring.capacity(), pages * PAGE);
                    }
                }
                assert_eq!(ring.len(), model.len());
            }
            let len = model.len();
            assert_eq!(read(&mut ring, len + 1), Vec::from(model));
        });
    }

    #[test]
    fn an_empty_ring_keeps_one_page_at_most() {
        let mut ring = Ring::try_new(4).unwrap();
        ring.write(&mut Input::kernel(&[1; 3 * PAGE]));
        assert_eq!(ring.pages.iter().filter(|page| page.bytes.is_some()).count(), 3);
        read(&mut ring, 3 * PAGE);
        assert_eq!(ring.pages.iter().filter(|page| page.bytes.is_some()).count(), 1);
    }

    #[test]
    fn without_memory_a_write_takes_nothing() {
        let mut ring = Ring::try_new(1).unwrap();
        let taken = sync::heap::hosted::fail_after(0, || ring.write(&mut Input::kernel(b"abc")));
        assert_eq!((taken, ring.len()), (0, 0));
        assert_eq!(ring.write(&mut Input::kernel(b"abc")), 3);
    }
}
