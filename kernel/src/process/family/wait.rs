//! Waiting for children, and what they used.
#![forbid(unsafe_code)]

use super::children::{Children, Standing};
use crate::errno::{ERESTARTSYS, Errno, Result};
use crate::process::{Pid, Process, Thread, family, find_process, ids};
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
        self.user_ns.fetch_add(sum.user_ns, Ordering::Relaxed);
        self.system_ns.fetch_add(sum.system_ns, Ordering::Relaxed);
        self.voluntary.fetch_add(sum.voluntary, Ordering::Relaxed);
        self.involuntary.fetch_add(sum.involuntary, Ordering::Relaxed);
        self.minor_faults.fetch_add(sum.minor_faults, Ordering::Relaxed);
        self.major_faults.fetch_add(sum.major_faults, Ordering::Relaxed);
        self.max_rss.fetch_max(sum.max_rss, Ordering::Relaxed);
    }
}

impl UsageSum {
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

    pub fn add_thread(&mut self, thread: &Thread) {
        if let Some(task) = thread.task() {
            self.add(&Self::of_thread(thread, task.times()));
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
        !matches!(self.code, abi::CLD_STOPPED | abi::CLD_CONTINUED)
    }

    /// What siginfo's si_status holds: the exit code or the signal.
    pub fn info_status(&self) -> i32 {
        match self.code {
            abi::CLD_EXITED => self.status >> 8 & 0xff,
            abi::CLD_STOPPED => self.status >> 8 & 0xff,
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
    let mut usage = child.usage();
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
    let process = crate::process::current_process();
    let look = || match find(&process, options) {
        Err(errno) => Some(Err(errno)),
        Ok(Some(event)) => Some(Ok(Some(event))),
        Ok(None) if !options.block => Some(Ok(None)),
        Ok(None) => None,
    };
    process.family.events.wait_shared(Sleep::Interruptible, None, look).unwrap_or(Err(ERESTARTSYS))
}

fn find(process: &Arc<Process>, options: &WaitOptions) -> Result<Option<Event>> {
    let mut guard = process.family.children();
    let children = &mut *guard;
    let meant = |child: &Process| {
        let matches = match options.target {
            Target::Any => true,
            Target::Pid(pid) => child.pid() == pid,
            Target::Group(group) => child.group() == group,
        };
        let normal = child.exit_signal.load(Ordering::Relaxed) == abi::SIGCHLD;
        let made_here = options.thread.is_none_or(|tid| child.parent_thread() == tid);
        matches && made_here && if normal { options.normal } else { options.clones }
    };
    let asked = [
        (Standing::Dead, options.exited),
        (Standing::Stopped, options.stopped),
        (Standing::Continued, options.continued),
    ];
    let found = if let Target::Pid(pid) = options.target {
        let look = |child: &Process| {
            (child.parent_pid() == process.pid() && meant(child)).then(|| {
                children.update(child);
                children.standing(child)
            })
        };
        match ids::look_at(pid, look).flatten() {
            None | Some(Standing::Gone) => return Err(Errno::ECHILD),
            Some(standing) if asked.contains(&(standing, true)) => find_process(pid),
            Some(_) => None,
        }
    } else {
        if options.continued {
            // Those who were sent SIGCONT just now are among the stopped.
            let _ = children.first(Standing::Stopped, |_| false);
        }
        let firsts = asked.iter().filter(|(_, asked)| *asked);
        firsts.filter_map(|(standing, _)| children.first(*standing, meant)).reduce(Children::elder)
    };
    let Some(child) = found else {
        // One found by its number may change parents just now, and be on no list. Waiters are woken when it is.
        let any = matches!(options.target, Target::Pid(_)) || children.any(meant);
        return if any { Ok(None) } else { Err(Errno::ECHILD) };
    };
    let event = match children.standing(&child) {
        Standing::Dead => exit_event(&child),
        _ => stop_event(&child, options).ok_or(Errno::ECHILD)?,
    };
    if options.leave_waitable {
        return Ok(Some(event));
    }
    if event.is_end() {
        children.reap(&child);
        drop(guard);
        process.children_usage.add(&event.usage);
        family::forget(&child);
    } else {
        children.update(&child);
    }
    Ok(Some(event))
}

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
    Some(Event { pid: child.pid(), uid: uid_of(child), code, status, usage: child.usage() })
}
