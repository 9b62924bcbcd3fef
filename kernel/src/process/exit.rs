//! The end of threads and processes.
//!
//! The last thread ends the process: its children get a new parent, its own parent is told, and a zombie stays until the parent
//! waits for it. Where the parent ignores SIGCHLD, no zombie stays.
#![forbid(unsafe_code)]

use super::own::GivenUp;
use super::{Current, Process, Thread, credentials, family, ptrace, session, signal, wait};
use crate::arch;
use crate::fs::FileTable;
use crate::ipc::shm;
use crate::memory::Space;
use crate::sched::{self, Work, futex};
use crate::trace;
use alloc::sync::Arc;
use core::sync::atomic::Ordering;
use sync::atomic::fence_after_rmw;

/// exit_group(2): ends the process with wait status `status` (exit code << 8, or the signal).
pub fn exit_group(status: i32) -> ! {
    // Once it has begun the others have been told, and one of them may be writing a core.
    exit_thread(begin_exit_group(status))
}

/// All threads of the running one's process are to end, with this status; itself by `exit_group`. The status that they end with.
pub fn begin_exit_group(status: i32) -> i32 {
    let thread = super::current();
    let (status, first) = thread.process.signals.begin_exit(status);
    if first {
        kill_others(&thread);
    }
    status
}

/// As `exit_group`, but the running thread ends on its way back to user mode. For callers that still own references.
pub(super) fn end_process_soon(thread: &Arc<Thread>, status: i32) {
    thread.process.signals.begin_exit(status);
    kill_others(thread);
    sched::current().work.set(Work::SIGNAL | Work::KILL);
}

/// Makes every other thread of the process end; none is added any more. Gives way.
pub(super) fn kill_others(thread: &Arc<Thread>) {
    // None but the running thread adds one: alone it stays so.
    if thread.process.alive.load(Ordering::Acquire) == 1 {
        return;
    }
    thread.process.visit_threads(|other| {
        if !Arc::ptr_eq(other, thread) {
            other.notify(true);
        }
    });
    thread.process.signals.wake_stopped();
}

/// Ends all threads of the process but the running one, for exec; it becomes the leader.
///
/// False: the process is being killed.
pub(super) fn end_other_threads(thread: &Arc<Thread>) -> bool {
    if !thread.process.signals.begin_exec(thread.tid()) {
        return false;
    }
    kill_others(thread);
    let alone = || (thread.process.alive.load(Ordering::Acquire) == 1).then_some(());
    let done = thread.process.release.wait_shared(sched::Sleep::Killable, None, alone).is_ok();
    thread.process.signals.end_exec();
    done
}

/// Ends the running thread; with it the process, if it is the last, with `status`.
pub fn exit_thread(status: i32) -> ! {
    let current = super::current();
    let process = &current.process;
    if process.pid() == 1 && process.alive.load(Ordering::Acquire) == 1 {
        first_process_ended(status);
    }
    wake_users_of_memory(&current);
    current.give_up(status, finish_exit)
}

/// The rest of the exit, once the thread has given its references up.
fn finish_exit(given_up: GivenUp, status: i32) -> ! {
    let GivenUp { files, fs, space } = given_up;
    let current = super::current();
    let thread = (*current).clone();
    let process = &thread.process;
    let was_last = leave_user_memory(process, space);
    let usage = wait::UsageSum::of_thread(&thread, current.task().times());
    process.keep_io_of(&thread);
    process.thread_ends(&thread, &usage);
    thread.own_undo.end();
    if was_last {
        process.undo.end();
    }
    shm::maker_ends(thread.tid());
    drop(fs);
    files.into_iter().for_each(FileTable::give_up);
    super::tell_of_closed();
    thread.filters.end();
    signal::deliver::leave_to_others(&thread);
    process.threads_remove(&thread);
    family::leave_children(&thread);
    ptrace::tracer_ends(&thread);
    thread.pending.end().drop_in_turns();
    if thread.tid() != process.pid() {
        thread.withdraw();
        credentials::count::thread_ends(&thread);
    }
    let last = process.alive.fetch_sub(1, Ordering::AcqRel) == 1;
    if last {
        if process.pid() == 1 {
            // Its last threads ended together.
            first_process_ended(process.signals.exit_status().unwrap_or(status));
        }
        if !was_last {
            // Two threads that ended together may each have left this to the other.
            process.set_space(None).into_iter().for_each(Space::let_go);
            let_go_of_program(process);
            release_vfork(process);
            process.undo.end();
        }
        let (decided, waited) = process.signals.end();
        waited.drop_in_turns();
        end_process(process, decided.unwrap_or(status));
    } else {
        process.release.wake_all();
    }
    // Behind the count of living threads: who begins to trace it now sees that it ends (`ptrace::link`).
    fence_after_rmw("exit.traced");
    if thread.is_traced() && thread.tid() != process.pid() {
        ptrace::thread_ends(&thread, status);
    }
    thread.watched.wake();
    thread.late.end();
    super::tell_of_closed();
    drop(thread);
    sched::exit_current()
}

/// Is the running thread the only user of its space? Then nobody waits there for its end, and the word that CLONE_CHILD_CLEARTID
/// names stays as it is, as on Linux. A process that inspects the space just now counts as a user.
fn is_alone(thread: &Current) -> bool {
    // The thread's reference, its task's and its process's.
    thread.process.alive.load(Ordering::Acquire) == 1 && thread.space_references() <= 3
}

/// What a dying thread does to user memory.
fn wake_users_of_memory(thread: &Current) {
    super::signal::robust::release(thread);
    futex::pi::end(thread.task());
    let clear = thread.clear_tid.load(Ordering::Relaxed);
    if clear != 0 && !is_alone(thread) {
        // A bad address is the program's affair.
        let _ = arch::user::store_u32(clear, 0);
        futex::wake_one_at(thread.space(), clear);
    }
}

/// Leaves user memory; `own` was the thread's reference to its space. Says whether it is the process's last thread, for certain.
fn leave_user_memory(process: &Process, own: Option<Arc<Space>>) -> bool {
    let left = sched::leave_space();
    let is_last = process.alive.load(Ordering::Acquire) == 1;
    let shared = if is_last { process.set_space(None) } else { None };
    drop((left, shared));
    let max_rss = match own.map(Space::try_end) {
        // Nobody else had it: it has ended here, and said in passing how large it was.
        Some(Ok(pages)) => pages,
        // A vfork child gives its parent's space back.
        Some(Err(space)) => {
            let pages = if is_last { space.resident_pages() } else { 0 };
            Space::let_go(space);
            pages
        }
        None => 0,
    };
    process.gone.note_size(max_rss as u64);
    if is_last {
        let_go_of_program(process);
        // Who watches the program's file is told before who waits for the process goes on.
        super::tell_of_closed();
        release_vfork(process);
    }
    is_last
}

/// The last reference to its file may be among this: it goes here, and not where somebody happens to be the last who knows the process.
fn let_go_of_program(process: &Process) {
    let program = process.memory.lock().exe.take();
    drop(program);
}

/// A vfork parent goes on: the process has a space of its own, or none.
pub(super) fn release_vfork(process: &Process) {
    if !process.released.swap(true, Ordering::AcqRel) {
        process.release.wake_all();
    }
}

fn end_process(process: &Arc<Process>, status: i32) {
    trace::EVENTS.this().exits.add(1);
    process.itimers.cancel();
    process.timers.clear();
    session::leave(process);
    family::reparent_children(process);
    if signal::any_stopped()
        && let Some(parent) = process.family.parent()
    {
        session::tell_orphaned(process, &parent, Some(process));
    }
    process.status.store(status, Ordering::Release);
    if !process.traced.is_empty() && ptrace::process_ends(process) {
        return;
    }
    let ended = family::with_parent(process, |parent, children, _| {
        (parent.clone(), family::end(parent, process, children))
    });
    match ended {
        Some((parent, end)) => family::tell_end(&parent, process, end),
        None => process.zombie.store(true, Ordering::Release),
    }
}

/// The first process has nobody to tell: the machine ends, with the process's exit code for the host.
fn first_process_ended(status: i32) -> ! {
    error!("the first process has ended with status {status:#x}");
    arch::power_off()
}
