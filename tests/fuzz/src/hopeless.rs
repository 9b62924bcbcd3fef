//! What no program is let do, because it would end or blind the supervisor and not test the kernel. Everything else is allowed.
//!
//! | call | for uid 0 | why |
//! |---|---|---|
//! | reboot | without its magic number | with it, it ends the machine, as it shall |
//! | kill, rt_sigqueueinfo | not to -1 | kills the supervisor, as it shall |
//! | prlimit64 | not the processor time of process 1 | SIGKILL ends it at the hard limit, as it shall |
//! | setpriority | not of group 1 | there is none on Linux; here the supervisor is in it, and stays as nice as it is made |
//! | mount, umount2, rename, unlink, chmod, … | in the program's directory alone | /proc and /dev are the supervisor's and of all later programs |
//! | open for writing, truncate | names that are not the machine's settings, but for those that the executor puts back | the same |
#![forbid(unsafe_code)]

use crate::paths::RESTORED;
use crate::program::{Call, Part, Program, Value};
use crate::table;

/// Calls that change names.
const NAMES: &[&str] = &[
    "mount",
    "umount2",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "chmod",
    "fchmodat",
    "fchmodat2",
    "chown",
    "lchown",
    "fchownat",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "mknod",
    "mknodat",
    "mkdir",
    "mkdirat",
    "truncate",
    "setxattr",
    "lsetxattr",
    "pivot_root",
    "move_mount",
    "creat",
    "utime",
    "utimes",
    "utimensat",
    "futimesat",
    "chroot",
];

/// Leaves out of the program what is hopeless.
pub fn tame(program: &mut Program) {
    let uid = program.uid;
    for call in program.tasks.iter_mut().flat_map(|task| &mut task.calls) {
        let name = table::name(call.number);
        match name.as_str() {
            "reboot" if uid == 0 => set(call, 0, 0),
            "kill" | "rt_sigqueueinfo" if uid == 0 && is_everybody(call.arguments.first()) => set(call, 0, 0),
            "prlimit64" if is_time_of_the_first(call) => set(call, 0, 0),
            "setpriority" if is_first_group(call) => set(call, 1, 0),
            name if uid == 0 && NAMES.contains(&name) => call.arguments.iter_mut().for_each(relative),
            "open" | "openat" if uid == 0 => call.arguments.iter_mut().for_each(no_setting),
            _ => {}
        }
    }
}

fn set(call: &mut Call, argument: usize, number: u64) {
    if let Some(value) = call.arguments.get_mut(argument) {
        *value = Value::Number(number);
    }
}

/// PRIO_PGRP 1.
fn is_first_group(call: &Call) -> bool {
    may_be(call, 0, 1) && may_be(call, 1, 1)
}

/// RLIMIT_CPU or RLIMIT_RTTIME of process 1.
fn is_time_of_the_first(call: &Call) -> bool {
    may_be(call, 0, 1) && (may_be(call, 1, 0) || may_be(call, 1, 15))
}

/// Is the argument this as an `int`, whatever calls before return?
fn may_be(call: &Call, at: usize, word: u32) -> bool {
    matches!(call.arguments.get(at), Some(Value::Number(n) | Value::Result { instead: n, .. }) if *n as u32 == word)
}

/// Anything that may be -1 as an `int`.
fn is_everybody(value: Option<&Value>) -> bool {
    match value {
        Some(Value::Number(number)) => *number as u32 == u32::MAX,
        Some(Value::Result { instead, .. }) => *instead as u32 == u32::MAX,
        _ => false,
    }
}

fn first_bytes(value: &mut Value) -> Option<&mut Vec<u8>> {
    let Value::Data(data) = value else { return None };
    match data.parts.first_mut() {
        Some(Part::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

fn relative(value: &mut Value) {
    if let Some(bytes) = first_bytes(value) {
        while bytes.first() == Some(&b'/') {
            bytes.remove(0);
        }
        // Out of the program's directory is not far from the root.
        if bytes.starts_with(b"..") {
            bytes.splice(..2, *b"d");
        }
    }
}

fn no_setting(value: &mut Value) {
    if let Some(bytes) = first_bytes(value)
        && bytes.starts_with(b"/proc/sys")
        && !RESTORED.iter().any(|name| bytes.strip_suffix(b"\0") == Some(name.as_bytes()))
    {
        *bytes = b"f\0".to_vec();
    }
}
