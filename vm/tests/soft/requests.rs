//! Spaces, objects and requests as most tests want them, one test at a time.

use super::{Soft, free_frames, free_frames_again, start, switch_to};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use vm::*;

static ONE: Mutex<()> = Mutex::new(());

/// Tests of one process share memory: one at a time, so that frames can be counted. At its end, which comes after that of all that the
/// test made, each test has given back what it took.
pub struct Alone(MutexGuard<'static, ()>, u64);

impl Drop for Alone {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            assert_eq!(
                free_frames_again(self.1),
                self.1,
                "frames are free at the test's end, and were at its begin"
            );
        }
    }
}

pub fn alone() -> Alone {
    let guard = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    start(4);
    Alone(guard, free_frames())
}

pub const RW: Prot = Prot::READ.union(Prot::WRITE);

pub fn anon(len: usize) -> MapRequest {
    MapRequest { hint: VirtAddr(0), len, prot: RW, flags: MapFlags::empty(), backing: Backing::Anonymous }
}

pub fn at(addr: usize, len: usize, prot: Prot) -> MapRequest {
    MapRequest { hint: VirtAddr(addr), flags: MapFlags::FIXED, prot, ..anon(len) }
}

pub fn file(object: &ObjectRef, shared: bool, len: usize) -> MapRequest {
    let flags = if shared { MapFlags::SHARED } else { MapFlags::empty() };
    MapRequest { flags, backing: Backing::Object { object: object.clone(), offset: 0 }, ..anon(len) }
}

pub fn space() -> Arc<Space<Soft>> {
    let s = Space::<Soft>::try_new().unwrap();
    switch_to(&s);
    s
}

/// Memory of `len` bytes with an inode number, as a file's.
pub fn object(len: u64) -> ObjectRef {
    let object = Object::try_new(1).unwrap();
    object.set_size(len).unwrap();
    object
}
