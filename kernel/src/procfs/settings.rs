//! /proc/sys: what can be asked and set.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sync::TryVec;
use sync::heap::Text;

use super::entry::{Entry, Setting, What};
use super::ipc;
use crate::account::limits;
use crate::errno::{EINVAL, ENOMEM, Result};
use crate::fs::anon::pipe;
use crate::fs::devfs::{kmsg, random};
use crate::fs::file::count;
use crate::log;
use crate::net::options;
use crate::process::{self, dump, exec, seccomp, utsname};
use crate::sched::{deadline, group, realtime_settings};

const fn setting(name: &'static str, setting: &'static Setting) -> Entry {
    Entry { name, what: What::Setting(setting) }
}

pub static SYS: &[Entry] = &[
    Entry { name: "fs", what: What::Dir(FS) },
    Entry { name: "kernel", what: What::Dir(KERNEL) },
    Entry { name: "net", what: What::Dir(NET) },
    Entry { name: "vm", what: What::Dir(VM) },
];

static FS: &[Entry] = &[
    setting(
        "file-max",
        &Setting {
            read: |out| line(out, limits::files()),
            write: Some(|data| match positive(data)? {
                n if i64::try_from(n).is_err() => Err(EINVAL),
                n => {
                    limits::set_files(n);
                    Ok(())
                }
            }),
        },
    ),
    setting("file-nr", &Setting { read: file_nr, write: None }),
    setting(
        "mount-max",
        &Setting {
            read: |out| line(out, limits::MOUNTS.get()),
            write: Some(|data| match unsigned(data)? {
                n if n == 0 || i32::try_from(n).is_err() => Err(EINVAL),
                n => {
                    limits::MOUNTS.set(n);
                    Ok(())
                }
            }),
        },
    ),
    setting(
        "nr_open",
        &Setting {
            read: |out| line(out, limits::NR_OPEN.get()),
            write: Some(|data| match positive(data)? {
                n if !limits::NR_OPEN_RANGE.contains(&n) => Err(EINVAL),
                n => {
                    limits::NR_OPEN.set(n);
                    Ok(())
                }
            }),
        },
    ),
    Entry { name: "epoll", what: What::Dir(EPOLL) },
    Entry { name: "inotify", what: What::Dir(INOTIFY) },
    setting(
        "pipe-max-size",
        &Setting { read: |out| line(out, limits::PIPE_SIZE.get()), write: Some(set_pipe_size) },
    ),
    setting(
        "pipe-user-pages-hard",
        &Setting {
            read: |out| line(out, limits::PIPE_PAGES_HARD.get()),
            write: Some(|data| unsigned(data).map(|n| limits::PIPE_PAGES_HARD.set(n))),
        },
    ),
    setting(
        "pipe-user-pages-soft",
        &Setting {
            read: |out| line(out, limits::PIPE_PAGES_SOFT.get()),
            write: Some(|data| unsigned(data).map(|n| limits::PIPE_PAGES_SOFT.set(n))),
        },
    ),
];

static EPOLL: &[Entry] = &[setting(
    "max_user_watches",
    &Setting {
        read: |out| line(out, limits::watches()),
        write: Some(|data| match unsigned(data)? {
            n if i64::try_from(n).is_err() => Err(EINVAL),
            n => {
                limits::set_watches(n);
                Ok(())
            }
        }),
    },
)];

static INOTIFY: &[Entry] = &[
    setting(
        "max_queued_events",
        &Setting {
            read: |out| line(out, limits::INOTIFY_EVENTS.get()),
            write: Some(|data| set_at_least(&limits::INOTIFY_EVENTS, data, 0)),
        },
    ),
    setting(
        "max_user_instances",
        &Setting {
            read: |out| line(out, limits::INOTIFY_INSTANCES.get()),
            write: Some(|data| set_at_least(&limits::INOTIFY_INSTANCES, data, 0)),
        },
    ),
    setting(
        "max_user_watches",
        &Setting {
            read: |out| line(out, limits::inotify_watches()),
            write: Some(|data| {
                let n = u64::try_from(integer(data)?).map_err(|_| EINVAL)?;
                limits::set_inotify_watches(n);
                Ok(())
            }),
        },
    ),
];

static NET: &[Entry] =
    &[Entry { name: "core", what: What::Dir(NET_CORE) }, Entry { name: "unix", what: What::Dir(NET_UNIX) }];

static NET_CORE: &[Entry] = &[
    setting(
        "rmem_default",
        &Setting {
            read: |out| line(out, limits::RECEIVE_DEFAULT.get()),
            write: Some(|data| set_at_least(&limits::RECEIVE_DEFAULT, data, options::RECEIVE_LEAST)),
        },
    ),
    setting(
        "rmem_max",
        &Setting {
            read: |out| line(out, limits::RECEIVE_MOST.get()),
            write: Some(|data| set_at_least(&limits::RECEIVE_MOST, data, options::RECEIVE_LEAST)),
        },
    ),
    setting(
        "somaxconn",
        &Setting {
            read: |out| line(out, limits::SOMAXCONN.get()),
            write: Some(|data| set_at_least(&limits::SOMAXCONN, data, 0)),
        },
    ),
    setting(
        "wmem_default",
        &Setting {
            read: |out| line(out, limits::SEND_DEFAULT.get()),
            write: Some(|data| set_at_least(&limits::SEND_DEFAULT, data, options::SEND_LEAST)),
        },
    ),
    setting(
        "wmem_max",
        &Setting {
            read: |out| line(out, limits::SEND_MOST.get()),
            write: Some(|data| set_at_least(&limits::SEND_MOST, data, options::SEND_LEAST)),
        },
    ),
];

static NET_UNIX: &[Entry] = &[setting(
    "max_dgram_qlen",
    &Setting {
        read: |out| line(out, limits::MAX_DGRAM_QLEN.get()),
        write: Some(|data| set_at_least(&limits::MAX_DGRAM_QLEN, data, 0)),
    },
)];

/// A number of 31 bits that is not less than `least`.
fn set_at_least(setting: &limits::Setting, data: &[u8], least: usize) -> Result {
    let n = integer(data)?;
    let n = u64::try_from(n).ok().filter(|n| *n >= least as u64).ok_or(EINVAL)?;
    setting.set(n);
    Ok(())
}

/// A setting that is shown as one that nobody writes: who restores programs writes it (CAP_CHECKPOINT_RESTORE).
const fn restored(name: &'static str, setting: &'static Setting) -> Entry {
    Entry { name, what: What::Restored(setting) }
}

static KERNEL: &[Entry] = &[
    setting("auto_msgmni", &ipc::AUTO_MSGMNI),
    restored("msg_next_id", &ipc::MSG_NEXT_ID),
    setting("msgmax", &ipc::MSGMAX),
    setting("msgmnb", &ipc::MSGMNB),
    setting("msgmni", &ipc::MSGMNI),
    setting("sem", &ipc::SEM),
    restored("sem_next_id", &ipc::SEM_NEXT_ID),
    restored("shm_next_id", &ipc::SHM_NEXT_ID),
    setting("shm_rmid_forced", &ipc::SHM_RMID_FORCED),
    setting("shmall", &ipc::SHMALL),
    setting("shmmax", &ipc::SHMMAX),
    setting("shmmni", &ipc::SHMMNI),
    setting("core_pattern", &Setting { read: core_pattern, write: Some(dump::set_pattern) }),
    setting(
        "core_uses_pid",
        &Setting {
            read: |out| line(out, u64::from(dump::uses_pid())),
            write: Some(|data| integer(data).map(|n| dump::set_uses_pid(n != 0))),
        },
    ),
    setting(
        "dmesg_restrict",
        &Setting {
            read: |out| line(out, u64::from(kmsg::is_restricted())),
            write: Some(|data| match integer(data)? {
                n @ (0 | 1) => kmsg::set_restricted(n == 1),
                _ => Err(EINVAL),
            }),
        },
    ),
    setting("hostname", &Setting { read: host_name, write: Some(set_host_name) }),
    setting("ngroups_max", &Setting { read: |out| line(out, 65_536), write: None }),
    setting("osrelease", &Setting { read: |out| text(out, utsname::RELEASE), write: None }),
    setting("ostype", &Setting { read: |out| text(out, "Linux"), write: None }),
    setting("pid_max", &Setting { read: |out| line(out, 4_194_304), write: None }),
    setting("printk", &Setting { read: levels, write: Some(set_levels) }),
    setting(
        "printk_devkmsg",
        &Setting { read: |out| text(out, kmsg::taken()), write: Some(kmsg::set_taken) },
    ),
    Entry { name: "random", what: What::Dir(RANDOM) },
    setting("randomize_va_space", &Setting { read: randomize, write: Some(set_randomize) }),
    setting(
        "sched_autogroup_enabled",
        &Setting {
            read: |out| line(out, u64::from(group::are_sessions_grouped())),
            write: Some(|data| match integer(data)? {
                n @ (0 | 1) => {
                    group::group_sessions(n == 1);
                    Ok(())
                }
                _ => Err(EINVAL),
            }),
        },
    ),
    setting(
        "sched_deadline_period_max_us",
        &Setting {
            read: |out| line(out, u64::from(deadline::Limits::now().most)),
            write: Some(|data| {
                let most = unsigned_half(data)?;
                deadline::set_limits(|limits| deadline::Limits { most, ..limits })
            }),
        },
    ),
    setting(
        "sched_deadline_period_min_us",
        &Setting {
            read: |out| line(out, u64::from(deadline::Limits::now().least)),
            write: Some(|data| {
                let least = unsigned_half(data)?;
                deadline::set_limits(|limits| deadline::Limits { least, ..limits })
            }),
        },
    ),
    setting(
        "sched_rr_timeslice_ms",
        &Setting {
            read: |out| line(out, realtime_settings::slice() / 1_000_000),
            write: Some(|data| integer(data).map(realtime_settings::set_slice)),
        },
    ),
    setting(
        "sched_rt_period_us",
        &Setting {
            read: |out| signed_line(out, realtime_settings::bound().0),
            write: Some(|data| set_realtime_bound(data, |period, (_, runtime)| (period, runtime))),
        },
    ),
    setting(
        "sched_rt_runtime_us",
        &Setting {
            read: |out| signed_line(out, realtime_settings::bound().1),
            write: Some(|data| set_realtime_bound(data, |runtime, (period, _)| (period, runtime))),
        },
    ),
    Entry { name: "seccomp", what: What::Dir(SECCOMP) },
    setting("threads-max", &Setting { read: |out| line(out, 1 << 20), write: None }),
    setting("version", &Setting { read: |out| text(out, utsname::VERSION), write: None }),
];

static SECCOMP: &[Entry] =
    &[setting("actions_avail", &Setting { read: |out| text(out, seccomp::ACTIONS), write: None })];

static RANDOM: &[Entry] = &[
    setting("boot_id", &Setting { read: boot_id, write: None }),
    setting("entropy_avail", &Setting { read: |out| line(out, 256), write: None }),
    setting("poolsize", &Setting { read: |out| line(out, 256), write: None }),
    setting("uuid", &Setting { read: |out| uuid(out, random::bytes()), write: None }),
];

static VM: &[Entry] = &[
    setting(
        "max_map_count",
        &Setting { read: |out| line(out, vm::max_mappings() as u64), write: Some(set_max_mappings) },
    ),
    setting("mmap_min_addr", &Setting { read: |out| line(out, 65_536), write: None }),
    setting("overcommit_memory", &Setting { read: overcommit, write: Some(set_overcommit) }),
    setting("overcommit_ratio", &Setting { read: |out| line(out, 50), write: None }),
    setting("swappiness", &Setting { read: |out| line(out, 60), write: None }),
];

pub fn line(out: &mut Vec<u8>, n: u64) -> Result {
    writeln!(Text(out), "{n}").map_err(|_| ENOMEM)
}

/// A number that was written, with white space around it.
fn unsigned(data: &[u8]) -> Result<u64> {
    let text = core::str::from_utf8(data.trim_ascii()).map_err(|_| EINVAL)?;
    text.parse().map_err(|_| EINVAL)
}

/// A number of 32 bits.
fn unsigned_half(data: &[u8]) -> Result<u32> {
    u32::try_from(unsigned(data)?).map_err(|_| EINVAL)
}

fn signed_line(out: &mut Vec<u8>, n: i32) -> Result {
    writeln!(Text(out), "{n}").map_err(|_| ENOMEM)
}

fn set_realtime_bound(data: &[u8], change: impl Fn(i32, (i32, i32)) -> (i32, i32)) -> Result {
    let n = integer(data)?;
    realtime_settings::set_bound(|both| change(n, both))
}

/// Levels of messages.
fn levels(out: &mut Vec<u8>) -> Result {
    let [console, message, least, own] = log::levels();
    writeln!(Text(out), "{console}\t{message}\t{least}\t{own}").map_err(|_| ENOMEM)
}

/// Sets as many as are written.
fn set_levels(data: &[u8]) -> Result {
    let mut levels = [0; 4];
    let mut count = 0;
    for (n, (word, level)) in (1..).zip(words(data).zip(&mut levels)) {
        *level = u8::try_from(integer(word)?).map_err(|_| EINVAL)?;
        count = n;
    }
    if count == 0 {
        return Err(EINVAL);
    }
    log::set_levels(levels.get(..count).unwrap_or(&[]));
    Ok(())
}

/// Rounded as F_SETPIPE_SZ rounds.
fn set_pipe_size(data: &[u8]) -> Result {
    let size = usize::try_from(unsigned(data)?).ok().and_then(pipe::rounded).ok_or(EINVAL)?;
    limits::PIPE_SIZE.set(size as u64);
    Ok(())
}

/// Files that are open, free ones that are kept (none, as on Linux), and the limit.
fn file_nr(out: &mut Vec<u8>) -> Result {
    writeln!(Text(out), "{}\t0\t{}", count::open_files(), limits::files()).map_err(|_| ENOMEM)
}

fn text(out: &mut Vec<u8>, text: &str) -> Result {
    writeln!(Text(out), "{text}").map_err(|_| ENOMEM)
}

fn host_name(out: &mut Vec<u8>) -> Result {
    let [_, name, ..] = utsname::names();
    out.try_extend_from_slice(name.split(|&b| b == 0).next().unwrap_or(&[]))?;
    out.try_push(b'\n')?;
    Ok(())
}

fn set_host_name(data: &[u8]) -> Result {
    utsname::set_host_name(data.trim_ascii_end())
}

fn core_pattern(out: &mut Vec<u8>) -> Result {
    let (pattern, length) = dump::pattern();
    out.try_extend_from_slice(pattern.get(..length).unwrap_or(&[]))?;
    out.try_push(b'\n')?;
    Ok(())
}

fn uuid(out: &mut Vec<u8>, bytes: [u8; 32]) -> Result {
    for (i, byte) in bytes.iter().take(16).enumerate() {
        let byte = match i {
            6 => byte & 0x0f | 0x40,
            8 => byte & 0x3f | 0x80,
            _ => *byte,
        };
        let dash = if matches!(i, 4 | 6 | 8 | 10) { "-" } else { "" };
        write!(Text(out), "{dash}{byte:02x}").map_err(|_| ENOMEM)?;
    }
    out.try_push(b'\n')?;
    Ok(())
}

static BOOT: [AtomicU32; 8] = [const { AtomicU32::new(0) }; 8];

/// Random, and the same until the next boot.
#[expect(clippy::arithmetic_side_effects, reason = "shifts of bytes")]
fn boot_id(out: &mut Vec<u8>) -> Result {
    let fresh = random::bytes();
    let mut bytes = [0; 32];
    for (i, (word, to)) in BOOT.iter().zip(bytes.chunks_mut(4)).enumerate() {
        let new = fresh.iter().skip(i * 4).take(4).fold(1u32, |n, b| n << 8 | u32::from(*b)) | 1;
        let kept = word.compare_exchange(0, new, Relaxed, Relaxed).map_or_else(|old| old, |_| new);
        to.copy_from_slice(&kept.to_ne_bytes());
    }
    uuid(out, bytes)
}

fn randomize(out: &mut Vec<u8>) -> Result {
    writeln!(Text(out), "{}", exec::randomize_va_space()).map_err(|_| ENOMEM)
}

fn set_randomize(data: &[u8]) -> Result {
    exec::set_randomize_va_space(integer(data)?);
    Ok(())
}

/// The first word of what was written, as Linux reads a number for a setting: decimal, or octal or hexadecimal as in C.
///
/// # Errors
/// EINVAL: it is none, or does not fit.
pub fn integer(data: &[u8]) -> Result<i32> {
    i32::try_from(word(data)?).map_err(|_| EINVAL)
}

/// A number that is not negative, of 64 bits.
pub fn positive(data: &[u8]) -> Result<u64> {
    let (negative, n) = magnitude(data)?;
    if negative { Err(EINVAL) } else { Ok(n) }
}

/// The words of what was written.
pub fn words(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    data.split(|b| b.is_ascii_whitespace() || *b == 0).filter(|word| !word.is_empty())
}

fn word(data: &[u8]) -> Result<i64> {
    let (negative, n) = magnitude(data)?;
    let n = i64::try_from(n).map_err(|_| EINVAL)?;
    if negative { n.checked_neg().ok_or(EINVAL) } else { Ok(n) }
}

/// The first word: whether it is negative, and without its sign.
fn magnitude(data: &[u8]) -> Result<(bool, u64)> {
    let text = core::str::from_utf8(words(data).next().unwrap_or_default()).map_err(|_| EINVAL)?;
    let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (radix, digits) = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(rest) => (16, rest),
        None if digits.len() > 1 && digits.starts_with('0') => (8, digits),
        None => (10, digits),
    };
    if digits.starts_with('+') {
        return Err(EINVAL);
    }
    u64::from_str_radix(digits, radix).map(|n| (negative, n)).map_err(|_| EINVAL)
}

/// Kept for programs that ask; memory is given out as for 1 (always) whatever it says.
static OVERCOMMIT: AtomicU32 = AtomicU32::new(0);

fn overcommit(out: &mut Vec<u8>) -> Result {
    line(out, u64::from(OVERCOMMIT.load(Relaxed)))
}

fn set_max_mappings(data: &[u8]) -> Result {
    let most = i32::try_from(unsigned(data)?).map_err(|_| EINVAL)?;
    vm::set_max_mappings(usize::try_from(most).map_err(|_| EINVAL)?);
    // What they may add by the old limit is forgotten.
    process::walk_processes(|process| {
        process.space().into_iter().for_each(|space| space.recount());
        true
    });
    Ok(())
}

fn set_overcommit(data: &[u8]) -> Result {
    let n = match data.trim_ascii() {
        b"0" => 0,
        b"1" => 1,
        _ => return Err(EINVAL),
    };
    OVERCOMMIT.store(n, Relaxed);
    Ok(())
}
