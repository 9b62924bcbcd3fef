//! Who runs goes to another CPU, where that leaves more of the machine at work:
//!
//! * beside a busy thread of its core, while another core idles as a whole;
//! * where tasks wait that may not run where another CPU idles.
//!
//! A CPU looks by itself, at ticks, at what the others show anyway: so an idle CPU asks nobody and sleeps on, and where nothing is shown no line moves. The task
//! is marked (`Task::moves`), and goes when it is next on its way to user mode.
//!
//! So that no task goes to and fro: of the busy threads of a core the last alone gives its task away, so one of two stays; a core is left only when another
//! has idled at [`NEAR`] ticks in a row, and a node only at [`FAR`]; and who has moved is beside nobody.

use super::super::work::Work;
use super::machine::Machine;
use super::place::{Cores, find_core, find_idle};
use core::sync::atomic::Ordering::Relaxed;
use sync::machine::CpuId;

/// Ticks in a row at which a core has to idle before a task goes there, and one of another node.
const NEAR: u32 = 2;
const FAR: u32 = 16;

/// A tick of this CPU.
pub fn look(machine: &impl Machine) {
    let own = machine.own_queue();
    let (waits, ticks) = (own.waiting() != 0, &own.looks.crowded);
    let gains = if waits { !own.is_stealable() } else { is_beside_another(machine) };
    let seen = ticks.load(Relaxed);
    if !gains {
        if seen != 0 {
            ticks.store(0, Relaxed);
        }
        return;
    }
    let here = machine.here();
    let queue = own.queue.lock();
    let Some(task) = queue.running_fair().filter(|task| task.affinity().only().is_none()) else { return };
    let target = if waits {
        find_idle(machine, task, here, Cores::Any)
    } else {
        find_core(machine, task, here, if seen + 1 >= FAR { Cores::Any } else { Cores::OfNode })
    };
    let goes = target.is_some() && (waits || seen + 1 >= NEAR);
    if goes {
        task.moves.store(true, Relaxed);
        task.work.set(Work::RESCHED);
    }
    ticks.store(if goes { 0 } else { (seen + 1).min(FAR) }, Relaxed);
}

/// Who runs here, where others wait, goes away if it may run on one of these idle CPUs.
pub fn move_to_any(machine: &impl Machine, mut idle: impl Iterator<Item = CpuId>) {
    let queue = machine.own_queue().queue.lock();
    if let Some(task) = queue.running_fair()
        && idle.any(|cpu| task.affinity().allows(cpu))
    {
        task.moves.store(true, Relaxed);
        task.work.set(Work::RESCHED);
    }
}

/// Does another thread of this CPU's core run something, and is this the last that does?
fn is_beside_another(machine: &impl Machine) -> bool {
    if !machine.has_threads() {
        return false;
    }
    let here = machine.here();
    let (mut other, mut is_beside) = (machine.next_thread(here), false);
    while other != here {
        if !machine.queue(other).idles() {
            if other > here {
                return false;
            }
            is_beside = true;
        }
        other = machine.next_thread(other);
    }
    is_beside
}
