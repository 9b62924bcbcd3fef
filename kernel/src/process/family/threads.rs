//! Which thread of a process its children belong to: the one that made them, and when that ends another. Only two things go by it, the signal that a
//! child asked for at its parent's end (PR_SET_PDEATHSIG), and waiting for one's own children alone (__WNOTHREAD).
//!
//! A thread that ends looks through the children only if it has some. The one that is to have them next may end as well: it says first that it ends and
//! then looks whether it has children, whoever gives it some says so first and then looks whether it ends.
#![forbid(unsafe_code)]

use super::children::{Among, Children};
use super::search::{Search, search};
use crate::errno::{Errno, Result};
use crate::process::list::Look;
use crate::process::{Pid, Process, Thread, find_process, signal};
use crate::sched;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use sync::TryVec;

impl Process {
    /// The thread of its parent that it belongs to.
    pub fn parent_thread(&self) -> Pid {
        self.family.parent_thread.load(Relaxed)
    }

    /// Sends the signals that its threads asked for: the thread that it belonged to has ended.
    pub(super) fn tell_death_of_parent(self: &Arc<Self>) {
        // While nobody ever asked, its threads are not looked at.
        if !self.family.mourns.load(Relaxed) {
            return;
        }
        // A signal is not sent under the lock of the threads. Without memory it is not sent.
        let mut signals = Vec::new();
        self.visit_threads(|thread| {
            let signal = thread.attributes.death_signal();
            if signal != 0 {
                let _ = signals.try_push(signal);
            }
        });
        for signal in signals {
            signal::send::to_process(self, signal::Info::user(signal, 0));
        }
    }
}

/// The numbers of the children of `process` that belong to its thread `tid`, in the order in which it got them. Gives way; a fatal signal ends it.
///
/// # Errors
/// ENOMEM.
pub fn children_of(process: &Process, tid: Pid) -> Result<Vec<Pid>> {
    let (mut found, mut last, mut outcome) = (Vec::new(), 0, Ok(()));
    let (children, _) = search(process, process.family.children(), Among::All, true, |child| {
        let birth = Children::birth(child);
        // One that is asked again comes before the last.
        if birth > last && outcome.is_ok() {
            last = birth;
            if child.parent_thread() == tid {
                outcome = found.try_push(child.pid()).map_err(Errno::from);
            }
        }
        false
    });
    drop(children);
    outcome.map(|()| found)
}

impl Thread {
    /// PR_SET_PDEATHSIG.
    pub fn set_death_signal(&self, signal: u32) {
        if signal != 0 && !self.process.family.mourns.load(Relaxed) {
            self.process.family.mourns.store(true, Relaxed);
        }
        // Both are seen by the end of a parent that getppid does not see from here on: programs ask it next.
        self.attributes.set_death_signal(signal);
    }

    /// It has made a child process.
    pub fn note_child(&self) {
        if !self.has_children.load(Relaxed) {
            self.has_children.store(true, Relaxed);
        }
    }
}

/// `thread`, which has said that it ends, leaves its children to another thread of its process. Those of the last one get another parent
/// (`reparent_children`). Gives way.
pub fn leave_children(thread: &Thread) {
    let process = &thread.process;
    if !thread.has_children.load(SeqCst) || process.alive.load(Relaxed) == 1 {
        return;
    }
    let from = thread.tid();
    let mut children = process.family.children();
    let mut search = Search::new(process, Among::All);
    loop {
        // Once for each part: the heir may end in between, and leaves what it has got.
        let Some(heir) = find_heir(process) else { return };
        let found = search.look(&mut children, |child| {
            let leaves = child.parent_thread() == from;
            if leaves {
                child.family.parent_thread.store(heir, Relaxed);
            }
            leaves && child.family.mourns.load(Relaxed)
        });
        let mourner = match found {
            Look::End => break,
            Look::Passed(_) => None,
            Look::Found(pid) => find_process(pid),
        };
        children = search.rest(children, || {
            if let Some(child) = mourner {
                child.tell_death_of_parent();
            }
            // The end of a thread is not ended early.
            let _ = sched::give_way();
        });
    }
    children.note_change();
    drop(children);
    process.family.events.wake_all();
}

/// The first thread of the process that has not begun to end, and will look for children when it does. Children are given to it under the lock of its
/// process's children, which it takes when it looks.
pub(super) fn find_heir(process: &Process) -> Option<Pid> {
    let inherits = |thread: &Thread| {
        if thread.exiting.load(SeqCst) {
            return false;
        }
        if !thread.has_children.load(SeqCst) {
            thread.has_children.store(true, SeqCst);
        }
        !thread.exiting.load(SeqCst)
    };
    let mut heir = None;
    process.threads.lock().visit(None, |thread| {
        heir = inherits(thread).then(|| thread.tid());
        heir.is_none()
    });
    heir
}

/// Has it a thread that has not begun to end?
pub(super) fn has_living(process: &Process) -> bool {
    process.threads.iter(&sync::rcu::read()).any(|thread| !thread.exiting.load(SeqCst))
}

/// The only thread that is left takes another number (exec). Gives way.
pub fn rename_thread(thread: &Thread, from: Pid, to: Pid) {
    if from != to && thread.has_children.load(Relaxed) {
        let process = &thread.process;
        let _ = search(process, process.family.children(), Among::All, false, |child| {
            if child.parent_thread() == from {
                child.family.parent_thread.store(to, Relaxed);
            }
            false
        });
    }
}
