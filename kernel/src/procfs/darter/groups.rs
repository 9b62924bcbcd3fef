//! /proc/darter/groups: the groups of tasks that have a share of the CPUs together, one for each session but the first. The first line says the version of
//! the format, the second names the columns. Whoever has CAP_SYS_NICE writes one of these for the session SESSION:
//!
//!     SESSION weight N            its share, where that of nice 0 is 100 (cpu.weight of Linux's cgroups): 1 to 10,000
//!     SESSION max QUOTA PERIOD    it may run for QUOTA us in each PERIOD us (cpu.max); QUOTA `max`: without a bound
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;

use crate::errno::{EINVAL, ENOMEM, EPERM, ESRCH, Result};
use crate::fs::caller;
use crate::process::capabilities::Capability;
use crate::process::session::Session;
use crate::process::{Pid, Process, find_process, walk_processes};
use crate::procfs::entry::Setting;
use crate::sched::group::Quota;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub static GROUPS: Setting = Setting { read: groups, write: Some(set) };

fn groups(out: &mut Vec<u8>) -> Result {
    put!(
        out,
        "version 2\nsession nice weight running running-weight used-ns quota-us period-us throttled throttled-ns\n"
    );
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
        let Some(session) = find_process(member).and_then(|member| member.session()) else {
            continue;
        };
        let Some(group) = session.sched().filter(|_| session.id() == number) else { continue };
        let load = group.load();
        put!(out, "{number} {} {} ", group.nice(), group.weight());
        put!(out, "{} {} {} ", load.tasks, load.weight, load.used_ns);
        match group.bandwidth().quota() {
            Some(quota) => put!(out, "{} {} ", quota.quota_us(), quota.period_us()),
            None => put!(out, "max - "),
        }
        let (throttles, throttled_ns) = group.bandwidth().waits();
        put!(out, "{throttles} {throttled_ns}\n");
    }
    Ok(())
}

/// What is set of a group.
enum Change {
    Weight(u64),
    Quota(Option<Quota>),
}

/// # Errors
/// EPERM, EINVAL; ESRCH: no process is in such a session, or it is the first; ENOMEM.
fn set(data: &[u8]) -> Result {
    if !caller::capable(Capability::SYS_NICE) {
        return Err(EPERM);
    }
    let (number, change) = parse(data)?;
    let session = find(number).ok_or(ESRCH)?;
    let group = session.sched().ok_or(ESRCH)?;
    match change {
        Change::Weight(weight) => group.set_weight(weight),
        Change::Quota(quota) => {
            group.set_quota(quota)?;
            // Those that begin from now on are counted where who makes them is, and that is seen here first or last.
            for_members(number, |process| {
                process.visit_threads(|thread| {
                    thread.look_at_task(crate::sched::quota_changed);
                });
            });
        }
    }
    Ok(())
}

/// `SESSION weight N`, or `SESSION max QUOTA PERIOD`.
fn parse(data: &[u8]) -> Result<(Pid, Change)> {
    let text = core::str::from_utf8(data).map_err(|_| EINVAL)?;
    let mut words = text.split_ascii_whitespace();
    let mut word = || words.next().ok_or(EINVAL);
    let number = word()?.parse().map_err(|_| EINVAL)?;
    let change = match word()? {
        "weight" => Change::Weight(weight(count(word()?)?)?),
        "max" => match (word()?, count(word()?)?) {
            ("max", period) => Quota::new(period, period).map(|_| Change::Quota(None))?,
            (quota, period) => Change::Quota(Some(Quota::new(count(quota)?, period)?)),
        },
        _ => return Err(EINVAL),
    };
    if words.next().is_some() { Err(EINVAL) } else { Ok((number, change)) }
}

fn count(word: &str) -> Result<u64> {
    word.parse().map_err(|_| EINVAL)
}

/// The weight of a group of which cpu.weight would be `n`.
fn weight(n: u64) -> Result<u64> {
    if !(1..=10_000).contains(&n) {
        return Err(EINVAL);
    }
    Ok(n.saturating_mul(1024) / 100)
}

/// The session with this number, if it has a member.
fn find(number: Pid) -> Option<Arc<Session>> {
    let mut found = None;
    walk_processes(|process| {
        if process.session_id() == number {
            found = process.session().filter(|session| session.id() == number);
        }
        found.is_none()
    });
    found
}

fn for_members(number: Pid, mut f: impl FnMut(&Arc<Process>)) {
    walk_processes(|process| {
        if process.session_id() == number {
            f(process);
        }
        true
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_a_change_is_refused() {
        let bad = [
            "",
            "7",
            "7 weight",
            "7 weight 0",
            "7 weight 10001",
            "7 weight 100 1",
            "7 weight -1",
            "x weight 100",
            "7 max 1000",
            "7 max 999 10000",
            "7 max 1000 999",
            "7 max 1000 1000001",
            "7 max max 999",
            "7 max 1000 10000 1",
            "7 min 1000 10000",
            "7 max 99999999999 10000",
            "7 max 1000 99999999999999999999999",
        ];
        for text in bad {
            assert_eq!(parse(text.as_bytes()).err(), Some(EINVAL), "{text}");
        }
        assert_eq!(parse(b"\xff 1").err(), Some(EINVAL));
    }

    #[test]
    fn what_is_a_change_is_read() {
        assert!(matches!(parse(b"7 weight 100\n"), Ok((7, Change::Weight(1024)))));
        assert!(matches!(parse(b"7 weight 10000"), Ok((7, Change::Weight(102_400)))));
        assert!(matches!(parse(b" 7  max max 100000\n"), Ok((7, Change::Quota(None)))));
        let quota = Quota::new(20_000, 100_000).unwrap();
        assert!(matches!(parse(b"7 max 20000 100000"), Ok((7, Change::Quota(Some(read)))) if read == quota));
    }
}
