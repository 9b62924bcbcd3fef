//! /proc/darter/groups: the groups of tasks that have a share of the CPUs together, one for each session but the first. The first line says the version of
//! the format, the second names the columns.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use crate::errno::{ENOMEM, Result};
use crate::process::walk_processes;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub fn groups(out: &mut Vec<u8>) -> Result {
    put!(out, "version 1\nsession nice weight running running-weight used-ns\n");
    let mut sessions = Vec::new();
    let mut outcome: Result = Ok(());
    walk_processes(|process| {
        outcome = sessions.try_push((process.session_id(), process.pid())).map_err(Into::into);
        outcome.is_ok()
    });
    outcome?;
    crate::sort::by_key(&mut sessions, |(session, pid)| (*session, *pid));
    sessions.dedup_by_key(|(session, _)| *session);
    for (number, member) in sessions {
        let Some(session) = crate::process::find_process(member).and_then(|member| member.session()) else {
            continue;
        };
        let Some(group) = session.sched().filter(|_| session.id() == number) else { continue };
        let load = group.load();
        put!(out, "{number} {} {} ", group.nice(), group.weight());
        put!(out, "{} {} {}\n", load.tasks, load.weight, load.used_ns);
    }
    Ok(())
}
