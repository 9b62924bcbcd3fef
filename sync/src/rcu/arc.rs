//! Objects that are dropped after a grace period, and the cell through which readers find them.
//!
//! An object carries its own [`RcuHead`], so deferring its drop allocates nothing and cannot fail. An `Arc` may be deferred
//! by several owners at once: the head counts the references to drop, and goes round once more if some came after its period began.

use super::RcuRead;
use super::callback::{self, Call, RawHead};
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::fmt;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

/// The link by which an object waits for a grace period.
#[derive(Debug)]
pub struct RcuHead {
    raw: RawHead,
    /// References to drop; the head is on a list exactly while this is not zero.
    deferred: AtomicU32,
    /// How many of them were there when the current round began. Used by the callback alone.
    covered: AtomicU32,
}

impl RcuHead {
    pub const fn new() -> Self {
        RcuHead { raw: RawHead::new(), deferred: AtomicU32::new(0), covered: AtomicU32::new(0) }
    }
}

impl Default for RcuHead {
    fn default() -> Self {
        Self::new()
    }
}

/// An object with a head of its own: `rcu_head` gives a field of the object itself. Implemented by [`rcu_object!`](crate::rcu_object).
pub trait RcuObject: Send + Sync + 'static {
    fn rcu_head(&self) -> &RcuHead;
}

/// Makes a type an [`RcuObject`](crate::rcu::RcuObject): `rcu_object!(Type)` where the head is its field `rcu`, `rcu_object!(Type,
/// field)` where it is another. The parameters of a generic type come first, in brackets.
///
/// ```
/// use sync::rcu::{RcuArc, RcuHead};
/// struct Name {
///     text: [u8; 16],
///     rcu: RcuHead,
/// }
/// sync::rcu_object!(Name);
/// let name = RcuArc::new(Some(std::sync::Arc::new(Name { text: [0; 16], rcu: RcuHead::new() })));
/// assert_eq!(name.load(&sync::rcu::read()).map(|name| name.text), Some([0; 16]));
/// ```
#[macro_export]
macro_rules! rcu_object {
    ([$($parameters:tt)*] $object:ty, $field:tt) => {
        impl<$($parameters)*> $crate::rcu::RcuObject for $object {
            fn rcu_head(&self) -> &$crate::rcu::RcuHead {
                &self.$field
            }
        }
    };
    ([$($parameters:tt)*] $object:ty) => {
        $crate::rcu_object!([$($parameters)*] $object, rcu);
    };
    ($object:ty) => {
        $crate::rcu_object!([] $object, rcu);
    };
    ($object:ty, $field:tt) => {
        $crate::rcu_object!([] $object, $field);
    };
}

/// The object's head, which is part of it and so lives as long.
fn head_of<T: RcuObject>(object: &T) -> NonNull<RawHead> {
    let head = object.rcu_head();
    let offset = ptr::from_ref(head).addr().wrapping_sub(ptr::from_ref(object).addr());
    let inside = offset <= size_of::<T>().saturating_sub(size_of::<RcuHead>());
    assert!(inside && size_of::<T>() >= size_of::<RcuHead>(), "rcu_head() is not a field of the object");
    NonNull::from(&head.raw)
}

/// Drops `object` after a grace period.
pub fn defer_box<T: RcuObject>(object: Box<T>) {
    /// # Safety
    /// `object` came from `Box::into_raw`.
    unsafe fn free<T>(object: *mut ()) {
        // SAFETY: as the caller promises.
        drop(unsafe { Box::from_raw(object.cast::<T>()) });
    }
    let object = Box::into_raw(object);
    // SAFETY: the box was the only owner; it stays in place until `free`, which the grace period puts after all readers.
    // The head is taken through the raw pointer, so that it may be used until then.
    unsafe {
        let head = head_of(&*object);
        callback::queue(head, Call { object: object.cast(), function: free::<T> });
    }
}

/// Drops this reference to `object` after a grace period.
pub fn defer_arc<T: RcuObject>(object: Arc<T>) {
    let head = object.rcu_head();
    let raw = head_of(&*object);
    // Acquire and release: the round that drops this reference sees all that its owner did.
    if head.deferred.fetch_add(1, Ordering::AcqRel) == 0 {
        head.covered.store(1, Ordering::Relaxed);
        queue_arc(raw, Arc::into_raw(object));
    } else {
        // The head is on its way; the reference is one more for it to drop.
        let _ = Arc::into_raw(object);
    }
}

fn queue_arc<T: RcuObject>(head: NonNull<RawHead>, object: *const T) {
    // SAFETY: the head is on no list, and `deferred` references keep the object in place until `drop_arc` gives them up.
    unsafe { callback::queue(head, Call { object: object.cast_mut().cast(), function: drop_arc::<T> }) };
}

/// # Safety
/// `object` came from `Arc::into_raw`, and `deferred` references of it are the head's.
unsafe fn drop_arc<T: RcuObject>(object: *mut ()) {
    let object = object.cast::<T>().cast_const();
    // SAFETY: the head's references keep the object alive.
    let (head, raw) = unsafe { ((*object).rcu_head(), head_of(&*object)) };
    let covered = head.covered.load(Ordering::Relaxed);
    match head.deferred.compare_exchange(covered, 0, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => {
            for _ in 0..covered {
                // SAFETY: one of the references that the head had; it may be the last, and `head` is not used again.
                drop(unsafe { Arc::from_raw(object) });
            }
        }
        Err(more) => {
            // Some came after the period began. All that are here now are covered by the next.
            head.covered.store(more, Ordering::Relaxed);
            queue_arc(raw, object);
        }
    }
}

/// Calls `function(object)` after a grace period, on this CPU, in thread context: for objects that are neither boxes nor `Arc`s.
/// Not from interrupt handlers.
///
/// # Safety
/// `head` is in no use and stays in place until the call. The call may be made by any thread of this CPU, when nothing refers to the object
/// but what read sections under way have found.
pub unsafe fn call_rcu(head: NonNull<RcuHead>, object: *mut (), function: unsafe fn(*mut ())) {
    // SAFETY: as the caller promises; the raw head is a field of the head.
    unsafe {
        callback::queue(NonNull::new_unchecked(&raw mut (*head.as_ptr()).raw), Call { object, function })
    };
}

/// Calls `function(object)` soon, on this CPU, in thread context, without waiting for a grace period: for the rest of what is too long for one callback.
/// Other threads may run before it. Not from interrupt handlers.
///
/// # Safety
/// `head` is in no use and stays in place until the call. The call may be made by any thread of this CPU.
pub unsafe fn call_soon(head: NonNull<RcuHead>, object: *mut (), function: unsafe fn(*mut ())) {
    // SAFETY: as the caller promises; the raw head is a field of the head.
    unsafe {
        callback::queue_ripe(NonNull::new_unchecked(&raw mut (*head.as_ptr()).raw), Call { object, function })
    };
}

/// A place that holds an `Arc<T>` or nothing, read under RCU: a reader writes no line at all, or only the object's count when it takes a
/// reference of its own. Whoever replaces the content defers the drop of the old.
pub struct RcuArc<T: RcuObject> {
    object: AtomicPtr<T>,
    _owns: PhantomData<Arc<T>>,
}

impl<T: RcuObject> RcuArc<T> {
    /// Holds nothing.
    pub const fn empty() -> Self {
        RcuArc { object: AtomicPtr::new(ptr::null_mut()), _owns: PhantomData }
    }

    pub fn new(object: Option<Arc<T>>) -> Self {
        RcuArc { object: AtomicPtr::new(into_raw(object)), _owns: PhantomData }
    }

    /// Is nothing held just now?
    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.object.load(Ordering::Relaxed).is_null()
    }

    /// What is held just now, for as long as the read section lasts.
    #[inline(always)]
    pub fn load<'r>(&'r self, _read: &'r RcuRead) -> Option<&'r T> {
        // SAFETY: what was held at any time during the read section is dropped only after a grace period, which has to wait
        // for the section; or by `drop`, for which nobody borrows the cell. Acquire: the object is seen whole.
        unsafe { self.object.load(Ordering::Acquire).as_ref() }
    }

    /// A reference of the caller's own to what is held just now.
    #[inline]
    pub fn get(&self, read: &RcuRead) -> Option<Arc<T>> {
        let object: *const T = self.load(read)?;
        // SAFETY: the cell's own reference is not dropped before the read section ends, so the count is not zero, and the
        // pointer came from `Arc::into_raw`.
        unsafe {
            Arc::increment_strong_count(object);
            Some(Arc::from_raw(object))
        }
    }

    /// What is held, outside of a read section.
    ///
    /// # Safety
    /// The caller alone exchanges the content, and does not use the result once what it took out may be dropped.
    #[inline(always)]
    pub unsafe fn look(&self) -> Option<&T> {
        // SAFETY: the caller's promise. Its own store is what it reads.
        unsafe { self.object.load(Ordering::Relaxed).as_ref() }
    }

    /// Holds `object` from now on; the old content is dropped after a grace period.
    pub fn swap(&self, object: Option<Arc<T>>) {
        drop(self.replace(object));
    }

    /// Holds `object` from now on, and gives out the old content, which the caller must not drop before a grace period but pass to `defer_arc`, or
    /// hold a reference elsewhere; so what is given out does that by itself.
    #[inline]
    pub fn replace(&self, object: Option<Arc<T>>) -> Option<Deferred<T>> {
        let old = self.object.swap(into_raw(object), Ordering::AcqRel);
        // SAFETY: from `into_raw`; the exchange gave it to this thread alone.
        (!old.is_null()).then(|| Deferred(Some(unsafe { Arc::from_raw(old.cast_const()) })))
    }

    /// Holds `object` if nothing is held; gives it back otherwise.
    pub fn put_if_empty(&self, object: Arc<T>) -> Result<(), Arc<T>> {
        let object = Arc::into_raw(object).cast_mut();
        match self.object.compare_exchange(ptr::null_mut(), object, Ordering::AcqRel, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            // SAFETY: the cell did not take it.
            Err(_) => Err(unsafe { Arc::from_raw(object.cast_const()) }),
        }
    }

    /// Takes the content out, as `replace` does.
    pub fn take(&self) -> Option<Deferred<T>> {
        self.replace(None)
    }
}

fn into_raw<T>(object: Option<Arc<T>>) -> *mut T {
    object.map_or(ptr::null_mut(), |object| Arc::into_raw(object).cast_mut())
}

impl<T: RcuObject> Drop for RcuArc<T> {
    fn drop(&mut self) {
        let object = *self.object.get_mut();
        if !object.is_null() {
            // SAFETY: from `into_raw`; the cell is not borrowed, so no read section uses its content through it.
            drop(unsafe { Arc::from_raw(object.cast_const()) });
        }
    }
}

impl<T: RcuObject> fmt::Debug for RcuArc<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RcuArc").field(&self.object.load(Ordering::Relaxed)).finish()
    }
}

/// A reference taken out of an [`RcuArc`], whose drop waits for a grace period.
pub struct Deferred<T: RcuObject>(pub(super) Option<Arc<T>>);

impl<T: RcuObject> Deferred<T> {
    pub(super) fn new(object: Arc<T>) -> Self {
        Deferred(Some(object))
    }

    /// Drops the reference now.
    ///
    /// # Safety
    /// Another reference is dropped a grace period from now at the earliest.
    pub unsafe fn drop_now(mut self) {
        drop(self.0.take());
    }
}

impl<T: RcuObject> core::ops::Deref for Deferred<T> {
    type Target = Arc<T>;
    fn deref(&self) -> &Arc<T> {
        match &self.0 {
            Some(object) => object,
            None => unreachable!("taken only by drop"),
        }
    }
}

impl<T: RcuObject> Drop for Deferred<T> {
    fn drop(&mut self) {
        if let Some(object) = self.0.take() {
            defer_arc(object);
        }
    }
}
