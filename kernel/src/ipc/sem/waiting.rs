//! Who waits for semaphores of a set, and who goes on after a change.
//!
//! Whoever waits stands in the set's line, in the order of arrival; with a single operation also in a line of that semaphore, one for those who wait for more and
//! one for those who wait for zero. After a change (`settle`) the lines of the semaphores that changed are looked through; only where somebody waits with several
//! operations, which any change may allow, all who wait are. What can be done is done in the waiter's place, under the lock, and he is told.
//!
//! A program chooses how many wait. So after a number of looks the lock is given back, others may run, and the look goes on behind the last that was
//! looked at: who came since has looked himself.
//!
//! Lock order: the set's lock alone.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering::*};

use arrayvec::ArrayVec;
use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use sync::heap::try_box_slice;
use sync::{TryVec, slab_arc};

use super::undo::Undo;
use super::values::{Operation, Outcome};
use super::{Guard, Set};
use crate::errno::{EAGAIN, EIDRM, EINTR, Errno, Result};
use crate::fs::caller;
use crate::sched::{self, Deadline, Sleep, WaitQueue, Woken};

/// Operations that are looked at before the lock is given back.
const TURN: usize = 2048;
/// Waiters that are told at once.
const BATCH: usize = 16;

/// A result that is not there yet, and that of who has done it.
const PENDING: i32 = 0;
const DONE: i32 = -1;

/// Somebody who waits.
struct Waiter {
    number: AtomicU64,
    operations: Vec<Operation>,
    undo: Option<Arc<Undo>>,
    pid: u32,
    /// Which operation cannot be done.
    blocking: AtomicUsize,
    /// `PENDING`, `DONE`, or an error number.
    result: AtomicI32,
    queue: WaitQueue,
    in_set: RBTreeAtomicLink,
    at_one: RBTreeAtomicLink,
}

vm::slab_type!(Waiter, "semaphore-waiter", Arc);

intrusive_adapter!(InSet = Arc<Waiter>: Waiter { in_set => RBTreeAtomicLink });
intrusive_adapter!(AtOne = Arc<Waiter>: Waiter { at_one => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for InSet {
    type Key = u64;
    fn get_key(&self, waiter: &'a Waiter) -> u64 {
        waiter.number.load(Relaxed)
    }
}

impl<'a> KeyAdapter<'a> for AtOne {
    type Key = u64;
    fn get_key(&self, waiter: &'a Waiter) -> u64 {
        waiter.number.load(Relaxed)
    }
}

impl Waiter {
    fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Its only operation.
    fn single(&self) -> Option<&Operation> {
        match self.operations.as_slice() {
            [op] => Some(op),
            _ => None,
        }
    }

    /// The semaphore of the operation that cannot be done, and whether that waits for zero.
    fn waits_for(&self) -> Option<(usize, bool)> {
        let op = self.operations.get(self.blocking.load(Relaxed))?;
        Some((usize::from(op.number), op.change == 0))
    }

    /// Its result, once it is there.
    fn result(&self) -> Option<Result> {
        match self.result.load(SeqCst) {
            PENDING => None,
            DONE => Some(Ok(())),
            errno => Some(Err(Errno(errno))),
        }
    }
}

/// Who waits at one semaphore.
struct Line {
    more: RBTree<AtOne>,
    zero: RBTree<AtOne>,
    /// How many wait for it, with several operations too.
    waiting: [u32; 2],
}

/// The lines of a set.
pub struct Lines {
    all: RBTree<InSet>,
    at: Box<[Line]>,
    /// How many wait with several operations, and how many at all.
    several: usize,
    count: usize,
    last: u64,
}

impl Lines {
    pub fn try_new(semaphores: usize) -> Result<Lines> {
        let line = |_| Line { more: RBTree::new(AtOne::NEW), zero: RBTree::new(AtOne::NEW), waiting: [0; 2] };
        let at = try_box_slice(semaphores, line)?;
        Ok(Lines { all: RBTree::new(InSet::NEW), at, several: 0, count: 0, last: 0 })
    }

    /// How many wait for a semaphore to be more than it is, or to be zero.
    pub fn waiting(&self, index: usize, zero: bool) -> u32 {
        self.at.get(index).map_or(0, |line| line.waiting[usize::from(zero)])
    }

    fn count_waiting(&mut self, waiter: &Waiter, add: bool) {
        if let Some((index, zero)) = waiter.waits_for()
            && let Some(line) = self.at.get_mut(index)
        {
            let count = &mut line.waiting[usize::from(zero)];
            *count = if add { count.saturating_add(1) } else { count.saturating_sub(1) };
        }
    }

    fn one(&mut self, op: &Operation) -> Option<&mut RBTree<AtOne>> {
        let line = self.at.get_mut(usize::from(op.number))?;
        Some(if op.change == 0 { &mut line.zero } else { &mut line.more })
    }

    fn put(&mut self, waiter: Arc<Waiter>) {
        self.last = self.last.wrapping_add(1);
        waiter.number.store(self.last, Relaxed);
        self.count_waiting(&waiter, true);
        self.count = self.count.saturating_add(1);
        match waiter.single().copied() {
            Some(op) => {
                if let Some(line) = self.one(&op) {
                    line.back_mut().insert_after(waiter.clone());
                }
            }
            None => self.several = self.several.saturating_add(1),
        }
        self.all.back_mut().insert_after(waiter);
    }

    /// Takes it out, if it is in.
    fn remove(&mut self, waiter: &Waiter) -> Option<Arc<Waiter>> {
        let taken = self.all.find_mut(&waiter.number()).remove()?;
        self.count_waiting(waiter, false);
        self.count = self.count.saturating_sub(1);
        match waiter.single() {
            Some(op) => {
                if let Some(line) = self.one(op) {
                    let _ = line.find_mut(&waiter.number()).remove();
                }
            }
            None => self.several = self.several.saturating_sub(1),
        }
        Some(taken)
    }

    /// The next after number `after` of all.
    fn next(&self, after: u64) -> Option<Arc<Waiter>> {
        self.all.lower_bound(Bound::Excluded(&after)).clone_pointer()
    }

    /// The next after number `after` of those who wait at a semaphore, for zero or for more.
    fn next_at(&self, index: usize, zero: bool, after: u64) -> Option<Arc<Waiter>> {
        let line = self.at.get(index)?;
        let line = if zero { &line.zero } else { &line.more };
        line.lower_bound(Bound::Excluded(&after)).clone_pointer()
    }
}

/// Which semaphores changed.
#[derive(Clone, Copy)]
pub enum Touched<'a> {
    All,
    One(usize),
    By(&'a [Operation]),
}

impl Touched<'_> {
    fn each(self, count: usize) -> impl Iterator<Item = usize> {
        let (len, operations): (usize, &[Operation]) = match self {
            Touched::All => (count, &[]),
            Touched::One(_) => (1, &[]),
            Touched::By(operations) => (operations.len(), operations),
        };
        (0..len).map(move |n| match self {
            Touched::One(index) => index,
            _ => operations.get(n).map_or(n, |op| usize::from(op.number)),
        })
    }
}

/// A look at those who wait, after a change.
struct Look<'a> {
    set: &'a Set,
    state: Option<Guard<'a>>,
    /// Who came later has looked himself.
    last: u64,
    looked: usize,
    told: ArrayVec<Arc<Waiter>, BATCH>,
}

impl<'a> Look<'a> {
    /// The state, locked; None: the set was removed meanwhile.
    fn state(&mut self) -> Option<&mut Guard<'a>> {
        if self.looked >= TURN || self.told.is_full() {
            self.rest();
        }
        self.state.as_mut()
    }

    /// Gives the lock back, tells those who go on, and takes it again.
    fn rest(&mut self) {
        self.tell();
        self.looked = 0;
        // It goes on whatever comes: who waits would not be told by anybody else.
        let _ = sched::give_way();
        self.state = self.set.lock().ok();
    }

    fn tell(&mut self) {
        self.state = None;
        for waiter in self.told.drain(..) {
            waiter.queue.wake_one();
        }
    }

    /// Does what `waiter` waits for, if that can be done. True: it is done.
    fn try_for(&mut self, waiter: &Waiter) -> bool {
        self.looked = self.looked.saturating_add(waiter.operations.len());
        let Some(state) = &mut self.state else { return false };
        let result = match state.values.operate(&waiter.operations, waiter.undo.as_deref(), waiter.pid) {
            Outcome::Waits(blocking) => {
                if blocking != waiter.blocking.load(Relaxed) {
                    state.lines.count_waiting(waiter, false);
                    waiter.blocking.store(blocking, Relaxed);
                    state.lines.count_waiting(waiter, true);
                }
                return false;
            }
            Outcome::Done => DONE,
            Outcome::Failed(errno) => errno.0,
        };
        if let Some(taken) = state.lines.remove(waiter) {
            taken.result.store(result, SeqCst);
            self.told.push(taken);
        }
        result == DONE
    }

    /// Those who wait for zero alone.
    fn zero(&mut self, touched: Touched<'_>) {
        for index in touched.each(self.set.count) {
            self.looked = self.looked.saturating_add(1);
            self.zero_line(index);
        }
    }

    /// Looks at the next after number `after` who waits at a semaphore with one operation. Whether it goes on; None: there is none, or nothing for it.
    fn step(&mut self, index: usize, zero: bool, after: &mut u64) -> Option<bool> {
        let last = self.last;
        let state = self.state()?;
        if (state.values.value(index) == 0) != zero {
            return None;
        }
        let waiter = state.lines.next_at(index, zero, *after).filter(|w| w.number() <= last)?;
        *after = waiter.number();
        Some(self.try_for(&waiter))
    }

    fn zero_line(&mut self, index: usize) {
        let mut after = 0;
        while self.step(index, true, &mut after).is_some() {}
    }

    fn line_of_more(&mut self, index: usize) {
        let mut after = 0;
        while let Some(done) = self.step(index, false, &mut after) {
            if done {
                self.zero_line(index);
            }
        }
    }

    /// The first of all who can go on.
    fn first(&mut self) -> Option<Arc<Waiter>> {
        let mut after = 0;
        loop {
            let last = self.last;
            let waiter = self.state()?.lines.next(after).filter(|w| w.number() <= last)?;
            after = waiter.number();
            if self.try_for(&waiter) {
                return Some(waiter);
            }
        }
    }

    fn run(&mut self, touched: Touched<'_>) {
        let Some(state) = self.state() else { return };
        if state.lines.count == 0 {
            return;
        }
        let several = state.lines.several > 0;
        self.zero(touched);
        if several {
            while let Some(waiter) = self.first() {
                self.zero(Touched::By(&waiter.operations));
            }
            return;
        }
        for index in touched.each(self.set.count) {
            self.looked = self.looked.saturating_add(1);
            self.line_of_more(index);
        }
    }
}

/// The semaphores `touched` have changed: lets those go on who can. Gives the lock back.
pub fn settle<'a>(set: &'a Set, state: Guard<'a>, touched: Touched<'_>) {
    let last = state.lines.last;
    let mut look = Look { set, state: Some(state), last, looked: 0, told: ArrayVec::new() };
    look.run(touched);
    look.tell();
}

/// The set was removed: all who wait go on.
pub fn end(set: &Set) {
    loop {
        let mut told: ArrayVec<Arc<Waiter>, BATCH> = ArrayVec::new();
        let mut state = set.state.lock();
        while !told.is_full() {
            let Some(waiter) = state.lines.next(0) else { break };
            match state.lines.remove(&waiter) {
                Some(taken) => {
                    taken.result.store(EIDRM.0, SeqCst);
                    told.push(taken);
                }
                None => break,
            }
        }
        drop(state);
        if told.is_empty() {
            return;
        }
        told.drain(..).for_each(|waiter| waiter.queue.wake_one());
        let _ = sched::give_way();
    }
}

/// Does all of `operations`, when that is possible.
///
/// # Errors
/// EAGAIN: an operation may not wait, or the deadline. ERANGE. EINTR. EIDRM. ENOMEM.
pub fn operate(
    set: &Arc<Set>,
    operations: &[Operation],
    undo: Option<Arc<Undo>>,
    deadline: Option<Deadline>,
) -> Result {
    let pid = caller::pid();
    let mut state = set.lock()?;
    match state.values.operate(operations, undo.as_deref(), pid) {
        Outcome::Done => {
            settle(set, state, Touched::By(operations));
            return Ok(());
        }
        Outcome::Failed(errno) => return Err(errno),
        Outcome::Waits(_) => drop(state),
    }
    let mut own = Vec::new();
    own.try_extend_from_slice(operations)?;
    let waiter = slab_arc(Waiter {
        number: AtomicU64::new(0),
        operations: own,
        undo,
        pid,
        blocking: AtomicUsize::new(0),
        result: AtomicI32::new(PENDING),
        queue: WaitQueue::new(),
        in_set: RBTreeAtomicLink::new(),
        at_one: RBTreeAtomicLink::new(),
    })?;
    let mut state = set.lock()?;
    match state.values.operate(operations, waiter.undo.as_deref(), pid) {
        Outcome::Done => {
            settle(set, state, Touched::By(operations));
            return Ok(());
        }
        Outcome::Failed(errno) => return Err(errno),
        Outcome::Waits(blocking) => waiter.blocking.store(blocking, Relaxed),
    }
    state.lines.put(waiter.clone());
    drop(state);
    let woken = match waiter.queue.wait_until(Sleep::Interruptible, deadline, || waiter.result()) {
        Ok(result) => return result,
        Err(woken) => woken,
    };
    let mut state = set.state.lock();
    let taken = state.lines.remove(&waiter);
    drop(state);
    mem::drop(taken);
    match (waiter.result(), woken) {
        (Some(result), _) => result,
        (None, Woken::Timeout) => Err(EAGAIN),
        (None, Woken::Signal) => Err(EINTR),
    }
}
