//! One attempt to get a futex, with the bucket of its word locked: it is taken, or there is a state to wait in, or something has to be done first with the lock
//! dropped.

use super::super::bucket::{Members, Order};
use super::super::key::Word;
use super::state::{self, PiState, UserWord, join, take};
use super::task::PiTask;
use super::{Find, bring_in, rest};
use crate::errno::{Errno, Result};
use alloc::sync::Arc;
use sync::protocol::pi::{self, Claim, Fault, OWNER, Word as _};

/// An attempt to get a futex, by who wants it or by another on its behalf.
pub(super) struct Entry<'a> {
    pub who: &'a Arc<PiTask>,
    pub word: Word,
    pub at: UserWord,
    /// It does not wait.
    pub tries: bool,
    /// Others are to wait for it at once.
    pub leads: bool,
    pub found: Found,
}

/// The owner that the word named, as it was looked up by its number, with a state in which to wait for it.
pub(super) type Found = Option<(u32, Option<(Arc<PiTask>, Arc<PiState>)>)>;

/// What came of an attempt.
pub(super) enum Step {
    Taken,
    Waits(Arc<PiState>),
    /// The word has changed.
    Again,
    /// It has to be brought in.
    Fault,
    /// This owner is to be looked up.
    Unknown(u32),
    Fails(Errno),
}

impl From<Fault> for Step {
    fn from(_: Fault) -> Self {
        Step::Fault
    }
}

impl Entry<'_> {
    /// Makes one attempt, with the bucket of the word locked. The thread that wants it is the running one, or waits in a bucket that is locked.
    pub(super) fn attempt(&mut self, members: &mut Members<'_>, order: &mut Order<'_>) -> Step {
        self.try_attempt(members, order).unwrap_or_else(Step::from)
    }

    fn try_attempt(&mut self, members: &mut Members<'_>, order: &mut Order<'_>) -> Tried<Step> {
        let value = self.at.load()?;
        if value & OWNER == self.who.tid() {
            return Ok(Step::Fails(Errno::EDEADLK));
        }
        if let Some(state) = members.state_of(self.word) {
            return self.attach(&state, value, order);
        }
        // The program waits there in another way.
        if members.first_of(self.word).is_some() {
            return Ok(Step::Fails(Errno::EINVAL));
        }
        let tid = match pi::claim(&self.at, value, self.who.tid(), self.leads)? {
            Claim::Taken => return Ok(Step::Taken),
            Claim::Again => return Ok(Step::Again),
            Claim::Owned(tid) => tid,
        };
        let (owner, state) = match self.found.take() {
            Some((found, Some(found_owner))) if found == tid => found_owner,
            // Nobody has that number: the word is wrong, but for an owner that has ended just now and has written it.
            Some((found, None)) if found == tid => {
                let is_wrong = self.at.load()? & OWNER == tid;
                return Ok(if is_wrong { Step::Fails(Errno::ESRCH) } else { Step::Again });
            }
            _ => return Ok(Step::Unknown(tid)),
        };
        if self.tries {
            return Ok(Step::Fails(Errno::EAGAIN));
        }
        if !owner.own(&state, order) {
            // It has ended since.
            return Ok(Step::Again);
        }
        self.wait_in(&state, &mut state.lock_in(order));
        members.add_state(state.clone());
        Ok(Step::Waits(state))
    }

    fn attach(&self, state: &Arc<PiState>, value: u32, order: &mut Order<'_>) -> Tried<Step> {
        let mut locked = state.lock_in(order);
        if self.at.load()? != value {
            return Ok(Step::Again);
        }
        if !pi::agrees(value, locked.owner.as_ref().map(|owner| owner.tid())) {
            return Ok(Step::Fails(Errno::EINVAL));
        }
        if !locked.held && locked.may_take(self.who, self.priority()) {
            take(state, &mut locked, self.who, &self.at)?;
            return Ok(Step::Taken);
        }
        if self.tries {
            return Ok(Step::Fails(Errno::EAGAIN));
        }
        self.wait_in(state, &mut locked);
        Ok(Step::Waits(state.clone()))
    }

    fn wait_in(&self, state: &Arc<PiState>, locked: &mut state::Locked<'_>) {
        self.who.has_looked(false);
        join(state, locked, self.who, self.priority());
    }

    fn priority(&self) -> u32 {
        // SAFETY: as `attempt` says.
        unsafe { self.who.priority_now() }
    }
}

/// Does what `step` of an attempt asks for before the next one, which is given what this returns. No lock is held.
pub(super) fn prepare(step: &Step, word: Word, address: usize, find: Find<'_>) -> Result<Found> {
    let mut found = None;
    match step {
        Step::Fault => bring_in(address)?,
        Step::Unknown(tid) => {
            let owner = find(*tid)?;
            let state = owner.map(|owner| PiState::try_new(word, owner.clone()).map(|state| (owner, state)));
            found = Some((*tid, state.transpose()?));
        }
        _ => {}
    }
    rest()?;
    Ok(found)
}

/// Of what may find that a page has to be brought in.
pub(super) type Tried<T> = core::result::Result<T, Fault>;
