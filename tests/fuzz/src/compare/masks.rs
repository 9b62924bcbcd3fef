//! What of a call two machines cannot agree on, and why.
#![forbid(unsafe_code)]

use std::collections::HashSet;

use darter_table::{CALLS, Kind, State};

use crate::program::{Call, Part, Program, Value};
use crate::table;

/// Of these only whether they succeed is compared.
const VALUES: &[(&[&str], &str)] = &[
    (
        &["getpid", "gettid", "getppid", "getpgid", "getpgrp", "getsid", "setsid", "set_tid_address"],
        "numbers of processes",
    ),
    (&["mmap", "mremap", "brk"], "addresses"),
    (&["time", "times", "alarm", "timer_getoverrun", "poll", "ppoll", "rt_sigtimedwait"], "depend on time"),
    (&["getcpu", "sched_getaffinity"], "the bytes of Linux's CPU mask are those of its build"),
    (&["getdents64", "readlink", "readlinkat"], "the order and numbers of directories, links of /proc"),
    (&["syslog"], "what the kernel has said"),
];
/// What these write is cleared before it is compared.
const OUTPUTS: &[(&[&str], &str)] = &[
    (
        &["stat", "fstat", "lstat", "newfstatat", "statx", "statfs", "fstatfs", "getcwd"],
        "numbers of devices and inodes, times, sizes of directories",
    ),
    (
        &[
            "gettimeofday",
            "clock_gettime",
            "clock_getres",
            "getrusage",
            "times",
            "time",
            "getitimer",
            "setitimer",
            "timer_gettime",
            "timer_settime",
            "timerfd_gettime",
            "timerfd_settime",
            "nanosleep",
            "clock_nanosleep",
            "select",
            "pselect6",
            "sched_rr_get_interval",
            "rt_sigtimedwait",
            "poll",
            "ppoll",
            "wait4",
            "waitid",
            "prlimit64",
            "getrlimit",
            "sysinfo",
        ],
        "times, use, and what depends on them; limits that each kernel sets by its memory",
    ),
    (
        &["timer_create", "get_robust_list", "arch_prctl", "rt_sigaction", "sigaltstack", "rseq"],
        "addresses, ids of timers",
    ),
    (&["uname", "syslog", "getrandom", "getcpu", "sched_getaffinity"], "what the machine is"),
    (&["getdents64", "readlink", "readlinkat"], "as above"),
    (&["read", "pread64", "readv", "preadv", "preadv2"], "timers, random bytes, texts of /proc"),
    (
        &["fcntl", "ioctl", "prctl", "capget", "sched_getattr", "mincore"],
        "numbers of processes, what is resident",
    ),
];

/// Is the value of a call that succeeds left out?
pub fn value(name: &str) -> bool {
    VALUES.iter().any(|(names, _)| names.contains(&name))
}

/// Is what the call writes left out?
pub fn output(name: &str) -> bool {
    OUTPUTS.iter().any(|(names, _)| names.contains(&name))
}

/// The calls whose results two kernels cannot agree on, by their ids.
pub fn differing(program: &Program) -> HashSet<u32> {
    let differs = |call: &&Call| {
        let name = table::name(call.number);
        value(&name) || output(&name)
    };
    program.calls().filter(differs).map(|call| call.id).collect()
}

/// Is the call's data cleared before it is compared: what it writes is left out, or it was given numbers of processes, or a result of one of
/// the calls in `differing`?
pub fn clears(call: &Call, differing: &HashSet<u32>) -> bool {
    let differs = |value: &Value| match value {
        Value::Pid(_) => true,
        Value::Result { id, .. } => differing.contains(id),
        _ => false,
    };
    let holds_one = |value: &Value| match value {
        Value::Data(data) => {
            data.parts.iter().any(|part| matches!(part, Part::Value(_, value) if differs(value)))
        }
        _ => false,
    };
    output(&table::name(call.number)) || call.arguments.iter().any(holds_one)
}

/// Does the call write more than it was given room for? What it writes beyond that is not cleared after it.
pub fn spoils(call: &Call) -> bool {
    const PAGE: u64 = 4096;
    let room = |at: usize| match call.arguments.get(at) {
        Some(Value::Data(data)) => Some(data.size() as u64),
        _ => None,
    };
    match (table::name(call.number).as_str(), call.arguments.get(1)) {
        ("mincore", Some(Value::Number(len))) => room(2).is_some_and(|room| len.div_ceil(PAGE) > room),
        _ => false,
    }
}

/// Does the table say that an option of the call is refused with this error?
pub fn is_refused(call: &Call, returned: i64) -> bool {
    let Some(row) = CALLS.iter().find(|row| row.number == call.number) else { return false };
    let Ok(errno) = i32::try_from(returned.saturating_neg()) else { return false };
    row.arguments.iter().zip(&call.arguments).any(|(argument, value)| match (&argument.kind, value) {
        (Kind::Options(set), Value::Number(word)) => set
            .parts(*word)
            .any(|option| matches!(option.state, State::Refused(error) if number(error) == errno)),
        _ => false,
    })
}

/// The errors with which the table says that something is refused.
fn number(error: &str) -> i32 {
    match error {
        "EPERM" => 1,
        "EIO" => 5,
        "ENOMEM" => 12,
        "ENODEV" => 19,
        "EINVAL" => 22,
        "ENOTTY" => 25,
        "ENOSYS" => 38,
        "ENOPROTOOPT" => 92,
        "EOPNOTSUPP" => 95,
        "EAFNOSUPPORT" => 97,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_of_the_table_has_a_number() {
        let sets = CALLS.iter().flat_map(|call| call.arguments).filter_map(|argument| match &argument.kind {
            Kind::Options(set) => Some(set),
            _ => None,
        });
        for option in sets.flat_map(|set| set.choices.iter().chain(set.flags)) {
            if let State::Refused(error) = option.state {
                assert_ne!(number(error), 0, "{error}");
            }
        }
    }

    #[test]
    fn names_are_those_of_calls() {
        for name in VALUES.iter().chain(OUTPUTS).flat_map(|(names, _)| *names) {
            assert!(darter_table::call(name).is_some(), "{name}");
        }
    }
}
