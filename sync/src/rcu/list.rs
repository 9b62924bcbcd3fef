//! Lists of counted objects in the order of their arrival, read under RCU: a reader writes no line.
//!
//! An object has its link inside, so nothing is allocated, and it is put on one list once in its life. Who changes a list locks it. The list's reference is
//! dropped a grace period after the object was taken out. Protocol: [`crate::protocol::list`].

use super::{Deferred, RcuObject, RcuRead};
use crate::level::{Before, Held, Level};
use crate::lock::{LockClass, SpinGuard, SpinLock};
use crate::protocol::list::{Head, Link, Linked};
use alloc::sync::Arc;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ops::Deref;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

/// An object's place on its list.
#[derive(Debug)]
pub struct Place<T> {
    link: Link<T>,
    /// The list that it is on; null before and after.
    list: AtomicPtr<()>,
    /// Objects of one list are numbered from 1 as they come, after the last that is there; 0: it was on none yet.
    birth: AtomicU64,
}

impl<T> Place<T> {
    pub const fn new() -> Self {
        Place { link: Link::new(), list: AtomicPtr::new(ptr::null_mut()), birth: AtomicU64::new(0) }
    }
}

impl<T> Default for Place<T> {
    fn default() -> Self {
        Self::new()
    }
}

/// An object with a place of its own.
///
/// # Safety
/// `place` gives always the same field of the object itself. An object is put on one list at a time. A list of such objects is not moved once one has
/// been on it.
pub unsafe trait Listed: RcuObject + Sized {
    fn place(&self) -> &Place<Self>;
}

impl<T: Listed> Linked for T {
    fn link(&self) -> &Link<Self> {
        &self.place().link
    }
}

/// See the head of the file.
pub struct List<T: Listed, L: Level> {
    head: Head<T>,
    writer: SpinLock<(), L>,
    _owns: PhantomData<Arc<T>>,
}

impl<T: Listed, L: Level> List<T, L> {
    pub const fn new(class: &'static LockClass<L>) -> Self {
        List { head: Head::new(), writer: SpinLock::new((), class), _owns: PhantomData }
    }

    fn address(&self) -> *mut () {
        ptr::from_ref(self).cast_mut().cast()
    }

    /// The birth of the last object, 0 if there is none. Who comes later has a greater one, or that of one that has left meanwhile.
    pub fn last_birth(&self, _read: &RcuRead) -> u64 {
        // SAFETY: as in `Iter::next`.
        unsafe { self.head.last().as_ref() }.map_or(0, Self::birth_of)
    }

    /// When `object` came to its list.
    pub fn birth_of(object: &T) -> u64 {
        object.place().birth.load(Ordering::Relaxed)
    }

    /// The objects. One that comes or goes meanwhile may be among them or not.
    #[inline]
    pub fn iter<'r>(&'r self, _read: &'r RcuRead) -> Iter<'r, T> {
        Iter { at: self.head.first(), _read: PhantomData }
    }

    /// Those that came after `passed`, which was on the list and may be gone since. Then it has to be looked for where they begin.
    #[inline]
    pub fn iter_after<'r>(&'r self, passed: &T, read: &'r RcuRead) -> Iter<'r, T> {
        let place = passed.place();
        // While it is on the list in a read section, what it leads to is in place until the section ends.
        let is_on = place.list.load(Ordering::Acquire) == self.address();
        if is_on {
            return Iter { at: place.link.next(), _read: PhantomData };
        }
        // Births ascend along the list: whoever comes after the first of the later ones is later still.
        let (passed, mut iter) = (place.birth.load(Ordering::Relaxed), self.iter(read));
        // SAFETY: as in `Iter::next`.
        while unsafe { iter.at.as_ref() }.is_some_and(|object| Self::birth_of(object) <= passed) {
            let _ = iter.next();
        }
        iter
    }

    /// The first object.
    #[inline]
    pub fn first<'r>(&'r self, read: &'r RcuRead) -> Option<Met<'r, T>> {
        self.iter(read).next()
    }

    #[track_caller]
    #[inline(always)]
    pub fn lock(&self) -> Locked<'_, T, L> {
        Locked { list: self, writer: self.writer.lock() }
    }

    /// As `lock`, under a lock that is shown.
    #[track_caller]
    #[inline(always)]
    pub fn lock_in<'a, H: Before<L>>(&'a self, held: &'a mut Held<'_, H>) -> Locked<'a, T, L> {
        Locked { list: self, writer: self.writer.lock_in(held) }
    }
}

/// An object that a read section has met on a list.
#[derive(Debug)]
pub struct Met<'r, T>(&'r T);

impl<T> Deref for Met<'_, T> {
    type Target = T;
    #[inline(always)]
    fn deref(&self) -> &T {
        self.0
    }
}

impl<'r, T: Listed> Met<'r, T> {
    /// The same for the rest of the read section.
    #[inline(always)]
    pub fn get(self) -> &'r T {
        self.0
    }

    /// A reference of the caller's own.
    pub fn count(&self) -> Arc<T> {
        // SAFETY: it came from `Arc::into_raw`, and the list's reference is not dropped before the read section ends.
        unsafe {
            Arc::increment_strong_count(self.0);
            Arc::from_raw(self.0)
        }
    }
}

/// Objects of a list.
pub struct Iter<'r, T> {
    at: *const T,
    _read: PhantomData<&'r T>,
}

impl<'r, T: Listed> Iterator for Iter<'r, T> {
    type Item = Met<'r, T>;

    #[inline]
    fn next(&mut self) -> Option<Met<'r, T>> {
        // SAFETY: an object met in the read section is dropped a grace period after it could be met last, or by the drop of the list, which is
        // borrowed.
        let object: &'r T = unsafe { self.at.as_ref() }?;
        self.at = object.place().link.next();
        Some(Met(object))
    }
}

/// A list, locked: nothing comes or goes.
pub struct Locked<'a, T: Listed, L: Level> {
    list: &'a List<T, L>,
    writer: SpinGuard<'a, (), L>,
}

impl<'a, T: Listed, L: Level> Locked<'a, T, L> {
    /// Calls `f` for each object, in the order in which they came.
    pub fn for_each(&self, mut f: impl FnMut(&Arc<T>)) {
        self.visit(None, |object| {
            f(object);
            true
        });
    }

    /// Calls `f` for those that came after `passed`, until it answers false.
    pub fn visit(&self, passed: Option<&T>, f: impl FnMut(&Arc<T>) -> bool) {
        Objects { list: self.list }.visit(passed, f);
    }

    /// Puts `object` at the end. Not one that has been on a list before.
    #[inline]
    pub fn push_back(&mut self, object: Arc<T>) {
        let place = object.place();
        let birth = self.list.last_birth(&super::read()).wrapping_add(1);
        assert!(place.birth.load(Ordering::Relaxed) == 0, "an object is put on a list for the second time");
        place.birth.store(birth, Ordering::Relaxed);
        place.list.store(self.list.address(), Ordering::Relaxed);
        // SAFETY: the lock excludes other writers. The object was on no list, and its reference, the list's from now on, is dropped a grace period after
        // it was taken out.
        unsafe { self.list.head.push_back(Arc::into_raw(object).cast_mut()) };
    }

    /// Is `object` on this list? It stays on it, or off it, while that is locked.
    pub fn has(&self, object: &T) -> bool {
        object.place().list.load(Ordering::Relaxed) == self.list.address()
    }

    /// Takes `object` out; None: it is not on this list.
    pub fn remove(&mut self, object: &Arc<T>) -> Option<Deferred<T>> {
        if !self.has(object) {
            return None;
        }
        let place = object.place();
        // First: who rests there and sees that it is on the list goes on to what it leads to.
        place.list.store(ptr::null_mut(), Ordering::Release);
        let address = Arc::as_ptr(object).cast_mut();
        // SAFETY: the lock excludes other writers. The object is on this list; what is on it is in place. The list's reference came from `into_raw`, and
        // nobody takes it again.
        unsafe {
            self.list.head.remove(address);
            Some(Deferred::new(Arc::from_raw(address)))
        }
    }

    /// What `lock_in` of the next lock takes. The list stays as it is meanwhile: `self` is borrowed.
    pub fn split(&mut self) -> (Objects<'_, T, L>, &mut Held<'a, L>) {
        (Objects { list: self.list }, self.writer.held())
    }
}

/// The objects of a list that is locked.
#[derive(Clone, Copy)]
pub struct Objects<'a, T: Listed, L: Level> {
    list: &'a List<T, L>,
}

impl<T: Listed, L: Level> Objects<'_, T, L> {
    /// Calls `f` for those that came after `passed`, until it answers false.
    pub fn visit(&self, passed: Option<&T>, mut f: impl FnMut(&Arc<T>) -> bool) {
        let read = super::read();
        let iter = match passed {
            Some(passed) => self.list.iter_after(passed, &read),
            None => self.list.iter(&read),
        };
        let mut at = iter.at;
        while !at.is_null() {
            // SAFETY: it came from `Arc::into_raw`; the count is the list's, and is not given up here: nothing leaves a list that is locked.
            let object = ManuallyDrop::new(unsafe { Arc::from_raw(at) });
            if !f(&object) {
                return;
            }
            // For the same reason the next one may be asked for after `f`, which keeps one pointer less meanwhile.
            at = object.place().link.next();
        }
    }
}

impl<T: Listed, L: Level> Drop for List<T, L> {
    fn drop(&mut self) {
        let mut at = self.head.first();
        while !at.is_null() {
            // SAFETY: the list is not borrowed, so no read section uses its objects through it; each came from `into_raw`, and the count is the list's.
            let object = unsafe { Arc::from_raw(at.cast_const()) };
            let place = object.place();
            place.list.store(ptr::null_mut(), Ordering::Relaxed);
            at = place.link.next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rcu::{RcuHead, drain, read};
    use crate::{lock_class, lock_order};
    use alloc::boxed::Box;
    use alloc::vec;
    use alloc::vec::Vec;
    use std::thread;

    lock_order! { level Numbers = 1; }
    lock_class! { static NUMBERS: LockClass = ("numbers", Numbers); }

    struct Number {
        value: u32,
        place: Place<Number>,
        rcu: RcuHead,
    }

    crate::rcu_object!(Number);

    // SAFETY: a field; the tests' lists are not moved.
    unsafe impl Listed for Number {
        fn place(&self) -> &Place<Self> {
            &self.place
        }
    }

    type NumberList = List<Number, Numbers>;

    fn number(value: u32) -> Arc<Number> {
        Arc::new(Number { value, place: Place::new(), rcu: RcuHead::new() })
    }

    fn with(values: impl IntoIterator<Item = u32>) -> (Box<NumberList>, Vec<Arc<Number>>) {
        let list = Box::new(NumberList::new(&NUMBERS));
        let objects: Vec<_> = values.into_iter().map(number).collect();
        objects.iter().for_each(|object| list.lock().push_back(object.clone()));
        (list, objects)
    }

    fn values<'r>(iter: impl Iterator<Item = Met<'r, Number>>) -> Vec<u32> {
        iter.map(|number| number.value).collect()
    }

    #[test]
    fn objects_come_and_go_at_every_place_and_are_dropped_after_a_grace_period() {
        let (list, objects) = with(1..=4);
        assert_eq!(values(list.iter(&read())), [1, 2, 3, 4]);
        for (gone, left) in [(2, vec![1, 2, 4]), (0, vec![2, 4]), (3, vec![2])] {
            assert!(list.lock().has(&objects[gone]));
            assert!(list.lock().remove(&objects[gone]).is_some());
            assert!(!list.lock().has(&objects[gone]));
            assert!(list.lock().remove(&objects[gone]).is_none(), "it is not there any more");
            assert_eq!(values(list.iter(&read())), left);
        }
        list.lock().push_back(number(5));
        assert_eq!(values(list.iter(&read())), [2, 5]);
        assert_eq!(list.first(&read()).map(|first| first.value), Some(2));
        drain();
        assert_eq!(objects.iter().map(Arc::strong_count).collect::<Vec<_>>(), [1, 2, 1, 1]);
        drop(list);
        assert_eq!(Arc::strong_count(&objects[1]), 1);
    }

    #[test]
    fn who_rested_goes_on_behind_where_it_was_whoever_has_left() {
        let (list, objects) = with(1..=6);
        assert_eq!(values(list.iter_after(&objects[2], &read())), [4, 5, 6]);
        for gone in [2, 3, 0] {
            drop(list.lock().remove(&objects[gone]));
        }
        drain();
        assert_eq!(
            values(list.iter_after(&objects[2], &read())),
            [5, 6],
            "it has left, and its next as well"
        );
        let mut met = Vec::new();
        list.lock().visit(Some(&objects[4]), |object| {
            met.push(object.value);
            true
        });
        assert_eq!(met, [6]);
        assert!(NumberList::birth_of(&objects[5]) <= list.last_birth(&read()));
    }

    #[test]
    fn an_object_of_another_list_is_not_taken_out() {
        let ((list, objects), (other, _)) = (with(1..=2), with([3]));
        assert!(other.lock().remove(&objects[0]).is_none());
        assert_eq!((values(list.iter(&read())), values(other.iter(&read()))), (vec![1, 2], vec![3]));
    }

    #[test]
    #[should_panic = "second time"]
    fn an_object_is_put_on_a_list_once() {
        let (list, objects) = with([1]);
        drop(list.lock().remove(&objects[0]));
        list.lock().push_back(objects[0].clone());
    }

    #[test]
    fn a_reader_meets_what_is_there_throughout() {
        let rounds = if cfg!(miri) { 20 } else { 2000 };
        let (list, _objects) = with([1, 2]);
        thread::scope(|scope| {
            scope.spawn(|| {
                for n in 0..rounds {
                    let guest = number(100 + n);
                    list.lock().push_back(guest.clone());
                    drop(list.lock().remove(&guest));
                }
            });
            for _ in 0..rounds {
                let met = values(list.iter(&read()));
                assert_eq!(met[..2], [1, 2]);
                assert!(met.len() <= 3 || met.is_sorted());
            }
        });
        drain();
    }
}
