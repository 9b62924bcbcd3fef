//! The calls that wait for who listens, as many as there are threads. A call's number says where it lies, and those of which nobody was told are a list in the order
//! in which they came: nothing here goes through all of them.
//!
//! Locks: none; the listener's is held.
#![forbid(unsafe_code)]

use super::{Answer, Gift};
use crate::errno::{Errno, Result};
use crate::process::Pid;
use crate::process::seccomp::Call;
use crate::sched::WaitQueue;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::{TryVec, try_box};

/// Places that are made at a time.
const PART: u32 = 16;
/// Bits of a call's number that say its place: there are fewer numbers of threads.
const PLACE_BITS: u32 = 24;
const NOWHERE: u32 = u32::MAX;

/// Where a call stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    New,
    Sent,
    Answered(Answer),
}

/// A call that waits.
pub struct Waiting {
    pub id: u64,
    pub tid: Pid,
    pub call: Call,
    phase: Phase,
    pub gift: Option<Gift>,
    /// Somebody gives it something, and it has not taken that yet.
    pub is_given: bool,
    pub thread: Arc<WaitQueue>,
}

impl Waiting {
    pub fn phase(&self) -> Phase {
        self.phase
    }
}

struct Place {
    waiting: Option<Waiting>,
    /// Neighbours on the list of new ones; of an empty place the next empty one.
    before: u32,
    after: u32,
}

pub struct AllWaiting {
    #[expect(
        clippy::vec_box,
        reason = "when there are more of them, under the listener's lock, the places do not move"
    )]
    parts: Vec<Box<[Place; PART as usize]>>,
    empty: u32,
    /// The ends of the list of new ones.
    first: u32,
    last: u32,
    /// How many of them somebody was told of, and nobody answered.
    sent: usize,
    next: u64,
}

impl AllWaiting {
    pub const fn new() -> Self {
        Self { parts: Vec::new(), empty: NOWHERE, first: NOWHERE, last: NOWHERE, sent: 0, next: 1 }
    }

    pub fn has_new(&self) -> bool {
        self.first != NOWHERE
    }

    pub fn has_sent(&self) -> bool {
        self.sent > 0
    }

    /// How many places there are, empty or not.
    pub fn places(&self) -> u32 {
        u32::try_from(self.parts.len()).unwrap_or(u32::MAX).saturating_mul(PART)
    }

    /// Who waits at a place.
    pub fn at(&self, place: u32) -> Option<&Waiting> {
        let part = self.parts.get(place.checked_div(PART)? as usize)?;
        part.get(place.checked_rem(PART)? as usize)?.waiting.as_ref()
    }

    fn place(&mut self, place: u32) -> Option<&mut Place> {
        let part = self.parts.get_mut(place.checked_div(PART)? as usize)?;
        part.get_mut(place.checked_rem(PART)? as usize)
    }

    /// A new call; its number.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn add(&mut self, tid: Pid, call: Call, thread: Arc<WaitQueue>) -> Result<u64> {
        if self.empty == NOWHERE {
            self.make_places()?;
        }
        let number = self.empty;
        let id = self.next << PLACE_BITS | u64::from(number);
        let place = self.place(number).ok_or(Errno::ENOMEM)?;
        let after = place.after;
        place.waiting =
            Some(Waiting { id, tid, call, phase: Phase::New, gift: None, is_given: false, thread });
        self.empty = after;
        self.next = self.next.wrapping_add(1);
        self.link(self.last, number, NOWHERE);
        Ok(id)
    }

    #[cold]
    fn make_places(&mut self) -> Result {
        let first = self.places();
        if first >> PLACE_BITS != 0 {
            return Err(Errno::ENOMEM);
        }
        let after = |i: usize| match u32::try_from(i) {
            Ok(i) if i < PART.saturating_sub(1) => first.saturating_add(i).saturating_add(1),
            _ => NOWHERE,
        };
        let place = |i| Place { waiting: None, before: NOWHERE, after: after(i) };
        self.parts.try_push(try_box(core::array::from_fn(place))?)?;
        self.empty = first;
        Ok(())
    }

    /// # Errors
    /// ENOENT: no such call waits.
    pub fn find(&mut self, id: u64) -> Result<&mut Waiting> {
        let place = self.place(place_of(id)).ok_or(Errno::ENOENT)?;
        place.waiting.as_mut().filter(|waiting| waiting.id == id).ok_or(Errno::ENOENT)
    }

    /// The first of which nobody was told.
    pub fn first_new(&self) -> Option<&Waiting> {
        self.at(self.first)
    }

    /// What was `New` and is so again comes first.
    ///
    /// # Errors
    /// ENOENT: no such call waits.
    pub fn set_phase(&mut self, id: u64, phase: Phase) -> Result {
        let waiting = self.find(id)?;
        let old = core::mem::replace(&mut waiting.phase, phase);
        self.leave(place_of(id), old);
        match phase {
            Phase::New => self.link(NOWHERE, place_of(id), self.first),
            Phase::Sent => self.sent = self.sent.saturating_add(1),
            Phase::Answered(_) => {}
        }
        Ok(())
    }

    pub fn take_out(&mut self, id: u64) -> Option<Waiting> {
        let phase = self.find(id).ok()?.phase;
        self.leave(place_of(id), phase);
        let empty = self.empty;
        let place = self.place(place_of(id))?;
        place.after = empty;
        let waiting = place.waiting.take();
        self.empty = place_of(id);
        waiting
    }

    fn leave(&mut self, place: u32, phase: Phase) {
        match phase {
            Phase::New => self.unlink(place),
            Phase::Sent => self.sent = self.sent.saturating_sub(1),
            Phase::Answered(_) => {}
        }
    }

    fn link(&mut self, before: u32, number: u32, after: u32) {
        if let Some(place) = self.place(number) {
            (place.before, place.after) = (before, after);
        }
        self.join(before, number);
        self.join(number, after);
    }

    fn unlink(&mut self, number: u32) {
        if let Some(place) = self.place(number) {
            let (before, after) = (place.before, place.after);
            self.join(before, after);
        }
    }

    /// `after` comes after `before`, where nothing is an end of the list.
    fn join(&mut self, before: u32, after: u32) {
        match self.place(before) {
            Some(place) => place.after = after,
            None => self.first = after,
        }
        match self.place(after) {
            Some(place) => place.before = before,
            None => self.last = before,
        }
    }
}

fn place_of(id: u64) -> u32 {
    (id & ((1 << PLACE_BITS) - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    const CALL: Call = Call { number: 1, machine: 2, pc: 3, arguments: [0; 6] };

    /// The table against a list in order, with operations of a fixed sequence.
    #[test]
    fn calls_come_in_their_order_and_are_found_by_number() {
        let (mut all, mut known) = (AllWaiting::new(), VecDeque::<(u64, Phase)>::new());
        let queue = Arc::new(WaitQueue::new());
        let mut seed = 1u64;
        let mut below = |most: usize| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % most
        };
        for step in 0..20_000 {
            match below(6) {
                0 | 1 => known.push_back((all.add(step, CALL, queue.clone()).unwrap(), Phase::New)),
                2 => {
                    let first = known.iter_mut().find(|(_, phase)| *phase == Phase::New);
                    assert_eq!(all.first_new().map(|new| new.id), first.as_ref().map(|new| new.0));
                    if let Some(first) = first {
                        all.set_phase(first.0, Phase::Sent).unwrap();
                        first.1 = Phase::Sent;
                    }
                }
                kind if !known.is_empty() => {
                    let n = below(known.len());
                    match (kind, known[n]) {
                        (3, (id, _)) => {
                            known.remove(n);
                            assert_eq!(all.take_out(id).unwrap().id, id);
                            assert!(all.take_out(id).is_none() && all.find(id).is_err());
                        }
                        (4, (id, Phase::Sent)) => {
                            all.set_phase(id, Phase::New).unwrap();
                            known.remove(n);
                            known.push_front((id, Phase::New));
                        }
                        (_, (id, Phase::Sent)) => {
                            let answered = Phase::Answered(Answer::IsMade);
                            all.set_phase(id, answered).unwrap();
                            known[n].1 = answered;
                        }
                        _ => {}
                    }
                }
                _ => {}
            }
            let has = |wanted| known.iter().any(|(_, phase)| *phase == wanted);
            assert_eq!((all.has_new(), all.has_sent()), (has(Phase::New), has(Phase::Sent)));
            assert!(known.iter().all(|(id, phase)| all.find(*id).unwrap().phase() == *phase));
        }
    }

    #[test]
    fn a_place_is_used_again_and_its_old_number_means_nothing() {
        let (mut all, queue) = (AllWaiting::new(), Arc::new(WaitQueue::new()));
        let old = all.add(1, CALL, queue.clone()).unwrap();
        drop(all.take_out(old));
        let new = all.add(2, CALL, queue).unwrap();
        assert_eq!(place_of(old), place_of(new));
        assert!(all.find(old).is_err() && all.set_phase(old, Phase::Sent).is_err());
        assert_eq!(all.find(new).unwrap().tid, 2);
        assert_eq!(all.places(), PART);
    }
}
