//! A swap device in memory, which fails when it is told to.

use super::requests::Alone;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vm::frame::{OwnedFrame, Pin};
use vm::swap::{SwapArea, SwapDevice};
use vm::*;

/// What tests see of it.
#[derive(Default)]
pub struct Memory {
    slots: Mutex<HashMap<u32, Vec<u8>>>,
    pub fails_reads: AtomicBool,
    pub fails_writes: AtomicBool,
    /// One of so many writes fails; 0: none.
    pub fails_each_write: AtomicU64,
    pub reads: AtomicU64,
    pub writes: AtomicU64,
    /// What comes before a write has an effect.
    on_write: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    /// What comes after a read, before its pages are in the cache.
    on_read: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl Memory {
    pub fn on_next_write(&self, f: impl FnOnce() + Send + 'static) {
        *self.on_write.lock().unwrap() = Some(Box::new(f));
    }

    pub fn on_next_read(&self, f: impl FnOnce() + Send + 'static) {
        *self.on_read.lock().unwrap() = Some(Box::new(f));
    }

    fn read_fails(&self) -> bool {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.fails_reads.load(Ordering::Relaxed)
    }

    fn write_fails(&self) -> bool {
        let number = self.writes.fetch_add(1, Ordering::Relaxed);
        let each = self.fails_each_write.load(Ordering::Relaxed);
        self.fails_writes.load(Ordering::Relaxed) || each != 0 && number.is_multiple_of(each)
    }
}

struct Device(Arc<Memory>);

impl SwapDevice for Device {
    fn read(&self, first: u32, pages: &mut [OwnedFrame]) -> Result<(), VmError> {
        if self.0.read_fails() {
            return Err(VmError::Io);
        }
        {
            let slots = self.0.slots.lock().unwrap();
            for (slot, page) in (first..).zip(pages) {
                match slots.get(&slot) {
                    Some(bytes) => page.bytes().copy_from_slice(bytes),
                    // Nothing was written there.
                    None => page.bytes().fill(0xee),
                }
            }
        }
        let f = self.0.on_read.lock().unwrap().take();
        f.into_iter().for_each(|f| f());
        Ok(())
    }

    fn write(&self, first: u32, pages: &[Pin]) -> Result<(), VmError> {
        let fails = self.0.write_fails();
        let f = self.0.on_write.lock().unwrap().take();
        f.into_iter().for_each(|f| f());
        if fails {
            return Err(VmError::Io);
        }
        let mut slots = self.0.slots.lock().unwrap();
        for (slot, page) in (first..).zip(pages) {
            let mut bytes = vec![0; PAGE_SIZE];
            page.bytes().copy_to(&mut bytes);
            slots.insert(slot, bytes);
        }
        Ok(())
    }
}

/// A test alone, with no area that is open: one that failed may have left some.
pub fn alone() -> Alone {
    let alone = super::requests::alone();
    SwapArea::all().for_each(|area| area.close());
    alone
}

/// An area of so many slots, number 0 among them, and what it lies on.
pub fn area(slots: u32, priority: i32) -> (Arc<SwapArea>, Arc<Memory>) {
    let memory = Arc::new(Memory::default());
    (SwapArea::open(Box::new(Device(memory.clone())), slots, priority).unwrap(), memory)
}

/// Ends an area in which nothing is left.
pub fn remove(area: Arc<SwapArea>) {
    area.close();
    assert_eq!((area.used(), area.counted()), (0, 0), "slots are taken at the end");
    area.remove().unwrap();
    drop(area);
    sync::rcu::drain();
}
