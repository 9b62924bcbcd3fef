//! Objects that are freed on another CPU than the one whose slab they are from.
//!
//! They wait in the outbox of the CPU that freed them, and go together: one chain for each owner, put into the owner's inbox
//! (`sync::protocol::inbox`, where the argument and its model are). The owner takes its inbox home when a magazine runs empty or over.
//! So of the owner's data nothing but the inbox is written by others, once per chain.

use super::page::Page;
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use sync::machine;
use sync::per_cpu;
use sync::percpu::Padded;
use sync::protocol::inbox::Inbox;

/// Objects that wait to be sent, at most.
const CAPACITY: usize = 64;

struct Outbox {
    len: AtomicUsize,
    objects: UnsafeCell<[usize; CAPACITY]>,
}

// SAFETY: `objects` is touched by the owning CPU alone.
unsafe impl Sync for Outbox {}

per_cpu! {
    static OUTBOX: Outbox = Outbox { len: AtomicUsize::new(0), objects: UnsafeCell::new([0; CAPACITY]) };
    // On a line of its own: other CPUs write it.
    static INBOX: Padded<Inbox> = Padded(Inbox::new());
}

/// Sends an object of another CPU's slab home, some time.
///
/// # Safety
/// Nobody uses the object any more.
#[cold]
pub(super) unsafe fn post(object: *mut u8) {
    let outbox = OUTBOX.this();
    let len = outbox.len.load(Relaxed).min(CAPACITY - 1);
    // SAFETY: this CPU's cell; no other reference to it exists while this one does.
    unsafe { (*outbox.objects.get())[len] = object as usize };
    outbox.len.store(len + 1, Relaxed);
    if len + 1 == CAPACITY {
        send();
    }
}

/// Sends what waits.
pub(super) fn send() {
    let outbox = OUTBOX.this();
    let len = outbox.len.load(Relaxed).min(CAPACITY);
    // SAFETY: this CPU's cell; nothing that is called below touches it.
    let objects = unsafe { &mut (&mut *outbox.objects.get())[..len] };
    // Those of one owner come together: few owners, so that moving them to the front is quick.
    let mut rest = objects;
    while let Some(first) = rest.first() {
        // SAFETY: what was posted is an object.
        let owner_of = |object: usize| unsafe { Page::of(object as *mut u8) }.owner();
        let owner = owner_of(*first);
        let (first, mut last, mut found) = (*first, *first, 1);
        for n in 1..rest.len() {
            let object = rest[n];
            if owner_of(object) == owner {
                // SAFETY: nobody uses the objects in the outbox, and each is at least a word long.
                unsafe { *(last as *mut usize) = object };
                last = object;
                rest.swap(found, n);
                found += 1;
            }
        }
        // SAFETY: as above; `link` is not called after the chain has been put.
        INBOX.of(owner).put(first as u64, |next| unsafe { *(last as *mut usize) = next as usize });
        rest = &mut rest[found..];
    }
    outbox.len.store(0, Relaxed);
}

/// As `OwnSlabs::wipe`.
pub(super) fn wipe() {
    let outbox = OUTBOX.this();
    // SAFETY: as in `send`.
    unsafe { (&mut *outbox.objects.get())[outbox.len.load(Relaxed).min(CAPACITY)..].fill(0) };
}

/// Puts the objects that other CPUs have given back into their slabs.
#[inline]
pub(super) fn take_home() {
    let mut object = INBOX.this().take() as usize;
    while object != 0 {
        // SAFETY: what comes home is an object.
        let page = unsafe { Page::of(object as *mut u8) };
        debug_assert_eq!(page.owner(), machine::cpu_id(), "an object came home to another CPU");
        // SAFETY: a free object, whose first word is the link; read before it is put.
        let next = unsafe { *(object as *const usize) };
        // SAFETY: the inbox holds free objects of this CPU's slabs.
        unsafe { page.own().put(object, page.cache()) };
        object = next;
    }
}
