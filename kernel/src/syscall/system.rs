//! Ids of users, limits, names and facts of the system.
#![forbid(unsafe_code)]

use crate::arch::{self, ArchPrctl};
use crate::errno::{Errno, Result};
use crate::fs::devfs::kmsg::{self, reader};
use crate::fs::devfs::random;
use crate::fs::file::buffer::{Output, Segment};
use crate::log;
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::access::{self, By};
use crate::process::personality::{Persona, UNAME26};
use crate::process::{self, Capability, Process, Thread, ids, utsname};
use crate::sched;
use linux_raw_sys::general::{RLIMIT_AS, RLIMIT_STACK};

/// uname(2).
#[expect(clippy::arithmetic_side_effects, reason = "a few hundred bytes")]
pub fn sys_uname(to: usize) -> Result<usize> {
    let mut names = utsname::names();
    let [_, _, release, _, machine, _] = &mut names;
    let persona = process::current().personality.get();
    if persona.has(UNAME26) {
        *release = utsname::padded(utsname::RELEASE_26.as_bytes());
    }
    if persona.is_linux32() {
        *machine = utsname::padded(b"i686");
    }
    UserSlice::new(to, utsname::LENGTH * names.len()).write(names.as_flattened())?;
    Ok(0)
}

/// The name that sethostname and setdomainname are given, for `set`.
fn set_name(from: usize, len: i32, set: fn(&[u8]) -> Result) -> Result<usize> {
    if !process::current().capable(Capability::SYS_ADMIN) {
        return Err(Errno::EPERM);
    }
    let len = usize::try_from(len).ok().filter(|n| *n < utsname::LENGTH).ok_or(Errno::EINVAL)?;
    let mut name = [0; utsname::LENGTH];
    UserSlice::new(from, len).read(&mut name[..len])?;
    set(&name[..len]).map(|()| 0)
}

/// sethostname(2).
pub fn sys_sethostname(from: usize, len: i32) -> Result<usize> {
    set_name(from, len, utsname::set_host_name)
}

/// setdomainname(2).
pub fn sys_setdomainname(from: usize, len: i32) -> Result<usize> {
    set_name(from, len, utsname::set_domain_name)
}

/// sysinfo(2).
#[expect(clippy::arithmetic_side_effects, reason = "counts of pages in memory")]
pub fn sys_sysinfo(to: usize) -> Result<usize> {
    let threads = process::ids::live().min(u64::from(u16::MAX));
    let page = vm::addr::PAGE_SIZE as u64;
    let (total, free) = (vm::frame::managed_frames() * page, vm::frame::free_frames() * page);
    let shared = vm::ObjectPages::now().own * page;
    // struct sysinfo: uptime, three loads, then totalram, freeram, sharedram, bufferram, totalswap, freeswap,
    // procs (16 bits, padded), totalhigh, freehigh, mem_unit (32 bits).
    let uptime = arch::time::now() / super::time::NS_PER_SEC;
    let [one, five, fifteen] = sched::load_averages();
    let words: [u64; 14] = [uptime, one, five, fifteen, total, free, shared, 0, 0, 0, threads, 0, 0, 1];
    UserPtr::<[u64; 14]>::new(to).write(&words).map(|()| 0)
}

/// May the caller ask for the limits of `thread`'s process, and set them?
///
/// # Errors
/// EPERM.
fn check_limits_of(thread: &Thread) -> Result {
    let caller = process::current();
    // Nobody needs leave for what is his own, though his ids differ from each other.
    if thread.tid() == caller.tid() {
        return Ok(());
    }
    let mine = caller.ids();
    let same = |leader: &Thread| {
        leader.look_at_credentials(|theirs| access::has_only_ids_of(&mine, theirs, By::RealIds))
    };
    let same = thread.process.look_at_leader(same).flatten().unwrap_or(false);
    if same || caller.capable(Capability::SYS_RESOURCE) { Ok(()) } else { Err(Errno::EPERM) }
}

/// The limits before; `wanted` are those from now on.
fn change_limits(target: &Process, resource: u32, wanted: Option<[u64; 2]>) -> Result<(u64, u64)> {
    let before = target.limits.get(resource)?;
    if let Some([soft, hard]) = wanted {
        target.limits.set(resource, soft, hard, process::current().capable(Capability::SYS_RESOURCE))?;
        // A stack asks its space when it grows.
        if matches!(resource, RLIMIT_STACK | RLIMIT_AS)
            && let Some(space) = target.space()
        {
            let limit = |resource| target.limits.soft(resource) as usize;
            space.set_limits(limit(RLIMIT_STACK), limit(RLIMIT_AS));
        }
    }
    Ok(before)
}

/// prlimit64(2).
pub fn sys_prlimit64(pid: i32, resource: u32, new: usize, old: usize) -> Result<usize> {
    let wanted = if new == 0 { None } else { Some(UserPtr::<[u64; 2]>::new(new).read()?) };
    // The number of any thread names its process.
    let tid = pid.cast_unsigned();
    let before = if pid == 0 {
        change_limits(&process::current().process, resource, wanted)?
    } else if wanted.is_none() {
        let look = |thread: &Thread| {
            check_limits_of(thread)?;
            thread.process.limits.get(resource)
        };
        ids::look_at_thread(tid, look).ok_or(Errno::ESRCH)??
    } else {
        // It may sleep.
        let thread = process::find_thread(tid).ok_or(Errno::ESRCH)?;
        check_limits_of(&thread)?;
        change_limits(&thread.process, resource, wanted)?
    };
    if old != 0 {
        UserPtr::<[u64; 2]>::new(old).write(&[before.0, before.1])?;
    }
    Ok(0)
}

/// getrlimit(2).
pub fn sys_getrlimit(resource: u32, to: usize) -> Result<usize> {
    let (soft, hard) = process::current().process.limits.get(resource)?;
    UserPtr::<[u64; 2]>::new(to).write(&[soft, hard]).map(|()| 0)
}

/// setrlimit(2).
pub fn sys_setrlimit(resource: u32, from: usize) -> Result<usize> {
    // For prlimit64 that would be nothing to set.
    if from == 0 {
        return Err(Errno::EFAULT);
    }
    sys_prlimit64(0, resource, from, 0)
}

/// arch_prctl(2).
pub fn sys_arch_prctl(operation: u32, value: usize) -> Result<usize> {
    match arch::arch_prctl(operation, value) {
        ArchPrctl::Done => Ok(0),
        ArchPrctl::Value(pointer) => UserPtr::<usize>::new(value).write(&pointer).map(|()| 0),
        ArchPrctl::Told(result) => Ok(result),
        ArchPrctl::NotPermitted => Err(Errno::EPERM),
        ArchPrctl::NoDevice => Err(Errno::ENODEV),
        ArchPrctl::NotSupported => Err(Errno::EOPNOTSUPP),
        ArchPrctl::Unknown => Err(Errno::EINVAL),
    }
}

/// personality(2).
pub fn sys_personality(to: u32) -> Result<usize> {
    let current = process::current();
    let old = current.personality.get();
    if to != u32::MAX {
        current.personality.set(Persona(to));
    }
    Ok(old.0 as usize)
}

/// syslog(2). May sleep (2, to read).
pub fn sys_syslog(kind: i32, to: usize, len: i32) -> Result<usize> {
    // To read all and to ask for the size is to look.
    kmsg::check(matches!(kind, 3 | 10))?;
    match kind {
        // Close, open.
        0 | 1 => {}
        2..=4 => return read_log(kind, to, len),
        5 => reader::clear(),
        // The console off and on, and its level.
        6 => log::set_off(),
        7 => log::set_on(),
        8 if (1..=8).contains(&len) => log::set_level(len as u8),
        9 => return Ok(reader::unread()),
        10 => return Ok(log::kept::SIZE),
        _ => return Err(Errno::EINVAL),
    }
    Ok(0)
}

/// Read, read all, read all and clear.
fn read_log(kind: i32, to: usize, len: i32) -> Result<usize> {
    let len = usize::try_from(len).ok().filter(|_| to != 0).ok_or(Errno::EINVAL)?;
    if len == 0 {
        return Ok(0);
    }
    UserSlice::new(to, len).check()?;
    let place = [Segment { addr: to, len }];
    let mut out = Output::user(&place);
    if kind == 2 { reader::read(&mut out) } else { reader::read_all(&mut out, kind == 4) }
}

/// reboot(2): the machine ends.
pub fn sys_reboot(magic: u32, magic2: u32, command: u32, _arg: usize) -> Result<usize> {
    if !process::current().capable(Capability::SYS_BOOT) {
        return Err(Errno::EPERM);
    }
    const MAGIC: u32 = 0xfee1_dead;
    const MAGICS: [u32; 4] = [672_274_793, 85_072_278, 369_367_448, 537_993_216];
    if magic != MAGIC || !MAGICS.contains(&magic2) {
        return Err(Errno::EINVAL);
    }
    const RESTART: u32 = 0x0123_4567;
    const HALT: u32 = 0xcdef_0123;
    const POWER_OFF: u32 = 0x4321_fedc;
    const CAD_ON: u32 = 0x89ab_cdef;
    match command {
        RESTART => arch::reset(),
        HALT | POWER_OFF => arch::power_off(),
        0 | CAD_ON => Ok(0),
        _ => Err(Errno::EINVAL),
    }
}

/// getrandom(2): never blocks, since the generator is seeded at boot.
#[expect(clippy::arithmetic_side_effects, reason = "no more is moved than fits")]
pub fn sys_getrandom(to: usize, len: usize, flags: u32) -> Result<usize> {
    const NONBLOCK: u32 = 1;
    const RANDOM: u32 = 2;
    const INSECURE: u32 = 4;
    if flags & !(NONBLOCK | RANDOM | INSECURE) != 0 || flags & (RANDOM | INSECURE) == RANDOM | INSECURE {
        return Err(Errno::EINVAL);
    }
    let len = len.min(super::file::TRANSFER_MAX);
    UserSlice::new(to, len).check()?;
    let place = [Segment { addr: to, len }];
    let mut out = Output::user(&place);
    let mut done = 0;
    while out.left() > 0 {
        done += out.put(&random::bytes());
        if done.is_multiple_of(4096) && process::signal_pending() {
            break;
        }
    }
    out.result()
}
