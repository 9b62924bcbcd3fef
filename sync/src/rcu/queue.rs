//! Lists of values in the order of their arrival, which lie in statics: see [`super::list`]. What is on one need not know of it, and a reader may give way.
//!
//! A reader that gives way *rests* on an element: it stays on the list until the reader goes on. If it leaves meanwhile it is gone, nobody meets it any more, and
//! the last who rests there takes it out. So going on costs one step, whoever has left.
//!
//! Invariants: elements are on lists in statics alone, and these are never moved. `resting` and `gone` are written with the list locked.
//! Lock order: the list's own lock, alone.

use super::{Deferred, Listed, Locked, Met, Place, RcuHead, read};
use crate::heap::AllocError;
use crate::level::Level;
use crate::lock::LockClass;
use crate::try_arc;
use alloc::sync::Arc;
use core::ops::ControlFlow;
use core::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};

struct Element<T> {
    place: Place<Element<T>>,
    rcu: RcuHead,
    /// Readers that rest here.
    resting: AtomicU32,
    gone: AtomicBool,
    value: T,
}

crate::rcu_object!([T: Send + Sync + 'static] Element<T>);

// SAFETY: a field of its own. No element is given away but to the lists of this file, which are borrowed for ever, and so are not moved.
unsafe impl<T: Send + Sync + 'static> Listed for Element<T> {
    fn place(&self) -> &Place<Self> {
        &self.place
    }
}

/// A value that can enter a list, once.
pub struct Entry<T>(Arc<Element<T>>);

impl<T> Entry<T> {
    /// # Errors
    /// There is no memory.
    pub fn try_new(value: T) -> Result<Self, AllocError> {
        let (resting, gone) = (AtomicU32::new(0), AtomicBool::new(false));
        let element = Element { place: Place::new(), rcu: RcuHead::new(), resting, gone, value };
        Ok(Entry(try_arc(element)?))
    }

    pub fn value(&self) -> &T {
        &self.0.value
    }
}

/// See the head of the file.
pub struct Queue<T: Send + Sync + 'static, L: Level>(super::List<Element<T>, L>);

impl<T: Send + Sync + 'static, L: Level> Queue<T, L> {
    pub const fn new(class: &'static LockClass<L>) -> Self {
        Queue(super::List::new(class))
    }

    /// Puts `entry` at the end; `first` is called before, with the list locked.
    pub fn enter(&'static self, entry: &Entry<T>, first: impl FnOnce(&T)) {
        let mut list = self.0.lock();
        first(entry.value());
        list.push_back(entry.0.clone());
    }

    /// Takes `entry` out, if it has entered this list.
    pub fn leave(&'static self, entry: Entry<T>) {
        let mut list = self.0.lock();
        entry.0.gone.store(true, Relaxed);
        let out = take_out(&mut list, &entry.0);
        drop(list);
        drop(out);
    }

    /// Calls `f` for what is on the list, or what follows `rest`, until it breaks. After `most` steps it rests, and returns where; None: it is at the end.
    pub fn visit(
        &'static self,
        rest: Option<&Rest<T, L>>,
        most: usize,
        mut f: impl FnMut(&T) -> ControlFlow<()>,
    ) -> Option<Rest<T, L>> {
        let read = read();
        let elements = match rest {
            Some(rest) => self.0.iter_after(&rest.element, &read),
            None => self.0.iter(&read),
        };
        let mut steps = 0usize;
        for element in elements {
            if !element.gone.load(Relaxed) && f(&element.value).is_break() {
                return None;
            }
            steps = steps.saturating_add(1);
            // It may have been taken out: the next one, then.
            if steps >= most
                && let Some(rest) = self.rest(&element)
            {
                return Some(rest);
            }
        }
        None
    }

    fn rest(&'static self, element: &Met<'_, Element<T>>) -> Option<Rest<T, L>> {
        let list = self.0.lock();
        list.has(element).then(|| {
            element.resting.fetch_add(1, Relaxed);
            Rest { list: self, element: element.count() }
        })
    }
}

/// The element, if it is gone and nobody rests there.
fn take_out<T: Send + Sync + 'static, L: Level>(
    list: &mut Locked<'_, Element<T>, L>,
    element: &Arc<Element<T>>,
) -> Option<Deferred<Element<T>>> {
    let is_over = element.gone.load(Relaxed) && element.resting.load(Relaxed) == 0;
    if is_over { list.remove(element) } else { None }
}

/// Where a reader gave way. What it rests on stays on the list until this is dropped.
pub struct Rest<T: Send + Sync + 'static, L: Level> {
    list: &'static Queue<T, L>,
    element: Arc<Element<T>>,
}

impl<T: Send + Sync + 'static, L: Level> Drop for Rest<T, L> {
    fn drop(&mut self) {
        let mut list = self.list.0.lock();
        self.element.resting.fetch_sub(1, Relaxed);
        let out = take_out(&mut list, &self.element);
        drop(list);
        drop(out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rcu::drain;
    use crate::{lock_class, lock_order};
    use alloc::boxed::Box;
    use alloc::vec::Vec;
    use std::sync::atomic::AtomicUsize;
    use std::thread;

    lock_order! { level Numbers = 1; }
    lock_class! { static NUMBERS: LockClass = ("queued numbers", Numbers); }

    type Numbered = Queue<u32, Numbers>;

    fn queue() -> &'static Numbered {
        Box::leak(Box::new(Queue::new(&NUMBERS)))
    }

    fn add(queue: &'static Numbered, value: u32) -> Entry<u32> {
        let entry = Entry::try_new(value).unwrap();
        queue.enter(&entry, |_| {});
        entry
    }

    /// What a reader meets from `rest` on.
    fn rest_of(queue: &'static Numbered, rest: Option<&Rest<u32, Numbers>>) -> Vec<u32> {
        let mut met = Vec::new();
        let none = queue.visit(rest, usize::MAX, |value| {
            met.push(*value);
            ControlFlow::Continue(())
        });
        assert!(none.is_none());
        met
    }

    fn rest_after(queue: &'static Numbered, steps: usize) -> Rest<u32, Numbers> {
        queue.visit(None, steps, |_| ControlFlow::Continue(())).unwrap()
    }

    #[test]
    fn who_rests_goes_on_behind_what_has_left_and_takes_it_out() {
        let queue = queue();
        let mut entries: Vec<_> = (1..=5).map(|value| Some(add(queue, value))).collect();
        let (rest, other) = (rest_after(queue, 2), rest_after(queue, 2));
        let second = entries[1].as_ref().unwrap().0.clone();
        for gone in [1, 2, 0] {
            queue.leave(entries[gone].take().unwrap());
        }
        drain();
        assert_eq!(rest_of(queue, None), [4, 5], "who has left is met no more");
        assert_eq!(rest_of(queue, Some(&rest)), [4, 5]);
        drop(rest);
        assert!(queue.0.lock().has(&second), "another rests there");
        assert_eq!(rest_of(queue, Some(&other)), [4, 5]);
        drop(other);
        assert!(!queue.0.lock().has(&second));
        drain();
        assert_eq!(Arc::strong_count(&second), 1);
    }

    #[test]
    fn a_visit_ends_where_it_is_broken_off_and_at_the_end() {
        let queue = queue();
        let _entries: Vec<_> = (1..=3).map(|value| add(queue, value)).collect();
        let mut met = 0;
        let broken = queue.visit(None, 10, |value| {
            met = *value;
            if *value == 2 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        assert!(broken.is_none());
        assert_eq!(met, 2);
        let last = rest_after(queue, 3);
        assert_eq!(rest_of(queue, Some(&last)), []);
    }

    #[test]
    fn a_reader_that_rests_at_each_step_meets_what_is_there_throughout() {
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let queue = queue();
        let _first = add(queue, 1);
        let _guest = add(queue, 100);
        let _last = add(queue, 2);
        let done = AtomicUsize::new(0);
        thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    for n in 0..rounds {
                        let guest = add(queue, 101 + n);
                        thread::yield_now();
                        queue.leave(guest);
                    }
                    done.fetch_add(1, Relaxed);
                });
            }
            while done.load(Relaxed) < 2 {
                let (mut met, mut rest) = (Vec::new(), None);
                loop {
                    rest = queue.visit(rest.as_ref(), 1, |value| {
                        met.push(*value);
                        ControlFlow::Continue(())
                    });
                    if rest.is_none() || met.len() > 50 {
                        break;
                    }
                }
                assert_eq!(met[..3], [1, 100, 2]);
            }
        });
        drain();
        assert_eq!(rest_of(queue, None), [1, 100, 2], "nothing is left behind");
    }
}
