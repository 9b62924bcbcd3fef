//! What the run queues see of the machine: the real one, or in tests a simulated one of any size whose time is a number.
#![forbid(unsafe_code)]

use super::super::{latency, task, timer};
use super::queue::CpuQueue;
use crate::arch;
use sync::machine::{self, CpuId};
use sync::per_cpu;

/// How long a task runs at a time, ns, while others wait: a tick of a CPU that somebody waits for.
const SLICE: u64 = 4_000_000;

/// See the head of the file.
pub(super) trait Machine {
    fn cpus(&self) -> u32;
    /// The CPU that this code runs on.
    fn here(&self) -> CpuId;
    /// The monotonic clock, ns.
    fn now(&self) -> u64;
    fn queue(&self, cpu: CpuId) -> &CpuQueue;
    /// The queue of `here`.
    fn own_queue(&self) -> &CpuQueue {
        self.queue(self.here())
    }
    /// CPUs of one node are near each other.
    fn node_of(&self, cpu: CpuId) -> u32;
    fn nodes(&self) -> u32;
    /// The next thread of the core of `cpu`, round and round; itself if it has no other.
    fn next_thread(&self, cpu: CpuId) -> CpuId;
    /// Has any core several threads?
    fn has_threads(&self) -> bool;
    /// The running task wakes somebody. True: it is about to sleep, as far as one can tell (`partner`).
    fn wakes(&self) -> bool;
    /// Does it stay with whom it wakes, though somebody else waits here?
    fn bears_company(&self) -> bool;
    /// Makes `cpu` look at its queue.
    fn kick(&self, cpu: CpuId);
    /// Somebody waits here now: this CPU looks again soon.
    fn tick_sooner(&self, now: u64);

    /// This CPU looks at `time` whether another task should run: the turn of the running one is over then.
    fn look_at(&self, time: u64);

    /// How long a task runs at a time, ns, while others wait.
    fn slice(&self) -> u64 {
        SLICE
    }
}

per_cpu! {
    static QUEUES: CpuQueue = CpuQueue::new();
}

/// This CPU's queue.
#[inline]
pub(super) fn this() -> &'static CpuQueue {
    QUEUES.this()
}

/// The machine that the kernel runs on.
pub(super) struct Real;

impl Machine for Real {
    #[inline]
    fn cpus(&self) -> u32 {
        machine::cpus()
    }

    #[inline]
    fn here(&self) -> CpuId {
        machine::cpu_id()
    }

    #[inline]
    fn now(&self) -> u64 {
        arch::time::now()
    }

    #[inline]
    fn queue(&self, cpu: CpuId) -> &CpuQueue {
        QUEUES.of(cpu)
    }

    #[inline]
    fn own_queue(&self) -> &CpuQueue {
        QUEUES.this()
    }

    fn node_of(&self, cpu: CpuId) -> u32 {
        machine::node_of(cpu)
    }

    fn nodes(&self) -> u32 {
        machine::nodes()
    }

    fn next_thread(&self, cpu: CpuId) -> CpuId {
        arch::next_thread(cpu)
    }

    #[inline]
    fn has_threads(&self) -> bool {
        arch::has_threads()
    }

    #[inline]
    fn wakes(&self) -> bool {
        // What bottom halves wake is not the running task's doing.
        !latency::are_in_halves() && task::try_current().is_some_and(|task| task.partner.wakes())
    }

    fn bears_company(&self) -> bool {
        task::try_current().is_some_and(|task| task.partner.bears_company())
    }

    fn kick(&self, cpu: CpuId) {
        arch::send_reschedule(cpu);
    }

    fn tick_sooner(&self, now: u64) {
        timer::tick_sooner(now);
    }

    fn look_at(&self, time: u64) {
        timer::look_at(time);
    }
}
