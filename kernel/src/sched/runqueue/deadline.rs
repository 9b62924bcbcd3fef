//! When a CPU looks at tasks with deadlines: when the running one has had its run time, and when the next period of one that is throttled here begins.
//!
//! A task is throttled on the CPU that it ran on, or that woke it; that CPU's timer says when it goes on, and then it goes to whichever CPU it should.

use super::super::deadline::Entity;
use super::super::task::Task;
use super::super::work::Work;
use super::machine::Machine;
use super::queue::Queue;
use super::realtime;
use alloc::sync::Arc;

/// Tasks that go on at one look: thousands may at once.
const RELEASES: u32 = 16;

/// This CPU waits with the task for its next period.
pub fn throttle(machine: &impl Machine, entity: Arc<Entity>, task: Arc<Task>) {
    let (own, until) = (machine.own_queue(), entity.until());
    own.queue.lock().throttle(own, machine.here(), entity, task);
    machine.look_at(until.max(Queue::soonest(machine.now())));
}

/// Looks, and says when to look again; `u64::MAX`: there is nothing to look at.
#[cold]
pub fn look(machine: &impl Machine) -> u64 {
    let own = machine.own_queue();
    for _ in 0..RELEASES {
        let now = machine.now();
        if own.next_period() > now {
            break;
        }
        let released = own.queue.lock().take_released(own, now);
        let Some(task) = released else { break };
        realtime::begin(machine, task);
    }
    let now = machine.now();
    let budget = {
        let mut queue = own.queue.lock();
        let budget = queue.look_at_budget(now);
        if budget == Some(now)
            && let Some(current) = &queue.current
        {
            current.work.set(Work::RESCHED);
        }
        budget.filter(|time| *time > now)
    };
    let next = match own.next_period() {
        u64::MAX => u64::MAX,
        next => next.max(Queue::soonest(now)),
    };
    next.min(budget.unwrap_or(u64::MAX))
}

/// Has this CPU anything to look at?
#[inline]
pub fn has_any(machine: &impl Machine) -> bool {
    let own = machine.own_queue();
    own.rank().has_deadline() || own.next_period() != u64::MAX
}

/// This CPU looks when it has to.
pub fn look_soon(machine: &impl Machine) {
    if has_any(machine) {
        match look(machine) {
            u64::MAX => {}
            time => machine.look_at(time),
        }
    }
}
