//! How a task has an [`Entity`]: it is made when the task is first to have a deadline, and lives as long as the task. Most tasks have none, and pay
//! for it with a word.

use super::entity::Entity;
use crate::errno::Result;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicPtr, Ordering};

/// See the head of the file. It holds a reference once it is set, and never changes then.
pub struct Slot(AtomicPtr<Entity>);

impl Slot {
    pub const fn new() -> Self {
        Self(AtomicPtr::new(core::ptr::null_mut()))
    }

    #[inline]
    pub fn get(&self) -> Option<&Entity> {
        // SAFETY: what is set stays as long as `self` does. Acquire: it is seen whole.
        unsafe { self.0.load(Ordering::Acquire).as_ref() }
    }

    /// A reference of the caller's own.
    pub fn shared(&self) -> Option<Arc<Entity>> {
        let entity = core::ptr::from_ref(self.get()?);
        // SAFETY: the pointer came from an `Arc`, whose count that of `self` keeps from being zero.
        unsafe {
            Arc::increment_strong_count(entity);
            Some(Arc::from_raw(entity))
        }
    }

    /// As `get`; makes one first if there is none.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_make(&self) -> Result<&Entity> {
        if self.0.load(Ordering::Acquire).is_null() {
            let new = Arc::into_raw(sync::try_arc(Entity::new())?).cast_mut();
            let null = core::ptr::null_mut();
            if self.0.compare_exchange(null, new, Ordering::AcqRel, Ordering::Acquire).is_err() {
                // SAFETY: it came from an `Arc` just now, and nobody else has it.
                drop(unsafe { Arc::from_raw(new) });
            }
        }
        self.get().ok_or(crate::errno::Errno::ENOMEM)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let entity = *self.0.get_mut();
        if !entity.is_null() {
            // SAFETY: the reference that `try_make` left here.
            drop(unsafe { Arc::from_raw(entity) });
        }
    }
}
