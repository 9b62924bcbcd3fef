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
pub(super) struct Actions(SpinLock<Table, level::SignalActions>);

#[derive(Clone, Copy)]
struct Table {
    actions: [Action; PLACES],
    /// A bit for each place whose action may be another than the default.
    set: u64,
}

const _: () = assert!(PLACES <= u64::BITS as usize);

/// The place of `signal`; None: it has none.
#[expect(clippy::arithmetic_side_effects, reason = "signals are numbered from 1 to 64")]
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
        Self::with(Table { actions: [Action::default(); PLACES], set: 0 })
    }

    fn with(table: Table) -> Result<Arc<Self>, AllocError> {
        slab_arc(Self(SpinLock::new(table, &ACTIONS)))
    }

    /// The same actions, apart from now on.
    ///
    /// # Errors
    /// No memory.
    pub fn copy(&self, order: &mut Order<'_>) -> Result<Arc<Self>, AllocError> {
        let table = *self.0.lock_in(order);
        Self::with(table)
    }

    /// The action for `signal`; None: no such signal.
    pub fn get(&self, signal: u32, order: &mut Order<'_>) -> Option<Action> {
        match place_of(signal) {
            Some(place) => self.0.lock_in(order).actions.get(place).copied(),
            None => (signal != 0).then(Action::default),
        }
    }

    /// Sets the action for `signal` and returns the old one; None: there is no such signal, or its action is fixed.
    pub fn set(&self, signal: u32, to: Action, order: &mut Order<'_>) -> Option<Action> {
        let place = place_of(signal)?;
        let mut table = self.0.lock_in(order);
        table.set |= 1 << place;
        table.actions.get_mut(place).map(|place| core::mem::replace(place, to))
    }

    /// exec: handlers become the default, ignored signals stay ignored.
    #[expect(clippy::arithmetic_side_effects, reason = "left is not zero")]
    pub fn reset_for_exec(&self, order: &mut Order<'_>) {
        let mut table = self.0.lock_in(order);
        let mut left = core::mem::take(&mut table.set);
        while left != 0 {
            let place = left.trailing_zeros();
            left &= left - 1;
            let Some(action) = table.actions.get_mut(place as usize) else { continue };
            let ignored = action.is_ignore();
            let handler = if ignored { Action::IGNORE } else { Action::DEFAULT };
            *action = Action { handler, ..Action::default() };
            table.set |= u64::from(ignored) << place;
        }
    }
}
