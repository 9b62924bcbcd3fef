//! A chain of free frames, linked through their metadata. Whoever owns the chain owns its frames' links.

use super::Frame;

/// Frames in a row, the last one put in first. 0 ends it: frame 0 is never free memory.
pub(super) struct Chain {
    head: u32,
    tail: u32,
    len: u32,
}

impl Chain {
    pub(super) const EMPTY: Self = Self { head: 0, tail: 0, len: 0 };

    pub(super) fn len(&self) -> usize {
        self.len as usize
    }

    /// The frame put in last.
    pub(super) fn first(&self) -> Option<&'static Frame> {
        (self.len != 0).then(|| Frame::by_number(self.head))
    }

    pub(super) fn push(&mut self, frame: &Frame) {
        frame.set_next(self.head);
        self.head = frame.number();
        if self.len == 0 {
            self.tail = self.head;
        }
        self.len += 1;
    }

    pub(super) fn pop(&mut self) -> Option<&'static Frame> {
        if self.len == 0 {
            return None;
        }
        let frame = Frame::by_number(self.head);
        self.head = frame.next();
        self.len -= 1;
        Some(frame)
    }

    /// Fills `out` with numbers of frames, as far as they go; says how many. The last put in comes last, so that a magazine filled so
    /// hands it out first: what a CPU takes is what it gave back last, and no page of long ago while there are others.
    pub(super) fn pop_into(&mut self, out: &mut [u32]) -> usize {
        let count = self.len().min(out.len());
        for place in out[..count].iter_mut().rev() {
            let Some(frame) = self.pop() else { break };
            *place = frame.number();
        }
        count
    }

    /// Puts all of `other` in front, in constant time.
    pub(super) fn splice(&mut self, other: Chain) {
        if other.len == 0 {
            return;
        }
        if self.len == 0 {
            *self = other;
        } else {
            Frame::by_number(other.tail).set_next(self.head);
            self.head = other.head;
            self.len += other.len;
        }
    }

    /// All frames, leaving the chain empty.
    pub(super) fn take_all(&mut self) -> Chain {
        core::mem::replace(self, Chain::EMPTY)
    }
}
