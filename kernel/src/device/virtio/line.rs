//! A queue of a device: its tables, its lock, and the CPU that takes its interrupts.
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU16, AtomicU32, AtomicU64};

use ::virtio::queue::{Broken, NotPushed};
use ::virtio::{Buffer, Queue, QueueMemory};
use arrayvec::ArrayVec;
use sync::{AllocError, CpuId, SpinLock, lock_class};
use vm::frame::DevicePage;

use super::request::{Call, Memory, Request, Token, Whom};
use super::{Device, Failure};
use crate::lock_order as level;
use crate::sched::{Deadline, Sleep, WaitQueue};

lock_class! { static QUEUE_CLASS: LockClass = ("device queue", level::DeviceQueue); }

/// The tables of a queue, a page each.
pub struct Tables {
    descriptors: DevicePage<AtomicU64>,
    available: DevicePage<AtomicU16>,
    used: DevicePage<AtomicU32>,
}

impl Tables {
    fn try_new() -> Option<Tables> {
        Some(Tables {
            descriptors: DevicePage::try_new()?,
            available: DevicePage::try_new()?,
            used: DevicePage::try_new()?,
        })
    }
}

impl QueueMemory for Tables {
    fn descriptors(&self) -> &[AtomicU64] {
        self.descriptors.words()
    }

    fn available(&self) -> &[AtomicU16] {
        self.available.words()
    }

    fn used(&self) -> &[AtomicU32] {
        self.used.words()
    }

    fn addresses(&self) -> [u64; 3] {
        [self.descriptors.addr().0, self.available.addr().0, self.used.addr().0]
    }
}

/// Lines of two CPUs share no cache line.
#[repr(align(128))]
pub struct Line {
    number: u16,
    pub cpu: CpuId,
    queue: SpinLock<Queue<Tables, Token>, level::DeviceQueue>,
    /// Who waits for room in the queue.
    room: WaitQueue,
}

impl Line {
    pub fn try_new(number: u16, size: u16, cpu: CpuId) -> Result<Line, AllocError> {
        let tables = Tables::try_new().ok_or(AllocError)?;
        let queue = SpinLock::new(Queue::try_new(tables, size)?, &QUEUE_CLASS);
        Ok(Line { number, cpu, queue, room: WaitQueue::new() })
    }

    pub fn addresses(&self) -> [u64; 3] {
        self.queue.lock().addresses()
    }

    /// The most parts that a request may have.
    pub fn size(&self) -> u16 {
        self.queue.lock().size()
    }

    pub fn in_flight(&self) -> u16 {
        self.queue.lock().in_flight()
    }

    /// Requests that the device has not done yet, and those that it was ever given.
    pub fn counts(&self) -> (u16, u64) {
        let queue = self.queue.lock();
        (queue.in_flight(), queue.asked())
    }

    /// See [`Device::ask`].
    pub fn ask(
        &self,
        device: &'static Device,
        memory: Memory,
        how: Sleep,
        deadline: Option<Deadline>,
    ) -> Result<(Memory, u32), Failure> {
        let request = Request::try_new()?;
        let mut token = Some(Token { whom: Whom::Waiter(request.clone()), memory });
        let mut tell = Ok(false);
        // Room comes when something comes out, or the queue breaks.
        let put = self.room.wait_until(how, deadline, || {
            let mut next = token.take()?;
            // The memory goes away with the request, and what it is made of is looked at meanwhile.
            let parts = next.memory.take_parts();
            match self.queue.lock().push(&parts, next) {
                Ok(wants) => tell = Ok(wants),
                Err(NotPushed::Full(mut back)) => {
                    back.memory.put_parts(parts);
                    token = Some(back);
                    return None;
                }
                Err(NotPushed::Broken(_) | NotPushed::Unfit(_)) => tell = Err(Failure::Broken),
            }
            Some(())
        });
        put.map_err(Failure::Woken)?;
        if tell? {
            device.transport.notify(self.number);
        }
        request.wait(how, deadline)
    }

    /// See [`Device::put`]. This is line `n` of the device. The memory keeps its parts, of which there are few, so that it can be put in again.
    pub fn put(&self, device: &'static Device, n: usize, memory: Memory, call: Call) -> Result<(), Memory> {
        /// More are refused.
        const FEW: usize = 4;
        let parts: ArrayVec<Buffer, FEW> = memory.parts().iter().copied().take(FEW).collect();
        if parts.len() < memory.parts().len() {
            return Err(memory);
        }
        let token = Token { whom: Whom::Call(call, n), memory };
        let wants = self.queue.lock().push(&parts, token).map_err(|not| not.token().memory)?;
        if wants {
            device.transport.notify(self.number);
        }
        Ok(())
    }

    /// Takes what the device is done with. No more at a time than it had when this began: a device that does more interrupts again.
    pub fn look(&self, device: &'static Device) {
        let mut left = self.queue.lock().in_flight();
        while left > 0 {
            let popped = self.queue.lock().pop();
            match popped {
                Ok(Some((token, written))) => token.end(device, written),
                Ok(None) | Err(Broken::Before) => return,
                Err(broken) => return device.fail(broken),
            }
            self.room.wake_one();
            left = left.saturating_sub(1);
        }
    }

    /// The device has failed: nothing of what it was asked will be done. `is_reset`: it reaches no memory any more.
    pub fn end(&self, is_reset: bool) {
        self.queue.lock().take_all().for_each(|token| token.fail(is_reset));
        self.room.wake_all();
    }
}
