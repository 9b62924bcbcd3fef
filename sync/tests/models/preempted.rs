//! A CPU that writes to a page through its translation, is stopped by its host and runs again, against others that take the page away.

use crate::model;
use crate::protocol::preempted::{FLUSH, PREEMPTED, Preempted};
use loom::cell::UnsafeCell;
use loom::sync::atomic::{AtomicBool, Ordering};
use loom::thread;
use std::sync::Arc;

struct World {
    word: Preempted,
    /// The page table: the page is there.
    entry: AtomicBool,
    /// The CPU's translation. It alone, and its host, come here.
    cached: UnsafeCell<bool>,
    page: UnsafeCell<u32>,
}

// SAFETY: loom checks that the CPU's writes and those of who took the page are ordered.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

impl World {
    /// The CPU writes to the page, if it finds it.
    fn access(&self) {
        // SAFETY: as above.
        let found = self.cached.with_mut(|cached| unsafe {
            *cached = *cached || self.entry.load(Ordering::Relaxed);
            *cached
        });
        if found {
            // SAFETY: as above.
            self.page.with_mut(|page| unsafe { *page = 1 });
        }
    }

    /// What the host does. Its own orders are KVM's to keep; these are no stronger than x86 has them.
    fn stop_and_run(&self) {
        self.word.0.store(PREEMPTED, Ordering::Release);
        if self.word.0.swap(0, Ordering::AcqRel) & FLUSH != 0 {
            // SAFETY: as above.
            self.cached.with_mut(|cached| unsafe { *cached = false });
        }
    }

    /// Takes the page away; if the CPU is not to be waited for, it is used otherwise at once.
    fn take(&self) {
        if self.word.leave_flush() {
            // SAFETY: as above.
            self.page.with_mut(|page| unsafe { *page = 2 });
        }
    }
}

fn preempted() {
    let world = Arc::new(World {
        word: Preempted::new(),
        entry: AtomicBool::new(true),
        cached: UnsafeCell::new(false),
        page: UnsafeCell::new(0),
    });
    let other = world.clone();
    let cpu = thread::spawn(move || {
        other.access();
        other.stop_and_run();
        other.access();
        other.stop_and_run();
        other.access();
    });
    world.entry.store(false, Ordering::Relaxed);
    world.take();
    cpu.join().unwrap();
}

model! { preempted (4) breaks without_order_when_leaving_the_flush: "preempted.leave" }
