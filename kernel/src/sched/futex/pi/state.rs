//! The state of a futex that lends priority and that somebody waits for: its owner and the waiters, by priority.
//!
//! It lies in the bucket of its word for as long as there is a waiter: the last one to leave takes it out. Between an unlock and the moment when the next
//! owner goes on, nobody *holds* the futex: a task of a higher priority that comes then takes it first, as on Linux.

use super::super::super::policy::Loan;
use super::super::key::Word;
use super::task::{ByPriority, PiTask};
use crate::arch::user;
use crate::lock_order as level;
use alloc::sync::Arc;
use core::mem::ManuallyDrop;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};
use intrusive_collections::{
    Bound, KeyAdapter, LinkedListAtomicLink, RBTree, RBTreeAtomicLink, intrusive_adapter,
};
use sync::level::Held;
use sync::protocol::pi::{self, Fault};
use sync::{AllocError, SpinGuard, SpinLock, lock_class};

lock_class! { static PI_STATE: LockClass = ("state of a PI futex", level::PiState); }

/// The word at an address of the running program, if its page is there.
pub struct UserWord(pub usize);

impl pi::Word for UserWord {
    fn load(&self) -> Result<u32, Fault> {
        user::load_u32_nofault(self.0).map_err(|_| Fault)
    }

    fn exchange(&self, old: u32, new: u32) -> Result<u32, Fault> {
        user::compare_exchange_u32_nofault(self.0, old, new).map_err(|_| Fault)
    }
}

/// See the head of the file.
pub struct PiState {
    word: Word,
    link: LinkedListAtomicLink,
    /// Among those of its owner, under the owner's lock; and by what it lends it.
    owned_link: RBTreeAtomicLink,
    loan: AtomicU32,
    inner: SpinLock<Inner, level::PiState>,
}

pub struct Inner {
    /// Who owns the futex, or is to; None: the owner has ended, and the first waiter is to.
    pub owner: Option<Arc<PiTask>>,
    /// The owner has it, and does not only find it left for it.
    pub held: bool,
    /// Empty when the state goes, since each that waits has it; so it is not dropped, which would go down the tree.
    waiters: ManuallyDrop<RBTree<ByPriority>>,
    /// How many have come.
    arrivals: u64,
}

pub type Locked<'a> = SpinGuard<'a, Inner, level::PiState>;

intrusive_adapter!(pub(in crate::sched::futex) StateAdapter = Arc<PiState>: PiState { link => LinkedListAtomicLink });
intrusive_adapter!(pub ByLoan = Arc<PiState>: PiState { owned_link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByLoan {
    type Key = (u32, usize);
    fn get_key(&self, state: &'a PiState) -> (u32, usize) {
        state.loan_key()
    }
}

impl PiState {
    /// Of a futex for which nobody waits yet, and that `owner` has.
    pub fn try_new(word: Word, owner: Arc<PiTask>) -> Result<Arc<Self>, AllocError> {
        let waiters = ManuallyDrop::new(RBTree::new(ByPriority::NEW));
        let inner = Inner { owner: Some(owner), held: true, waiters, arrivals: 0 };
        sync::try_arc(Self {
            word,
            link: LinkedListAtomicLink::new(),
            owned_link: RBTreeAtomicLink::new(),
            loan: AtomicU32::new(0),
            inner: SpinLock::new(inner, &PI_STATE),
        })
    }

    pub(in crate::sched::futex) fn word(&self) -> Word {
        self.word
    }

    pub fn lock(&self) -> Locked<'_> {
        self.inner.lock()
    }

    pub fn lock_in<'a, L: sync::level::Before<level::PiState>>(
        &'a self,
        held: &'a mut Held<'_, L>,
    ) -> Locked<'a> {
        self.inner.lock_in(held)
    }

    /// What it lends its owner; under the owner's lock.
    pub fn loan(&self) -> Loan {
        Loan(self.loan.load(Relaxed))
    }

    pub fn set_loan(&self, loan: Loan) {
        self.loan.store(loan.0, Relaxed);
    }

    /// The highest loan first.
    pub fn loan_key(&self) -> (u32, usize) {
        (u32::MAX - self.loan().0, core::ptr::from_ref(self) as usize)
    }
}

impl Inner {
    pub fn is_empty(&self) -> bool {
        self.waiters.is_empty()
    }

    /// The waiter that comes first.
    pub fn first(&self) -> Option<&PiTask> {
        self.waiters.front().get()
    }

    fn first_counted(&self) -> Option<Arc<PiTask>> {
        self.waiters.front().clone_pointer()
    }

    pub fn is_owner(&self, task: &Arc<PiTask>) -> bool {
        self.owner.as_ref().is_some_and(|owner| Arc::ptr_eq(owner, task))
    }

    /// Does `task` wait here? It may be waiting elsewhere by now, and its place change there.
    pub fn has(&self, task: &PiTask) -> bool {
        let cursor = self.waiters.lower_bound(Bound::Included(&task.place()));
        task.wait_link.is_linked() && cursor.get().is_some_and(|found| core::ptr::eq(found, task))
    }

    /// One more waits, at `priority`.
    fn insert(&mut self, task: Arc<PiTask>, priority: u32) {
        task.priority.store(priority, Relaxed);
        task.arrival.store(self.arrivals, Relaxed);
        self.arrivals = self.arrivals.wrapping_add(1);
        self.waiters.insert(task);
    }

    /// Takes one off. None: it does not wait here.
    fn remove(&mut self, task: &PiTask) -> Option<Arc<PiTask>> {
        if !self.has(task) {
            return None;
        }
        self.waiters.lower_bound_mut(Bound::Included(&task.place())).remove()
    }

    /// One waits at another priority from now on, behind its equals. False: it does not wait here.
    pub fn requeue(&mut self, task: &PiTask) -> bool {
        let Some(task) = self.remove(task) else { return false };
        // SAFETY: it waits here, and the lock is held.
        let priority = unsafe { task.priority_now() };
        self.insert(task, priority);
        true
    }

    /// May one of this priority take the futex, which nobody holds, now? `waits`: it is among the waiters.
    pub fn may_take(&self, task: &PiTask, priority: u32) -> bool {
        match self.first() {
            Some(first) => core::ptr::eq(first, task) || priority > first.priority.load(Relaxed),
            None => true,
        }
    }

    /// What the futex lends its owner.
    pub fn loan(&self) -> Loan {
        // SAFETY: it waits here, and the lock is held.
        let of = |first: &PiTask| unsafe { first.loan_now() };
        self.first().filter(|_| self.held).map_or(Loan::NONE, of)
    }
}

/// `task` waits for the futex of `state` from now on, at `priority`.
pub fn join(state: &Arc<PiState>, locked: &mut Locked<'_>, task: &Arc<PiTask>, priority: u32) {
    let (inner, held) = locked.split();
    inner.insert(task.clone(), priority);
    task.set_waits_for(Some(state.clone()), held);
}

/// `task` waits for the futex of the state no more, which is locked and known to the caller. False: it did not.
pub fn leave(inner: &mut Inner, held: &mut Held<'_, level::PiState>, task: &PiTask) -> bool {
    let waited = inner.remove(task).is_some();
    if waited {
        task.set_waits_for(None, held);
    }
    waited
}

/// Gives a futex that nobody holds to `task`, which waits for it or has just come.
///
/// # Errors
/// The word has to be brought in; then nothing has changed.
pub fn take(
    state: &Arc<PiState>,
    locked: &mut Locked<'_>,
    task: &Arc<PiTask>,
    word: &UserWord,
) -> Result<(), Fault> {
    let (inner, held) = locked.split();
    if !inner.is_owner(task) {
        pi::take(word, task.tid(), inner.owner.is_none())?;
        let before = inner.owner.replace(task.clone());
        if let Some(before) = before {
            before.disown(state, held);
        }
        task.own(state, held);
    }
    leave(inner, held, task);
    inner.held = true;
    task.set_loan(state, inner.loan(), held);
    Ok(())
}

/// Nobody holds the futex from now on: it is left for the first waiter, which the word names, or of whose owner it says that it died.
pub fn leave_to_first(state: &Arc<PiState>, locked: &mut Locked<'_>, is_named: bool) {
    let (inner, held) = locked.split();
    inner.held = false;
    let next = if is_named { inner.first_counted() } else { None };
    let before = core::mem::replace(&mut inner.owner, next);
    if let Some(before) = before {
        before.disown(state, held);
    }
    if let Some(next) = &inner.owner {
        next.own(state, held);
    }
    wake_first(locked);
}

/// Wakes the first waiter, which is to look whether the futex is its.
pub fn wake_first(locked: &mut Locked<'_>) {
    let (inner, held) = locked.split();
    if let Some(first) = inner.first() {
        // SAFETY: it waits for the futex of the state, which is locked, and takes that lock before it goes on.
        unsafe { first.wake(held.reborrow().lower()) };
    }
}
