//! What of /proc/PID is told of a process or thread, beside its memory (`space`): its state, its descriptors, who it is; and here what it reads and writes, its
//! children, its timers, its personality.
#![forbid(unsafe_code)]

pub mod descriptors;
pub mod login;
pub mod numbers;
pub mod process;
pub mod status;
pub mod who;

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use self::who::check_access;
use crate::errno::{ENOMEM, EPERM, Result};
use crate::process::io::Counts;
use crate::process::{Process, Standing, Thread, children_of};
use crate::procfs::task::process::for_each_mount;
use crate::sched::give_way;

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

/// io (proc_pid_io(5)): all that the process has read and written. What a file system takes back before it is written to a disk there is not.
pub fn io(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    check_access(process)?;
    put_io(process.io_counts(), out)
}

/// The same of one thread.
pub fn io_of_thread(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    check_access(process)?;
    put_io(thread.io_counts(), out)
}

/// The same of a process whose threads have ended.
pub fn io_of_zombie(process: &Process, out: &mut Vec<u8>) -> Result {
    check_access(process)?;
    put_io(process.io_counts(), out)
}

fn put_io(
    [chars_read, chars_written, reads, writes, disk_read, disk_written]: Counts,
    out: &mut Vec<u8>,
) -> Result {
    put!(out, "rchar: {chars_read}\nwchar: {chars_written}\nsyscr: {reads}\nsyscw: {writes}\n");
    put!(out, "read_bytes: {disk_read}\nwrite_bytes: {disk_written}\ncancelled_write_bytes: 0\n");
    Ok(())
}

/// personality: the word of personality(2).
///
/// # Errors
/// EPERM: the caller may not look into the process.
pub fn personality(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    check_access(process).map_err(|_| EPERM)?;
    put!(out, "{:08x}\n", thread.personality.get().0);
    Ok(())
}

/// syscall: the call in which the thread sleeps, with its arguments, and where the program made it (proc_pid_syscall(5)).
///
/// # Errors
/// EPERM: the caller may not look into the process.
pub fn syscall(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    check_access(process).map_err(|_| EPERM)?;
    let regs = match thread.standing() {
        Standing::Runs => {
            put!(out, "running\n");
            return Ok(());
        }
        Standing::Sleeps(regs) => regs,
        Standing::Gone => return syscall_of_zombie(process, out),
    };
    // A program may ask for a call with any number; one below zero is told as none.
    let number = if regs.in_syscall() { regs.number() as i32 } else { -1 };
    put!(out, "{number}");
    if number >= 0 {
        for argument in regs.args() {
            put!(out, " {argument:#x}");
        }
    }
    put!(out, " {:#x} {:#x}\n", regs.sp(), regs.pc());
    Ok(())
}

/// The same of a process whose threads have ended.
pub fn syscall_of_zombie(process: &Process, out: &mut Vec<u8>) -> Result {
    check_access(process).map_err(|_| EPERM)?;
    put!(out, "-1 0x0 0x0\n");
    Ok(())
}

/// children: the numbers of those that the thread has made, or got, the oldest first.
pub fn children(process: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    for pid in children_of(process, thread.tid())? {
        put!(out, "{pid} ");
    }
    Ok(())
}

/// timers: what timer_create(2) was asked for, the newest first.
pub fn timers(process: &Arc<Process>, _: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    let mut before = None;
    while let Some(timer) = process.timers.last_before(before) {
        let asked = timer.asked;
        let way = match asked.way & !SIGEV_THREAD_ID {
            0 => "signal",
            1 => "none",
            _ => "thread",
        };
        let (kind, target) = timer.target().map_or(("pid", process.pid()), |tid| ("tid", tid));
        put!(out, "ID: {}\nsignal: {}/{:016x}\n", timer.id, asked.signal, asked.value);
        put!(out, "notify: {way}/{kind}.{target}\nClockID: {}\n", asked.clock);
        before = Some(timer.id);
        if give_way() {
            break;
        }
    }
    Ok(())
}

const SIGEV_THREAD_ID: i32 = 4;

/// mountstats: no file system that is mounted counts anything more.
pub fn mountstats(_: &Arc<Process>, thread: &Arc<Thread>, out: &mut Vec<u8>) -> Result {
    for_each_mount(thread, |mount, point| {
        put!(out, "device ");
        crate::procfs::task::process::escaped(&mount.source, out)?;
        put!(out, " mounted on ");
        crate::procfs::task::process::escaped(point, out)?;
        put!(out, " with fstype {}\n", mount.superblock.kind.name);
        Ok(())
    })
}
