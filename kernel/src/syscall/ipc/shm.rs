//! shmget(2), shmat(2), shmdt(2), shmctl(2).
#![forbid(unsafe_code)]

use super::{IPC_INFO, IPC_RMID, IPC_SET, IPC_STAT, Perm, answer};
use crate::errno::{EINVAL, ENOMEM, EPERM, Errno, Result};
use crate::ipc::attach::{self, Asked};
use crate::ipc::{CREATE, EXCLUSIVE, limits, shm};
use crate::memory::user::UserPtr;
use crate::process::personality::READ_IMPLIES_EXEC;
use crate::process::{self, Capability};
use crate::syscall::memory::check_attach;
use linux_raw_sys::general::RLIMIT_MEMLOCK;
use vm::addr::PAGE_SIZE;
use vm::{MapFlags, Prot};
use zerocopy::{FromBytes, Immutable, IntoBytes};

const SHM_LOCK: i32 = 11;
const SHM_UNLOCK: i32 = 12;
const SHM_STAT: i32 = 13;
const SHM_INFO: i32 = 14;
const SHM_STAT_ANY: i32 = 15;

const SHM_HUGETLB: u32 = 0o4000;
/// The size of large pages lies here, as in mmap's flags.
const HUGE_SHIFT: u32 = 26;

const SHM_RDONLY: u32 = 0o10000;
const SHM_RND: u32 = 0o20000;
const SHM_REMAP: u32 = 0o40000;
const SHM_EXEC: u32 = 0o100000;

/// struct shmid64_ds.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Segment {
    perm: Perm,
    size: u64,
    attach_time: i64,
    detach_time: i64,
    change_time: i64,
    made_by: u32,
    last_pid: u32,
    attached: u64,
    unused: [u64; 2],
}

/// struct shminfo64.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Limits {
    most: u64,
    least: u64,
    segments: u64,
    of_process: u64,
    all: u64,
    unused: [u64; 4],
}

/// struct shm_info.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Sums {
    used: u64,
    pages: u64,
    resident: u64,
    swapped: u64,
    unused: [u64; 2],
}

/// What a segment of large pages fails with: there are none, as on a Linux that has none reserved.
fn refuse_huge(flags: u32) -> Errno {
    let current = process::current();
    match flags >> HUGE_SHIFT & 0x3f {
        0 | 21 | 30 if current.capable(Capability::IPC_LOCK) || in_group_of_root(&current) => ENOMEM,
        0 | 21 | 30 => EPERM,
        _ => EINVAL,
    }
}

/// Group 0 may have large pages (vm.hugetlb_shm_group).
fn in_group_of_root(current: &process::Current) -> bool {
    current.ids().fsgid == 0 || current.has_group(0)
}

/// shmget(2).
pub fn sys_shmget(key: i32, size: usize, flags: u32) -> Result<usize> {
    let huge = flags & SHM_HUGETLB != 0;
    if huge && (key == 0 || flags & CREATE != 0) {
        // Only a new one is of large pages; one that is there is found whatever the flag says.
        return match shm::get(key, size as u64, flags & !(CREATE | EXCLUSIVE), true) {
            Ok(_) if key != 0 && flags & EXCLUSIVE != 0 => Err(Errno::EEXIST),
            Ok(id) if key != 0 => Ok(id.cast_unsigned() as usize),
            Ok(id) => {
                shm::remove(id)?;
                Err(refuse_huge(flags))
            }
            Err(Errno::ENOENT) => shm::check_size(size as u64).and(Err(refuse_huge(flags))),
            Err(errno) => Err(errno),
        };
    }
    let id = shm::get(key, size as u64, flags, flags & shm::NORESERVE == 0)?;
    Ok(id.cast_unsigned() as usize)
}

/// shmat(2).
pub fn sys_shmat(id: i32, address: usize, flags: u32) -> Result<usize> {
    if id < 0 {
        return Err(EINVAL);
    }
    let replaces = flags & SHM_REMAP != 0;
    let mut at = address;
    if address == 0 {
        if replaces {
            return Err(EINVAL);
        }
    } else if !address.is_multiple_of(PAGE_SIZE) {
        if flags & SHM_RND == 0 {
            return Err(EINVAL);
        }
        at = address & !(PAGE_SIZE - 1);
        if at == 0 && replaces {
            return Err(EINVAL);
        }
    }
    let current = process::current();
    let (mut prot, mut rights) = (Prot::READ, 0o444);
    if flags & SHM_RDONLY == 0 {
        prot |= Prot::WRITE;
        rights |= 0o222;
    }
    if flags & SHM_EXEC != 0 {
        prot |= Prot::EXEC;
        rights |= 0o111;
    }
    if current.personality.get().has(READ_IMPLIES_EXEC) {
        prot |= Prot::EXEC;
    }
    let fixed = address != 0;
    let mut map = MapFlags::SHARED;
    map.set(MapFlags::NO_WRITE, flags & SHM_RDONLY != 0);
    map.set(MapFlags::LOW, fixed && at < vm::USER_START);
    let asked = Asked { prot, rights, replaces, fixed, map };
    let check = |len| check_attach(fixed.then_some(at), len, prot);
    attach::attach(current.space(), id, at, &asked, &check)
}

/// shmdt(2).
pub fn sys_shmdt(address: usize) -> Result<usize> {
    if !address.is_multiple_of(PAGE_SIZE) {
        return Err(EINVAL);
    }
    attach::detach(process::current().space(), address)?;
    Ok(0)
}

/// shmctl(2).
pub fn sys_shmctl(id: i32, command: i32, buffer: usize) -> Result<usize> {
    if id < 0 || command < 0 {
        return Err(EINVAL);
    }
    match command {
        IPC_INFO => {
            let segments = limits::SHMMNI.get();
            let (most, all) = (limits::SHMMAX.get(), limits::SHMALL.get());
            let info = Limits { most, least: 1, segments, of_process: segments, all, ..Limits::default() };
            UserPtr::new(buffer).write(&info)?;
            Ok(shm::TABLE.highest() as usize)
        }
        SHM_INFO => {
            let (used, pages, resident) = shm::sums();
            UserPtr::new(buffer).write(&Sums { used, pages, resident, ..Sums::default() })?;
            Ok(shm::TABLE.highest() as usize)
        }
        IPC_STAT | SHM_STAT | SHM_STAT_ANY => {
            let at = command != IPC_STAT;
            let status = shm::status(id, at, command == SHM_STAT_ANY)?;
            UserPtr::new(buffer).write(&Segment::from(&status))?;
            Ok(answer(at, status.perm))
        }
        IPC_SET => {
            let to = UserPtr::<Segment>::new(buffer).read()?;
            shm::set(id, &to.perm.new_owner()).map(|()| 0)
        }
        IPC_RMID => shm::remove(id).map(|()| 0),
        SHM_LOCK | SHM_UNLOCK => {
            let most = process::limit_now(RLIMIT_MEMLOCK);
            let most = (most != process::limits::INFINITY).then_some(most);
            shm::set_lock(id, command == SHM_LOCK, most).map(|()| 0)
        }
        _ => Err(EINVAL),
    }
}

impl From<&shm::Status> for Segment {
    fn from(status: &shm::Status) -> Segment {
        Segment {
            perm: status.perm.into(),
            size: status.size,
            attach_time: status.attach_time,
            detach_time: status.detach_time,
            change_time: status.change_time,
            made_by: status.made_by,
            last_pid: status.last_pid,
            attached: status.attached,
            unused: [0; 2],
        }
    }
}

const _: () = assert!(size_of::<Segment>() == 112 && size_of::<Limits>() == 72 && size_of::<Sums>() == 48);
