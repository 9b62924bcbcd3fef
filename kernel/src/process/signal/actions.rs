//! What happens when a signal comes: the actions of a process, which processes cloned with CLONE_SIGHAND have in common.
//!
//! LockOrder: taken last, under a process's signal state, which is shown. A process that shares its actions with nobody takes the lock too: it lies on the actions' own line.
#![forbid(unsafe_code)]

use super::{Action, COUNT};
use crate::lock_order as level;
use alloc::sync::Arc;
use linux_raw_sys::general::{SIGKILL, SIGSTOP};
use sync::level::Held;
use sync::{AllocError, SpinLock, lock_class, slab_arc};

lock_class! { static ACTIONS: LockClass = ("signal actions", level::SignalActions); }

vm::slab_type!(Actions, "signal-actions", Arc);

/// SIGKILL and SIGSTOP have the default for good, and no place: with them the rest would not fit into a slab's largest object.
const PLACES: usize = COUNT as usize - 2;

/// The process's signal state is locked.
type Order<'a> = Held<'a, level::ProcessSignals>;

/// The actions for all signals.
pub(super) struct Actions(SpinLock<[Action; PLACES], level::SignalActions>);

/// The place of `signal`; None: it has none.
fn place_of(signal: u32) -> Option<usize> {
    if signal == 0 || signal == SIGKILL || signal == SIGSTOP {
        return None;
    }
    let before = u32::from(signal > SIGKILL) + u32::from(signal > SIGSTOP);
    Some((signal - 1 - before) as usize)
}

impl Actions {
    /// Every action the default.
    ///
    /// # Errors
    /// No memory.
    pub fn try_new() -> Result<Arc<Self>, AllocError> {
        Self::with([Action::default(); PLACES])
    }

    fn with(actions: [Action; PLACES]) -> Result<Arc<Self>, AllocError> {
        slab_arc(Self(SpinLock::new(actions, &ACTIONS)))
    }

    /// The same actions, apart from now on.
    ///
    /// # Errors
    /// No memory.
    pub fn copy(&self, order: &mut Order<'_>) -> Result<Arc<Self>, AllocError> {
        let actions = *self.0.lock_in(order);
        Self::with(actions)
    }

    /// The action for `signal`; None: no such signal.
    pub fn get(&self, signal: u32, order: &mut Order<'_>) -> Option<Action> {
        match place_of(signal) {
            Some(place) => self.0.lock_in(order).get(place).copied(),
            None => (signal != 0).then(Action::default),
        }
    }

    /// Sets the action for `signal` and returns the old one; None: there is no such signal, or its action is fixed.
    pub fn set(&self, signal: u32, to: Action, order: &mut Order<'_>) -> Option<Action> {
        let place = place_of(signal)?;
        self.0.lock_in(order).get_mut(place).map(|place| core::mem::replace(place, to))
    }

    /// Changes every action that can be changed.
    pub fn for_each(&self, change: impl FnMut(&mut Action), order: &mut Order<'_>) {
        self.0.lock_in(order).iter_mut().for_each(change);
    }
}
