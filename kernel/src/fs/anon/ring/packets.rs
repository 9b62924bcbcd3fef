//! Packets in a ring: what one write to a pipe with O_DIRECT wrote, a page at the most, and one read takes (pipe(2)).
//!
//! A packet begins where a page does and has it to itself, as on Linux; what it does not fill stays free, and so does the rest of the page before it.
//! Such a page has a *mark*: where its bytes end, and whether they are a packet.
//!
//! ```text
//!   | bytes, end early . . . | packet . . . . . . . | packet . . | bytes that go on |
//!     head                                                              head + len
//! ```
//!
//! Invariants: what stays free counts in the ring's length, and `unused` is the sum of it. A marked page is in the ring to its end, and the head is before where its bytes end.
#![forbid(unsafe_code)]

use super::{MARKED, PAGE, Ring, page};
use crate::errno::{EBUSY, ENOMEM, Result};
use crate::fs::file::buffer::{Input, Output};

/// Where a page's bytes end, if that is early or it is a packet; else 0.
#[derive(Clone, Copy)]
pub(super) struct Mark(u16);

impl Mark {
    pub(super) const NONE: Mark = Mark(0);
    const PACKET: u16 = 0x8000;

    fn is_some(self) -> bool {
        self.0 != 0
    }

    fn is_packet(self) -> bool {
        self.0 & Mark::PACKET != 0
    }

    fn end(self) -> usize {
        if self.is_some() { usize::from(self.0 & !Mark::PACKET) } else { PAGE }
    }

    /// What stays free of its page.
    fn unused(self) -> u32 {
        PAGE.saturating_sub(self.end()) as u32
    }
}

/// What lies in one page.
pub(super) struct Piece<'a> {
    pub bytes: &'a [u8],
    is_packet: bool,
    /// Bytes to where the next piece begins.
    span: usize,
}

impl Ring {
    /// Bytes that can be read.
    #[expect(clippy::arithmetic_side_effects, reason = "what stays free is part of the length")]
    pub fn bytes_left(&self) -> usize {
        self.len() - self.unused()
    }

    /// How far from the head a packet would begin: in a page that is free. None: there is no such page.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring, which is at most 2 GiB")]
    fn place_of_packet(&self) -> Option<usize> {
        let (_, first) = self.place(self.head());
        let taken = (first + self.len()).next_multiple_of(PAGE);
        (taken + PAGE <= self.capacity()).then(|| taken - first)
    }

    /// Is there room for a packet?
    pub fn has_room_for_packet(&self) -> bool {
        self.place_of_packet().is_some()
    }

    /// Would `copy_to` copy a byte into `other`, if there were memory?
    pub fn fits_into(&self, other: &Ring) -> bool {
        self.piece(0).is_some_and(|piece| {
            if piece.is_packet { other.has_room_for_packet() } else { other.len() < other.capacity() }
        })
    }

    /// What begins a write in packets and goes into the page of bytes that are no packet is none either, as on Linux: as much as goes beyond whole pages. 0: it does not.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring")]
    pub fn write_to_last(&mut self, from: &mut Input<'_>) -> usize {
        let rest = from.left() % PAGE;
        let (index, offset) = self.place(self.head() + self.len());
        // A packet's page is in the ring to its end.
        if rest == 0 || offset == 0 || offset + rest > PAGE || self.len() + rest > self.capacity() {
            return 0;
        }
        let page = self.pages.get_mut(index).and_then(|page| page.bytes.as_deref_mut());
        let Some(to) = page.and_then(|page| page.get_mut(offset..offset + rest)) else { return 0 };
        let taken = from.take(to);
        if from.faulted() {
            return 0;
        }
        self.len += taken as u32;
        taken
    }

    /// Takes in one packet, of a page at the most. 0: there is no room, no memory, or a fault.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "places in the ring; a packet is no longer than a page"
    )]
    pub fn write_packet(&mut self, from: &mut Input<'_>) -> usize {
        let Some(distance) = self.place_of_packet() else { return 0 };
        let (index, _) = self.place(self.head() + distance);
        let Some(slot) = self.pages.get_mut(index).map(|page| &mut page.bytes) else { return 0 };
        if slot.is_none() {
            *slot = page();
        }
        let Some(to) = slot.as_deref_mut() else { return 0 };
        let taken = from.take(to);
        if taken == 0 || from.faulted() {
            return 0;
        }
        let rest = distance - self.len();
        if rest > 0 {
            let (last, _) = self.place(self.head() + self.len());
            self.mark(last, Mark((PAGE - rest) as u16));
        }
        self.mark(index, Mark(taken as u16 | Mark::PACKET));
        self.head |= MARKED;
        self.len = (distance + PAGE) as u32;
        taken
    }

    #[expect(clippy::arithmetic_side_effects, reason = "the sum of what stays free of each page")]
    fn mark(&mut self, index: usize, mark: Mark) {
        let Some(page) = self.pages.get_mut(index) else { return };
        let (before, now) = (core::mem::replace(&mut page.mark, mark).unused(), mark.unused());
        if let Some(first) = self.pages.first_mut() {
            first.unused = first.unused + now - before;
        }
    }

    /// The mark of the page in which the byte lies that is so far from the head.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring")]
    fn mark_at(&self, distance: usize) -> Mark {
        let ((first, head), (index, offset)) = (self.place(self.head()), self.place(self.head() + distance));
        // The mark of the head's page is not that of the bytes that have come round to it.
        let is_round = index == first && offset < head;
        self.pages.get(index).filter(|_| !is_round).map_or(Mark::NONE, |page| page.mark)
    }

    /// What lies in one page, from so far behind the head on.
    #[expect(
        clippy::arithmetic_side_effects,
        reason = "places in the ring; the head is before the end of a page's bytes"
    )]
    pub(super) fn piece(&self, distance: usize) -> Option<Piece<'_>> {
        let left = self.len().checked_sub(distance).filter(|left| *left > 0)?;
        let (index, offset) = self.place(self.head() + distance);
        let mark = self.mark_at(distance);
        let most = mark.end().checked_sub(offset)?.min(left);
        let bytes = self.pages.get(index)?.bytes.as_deref()?.get(offset..offset + most)?;
        let span = if mark.is_some() { PAGE - offset } else { most };
        Some(Piece { bytes, is_packet: mark.is_packet(), span })
    }

    /// Takes out the first `n` bytes, which lie in one piece; with its last one the page's mark goes.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring")]
    fn consume_piece(&mut self, n: usize) {
        let (index, offset) = self.place(self.head());
        let mark = self.mark_at(0);
        if !mark.is_some() || offset + n < mark.end() {
            return self.consume(n);
        }
        self.mark(index, Mark::NONE);
        self.consume(PAGE - offset);
    }

    /// As `read`. What of a packet does not fit is gone.
    #[expect(clippy::arithmetic_side_effects, reason = "no more is read than is there")]
    pub(super) fn read_packet(&mut self, out: &mut Output<'_>) -> usize {
        let mut done = 0;
        while out.left() > 0
            && let Some(piece) = self.piece(0)
        {
            let (is_packet, all) = (piece.is_packet, piece.bytes.len());
            let taken = out.put(piece.bytes);
            // A piece that ends in a fault stays whole.
            if taken == 0 || out.faulted() {
                break;
            }
            done += taken;
            self.consume_piece(if is_packet { all } else { taken });
            if is_packet {
                break;
            }
        }
        done
    }

    /// As `skip`.
    #[expect(clippy::arithmetic_side_effects, reason = "no more is taken out than is there")]
    pub(super) fn skip_pieces(&mut self, n: usize) {
        let mut left = n;
        while left > 0
            && let Some(piece) = self.piece(0)
        {
            let part = left.min(piece.bytes.len());
            self.consume_piece(part);
            left -= part;
        }
    }

    /// As `copy_to`. A packet that is cut is one there, and the rest here.
    #[expect(clippy::arithmetic_side_effects, reason = "no more is copied than is there")]
    pub(super) fn copy_packets_to(&self, other: &mut Ring, most: usize) -> usize {
        let (mut done, mut at) = (0, 0);
        while done < most
            && let Some(piece) = self.piece(at)
        {
            let part = piece.bytes.get(..most - done).unwrap_or(piece.bytes);
            let from = &mut Input::kernel(part);
            let taken = if piece.is_packet { other.write_packet(from) } else { other.write(from) };
            done += taken;
            if taken < piece.bytes.len() {
                break;
            }
            at += piece.span;
        }
        done
    }

    /// As `resize`.
    ///
    /// # Errors
    /// EBUSY; ENOMEM.
    #[expect(clippy::arithmetic_side_effects, reason = "places in the ring, which is at most 2 GiB")]
    pub(super) fn resize_packets(&mut self, pages: usize) -> Result {
        let (_, first) = self.place(self.head());
        if (first + self.len()).div_ceil(PAGE) > pages {
            return Err(EBUSY);
        }
        let mut new = Ring::try_new(pages)?;
        new.head = MARKED;
        let all = self.bytes_left();
        if self.copy_packets_to(&mut new, all) < all {
            return Err(ENOMEM);
        }
        *self = new;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec;
    use std::vec::Vec;

    #[derive(Clone, Debug)]
    enum Op {
        Packet(usize),
        Write(usize),
        Read(usize),
        Splice(usize),
        Resize(usize),
    }

    fn ops() -> impl Strategy<Value = Vec<Op>> {
        let len = || prop_oneof![3 => 1usize..40, 2 => 1usize..2 * PAGE, 1 => Just(PAGE)];
        let op = prop_oneof![
            4 => len().prop_map(Op::Packet),
            2 => len().prop_map(Op::Write),
            5 => len().prop_map(Op::Read),
            2 => len().prop_map(Op::Splice),
            1 => (1usize..7).prop_map(Op::Resize),
        ];
        prop::collection::vec(op, 1..80)
    }

    /// What the ring holds: bytes, and whether they are a packet. Bytes that follow each other are one entry.
    type Model = VecDeque<(Vec<u8>, bool)>;

    fn add(model: &mut Model, bytes: Vec<u8>) {
        match model.back_mut() {
            Some((last, false)) => last.extend(bytes),
            _ => model.push_back((bytes, false)),
        }
    }

    /// What a read gets; with `drops` the rest of a packet is gone.
    fn taken(model: &mut Model, len: usize, drops: bool) -> Vec<u8> {
        let mut got = Vec::new();
        while got.len() < len
            && let Some((bytes, is_packet)) = model.front_mut()
        {
            let n = bytes.len().min(len - got.len());
            let (packet, rest) = (*is_packet, bytes.split_off(n));
            got.append(bytes);
            *bytes = rest;
            if bytes.is_empty() || packet && drops {
                model.pop_front();
            }
            if packet && drops {
                break;
            }
        }
        got
    }

    #[test]
    fn packets_are_read_one_at_a_time_and_in_their_order_with_bytes() {
        check(300, &ops(), |ops| {
            let mut ring = Ring::try_new(4).unwrap();
            let (mut model, mut next) = (Model::new(), 0u8);
            for op in ops {
                next = next.wrapping_add(1);
                let left: usize = model.iter().map(|(bytes, _)| bytes.len()).sum();
                match op {
                    Op::Packet(len) => {
                        let bytes = vec![next; len];
                        let room = ring.has_room_for_packet();
                        let n = ring.write_packet(&mut Input::kernel(&bytes));
                        assert_eq!(n, if room { len.min(PAGE) } else { 0 });
                        if n > 0 {
                            model.push_back((vec![next; n], true));
                        }
                    }
                    Op::Write(len) => {
                        let bytes = vec![next; len];
                        let room = ring.capacity() - ring.len();
                        let n = ring.write(&mut Input::kernel(&bytes));
                        assert_eq!(n, len.min(room));
                        if n > 0 {
                            add(&mut model, vec![next; n]);
                        }
                    }
                    Op::Read(len) => {
                        let mut buffer = vec![0; len];
                        let n = ring.read(&mut Output::kernel(&mut buffer));
                        buffer.truncate(n);
                        assert_eq!(buffer, taken(&mut model, len, true));
                    }
                    Op::Splice(len) => {
                        let mut buffer = vec![0; len];
                        let n = ring.peek(&mut Output::kernel(&mut buffer));
                        ring.skip(n);
                        buffer.truncate(n);
                        assert!(n > 0 || left == 0);
                        assert_eq!(buffer, taken(&mut model, n, false));
                    }
                    Op::Resize(pages) => {
                        let before = ring.bytes_left();
                        let resized = ring.resize(pages);
                        assert!(resized.is_ok() || before > 0);
                    }
                }
                let left: usize = model.iter().map(|(bytes, _)| bytes.len()).sum();
                assert_eq!(ring.bytes_left(), left);
                assert!(ring.len() <= ring.capacity());
            }
        });
    }

    #[test]
    fn a_ring_has_room_for_as_many_packets_as_pages() {
        let mut ring = Ring::try_new(3).unwrap();
        for n in 1..=3 {
            assert_eq!(ring.write_packet(&mut Input::kernel(&vec![1; n])), n);
        }
        assert_eq!(ring.write_packet(&mut Input::kernel(b"x")), 0);
        assert_eq!(ring.resize(2), Err(EBUSY));
        ring.resize(4).unwrap();
        assert_eq!(ring.write_packet(&mut Input::kernel(b"x")), 1);
        assert_eq!(ring.bytes_left(), 7);
    }

    #[test]
    fn packets_go_to_another_ring_as_packets() {
        let (mut ring, mut other) = (Ring::try_new(4).unwrap(), Ring::try_new(4).unwrap());
        ring.write(&mut Input::kernel(b"ab"));
        ring.write_packet(&mut Input::kernel(b"cdef"));
        ring.write_packet(&mut Input::kernel(b"g"));
        assert_eq!(ring.copy_to(&mut other, 4), 4);
        ring.skip(4);
        let read = |ring: &mut Ring| {
            let mut buffer = vec![0; 10];
            let n = ring.read(&mut Output::kernel(&mut buffer));
            buffer.truncate(n);
            buffer
        };
        assert_eq!(
            (read(&mut other), read(&mut ring), read(&mut ring)),
            (b"abcd".to_vec(), b"ef".to_vec(), b"g".to_vec())
        );
    }

    #[test]
    fn what_goes_beyond_whole_pages_follows_bytes_in_their_page() {
        let mut ring = Ring::try_new(3).unwrap();
        let mut bytes = vec![7; PAGE + 3];
        assert_eq!(ring.write_to_last(&mut Input::kernel(&bytes)), 0);
        ring.write(&mut Input::kernel(b"ab"));
        let from = &mut Input::kernel(&bytes);
        assert_eq!((ring.write_to_last(from), ring.write_packet(from), from.left()), (3, PAGE, 0));
        assert_eq!(ring.write_to_last(&mut Input::kernel(b"c")), 0);
        assert_eq!(ring.read(&mut Output::kernel(&mut bytes)), PAGE + 3);
        assert_eq!((&bytes[..6], ring.bytes_left()), (&b"ab\x07\x07\x07\x07"[..], 0));
    }

    #[test]
    fn without_memory_no_packet_comes() {
        let mut ring = Ring::try_new(1).unwrap();
        let taken = sync::heap::hosted::fail_after(0, || ring.write_packet(&mut Input::kernel(b"abc")));
        assert_eq!((taken, ring.len()), (0, 0));
        assert_eq!(ring.write_packet(&mut Input::kernel(b"abc")), 3);
    }
}
