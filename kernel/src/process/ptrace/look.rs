//! A tracer waits: which of the threads that it traces has stopped or ended?
//!
//! The table is looked along in parts. Who comes or goes meanwhile has risen `changes`, which the waiter read before, so it looks again before it sleeps.
#![forbid(unsafe_code)]

use super::table::{PART, Place, Table};
use super::{Phase, Tracee};
use crate::process::family::wait::{Event, Target, WaitOptions, exit_event};
use crate::process::{Process, Thread};
use crate::sched;
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// What a look has come to.
pub enum Seen {
    Event(Event),
    /// There are some that are meant, and nothing is to be told of them.
    Nothing,
    /// There are none that are meant.
    Nobody,
}

/// What was found in the table.
enum Found {
    Stopped(Arc<Tracee>, i32),
    Ended(Arc<Tracee>, i32),
}

fn means(thread: &Thread, options: &WaitOptions) -> bool {
    match options.target {
        Target::Any => true,
        Target::Pid(pid) => thread.tid() == pid,
        Target::Group(group) => thread.process.group() == group,
    }
}

/// Looks at the threads that those of `process` trace. Gives way; a fatal signal ends it.
#[cold]
pub fn look(process: &Process, options: &WaitOptions) -> Seen {
    let mut seen = Seen::Nobody;
    let mut from = 0;
    loop {
        let found = {
            let mut table = process.tracees.table.lock();
            let found = look_at_part(&mut table, &mut from, options, &mut seen);
            if table.used == 0 {
                process.tracees.any.store(false, core::sync::atomic::Ordering::Relaxed);
            }
            found
        };
        match found {
            Some(Some(found)) => return Seen::Event(tell(found, options)),
            Some(None) => {}
            None => return seen,
        }
        if sched::give_way() {
            return Seen::Nothing;
        }
    }
}

/// None: the table is at its end. What has ended is taken out, unless it is to be waited for again.
fn look_at_part(
    table: &mut sync::SpinGuard<'_, Table, crate::lock_order::Tracees>,
    from: &mut usize,
    options: &WaitOptions,
    seen: &mut Seen,
) -> Option<Option<Found>> {
    let (table, order) = table.split();
    let rest = table.places.get(*from..).filter(|rest| !rest.is_empty())?;
    let mut found = None;
    for place in rest.iter().take(PART) {
        *from = from.saturating_add(1);
        let Place::Used(tracee) = place else { continue };
        let is_own = options.thread.is_none_or(|tid| tracee.tracer.tid() == tid);
        if !is_own || !means(&tracee.thread, options) {
            continue;
        }
        *seen = Seen::Nothing;
        let mut state = tracee.state.lock_in(order);
        found = match state.phase {
            Phase::Stopped => {
                let event = if options.leave_waitable { state.event } else { state.event.take() };
                event.map(|event| Found::Stopped(tracee.clone(), event))
            }
            Phase::Ended(status) if options.exited => Some(Found::Ended(tracee.clone(), status)),
            _ => None,
        };
        if found.is_some() {
            break;
        }
    }
    if let Some(Found::Ended(tracee, _)) = &found
        && !options.leave_waitable
    {
        // Two may come here; each has what it took out itself.
        table.take_out(tracee);
    }
    Some(found)
}

fn tell(found: Found, options: &WaitOptions) -> Event {
    match found {
        Found::Stopped(tracee, code) => {
            let process = &tracee.thread.process;
            Event {
                pid: tracee.tid(),
                uid: process.uid_at_exit(),
                code: abi::CLD_TRAPPED,
                status: code << 8 | 0x7f,
                usage: process.usage(),
            }
        }
        Found::Ended(tracee, status) => {
            let process = &tracee.thread.process;
            let leads = tracee.tid() == process.pid();
            let event = if leads {
                exit_event(process)
            } else {
                let (code, _) = super::end_of(status);
                Event { pid: tracee.tid(), uid: process.uid_at_exit(), code, status, usage: process.usage() }
            };
            if !options.leave_waitable {
                tracee.let_go(0);
            }
            event
        }
    }
}
