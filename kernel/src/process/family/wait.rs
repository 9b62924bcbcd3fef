//! Waiting for children, and what they used.
#![forbid(unsafe_code)]

use super::children::{Among, Children, Standing};
use super::search::{Locked, search};
use crate::errno::{ERESTARTSYS, Errno, Result};
use crate::process::{Pid, Process, Thread, family, find_process, ids, ptrace, signal_pending};
use crate::sched::{Sleep, Times};
use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};
use linux_raw_sys::general as abi;

/// Resources used: counters to which several threads add.
#[derive(Default)]
pub struct Usage {
    user_ns: AtomicU64,
    system_ns: AtomicU64,
    voluntary: AtomicU64,
    involuntary: AtomicU64,
    minor_faults: AtomicU64,
    major_faults: AtomicU64,
    max_rss: AtomicU64,
}

/// Resources used.
#[derive(Clone, Copy, Debug, Default)]
pub struct UsageSum {
    pub user_ns: u64,
    pub system_ns: u64,
    pub voluntary: u64,
    pub involuntary: u64,
    pub minor_faults: u64,
    pub major_faults: u64,
    /// Largest resident size, pages.
    pub max_rss: u64,
}

impl Usage {
    pub fn sum(&self) -> UsageSum {
        UsageSum {
            user_ns: self.user_ns.load(Ordering::Relaxed),
            system_ns: self.system_ns.load(Ordering::Relaxed),
            voluntary: self.voluntary.load(Ordering::Relaxed),
            involuntary: self.involuntary.load(Ordering::Relaxed),
            minor_faults: self.minor_faults.load(Ordering::Relaxed),
            major_faults: self.major_faults.load(Ordering::Relaxed),
            max_rss: self.max_rss.load(Ordering::Relaxed),
        }
    }

    pub fn add(&self, sum: &UsageSum) {
        let add = |to: &AtomicU64, more: u64| {
            // Most have no major faults, and many were never switched away from.
            if more != 0 {
                to.fetch_add(more, Ordering::Relaxed);
            }
        };
        add(&self.user_ns, sum.user_ns);
        add(&self.system_ns, sum.system_ns);
        add(&self.voluntary, sum.voluntary);
        add(&self.involuntary, sum.involuntary);
        add(&self.minor_faults, sum.minor_faults);
        add(&self.major_faults, sum.major_faults);
        self.note_size(sum.max_rss);
    }

    /// It was once so large, pages.
    pub fn note_size(&self, max_rss: u64) {
        if max_rss > self.max_rss.load(Ordering::Relaxed) {
            self.max_rss.fetch_max(max_rss, Ordering::Relaxed);
        }
    }
}

impl UsageSum {
    #[inline(always)]
    #[expect(clippy::arithmetic_side_effects, reason = "sums of counts that the kernel keeps")]
    pub fn add(&mut self, other: &UsageSum) {
        self.user_ns += other.user_ns;
        self.system_ns += other.system_ns;
        self.voluntary += other.voluntary;
        self.involuntary += other.involuntary;
        self.minor_faults += other.minor_faults;
        self.major_faults += other.major_faults;
        self.max_rss = self.max_rss.max(other.max_rss);
    }

    #[inline(always)]
    pub fn of_thread(thread: &Thread, times: Times) -> Self {
        Self {
            user_ns: times.user_ns,
            system_ns: times.system_ns,
            voluntary: times.voluntary,
            involuntary: times.involuntary,
            minor_faults: thread.minor_faults.load(Ordering::Relaxed),
            major_faults: thread.major_faults.load(Ordering::Relaxed),
            max_rss: 0,
        }
    }

    #[inline(always)]
    pub fn add_thread(&mut self, thread: &Thread) {
        if let Some(times) = thread.look_at_task(|task| task.times()) {
            self.add(&Self::of_thread(thread, times));
        }
    }
}

/// Which children are waited for.
#[derive(Clone, Copy, Debug)]
pub enum Target {
    Any,
    Pid(Pid),
    Group(Pid),
}

/// What has become of a child.
#[derive(Clone, Copy, Debug)]
pub struct Event {
    pub pid: Pid,
    pub uid: u32,
    /// CLD_EXITED and so on.
    pub code: u32,
    /// As wait4 gives it.
    pub status: i32,
    pub usage: UsageSum,
}

impl Event {
    /// Is the child a zombie?
    fn is_end(&self) -> bool {
        !matches!(self.code, abi::CLD_STOPPED | abi::CLD_CONTINUED | abi::CLD_TRAPPED)
    }

    /// What siginfo's si_status holds: the exit code or the signal.
    pub fn info_status(&self) -> i32 {
        match self.code {
            abi::CLD_EXITED => self.status >> 8 & 0xff,
            abi::CLD_STOPPED => self.status >> 8 & 0xff,
            // The whole of it, whatever tells the stop from others.
            abi::CLD_TRAPPED => self.status >> 8,
            abi::CLD_CONTINUED => abi::SIGCONT as i32,
            _ => self.status & 0x7f,
        }
    }
}

fn uid_of(child: &Process) -> u32 {
    child.uid_at_exit()
}

/// The death of `child`, a zombie.
pub fn exit_event(child: &Process) -> Event {
    let status = child.status.load(Ordering::Acquire);
    let code = match status & 0x7f {
        0 => abi::CLD_EXITED,
        _ if status & 0x80 != 0 => abi::CLD_DUMPED,
        _ => abi::CLD_KILLED,
    };
    // Its threads are gone.
    let mut usage = child.gone.sum();
    usage.add(&child.children_usage());
    Event { pid: child.pid(), uid: uid_of(child), code, status, usage }
}

/// What a wait call asks for.
#[derive(Clone, Copy, Debug)]
pub struct WaitOptions {
    pub target: Target,
    pub exited: bool,
    pub stopped: bool,
    pub continued: bool,
    /// The child can be waited for again (WNOWAIT).
    pub leave_waitable: bool,
    pub block: bool,
    /// Children that send SIGCHLD, those that do not (__WCLONE), or both (__WALL).
    pub normal: bool,
    pub clones: bool,
    /// Only children of the parent's thread with this number (__WNOTHREAD).
    pub thread: Option<Pid>,
}

/// Waits until a child has changed as asked. None: none has, and the caller does not block.
///
/// # Errors
/// ECHILD: no such child. ERESTARTSYS: a signal.
pub fn wait(options: &WaitOptions) -> Result<Option<Event>> {
    let thread = crate::process::current();
    let process = &thread.process;
    loop {
        let (seen, traced) = match look(process, options)? {
            (Found::Event(event), _) => return Ok(Some(event)),
            (Found::None(_), _) if !options.block => return Ok(None),
            (Found::None(seen), traced) => (seen, traced),
        };
        if signal_pending() {
            return Err(ERESTARTSYS);
        }
        // A search gives way, so it is not made while the thread is about to sleep.
        let is_same = || process.family.children().changes() == seen && process.tracees.changes() == traced;
        let changed = || (!is_same()).then_some(());
        process.family.events.wait_shared(Sleep::Interruptible, None, changed).map_err(|_| ERESTARTSYS)?;
    }
}

/// Looks at the children, and at those whom the process's threads trace; also as which change of these.
#[inline]
fn look(process: &Arc<Process>, options: &WaitOptions) -> Result<(Found, u32)> {
    // Who comes to be traced from here on changes the number.
    let traced = process.tracees.changes();
    if process.tracees.any() {
        return look_at_both(process, options).map(|found| (found, traced));
    }
    find(process, options).map(|found| (found, traced))
}

#[cold]
fn look_at_both(process: &Arc<Process>, options: &WaitOptions) -> Result<Found> {
    let seen = process.family.children().changes();
    let found = find(process, options);
    if matches!(found, Ok(Found::Event(_))) {
        return found;
    }
    match (found, ptrace::look(process, options)) {
        (_, ptrace::Seen::Event(event)) => Ok(Found::Event(event)),
        (Err(Errno::ECHILD), ptrace::Seen::Nothing) => Ok(Found::None(seen)),
        (found, _) => found,
    }
}

enum Found {
    Event(Event),
    /// Nothing, before this change of the children.
    None(u32),
}

/// What is looked for, and among whose children.
struct Search<'a> {
    process: &'a Process,
    options: &'a WaitOptions,
}

impl<'a> Search<'a> {
    fn means(&self, child: &Process) -> bool {
        let matches = match self.options.target {
            Target::Any => true,
            Target::Pid(pid) => child.pid() == pid,
            Target::Group(group) => child.group() == group,
        };
        let normal = child.exit_signal.load(Ordering::Relaxed) == abi::SIGCHLD;
        let made_here = self.options.thread.is_none_or(|tid| child.parent_thread() == tid);
        let kind = if normal { self.options.normal } else { self.options.clones };
        // One that it traced to the end is always meant.
        matches && made_here && (kind || child.tracees.ended_traced())
    }

    fn asks(&self, standing: Standing) -> bool {
        match standing {
            Standing::Dead => self.options.exited,
            Standing::Stopped => self.options.stopped,
            Standing::Continued => self.options.continued,
            Standing::Nowhere | Standing::Living | Standing::Gone => false,
        }
    }

    /// The child with the target's number, if it has what is asked for.
    ///
    /// # Errors
    /// ECHILD.
    fn by_number(&self, children: &mut Children, pid: Pid) -> Result<Option<Pid>> {
        let look = |child: &Process| {
            (child.parent_pid() == self.process.pid() && self.means(child)).then(|| {
                children.update(child);
                children.standing(child)
            })
        };
        match ids::look_at(pid, look).flatten() {
            None | Some(Standing::Gone) => Err(Errno::ECHILD),
            // One that changes parents just now is on no list. Waiters are woken when it is.
            Some(standing) => Ok(self.asks(standing).then_some(pid)),
        }
    }

    /// The eldest child that has what is asked for, as it was when it was passed. Gives way.
    fn eldest(&self, mut children: Locked<'a>) -> (Locked<'a>, Option<Pid>) {
        if self.options.continued {
            // Those who were sent SIGCONT just now are among the stopped.
            let stopped = Among::Those(Standing::Stopped);
            (children, _) = search(self.process, children, stopped, true, |_| false);
        }
        let mut eldest: Option<(u64, Pid)> = None;
        for standing in [Standing::Dead, Standing::Stopped, Standing::Continued] {
            if !self.asks(standing) {
                continue;
            }
            let found;
            (children, found) =
                search(self.process, children, Among::Those(standing), true, |child| self.means(child));
            let this = found.and_then(|pid| ids::look_at(pid, |child| (Children::birth(child), pid)));
            eldest = eldest.into_iter().chain(this).min();
        }
        (children, eldest.map(|(_, pid)| pid))
    }

    /// Is there a child that is meant? Gives way.
    fn has_any(&self, children: Locked<'a>) -> bool {
        search(self.process, children, Among::All, true, |child| self.means(child)).1.is_some()
    }
}

/// Is there clearly no child that is meant? Looks without a lock, so who asks in vain writes nothing. One that changes parents just now names its new one
/// before it is on a list, and may be waited for by number.
fn has_none(process: &Process, target: Target) -> bool {
    let names_it = |pid| ids::look_at(pid, |child| child.parent_pid() == process.pid()) == Some(true);
    !process.family.has_children().get() && !matches!(target, Target::Pid(pid) if names_it(pid))
}

fn find(process: &Arc<Process>, options: &WaitOptions) -> Result<Found> {
    if has_none(process, options.target) {
        return Err(Errno::ECHILD);
    }
    let search = Search { process, options };
    loop {
        let mut children = process.family.children();
        let seen = children.changes();
        let (by_number, found);
        if let Target::Pid(pid) = options.target {
            (by_number, found) = (true, search.by_number(&mut children, pid)?);
        } else {
            by_number = false;
            (children, found) = search.eldest(children);
        }
        let Some(pid) = found else {
            let any = by_number || search.has_any(children);
            return if any { Ok(Found::None(seen)) } else { Err(Errno::ECHILD) };
        };
        // Another thread may have waited for it, where the search gave way.
        let is_still = |child: &Process| {
            child.parent_pid() == process.pid()
                && search.means(child)
                && search.asks(children.standing(child))
        };
        if ids::look_at(pid, is_still) != Some(true) {
            continue;
        }
        let Some(child) = find_process(pid) else { continue };
        let event = match children.standing(&child) {
            Standing::Dead => Some(exit_event(&child)),
            _ => stop_event(&child, options),
        };
        let Some(event) = event else {
            // It went on just now.
            children.update(&child);
            continue;
        };
        if !event.is_end() {
            if !options.leave_waitable {
                children.update(&child);
            }
            drop(children);
            return Ok(Found::Event(Event { usage: child.usage(), ..event }));
        }
        if !options.leave_waitable {
            children.reap(&child, process.family.has_children());
            drop(children);
            process.children_usage.add(&event.usage);
            process.keep_io_of_child(&child);
            family::forget(&child);
        }
        return Ok(Found::Event(event));
    }
}

/// What it has used is left to the caller, who has locked its parent's children.
fn stop_event(child: &Arc<Process>, options: &WaitOptions) -> Option<Event> {
    let (code, status) = if options.stopped
        && let Some(signal) = child.signals.take_stop(options.leave_waitable)
    {
        (abi::CLD_STOPPED, (signal as i32) << 8 | 0x7f)
    } else if options.continued && child.signals.take_continue(options.leave_waitable) {
        (abi::CLD_CONTINUED, 0xffff)
    } else {
        return None;
    };
    Some(Event { pid: child.pid(), uid: uid_of(child), code, status, usage: UsageSum::default() })
}
