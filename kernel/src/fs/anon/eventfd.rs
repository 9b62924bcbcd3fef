//! eventfd(2): a counter to wait on.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::fmt::Write;
use core::sync::atomic::AtomicU64;

use crate::lock_order as level;
use sync::heap::Text;
use sync::percpu::Padded;
use sync::{LocalCell, SpinLock, lock_class, per_cpu, try_box};

use crate::errno::{EAGAIN, EFAULT, EINVAL, ENOMEM, Result};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::poll::{self, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::fs::vfs::numbers::{self, Blocks, Mine};

lock_class! { static EVENT: LockClass = ("eventfd", level::Eventfd); }

struct Event {
    count: SpinLock<u64, level::Eventfd>,
    semaphore: bool,
    /// Which one it is, for /proc/PID/fdinfo.
    id: u32,
    changed: PollQueue,
}

static NEXT: Blocks = Padded(AtomicU64::new(0));
per_cpu! { static MINE: Mine = LocalCell::new((0, 0)); }

pub fn try_new(count: u64, semaphore: bool, flags: OpenFlags) -> Result<Arc<File>> {
    let id = numbers::take(&NEXT, MINE.this()) as u32 & i32::MAX.cast_unsigned();
    let event = Event { count: SpinLock::new(count, &EVENT), semaphore, id, changed: PollQueue::new() };
    let inode = super::nameless()?;
    File::try_anonymous(inode, "anon_inode:[eventfd]", try_box(event)?, flags | OpenFlags::READ_WRITE)
}

impl Event {
    /// Adds the number that the next segment of `from` holds.
    fn add(&self, file: &File, from: &mut Input<'_>) -> Result {
        let mut bytes = [0; 8];
        if from.next_segment() != 8 {
            return Err(EINVAL);
        }
        if from.take(&mut bytes) < 8 {
            return Err(EFAULT);
        }
        let add = u64::from_ne_bytes(bytes);
        if add == u64::MAX {
            return Err(EINVAL);
        }
        let put = || {
            let mut count = self.count.lock();
            let sum = count.checked_add(add).filter(|&s| s != u64::MAX)?;
            *count = sum;
            Some(())
        };
        match put() {
            Some(()) => {}
            None if file.nonblocking() => return Err(EAGAIN),
            None => self.changed.wait(None, put)?,
        }
        self.changed.wake_and_give_way();
        Ok(())
    }
}

impl FileOps for Event {
    fn takes_spliced(&self) -> bool {
        false
    }

    fn splices(&self) -> bool {
        false
    }

    #[expect(clippy::arithmetic_side_effects, reason = "n is at most the count")]
    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        if out.left() < 8 {
            return Err(EINVAL);
        }
        let take = || {
            let mut count = self.count.lock();
            let n = if self.semaphore { 1 } else { *count };
            (*count > 0).then(|| {
                *count -= n;
                n
            })
        };
        let n = match take() {
            Some(n) => n,
            None if file.nonblocking() || out.nowait => return Err(EAGAIN),
            None => self.changed.wait(None, take)?,
        };
        self.changed.wake_and_give_way();
        out.put(&n.to_ne_bytes());
        out.whole_records(8)
    }

    fn write(&self, file: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        let mut done = 0;
        loop {
            // Each segment is a number.
            match self.add(file, from) {
                Err(errno) if done == 0 => return Err(errno),
                Err(_) => return Ok(done),
                Ok(()) => done = from.done(),
            }
            if from.left() == 0 {
                return Ok(done);
            }
        }
    }

    /// Each segment is written by itself.
    fn takes_flags(&self, writing: bool) -> bool {
        !writing
    }

    fn takes_nowait(&self, _: &File) -> bool {
        true
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.changed);
        let count = *self.count.lock();
        let readable = if count > 0 { poll::IN | poll::RDNORM } else { 0 };
        let writable = if count < u64::MAX - 1 { poll::OUT | poll::WRNORM } else { 0 };
        readable | writable
    }

    fn ignores_seek(&self) -> bool {
        true
    }

    fn tell(&self, _: &File, out: &mut Vec<u8>) -> Result {
        let (count, id, semaphore) = (*self.count.lock(), self.id, u8::from(self.semaphore));
        let written = write!(
            Text(out),
            "eventfd-count: {count:16x}\neventfd-id: {id}\neventfd-semaphore: {semaphore}\n"
        );
        written.map_err(|_| ENOMEM)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
