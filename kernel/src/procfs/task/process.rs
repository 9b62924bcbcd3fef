//! Files about a process: what it was started with, where it is, its limits and mounts.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::TryVec;
use sync::heap::Text;
use vm::addr::VirtAddr;

use crate::errno::{EINVAL, ENOENT, ENOMEM, EPERM, ERANGE, Result};
use crate::fs::anon::namespace::Kept;
use crate::fs::caller::{self, Capability};
use crate::fs::file::describe;
use crate::fs::vfs::device_number;
use crate::fs::vfs::mount::{
    self, Mount, NO_ATIME, NO_DEV, NO_DIR_ATIME, NO_EXEC, NO_SUID, NO_SYMFOLLOW, READ_ONLY, STRICT_ATIME,
};
use crate::fs::vfs::superblock::SHOWN;
use crate::process::{Process, Thread, badness};
use crate::procfs::entry::MakeOf;
use crate::procfs::task::login;
use crate::sched::schedule_if_needed;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// Reads a range of the process's memory; what is not there ends it.
#[expect(clippy::arithmetic_side_effects, reason = "at is below end")]
fn memory(process: &Process, (start, end): (usize, usize), out: &mut Vec<u8>) -> Result {
    const MOST: usize = 2 << 20;
    let Some(space) = process.space() else { return Ok(()) };
    let mut at = start;
    let end = end.min(start.saturating_add(MOST));
    while at < end {
        let mut piece = [0; 256];
        let n = piece.len().min(end - at).min(4096 - at % 4096);
        let Some(part) = piece.get_mut(..n) else { break };
        if space.read_remote(VirtAddr(at), part).is_err() {
            break;
        }
        out.try_extend_from_slice(part)?;
        at += n;
    }
    Ok(())
}

pub fn cmdline(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let range = process.memory.lock().arguments;
    memory(process, range, out)
}

pub fn environ(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let range = process.memory.lock().environment;
    memory(process, range, out)
}

pub fn auxv(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let range = process.memory.lock().auxv;
    memory(process, range, out)
}

pub fn comm(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let (name, len) = thread.comm();
    out.try_extend_from_slice(name.get(..len).unwrap_or(&[]))?;
    out.try_push(b'\n')?;
    Ok(())
}

/// What can be written: the name of a thread of the caller's own process, and what is said of a process for when memory is out.
pub fn write(file: MakeOf, process: &Arc<Process>, thread: &Arc<Thread>, data: &[u8]) -> Result {
    if core::ptr::fn_addr_eq(file, comm as MakeOf) && process.pid() == caller::pid() {
        thread.set_comm(data.strip_suffix(b"\n").unwrap_or(data));
        return Ok(());
    }
    let privileged = caller::may_use_resources();
    if core::ptr::fn_addr_eq(file, oom_score_adj as MakeOf) {
        return process.adjustment.set(signed(data)?, privileged);
    }
    if core::ptr::fn_addr_eq(file, crate::procfs::sched::autogroup as MakeOf) {
        return crate::procfs::sched::set_autogroup(process, signed(data)?);
    }
    if core::ptr::fn_addr_eq(file, crate::procfs::sched::sched as MakeOf) {
        // Linux sets back what it counts while sched_schedstats is set; nothing of that is counted here.
        return Ok(());
    }
    if core::ptr::fn_addr_eq(file, oom_adj as MakeOf) {
        return process.adjustment.set_coarse(signed(data)?, privileged);
    }
    if core::ptr::fn_addr_eq(file, coredump_filter as MakeOf) {
        process.set_dump_filter(number(data)? as u32);
        return Ok(());
    }
    if core::ptr::fn_addr_eq(file, timerslack as MakeOf) {
        let text = data.strip_suffix(b"\n").unwrap_or(data);
        let digits = core::str::from_utf8(text.strip_prefix(b"+").unwrap_or(text)).map_err(|_| EINVAL)?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return Err(EINVAL);
        }
        let slack = digits.parse().map_err(|_| ERANGE)?;
        check_slack(process)?;
        thread.attributes.set_slack(slack);
        return Ok(());
    }
    if core::ptr::fn_addr_eq(file, login::loginuid as MakeOf) {
        return login::set_loginuid(thread, data);
    }
    if core::ptr::fn_addr_eq(file, login::setgroups as MakeOf) {
        return login::set_setgroups(data);
    }
    if core::ptr::fn_addr_eq(file, login::id_map as MakeOf) {
        return Err(EPERM);
    }
    Err(EINVAL)
}

/// How late a thread of another process may wake is for those to see and say who may make it slower anyhow.
fn check_slack(process: &Process) -> Result {
    if process.pid() == caller::pid() || caller::capable(Capability::SYS_NICE) { Ok(()) } else { Err(EPERM) }
}

pub fn timerslack(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    check_slack(process)?;
    put!(out, "{}\n", thread.attributes.slack());
    Ok(())
}

/// A number as Linux takes it here: decimal, octal or hexadecimal, with white space around it; what follows its twelfth byte is not read.
fn signed(data: &[u8]) -> Result<i32> {
    let n = number(data.get(..12).unwrap_or(data))?;
    i32::try_from(n).map_err(|_| ERANGE)
}

fn number(data: &[u8]) -> Result<i64> {
    let text = data.trim_ascii();
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        [b'+', digits @ ..] => (false, digits),
        digits => (false, digits),
    };
    let (radix, digits) = match digits {
        [b'0', b'x' | b'X', rest @ ..] => (16, rest),
        [b'0', rest @ ..] if !rest.is_empty() => (8, rest),
        all => (10, all),
    };
    let digits = core::str::from_utf8(digits).ok().filter(|d| !d.starts_with(['+', '-'])).ok_or(EINVAL)?;
    let n = i64::from_str_radix(digits, radix).map_err(|_| EINVAL)?;
    Ok(if negative { n.wrapping_neg() } else { n })
}

/// Empty for what has no memory any more.
pub fn coredump_filter(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    if process.space().is_some() {
        put!(out, "{:08x}\n", process.dump_filter());
    }
    Ok(())
}

pub fn oom_score_adj(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    put!(out, "{}\n", process.adjustment.get());
    Ok(())
}

pub fn oom_adj(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    put!(out, "{}\n", process.adjustment.get_coarse());
    Ok(())
}

pub fn oom_score(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    put!(out, "{}\n", badness::score(process));
    Ok(())
}

pub fn wchan(_: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    put!(out, "0");
    Ok(())
}

pub fn exe(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let file = process.exe().ok_or(ENOENT)?;
    *out = describe::file(&file, &caller::context().root()?)?;
    Ok(())
}

pub fn cwd(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    *out = describe::path(&thread.fs_of().ok_or(ENOENT)?.cwd()?, &caller::context().root()?)?;
    Ok(())
}

pub fn root(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    *out = describe::path(&thread.fs_of().ok_or(ENOENT)?.root()?, &caller::context().root()?)?;
    Ok(())
}

/// What the link to its namespace of mounts says.
pub fn mount_namespace(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    *out = thread.look_at_fs(Kept::of).ok_or(ENOENT)?.name()?;
    Ok(())
}

pub fn limits(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    const ROWS: [(&str, u32, &str); 16] = [
        ("Max cpu time", 0, "seconds"),
        ("Max file size", 1, "bytes"),
        ("Max data size", 2, "bytes"),
        ("Max stack size", 3, "bytes"),
        ("Max core file size", 4, "bytes"),
        ("Max resident set", 5, "bytes"),
        ("Max processes", 6, "processes"),
        ("Max open files", 7, "files"),
        ("Max locked memory", 8, "bytes"),
        ("Max address space", 9, "bytes"),
        ("Max file locks", 10, "locks"),
        ("Max pending signals", 11, "signals"),
        ("Max msgqueue size", 12, "bytes"),
        ("Max nice priority", 13, ""),
        ("Max realtime priority", 14, ""),
        ("Max realtime timeout", 15, "us"),
    ];
    put!(out, "{:<26}{:<21}{:<21}{:<10}\n", "Limit", "Soft Limit", "Hard Limit", "Units");
    for (name, resource, unit) in ROWS {
        let (soft, hard) = process.limits.get(resource)?;
        put!(out, "{name:<26}");
        for value in [soft, hard] {
            match value {
                u64::MAX => put!(out, "{:<21}", "unlimited"),
                n => put!(out, "{n:<21}"),
            }
        }
        put!(out, "{unit:<10}\n");
    }
    Ok(())
}

/// Spaces and the like in a field of /proc/mounts are octal.
pub fn escaped(text: &[u8], out: &mut Vec<u8>) -> Result {
    for &byte in text {
        match byte {
            b' ' | b'\t' | b'\n' | b'\\' => put!(out, "\\{byte:03o}"),
            _ => out.try_push(byte)?,
        }
    }
    Ok(())
}

/// Those of `names` that are in `flags`, as text.
fn named(flags: u32, names: &[(u32, &str)], out: &mut Vec<u8>) -> Result {
    for (_, text) in names.iter().filter(|(flag, _)| flags & flag != 0) {
        put!(out, "{text}");
    }
    Ok(())
}

/// The flags of a mount.
fn options(mount: &Mount, out: &mut Vec<u8>) -> Result {
    let flags = mount.flags();
    let before = [
        (NO_SUID, ",nosuid"),
        (NO_DEV, ",nodev"),
        (NO_EXEC, ",noexec"),
        (NO_ATIME, ",noatime"),
        (NO_DIR_ATIME, ",nodiratime"),
    ];
    named(flags, &before, out)?;
    if flags & (NO_ATIME | STRICT_ATIME) == 0 {
        put!(out, ",relatime");
    }
    named(flags, &[(NO_SYMFOLLOW, ",nosymfollow")], out)
}

fn access(is_read_only: bool) -> &'static str {
    if is_read_only { "ro" } else { "rw" }
}

/// The point of each mount as the thread sees it; mounts outside its root are left out.
pub fn for_each_mount(thread: &Thread, mut f: impl FnMut(&Mount, &[u8]) -> Result) -> Result {
    let context = thread.fs_of().ok_or(ENOENT)?;
    let root = context.root()?;
    for mount in mount::all(context.namespace())? {
        let place = mount::Path { mount: mount.clone(), dentry: mount.root.clone() };
        let (point, reached) = mount::text_of(&place, &root)?;
        if reached {
            f(&mount, &point)?;
        }
        schedule_if_needed();
    }
    Ok(())
}

pub fn mounts(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    for_each_mount(thread, |mount, point| {
        escaped(&mount.source, out)?;
        put!(out, " ");
        escaped(point, out)?;
        put!(out, " {} ", mount.superblock.kind.name);
        put!(out, "{}", access(mount.is_read_only()));
        named(mount.superblock.flags(), &SHOWN, out)?;
        options(mount, out)?;
        mount.superblock.ops.show_options(&mount.superblock, out)?;
        put!(out, " 0 0\n");
        Ok(())
    })
}

pub fn mountinfo(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let context = thread.fs_of().ok_or(ENOENT)?;
    let root = context.root()?;
    for_each_mount(thread, |mount, point| {
        let parent = mount.point(&sync::rcu::read()).map_or(0, |p| p.mount.id);
        let device = mount.superblock.device;
        put!(out, "{} {parent} {}:{} ", mount.id, device_number::major(device), device_number::minor(device));
        let whole = mount.superblock.root()?;
        let inside =
            mount::Path { mount: mount::detached(mount.superblock.clone())?, dentry: mount.root.clone() };
        let base = mount::Path { mount: inside.mount.clone(), dentry: whole };
        escaped(&mount::text_of(&inside, &base)?.0, out)?;
        put!(out, " ");
        escaped(point, out)?;
        put!(out, " {}", access(mount.flags() & READ_ONLY != 0));
        options(mount, out)?;
        let groups = mount::told(mount, context.namespace(), &root)?;
        if let Some(group) = groups.group {
            put!(out, " shared:{group}");
        }
        if let Some(master) = groups.master {
            put!(out, " master:{master}");
            if let Some(from) = groups.from.filter(|from| *from != master) {
                put!(out, " propagate_from:{from}");
            }
        }
        if mount.is_unbindable() {
            put!(out, " unbindable");
        }
        put!(out, " - {} ", mount.superblock.kind.name);
        escaped(&mount.source, out)?;
        put!(out, " {}", access(mount.superblock.is_read_only()));
        named(mount.superblock.flags(), &SHOWN, out)?;
        mount.superblock.ops.show_options(&mount.superblock, out)?;
        put!(out, "\n");
        Ok(())
    })
}
