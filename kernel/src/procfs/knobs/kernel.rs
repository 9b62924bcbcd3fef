//! /proc/sys: what can be asked and set.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;
use core::ops::RangeInclusive;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sync::TryVec;
use sync::heap::Text;

use crate::account::limits;
use crate::errno::{EINVAL, ENOMEM, Result};
use crate::fs::caller::Capability;
use crate::fs::devfs::{kmsg, random};
use crate::fs::tty::pty;
use crate::log;
use crate::net::options;
use crate::process::{dump, exec, seccomp, utsname};
use crate::procfs::entry::{Entry, Setting, What};
use crate::procfs::knobs;
use crate::procfs::system::ipc;
use crate::sched::{deadline, group, last_born, realtime_settings};

pub const fn setting(name: &'static str, setting: &'static Setting) -> Entry {
    Entry { name, what: What::Setting(setting) }
}

pub static SYS: &[Entry] = &[
    Entry { name: "fs", what: What::Dir(knobs::fs::FS) },
    Entry { name: "kernel", what: What::Dir(KERNEL) },
    Entry { name: "net", what: What::Dir(NET) },
    Entry { name: "user", what: What::Dir(knobs::user::USER) },
    Entry { name: "vm", what: What::Dir(knobs::vm::VM) },
];

/// What the kernel alone says, and nobody writes.
macro_rules! shown {
    ($name:literal, $value:expr) => {
        $crate::procfs::knobs::kernel::setting(
            $name,
            &$crate::procfs::entry::Setting {
                read: |out| $crate::procfs::knobs::kernel::line(out, $value),
                write: None,
            },
        )
    };
}
pub(in crate::procfs) use shown;

/// A limit that is a number in `$range`.
macro_rules! within {
    ($name:literal, $setting:path, $range:expr) => {
        $crate::procfs::knobs::kernel::setting(
            $name,
            &$crate::procfs::entry::Setting {
                read: |out| $crate::procfs::knobs::kernel::line(out, $setting.get()),
                write: Some(|data| $crate::procfs::knobs::kernel::set_within(&$setting, data, $range)),
            },
        )
    };
}
pub(in crate::procfs) use within;

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

/// A number of 31 bits in `range`; EINVAL if it is not.
pub fn set_within(setting: &limits::Setting, data: &[u8], range: RangeInclusive<u64>) -> Result {
    let n = u64::try_from(integer(data)?).ok().filter(|n| range.contains(n)).ok_or(EINVAL)?;
    setting.set(n);
    Ok(())
}

/// A number of 31 bits that is not less than `least`.
pub fn set_at_least(setting: &limits::Setting, data: &[u8], least: usize) -> Result {
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
    setting("arch", &Setting { read: |out| text(out, "x86_64"), write: None }),
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
    shown!("cap_last_cap", u64::from(Capability::ALL.bits().ilog2())),
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
    setting("domainname", &Setting { read: domain_name, write: Some(set_domain_name) }),
    setting("hostname", &Setting { read: host_name, write: Some(set_host_name) }),
    // There are no modules, and no kernel is loaded beside this one.
    shown!("kexec_load_disabled", 1),
    shown!("modules_disabled", 1),
    setting("ngroups_max", &Setting { read: |out| line(out, 65_536), write: None }),
    setting("ns_last_pid", &Setting { read: |out| line(out, last_born().into()), write: None }),
    // Memory stays where it was first touched.
    shown!("numa_balancing", 0),
    setting("osrelease", &Setting { read: |out| text(out, utsname::RELEASE), write: None }),
    setting("ostype", &Setting { read: |out| text(out, "Linux"), write: None }),
    shown!("overflowgid", 65_534),
    shown!("overflowuid", 65_534),
    // A panic, and so whatever Linux calls an oops, ends the machine at once.
    setting("panic", &Setting { read: |out| signed_line(out, -1), write: None }),
    shown!("panic_on_oops", 1),
    setting("pid_max", &Setting { read: |out| line(out, 4_194_304), write: None }),
    setting("printk", &Setting { read: levels, write: Some(set_levels) }),
    setting(
        "printk_devkmsg",
        &Setting { read: |out| text(out, kmsg::taken()), write: Some(kmsg::set_taken) },
    ),
    Entry { name: "pty", what: What::Dir(PTY) },
    Entry { name: "random", what: What::Dir(RANDOM) },
    setting(
        "randomize_va_space",
        &Setting {
            read: |out| signed_line(out, exec::randomize_va_space()),
            write: Some(|data| integer(data).map(exec::set_randomize_va_space)),
        },
    ),
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
    shown!("sched_schedstats", 0),
    Entry { name: "seccomp", what: What::Dir(SECCOMP) },
    // No key of a keyboard asks for anything.
    shown!("sysrq", 0),
    shown!("tainted", 0),
    shown!("task_delayacct", 0),
    setting("threads-max", &Setting { read: |out| line(out, 1 << 20), write: None }),
    setting("version", &Setting { read: |out| text(out, utsname::VERSION), write: None }),
];

static PTY: &[Entry] = &[shown!("max", pty::MOST as u64), shown!("nr", pty::count() as u64)];

static SECCOMP: &[Entry] =
    &[setting("actions_avail", &Setting { read: |out| text(out, seccomp::ACTIONS), write: None })];

static RANDOM: &[Entry] = &[
    setting("boot_id", &Setting { read: boot_id, write: None }),
    setting("entropy_avail", &Setting { read: |out| line(out, 256), write: None }),
    setting("poolsize", &Setting { read: |out| line(out, 256), write: None }),
    setting("uuid", &Setting { read: |out| uuid(out, random::bytes()), write: None }),
];

pub fn line(out: &mut Vec<u8>, n: u64) -> Result {
    writeln!(Text(out), "{n}").map_err(|_| ENOMEM)
}

/// A number that was written, with white space around it.
pub fn unsigned(data: &[u8]) -> Result<u64> {
    let text = core::str::from_utf8(data.trim_ascii()).map_err(|_| EINVAL)?;
    text.parse().map_err(|_| EINVAL)
}

/// A number of 32 bits.
fn unsigned_half(data: &[u8]) -> Result<u32> {
    u32::try_from(unsigned(data)?).map_err(|_| EINVAL)
}

pub fn signed_line(out: &mut Vec<u8>, n: i32) -> Result {
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

pub fn text(out: &mut Vec<u8>, text: &str) -> Result {
    writeln!(Text(out), "{text}").map_err(|_| ENOMEM)
}

fn host_name(out: &mut Vec<u8>) -> Result {
    let [_, name, ..] = utsname::names();
    put_name(name, out)
}

fn domain_name(out: &mut Vec<u8>) -> Result {
    let [.., name] = utsname::names();
    put_name(name, out)
}

fn put_name(name: utsname::Name, out: &mut Vec<u8>) -> Result {
    out.try_extend_from_slice(name.split(|&b| b == 0).next().unwrap_or(&[]))?;
    out.try_push(b'\n')?;
    Ok(())
}

fn set_host_name(data: &[u8]) -> Result {
    utsname::set_host_name(data.trim_ascii_end())
}

fn set_domain_name(data: &[u8]) -> Result {
    utsname::set_domain_name(data.trim_ascii_end())
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
