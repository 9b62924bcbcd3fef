//! A task's part in futexes that lend priority: those that it owns and others wait for, and the one that it waits for.
//!
//! Most tasks have no part in any: the record is made when a task first waits for such a futex, or another waits for one of its.

use super::super::super::policy::Loan;
use super::super::super::runqueue::Order;
use super::super::super::task::Task;
use super::super::key::Word;
use super::state::{ByLoan, PiState};
use crate::lock_order as level;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{
    AtomicBool, AtomicPtr, AtomicU8, AtomicU32, AtomicU64, AtomicUsize,
    Ordering::{Relaxed, Release, SeqCst},
};
use intrusive_collections::{Bound, KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};
use sync::heap::try_box;
use sync::level::Held;
use sync::protocol::pi::Ended;
use sync::{AllocError, SpinLock, lock_class};
use vm::OnceBox;

lock_class! { static PI_TASK: LockClass = ("task's part in PI futexes", level::PiTask); }

/// Where a task that waits to be moved to a futex that lends priority has got to. Changes under the lock of the bucket, and then of the state, where it waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Stage {
    /// It waits for the move.
    Waits,
    /// It waits for the futex.
    Moved,
    /// The futex is its.
    Owns,
    /// It would have waited for itself: it is to wait for a move again.
    Back,
}

/// A task's part in futexes that lend priority.
pub struct PiTask {
    /// The thread's number; another after execve by a thread that is not the first.
    tid: AtomicU32,
    /// The task, which this may outlive: only looked at where it cannot end (`task`).
    task: AtomicPtr<Task>,
    /// It was woken since it last looked.
    woken: AtomicBool,
    /// Its place among those that wait for a futex. This and the next three are under the lock of the futex's state.
    pub(super) wait_link: RBTreeAtomicLink,
    /// The priority at which it waits there.
    pub(super) priority: AtomicU32,
    /// When it came there, as the number of those that came before.
    pub(super) arrival: AtomicU64,
    /// How often it has waited for one.
    waits: AtomicU64,
    stage: AtomicU8,
    /// The futex to which it is to be moved.
    target: (AtomicUsize, AtomicUsize),
    own: SpinLock<Own, level::PiTask>,
}

struct Own {
    /// It owns no more.
    ended: bool,
    /// The futexes that it owns and others wait for, by what they lend it.
    /// Empty when the record goes: its task has left them all. So it is not dropped, which would go down the tree.
    owned: ManuallyDrop<RBTree<ByLoan>>,
    /// The futex that it waits for: it is among the waiters of that state, under whose lock this changes too.
    waits_for: Option<Arc<PiState>>,
}

intrusive_adapter!(pub ByPriority = Arc<PiTask>: PiTask { wait_link => RBTreeAtomicLink });

/// Those of a higher priority first, and of one priority those that came first.
impl<'a> KeyAdapter<'a> for ByPriority {
    type Key = (u32, u64);
    fn get_key(&self, task: &'a PiTask) -> (u32, u64) {
        task.place()
    }
}

impl PiTask {
    fn new(task: &Task) -> Self {
        let owned = ManuallyDrop::new(RBTree::new(ByLoan::NEW));
        let own = Own { ended: false, owned, waits_for: None };
        Self {
            tid: AtomicU32::new(0),
            task: AtomicPtr::new(core::ptr::from_ref(task).cast_mut()),
            woken: AtomicBool::new(false),
            wait_link: RBTreeAtomicLink::new(),
            priority: AtomicU32::new(0),
            arrival: AtomicU64::new(0),
            waits: AtomicU64::new(0),
            stage: AtomicU8::new(0),
            target: (AtomicUsize::new(0), AtomicUsize::new(0)),
            own: SpinLock::new(own, &PI_TASK),
        }
    }

    pub fn tid(&self) -> u32 {
        self.tid.load(Relaxed)
    }

    /// # Safety
    /// The task has not ended, and does not while it is looked at.
    unsafe fn task(&self) -> Option<&Task> {
        // SAFETY: the caller's promise.
        unsafe { self.task.load(Relaxed).as_ref() }
    }

    /// Was the task woken since it last looked? Only then is there anything to see.
    pub(super) fn was_woken(&self) -> bool {
        self.woken.load(SeqCst)
    }

    /// The running task, or one that cannot go on, has looked; `again`: it is to do so once more.
    pub(super) fn has_looked(&self, again: bool) {
        self.woken.store(again, Relaxed);
    }

    /// Wakes the task.
    ///
    /// # Safety
    /// It waits, and cannot go on: as for `priority_now`.
    pub(super) unsafe fn wake(&self, order: Order<'_>) {
        // As in `WaitNode::wake`.
        self.woken.store(true, Release);
        // SAFETY: the caller's promise: who cannot go on does not end.
        if let Some(task) = unsafe { self.task() } {
            task.wake_in(order);
        }
    }

    /// Its key among those that wait.
    pub(super) fn place(&self) -> (u32, u64) {
        (u32::MAX - self.priority.load(Relaxed), self.arrival.load(Relaxed))
    }

    /// The priority that the task has now, of its own or lent; 0: it has none.
    ///
    /// # Safety
    /// It waits, and cannot go on: the lock of the bucket or of the state in which it waits is held. Or it is the running one.
    pub(super) unsafe fn priority_now(&self) -> u32 {
        // SAFETY: the caller's promise: who cannot go on does not end.
        unsafe { self.task() }.map_or(0, |task| task.class().priority())
    }

    /// What it lends to whom it waits for: what its task has now.
    ///
    /// # Safety
    /// As `priority_now`.
    pub(super) unsafe fn loan_now(&self) -> Loan {
        // SAFETY: as above.
        unsafe { self.task() }.map_or(Loan::NONE, |task| {
            let (priority, nice) = task.shown_priority();
            Loan::of(priority, nice)
        })
    }

    pub(super) fn stage(&self) -> Stage {
        match self.stage.load(Relaxed) {
            0 => Stage::Waits,
            1 => Stage::Moved,
            2 => Stage::Owns,
            _ => Stage::Back,
        }
    }

    pub(super) fn set_stage(&self, stage: Stage) {
        self.stage.store(stage as u8, Relaxed);
    }

    /// The futex to which it is to be moved. Under the lock of the bucket where it waits.
    pub(super) fn target(&self) -> Word {
        Word { owner: self.target.0.load(Relaxed), place: self.target.1.load(Relaxed) }
    }

    pub(super) fn set_target(&self, word: Word) {
        self.target.0.store(word.owner, Relaxed);
        self.target.1.store(word.place, Relaxed);
    }

    /// It waits for the futex of this state from now on, which is locked, or has left the locked one for which it waited. The caller knows that state, so
    /// that it does not go here.
    pub(super) fn set_waits_for(&self, state: Option<Arc<PiState>>, held: &mut Held<'_, impl InFront>) {
        let mut own = self.own.lock_in(held);
        if state.is_some() {
            self.waits.store(self.waits.load(Relaxed).wrapping_add(1), Relaxed);
        }
        own.waits_for = state;
    }

    /// Which of its waits it is in, if it waits: the lock of the state where it does is held.
    pub(super) fn wait(&self) -> u64 {
        self.waits.load(Relaxed)
    }

    pub(super) fn waits_for(&self) -> Option<Arc<PiState>> {
        self.own.lock().waits_for.clone()
    }

    /// It owns the futex of `state` from now on, which lends it nothing yet. False: it has ended. The state is locked, or nobody knows it yet.
    pub(super) fn own(&self, state: &Arc<PiState>, held: &mut Held<'_, impl InFront>) -> bool {
        let mut own = self.own.lock_in(held);
        if !own.ended {
            state.set_loan(Loan::NONE);
            own.owned.insert(state.clone());
        }
        !own.ended
    }

    /// It owns the futex of `state`, which is locked, no more.
    pub(super) fn disown(&self, state: &PiState, held: &mut Held<'_, impl InFront>) {
        let mut own = self.own.lock_in(held);
        drop(own.take(state));
    }

    /// The futex of `state`, which is locked, and which it owns, lends it `loan` from now on.
    pub(super) fn set_loan(&self, state: &PiState, loan: Loan, held: &mut Held<'_, impl InFront>) {
        if state.loan() == loan {
            return;
        }
        let mut own = self.own.lock_in(held);
        if let Some(state) = own.take(state) {
            state.set_loan(loan);
            own.owned.insert(state);
        }
    }

    /// Its task runs at the highest priority that its futexes lend it. What it waits for, and in which of its waits; None: nothing, or its priority is
    /// as it was, and `always` is not said.
    pub(super) fn settle(&self, always: bool) -> Option<(Arc<PiState>, u64)> {
        self.settle_own(&self.own.lock(), always)
    }

    /// As [`PiTask::settle`], under the lock of a state.
    pub(super) fn settle_in(
        &self,
        always: bool,
        held: &mut Held<'_, impl InFront>,
    ) -> Option<(Arc<PiState>, u64)> {
        self.settle_own(&self.own.lock_in(held), always)
    }

    fn settle_own(&self, own: &Own, always: bool) -> Option<(Arc<PiState>, u64)> {
        if own.ended {
            return None;
        }
        let lent = own.owned.front().get().map_or(Loan::NONE, PiState::loan);
        // SAFETY: a task ends only after `end`, which waits for the lock.
        let task = unsafe { self.task() }?;
        let before = task.class();
        task.set_lent(lent);
        let next = own.waits_for.as_ref().filter(|_| always || task.class() != before)?;
        Some((next.clone(), self.wait()))
    }

    /// One of the futexes that it owns and others wait for.
    pub(super) fn first_owned(&self) -> Option<Arc<PiState>> {
        self.own.lock().owned.front().clone_pointer()
    }

    /// Nobody is attached to it from now on.
    fn close(&self) {
        self.own.lock().ended = true;
    }
}

impl Own {
    fn take(&mut self, state: &PiState) -> Option<Arc<PiState>> {
        let mut cursor = self.owned.lower_bound_mut(Bound::Included(&state.loan_key()));
        match cursor.get() {
            Some(found) if core::ptr::eq(found, state) => cursor.remove(),
            _ => None,
        }
    }
}

/// The locks under which a task's part is locked.
pub trait InFront: sync::level::Before<level::PiTask> {}
impl<L: sync::level::Before<level::PiTask>> InFront for L {}

/// Where a task's record lies, if it has one.
pub struct PiSlot {
    record: OnceBox<Arc<PiTask>>,
    ended: Ended,
}

impl PiSlot {
    pub(in crate::sched) const fn new() -> Self {
        Self { record: OnceBox::new(), ended: Ended::new() }
    }
}

impl Task {
    /// Its part in futexes that lend priority, which is made if there is none; None: it has ended. `tid` is the thread's number.
    ///
    /// # Errors
    /// Out of memory.
    pub fn pi(&self, tid: u32) -> Result<Option<Arc<PiTask>>, AllocError> {
        let record = self.pi.record.get_or_try(|| try_box(sync::try_arc(PiTask::new(self))?))?;
        if self.pi.ended.has_ended() {
            return Ok(None);
        }
        record.tid.store(tid, Relaxed);
        Ok(Some(record.clone()))
    }

    /// The record, if there is one.
    pub(super) fn pi_record(&self) -> Option<&Arc<PiTask>> {
        self.pi.record.get()
    }

    /// It owns no such futex from now on. Its record, if it has one.
    pub(super) fn pi_end(&self) -> Option<&Arc<PiTask>> {
        self.pi.ended.end();
        let record = self.pi.record.get()?;
        record.close();
        Some(record)
    }
}
