//! Those that wait for one CPU, a list for each priority, and a bitmap of the lists that are not empty; the last bit is for those with deadlines, which have trees
//! of their own (`deadline::Line`). Under the queue's lock.

use super::super::deadline;
use super::super::policy::Class;
use super::super::task::Task;
use super::rank::Rank;
use alloc::sync::Arc;
use intrusive_collections::{LinkedList, LinkedListAtomicLink, intrusive_adapter};

intrusive_adapter!(pub ByPriority = Arc<Task>: Task { list_link => LinkedListAtomicLink });

/// Priorities are 1 to 99.
const PRIORITIES: usize = 100;

/// Tasks looked at for one that may run elsewhere: as many may wait as a program likes, and the queue is locked meanwhile.
const LOOKS: usize = 32;

/// Where in the list of its priority a task comes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    First,
    Last,
}

/// See the head of the file.
pub struct Line {
    lists: [LinkedList<ByPriority>; PRIORITIES],
    pub deadlines: deadline::Line,
    /// A bit for each list that is not empty.
    present: u128,
    waiting: u32,
    /// How many of them may run elsewhere.
    movable: u32,
}

impl Line {
    pub const fn new() -> Self {
        let lists = [const { LinkedList::new(ByPriority::NEW) }; PRIORITIES];
        Self { lists, deadlines: deadline::Line::new(), present: 0, waiting: 0, movable: 0 }
    }

    pub fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The highest rank of those that wait.
    pub fn highest(&self) -> Rank {
        match self.deadlines.earliest() {
            Some(at) => Rank::of_deadline(at),
            None if self.present == 0 => Rank::NONE,
            None => Rank::of_priority(self.present.ilog2()),
        }
    }

    /// The rank at which a task waits, or last waited.
    pub fn rank_of(task: &Task) -> Rank {
        match (task.realtime.priority(), task.deadline.get()) {
            (Class::DEADLINES, Some(entity)) => Rank::of_deadline(entity.at()),
            (priority, _) => Rank::of_priority(priority),
        }
    }

    /// Does anybody of this priority wait?
    pub fn has(&self, priority: u32) -> bool {
        self.present >> priority & 1 != 0
    }

    /// The highest rank that waits, if any of those that wait may run elsewhere.
    pub fn highest_to_give(&self) -> Rank {
        if self.movable == 0 { Rank::NONE } else { self.highest() }
    }

    /// Puts a task among those of its priority, or with deadlines.
    pub fn insert(&mut self, task: Arc<Task>, priority: u32, end: End) {
        let entity = if priority < Class::DEADLINES { None } else { task.deadline.shared() };
        let priority = if entity.is_some() { Class::DEADLINES } else { priority.min(Class::DEADLINES - 1) };
        task.realtime.set_priority(priority);
        task.realtime.set_movable(false);
        self.waiting += 1;
        self.update_movable(&task);
        self.present |= 1 << priority;
        if let Some(entity) = entity {
            return self.deadlines.insert(entity, task);
        }
        let list = &mut self.lists[priority as usize];
        match end {
            End::First => list.push_front(task),
            End::Last => list.push_back(task),
        }
    }

    /// Takes the first of those of the highest priority.
    pub fn take_first(&mut self) -> Option<Arc<Task>> {
        let highest = self.highest().priority();
        let task = match self.lists.get_mut(highest as usize) {
            Some(list) => list.pop_front(),
            None => self.deadlines.take_first(),
        }?;
        self.gone(&task, highest);
        Some(task)
    }

    fn gone(&mut self, task: &Task, priority: u32) {
        self.waiting -= 1;
        self.movable -= u32::from(task.realtime.is_movable());
        task.realtime.set_movable(false);
        let is_empty = match self.lists.get(priority as usize) {
            Some(list) => list.is_empty(),
            None => self.deadlines.earliest().is_none(),
        };
        if is_empty {
            self.present &= !(1 << priority);
        }
    }

    /// Takes out one that waits here, for the CPU or for its next period. Did it wait for the CPU?
    ///
    /// # Safety
    /// `task` waits on this line.
    pub unsafe fn take(&mut self, task: &Task) -> Option<(Arc<Task>, bool)> {
        let priority = task.realtime.priority();
        if priority == Class::DEADLINES {
            // SAFETY: as the caller says.
            let (task, is_ready) = unsafe { self.deadlines.take(task) }?;
            if is_ready {
                self.gone(&task, priority);
            }
            return Some((task, is_ready));
        }
        // SAFETY: as the caller says; `insert` has noted the list.
        let task = unsafe { self.lists[priority as usize].cursor_mut_from_ptr(task) }.remove()?;
        self.gone(&task, priority);
        Some((task, true))
    }

    /// One that waits here may or may not run elsewhere, other than before.
    pub fn update_movable(&mut self, task: &Task) {
        if task.deadline.get().is_some_and(deadline::Entity::is_throttled) {
            return;
        }
        let is_movable = task.affinity().only().is_none();
        self.movable -= u32::from(task.realtime.is_movable());
        self.movable += u32::from(is_movable);
        task.realtime.set_movable(is_movable);
    }

    /// Takes the first by rank of those that may run elsewhere, and that `wants` takes, of those looked at. What `wants` said goes with it.
    pub fn take_for<R>(&mut self, mut wants: impl FnMut(&Task) -> Option<R>) -> Option<(Arc<Task>, R)> {
        let mut looks = LOOKS;
        let mut present = if self.movable == 0 { 0 } else { self.present };
        if self.deadlines.earliest().is_some() {
            let mut wants = |task: &Task| if task.realtime.is_movable() { wants(task) } else { None };
            if let Some((task, said)) = self.deadlines.take_for(&mut looks, &mut wants) {
                self.gone(&task, Class::DEADLINES);
                return Some((task, said));
            }
            present &= !(1 << Class::DEADLINES);
        }
        while present != 0 {
            let priority = present.ilog2();
            present &= !(1 << priority);
            let mut cursor = self.lists[priority as usize].front_mut();
            while let Some(task) = cursor.get() {
                looks = looks.checked_sub(1)?;
                if task.realtime.is_movable()
                    && let Some(said) = wants(task)
                {
                    let task = cursor.remove()?;
                    self.gone(&task, priority);
                    return Some((task, said));
                }
                cursor.move_next();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::policy::Schedule;
    use super::super::super::task::Hardware;
    use super::*;
    use crate::arch;
    use crate::testing::{check, in_process};
    use proptest::prelude::*;
    use std::vec::Vec;

    fn new_task() -> Arc<Task> {
        Task::try_new(None, Hardware::kernel(arch::Context::running()), Schedule::NORMAL).unwrap()
    }

    /// What is done to a line, and to a plain list in the same way.
    #[derive(Clone, Copy, Debug)]
    enum Step {
        Insert(u32, bool),
        First,
        Take(usize),
        Give(u32),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => (prop_oneof![1..4u32, 97..100u32], any::<bool>()).prop_map(|(p, first)| Step::Insert(p, first)),
            1 => Just(Step::First),
            1 => any::<usize>().prop_map(Step::Take),
            1 => (0..100u32).prop_map(Step::Give),
        ]
    }

    /// The place of the first of the highest priority.
    fn first(list: &[(u32, Arc<Task>)]) -> Option<usize> {
        let highest = list.iter().map(|(p, _)| *p).max()?;
        list.iter().position(|(p, _)| *p == highest)
    }

    #[test]
    fn it_is_a_list_sorted_by_priority_and_then_by_who_came_first() {
        in_process(|| {
            check(64, &proptest::collection::vec(step(), 1..100), |steps| {
                let mut line = Line::new();
                let mut list: Vec<(u32, Arc<Task>)> = Vec::new();
                for step in steps {
                    match step {
                        Step::Insert(priority, is_first) => {
                            let task = new_task();
                            line.insert(
                                task.clone(),
                                priority,
                                if is_first { End::First } else { End::Last },
                            );
                            if is_first {
                                list.insert(0, (priority, task))
                            } else {
                                list.push((priority, task))
                            }
                        }
                        Step::First => {
                            let expected = first(&list).map(|n| list.remove(n).1);
                            let got = line.take_first();
                            assert_eq!(got.as_ref().map(Arc::as_ptr), expected.as_ref().map(Arc::as_ptr));
                        }
                        Step::Take(n) if !list.is_empty() => {
                            let (_, task) = list.remove(n % list.len());
                            // SAFETY: it is on the list, so it waits on the line.
                            assert!(unsafe { line.take(&task) }.is_some());
                        }
                        Step::Take(_) => {}
                        Step::Give(least) => {
                            let found =
                                line.take_for(|task| (task.realtime.priority() < least).then_some(()));
                            if let Some((task, ())) = found {
                                let at = list.iter().position(|(_, t)| Arc::ptr_eq(t, &task)).unwrap();
                                let (priority, _) = list.remove(at);
                                assert!(
                                    !list.iter().any(|(p, _)| *p < least && *p > priority),
                                    "a higher one might have gone"
                                );
                            }
                        }
                    }
                    let highest = list.iter().map(|(p, _)| *p).max().unwrap_or(0);
                    assert_eq!(line.highest(), Rank::of_priority(highest));
                    assert_eq!((line.waiting() as usize, line.movable as usize), (list.len(), list.len()));
                }
                while line.take_first().is_some() {}
            });
        });
    }
}
