//! The audit of what is in use, on the lockdep kernel: whoever reads /proc/darter/audit has it made. The first program of a guest does so at the
//! machine's end, the fuzzer when the processes of its programs are gone.
//!
//! | what | is held against |
//! |---|---|
//! | all memory | what refers to it ([`vm::audit`]) |
//! | processes and threads in the slabs | those that are found by their numbers |
//! | files that count as open (fs.file-nr) | no more than there are |
//! | what `account` counts for a user | nothing, where no process is that user's |
//!
//! Sockets that only messages in flight refer to are closed when the file is opened (`net::collect`), where no lock is held. What waits for a grace
//! period, or on its way to another CPU, is let go first, and what is wrong counts only where it is found [`TURNS`] times one
//! after the other. Then it is a panic. Where other processes run meanwhile, what they do to memory is different each time, and the last three rows
//! are left out.
//!
//! `plant=` on the kernel's command line loses something once, to see that it is found: `lost-object`, `lost-block`, `lost-frame`,
//! `lost-reference` (`vm::audit::plant`), `lost-charge`, `lost-file`.
//!
//! No locks are held.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::mem;

use sync::TryVec;
use vm::audit::{Finding, Findings};

use crate::account::{self, Kind};
use crate::arch;
use crate::errno::Result;
use crate::fs::{caller, file};
use crate::ipc;
use crate::process::walk_processes;
use crate::sched::{self, Sleep};

/// As often something has to be wrong one time after the other.
const TURNS: usize = 12;
/// Between two turns.
const PAUSE_NS: u64 = 20_000_000;
/// So many pauses are enough for a CPU to take a tick.
const PATIENCE: usize = 8;
/// Findings that are printed.
const SHOWN: usize = 8;

/// Audits all memory; what does not agree is a panic.
///
/// # Errors
/// No memory for it.
pub fn audit() -> Result {
    let mut standing: Option<Findings> = None;
    for _ in 0..TURNS {
        let mut now = look()?;
        if let Some(before) = &standing {
            now.keep(before);
        }
        if now.is_empty() {
            return Ok(());
        }
        standing = Some(now);
        pause();
    }
    if let Some(found) = standing {
        fail(&found);
    }
    Ok(())
}

fn fail(found: &Findings) -> ! {
    // A few of each kind.
    let mut last = ("", "", 0);
    for finding in found.iter() {
        let many = if (last.0, last.1) == (finding.what, finding.of) { last.2 + 1 } else { 1 };
        last = (finding.what, finding.of, many);
        if many <= SHOWN {
            error!("audit: {finding}");
        }
    }
    panic!("the audit found {} things that do not agree", found.count())
}

/// One turn.
fn look() -> Result<Findings> {
    // What one CPU sends home, the other takes in the second time.
    settle();
    settle();
    let mut findings = vm::audit::audit::<arch::Machine>(arch::variables())?;
    if !is_busy() {
        count_living(&mut findings);
        count_users(&mut findings)?;
    }
    Ok(findings)
}

/// Lets go of what is only waiting to be freed, and has every CPU give back what it keeps for later.
fn settle() {
    sync::rcu::expedite();
    sync::rcu::hurry();
    sync::rcu::synchronize();
    sync::rcu::poll();
    pause();
    sync::rcu::poll();
    vm::frame::call_back();
    for _ in 0..PATIENCE {
        if vm::frame::all_gave_back() {
            break;
        }
        pause();
    }
}

fn pause() {
    // A fatal signal ends it early.
    let _ = sched::sleep_until(arch::time::now().saturating_add(PAUSE_NS), Sleep::Killable);
}

/// Objects in use of the cache with that name.
fn in_use(name: &str) -> u64 {
    let mut used = 0;
    vm::slab::for_each_cache(&mut |cache| {
        if cache.name == name {
            used = cache.used as u64;
        }
    });
    used
}

/// Does another process run?
fn is_busy() -> bool {
    let (mut busy, own) = (false, caller::pid());
    walk_processes(|process| {
        busy |= process.pid() != own && process.state_letter() == b'R';
        !busy
    });
    busy
}

fn count_living(findings: &mut Findings) {
    let (mut processes, mut threads) = (0, 0);
    walk_processes(|process| {
        processes += 1;
        process.visit_threads(|_| threads += 1);
        true
    });
    let mut compare = |what, of, has, should| {
        if has > should {
            findings.add(Finding::new(what, of, 0, has, should));
        }
    };
    compare("processes that nobody finds", "process", in_use("process"), processes);
    compare("threads that no process has", "thread", in_use("thread"), threads);
    compare("files that count as open", "file", file::count::open_files(), in_use("file"));
}

/// What objects of System V IPC hold for who made them. They stay when he has no process any more, until somebody removes them.
const OF_IPC: [&str; 4] = ["memory-files", "memory-file-pages", "locked-segment-pages", "ipc-kib"];

/// A user without processes has nothing. Where ids were changed, what a process made as another user may be left: then nobody asks; nor for what
/// objects of System V IPC hold, while there are any.
fn count_users(findings: &mut Findings) -> Result {
    let mut changed = false;
    walk_processes(|process| {
        changed |= !process.is_dumpable();
        true
    });
    if changed {
        return Ok(());
    }
    let mut users = Vec::new();
    let mut outcome = Ok(());
    let mut list = |uid: u32, counts: [u64; Kind::ALL.len()], pages: u64| {
        if outcome.is_ok() {
            outcome = users.try_push((uid, counts, pages));
        }
    };
    account::for_each(&mut list, sched::schedule_if_needed);
    outcome?;
    let objects = [ipc::shm::TABLE.used(), ipc::sem::TABLE.used(), ipc::msg::TABLE.used()];
    let is_left = |of: &str| OF_IPC.contains(&of) && objects != [0; 3];
    for (uid, counts, pages) in users {
        let mut lives = false;
        walk_processes(|process| {
            lives |= process.uid_at_exit() == uid;
            !lives
        });
        let names = Kind::ALL.iter().map(|(_, name)| *name).chain(["memory-file-pages"]);
        for (of, has) in names.zip(counts.into_iter().chain([pages])).filter(|(_, has)| !lives && *has != 0) {
            if !is_left(of) {
                findings.add(Finding::new("a user without processes has", of, uid as usize, has, 0));
            }
        }
    }
    Ok(())
}

/// Loses what the command line asks for.
pub fn plant(command_line: &str) {
    match command_line.split_ascii_whitespace().find_map(|word| word.strip_prefix("plant=")) {
        Some("lost-charge") => {
            const NOBODY: u32 = 4321;
            if let Ok(charge) = account::Charge::try_new(NOBODY, Kind::PipePages, 3, u64::MAX) {
                mem::forget(charge);
            }
        }
        Some("lost-file") => {
            if let Ok(counted) = file::count::Counted::try_new() {
                mem::forget(counted);
            }
        }
        Some(other) => vm::audit::plant(other),
        None => {}
    }
}
