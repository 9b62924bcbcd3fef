//! Tasks of one CPU that have deadlines: those that wait for the CPU stand on a tree by their deadlines, and those that wait for their next period on a tree by when
//! that begins. Under the queue's lock.
//!
//! The trees hold entities. What is on one holds its task's run reference in `Entity::task`.

use super::super::policy::Class;
use super::super::task::Task;
use super::entity::Entity;
use super::reclaim::Reclaim;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use intrusive_collections::{KeyAdapter, RBTree, RBTreeAtomicLink, intrusive_adapter};

intrusive_adapter!(ByDeadline = Arc<Entity>: Entity { link => RBTreeAtomicLink });
intrusive_adapter!(ByPeriod = Arc<Entity>: Entity { link => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for ByDeadline {
    type Key = u64;
    fn get_key(&self, entity: &'a Entity) -> u64 {
        entity.at()
    }
}

impl<'a> KeyAdapter<'a> for ByPeriod {
    type Key = u64;
    fn get_key(&self, entity: &'a Entity) -> u64 {
        entity.until()
    }
}

/// See the head of the file.
pub struct Line {
    ready: RBTree<ByDeadline>,
    throttled: RBTree<ByPeriod>,
    pub reclaim: Reclaim,
}

/// Puts a task's run reference into its entity.
fn put_into(entity: &Entity, task: Arc<Task>) {
    entity.task.store(Arc::into_raw(task).cast_mut(), Ordering::Relaxed);
}

/// Takes the run reference of one that is off its tree.
fn out_of(entity: &Entity) -> Option<Arc<Task>> {
    let task = entity.task.swap(core::ptr::null_mut(), Ordering::Relaxed);
    // SAFETY: `put_into` left the reference there, once.
    (!task.is_null()).then(|| unsafe { Arc::from_raw(task) })
}

impl Line {
    pub const fn new() -> Self {
        Self {
            ready: RBTree::new(ByDeadline::NEW),
            throttled: RBTree::new(ByPeriod::NEW),
            reclaim: Reclaim::new(),
        }
    }

    /// The earliest deadline of those that wait for the CPU.
    pub fn earliest(&self) -> Option<u64> {
        self.ready.front().get().map(Entity::at)
    }

    /// When the first of those that are throttled is to have its next budget; `u64::MAX`: none is.
    pub fn next_period(&self) -> u64 {
        self.throttled.front().get().map_or(u64::MAX, Entity::until)
    }

    /// Puts a task, whose entity this is, among those that wait for the CPU.
    pub fn insert(&mut self, entity: Arc<Entity>, task: Arc<Task>) {
        put_into(&entity, task);
        self.reclaim.enter(&entity);
        self.ready.insert(entity);
    }

    /// Puts a task, whose entity this is, among those that wait for their next period, which the entity says.
    pub fn throttle(&mut self, entity: Arc<Entity>, task: Arc<Task>) {
        task.realtime.set_priority(Class::DEADLINES);
        task.realtime.set_movable(false);
        put_into(&entity, task);
        self.reclaim.enter(&entity);
        entity.set_throttled(true);
        self.throttled.insert(entity);
    }

    /// Takes the task with the earliest deadline, to run it here.
    pub fn take_first(&mut self) -> Option<Arc<Task>> {
        out_of(&*self.ready.front_mut().remove()?)
    }

    /// Takes one whose next period has begun by `now`, with its budget. One whose registers are being saved waits for the next look.
    pub fn take_released(&mut self, now: u64) -> Option<Arc<Task>> {
        let mut first = self.throttled.front_mut();
        let entity = first.get().filter(|entity| entity.until() <= now)?;
        // SAFETY: its run reference lies in the entity.
        let task = unsafe { entity.task.load(Ordering::Relaxed).as_ref() }?;
        if task.on_cpu.is_on() {
            return None;
        }
        let entity = first.remove()?;
        entity.set_throttled(false);
        entity.replenish(now);
        self.reclaim.leave(&entity);
        out_of(&entity)
    }

    /// Takes out a task that waits here. Did it wait for the CPU?
    ///
    /// # Safety
    /// `task` is on a tree of this line.
    pub unsafe fn take(&mut self, task: &Task) -> Option<(Arc<Task>, bool)> {
        let entity = task.deadline.get()?;
        let is_ready = !entity.is_throttled();
        // SAFETY: as the caller says; `is_throttled` tells on which tree.
        let entity = unsafe {
            if is_ready {
                self.ready.cursor_mut_from_ptr(entity).remove()
            } else {
                self.throttled.cursor_mut_from_ptr(entity).remove()
            }
        }?;
        entity.set_throttled(false);
        self.reclaim.leave(&entity);
        Some((out_of(&entity)?, is_ready))
    }

    /// Takes the first by deadline that `wants` takes, of those that wait for the CPU and `looks` that are looked at. What `wants` said goes with it.
    pub fn take_for<R>(
        &mut self,
        looks: &mut usize,
        mut wants: impl FnMut(&Task) -> Option<R>,
    ) -> Option<(Arc<Task>, R)> {
        let mut cursor = self.ready.front_mut();
        while let Some(entity) = cursor.get() {
            *looks = looks.checked_sub(1)?;
            // SAFETY: its run reference lies in the entity.
            let task = unsafe { entity.task.load(Ordering::Relaxed).as_ref() }?;
            if let Some(said) = wants(task) {
                let entity = cursor.remove()?;
                self.reclaim.leave(&entity);
                return Some((out_of(&entity)?, said));
            }
            cursor.move_next();
        }
        None
    }
}

impl Entity {
    /// Does its task wait on a tree, of whichever CPU?
    pub fn is_waiting(&self) -> bool {
        self.link.is_linked()
    }
}
