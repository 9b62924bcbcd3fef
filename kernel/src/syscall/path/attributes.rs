//! Attributes of files: the stat family, access, mode, owner, times, sizes of file systems.
#![forbid(unsafe_code)]

use super::{
    AT_EACCESS, AT_EMPTY_PATH, AT_FDCWD, AT_NO_AUTOMOUNT, AT_STATX_SYNC_TYPE, AT_SYMLINK_NOFOLLOW, At,
    PathText, Target, target,
};
use crate::errno::*;
use crate::fs::anon;
use crate::fs::caller::{self, Capability};
use crate::fs::file::OpenFlags;
use crate::fs::file::truncate;
use crate::fs::vfs::access::{self, Cred, WRITE};
use crate::fs::vfs::attributes::{self, Changes};
use crate::fs::vfs::clock;
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::{Inode, Kind, SET_GROUP_ID};
use crate::fs::vfs::mount::{self, MountRef};
use crate::fs::vfs::notify::events::{ACCESS, ATTRIB, MODIFY};
use crate::fs::vfs::superblock::{self, StatFs};
use crate::memory::user::{UserPtr, UserSlice};
use zerocopy::{Immutable, IntoBytes};

const SECOND: i64 = 1_000_000_000;

/// Writes fields one after the other into a structure of fixed size.
pub(super) struct Fields<const N: usize> {
    pub(super) bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Fields<N> {
    pub(super) fn new() -> Self {
        Fields { bytes: [0; N], at: 0 }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "offsets in an array")]
    fn put(&mut self, bytes: &[u8]) {
        if let Some(to) = self.bytes.get_mut(self.at..self.at + bytes.len()) {
            to.copy_from_slice(bytes);
            self.at += bytes.len();
        }
    }

    pub(super) fn u64(&mut self, n: u64) {
        self.put(&n.to_ne_bytes());
    }

    pub(super) fn u32(&mut self, n: u32) {
        self.put(&n.to_ne_bytes());
    }

    fn u16(&mut self, n: u16) {
        self.put(&n.to_ne_bytes());
    }
}

/// `struct stat` of x86-64.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Stat {
    device: u64,
    number: u64,
    links: u64,
    mode: u32,
    uid: u32,
    gid: u32,
    padding: u32,
    rdev: u64,
    size: u64,
    block_size: u64,
    blocks: u64,
    /// Of the last access, modification and change: seconds and nanoseconds.
    times: [[u64; 2]; 3],
    unused: [u64; 3],
}

fn write_stat(inode: &Inode, address: usize) -> Result<usize> {
    inode.refresh()?;
    let (accessed, modified, changed) = inode.times();
    let stat = Stat {
        device: inode.device,
        number: inode.number,
        links: inode.links().into(),
        mode: inode.full_mode(),
        uid: inode.uid(),
        gid: inode.gid(),
        padding: 0,
        rdev: inode.rdev,
        size: inode.size(),
        block_size: 4096,
        blocks: inode.ops.blocks(inode),
        times: [accessed, modified, changed].map(seconds_and_rest),
        unused: [0; 3],
    };
    UserSlice::new(address, size_of::<Stat>()).write(stat.as_bytes())?;
    Ok(0)
}

/// Nanoseconds as seconds, and the nanoseconds that are left.
fn seconds_and_rest(time: i64) -> [u64; 2] {
    const UNSIGNED: u64 = SECOND.cast_unsigned();
    match u64::try_from(time) {
        Ok(time) => [time / UNSIGNED, time % UNSIGNED],
        Err(_) => [time.div_euclid(SECOND).cast_unsigned(), time.rem_euclid(SECOND).cast_unsigned()],
    }
}

pub fn sys_stat(path: usize, address: usize) -> Result<usize> {
    write_stat(target(AT_FDCWD, path, true, false)?.inode(), address)
}

pub fn sys_lstat(path: usize, address: usize) -> Result<usize> {
    write_stat(target(AT_FDCWD, path, false, false)?.inode(), address)
}

pub fn sys_fstat(fd: i32, address: usize) -> Result<usize> {
    write_stat(caller::file(fd)?.inode(), address)
}

pub fn sys_newfstatat(fd: i32, path: usize, address: usize, flags: u32) -> Result<usize> {
    // Attributes are never stale here, so how they are asked for makes no difference.
    let known = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE;
    if flags & !known != 0 {
        return Err(EINVAL);
    }
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    write_stat(target(fd, path, follow, flags & AT_EMPTY_PATH != 0)?.inode(), address)
}

pub fn sys_statx(fd: i32, path: usize, flags: u32, mask: u32, address: usize) -> Result<usize> {
    const BASIC: u32 = 0x7ff;
    const BIRTH: u32 = 0x800;
    const MOUNT_ID: u32 = 0x1000;
    const UNIQUE_MOUNT_ID: u32 = 0x4000;
    let known = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_EMPTY_PATH | AT_STATX_SYNC_TYPE;
    if flags & !known != 0 || flags & AT_STATX_SYNC_TYPE == AT_STATX_SYNC_TYPE || mask & (1 << 31) != 0 {
        return Err(EINVAL);
    }
    let found = target(fd, path, flags & AT_SYMLINK_NOFOLLOW == 0, flags & AT_EMPTY_PATH != 0)?;
    let inode = found.inode();
    inode.refresh()?;
    let (mount, is_mount_root) = (found.mount(), found.is_mount_root());
    let mut s = Fields::<256>::new();
    let unique = mask & UNIQUE_MOUNT_ID != 0;
    let kind = if unique { UNIQUE_MOUNT_ID } else { MOUNT_ID };
    let birth = inode.birth();
    s.u32(BASIC | birth.map_or(0, |_| BIRTH) | if mount.is_some() { kind } else { 0 });
    s.u32(4096);
    s.u64(if is_mount_root { 0x2000 } else { 0 });
    s.u32(inode.links());
    s.u32(inode.uid());
    s.u32(inode.gid());
    s.u16(inode.full_mode() as u16);
    s.u16(0);
    s.u64(inode.number);
    s.u64(inode.size());
    s.u64(inode.ops.blocks(inode));
    s.u64(0x2000);
    let (accessed, modified, changed) = inode.times();
    for time in [accessed, birth.unwrap_or(0), changed, modified] {
        s.u64(time.div_euclid(SECOND).cast_unsigned());
        s.u32(time.rem_euclid(SECOND) as u32);
        s.u32(0);
    }
    for device in [inode.rdev, inode.device] {
        s.u32(device_number::major(device) as u32);
        s.u32(device_number::minor(device) as u32);
    }
    s.u64(mount.map_or(0, |m| if unique { mount::unique(m.id) } else { m.id }));
    UserSlice::new(address, 256).write(&s.bytes)?;
    Ok(0)
}

pub fn sys_access(path: usize, mode: u32) -> Result<usize> {
    sys_faccessat2(AT_FDCWD, path, mode, 0)
}

pub fn sys_faccessat(fd: i32, path: usize, mode: u32) -> Result<usize> {
    sys_faccessat2(fd, path, mode, 0)
}

pub fn sys_faccessat2(fd: i32, path: usize, mode: u32, flags: u32) -> Result<usize> {
    if mode & !7 != 0 || flags & !(AT_EACCESS | AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let cred = if flags & AT_EACCESS != 0 { Cred::current() } else { Cred::real() };
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    let found = if flags & AT_EMPTY_PATH != 0 {
        target(fd, path, follow, true)?
    } else {
        let text = PathText::read(path)?;
        let at = At::new(fd, text.bytes())?;
        at.find(&cred, text.bytes(), follow)?
    };
    let inode = found.inode();
    inode.refresh()?;
    if mode != 0 {
        match found.mount() {
            Some(mount) => {
                let no_exec = mount.flags() & crate::fs::vfs::mount::NO_EXEC != 0;
                if mode & access::EXEC != 0 && inode.kind == Kind::Regular && no_exec {
                    return Err(EACCES);
                }
                access::check_on(mount, inode, &cred, mode)?;
            }
            None => access::check(inode, &cred, mode)?,
        }
    }
    Ok(0)
}

/// EROFS if the place is on a read-only mount.
pub(super) fn writable(mount: Option<&MountRef>) -> Result {
    match mount {
        Some(mount) if mount.is_read_only() => Err(EROFS),
        _ => Ok(()),
    }
}

fn change_mode(found: &Target, mode: u32) -> Result<usize> {
    writable(found.mount())?;
    let inode = found.inode();
    if inode.kind == Kind::Symlink {
        return Err(EOPNOTSUPP);
    }
    let cred = Cred::current();
    if !cred.owns(inode) {
        return Err(EPERM);
    }
    let mut mode = mode & 0o7777;
    if !cred.keeps_group_id(inode.gid()) {
        mode &= !SET_GROUP_ID;
    }
    attributes::change(inode, &Changes { mode: Some(mode), ..Changes::default() })?;
    found.tell(ATTRIB);
    Ok(0)
}

pub fn sys_chmod(path: usize, mode: u32) -> Result<usize> {
    change_mode(&target(AT_FDCWD, path, true, false)?, mode)
}

pub fn sys_fchmod(fd: i32, mode: u32) -> Result<usize> {
    let file = caller::file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    change_mode(&Target::File(file), mode)
}

pub fn sys_fchmodat(fd: i32, path: usize, mode: u32) -> Result<usize> {
    change_mode(&target(fd, path, true, false)?, mode)
}

pub fn sys_fchmodat2(fd: i32, path: usize, mode: u32, flags: u32) -> Result<usize> {
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    change_mode(&target(fd, path, follow, flags & AT_EMPTY_PATH != 0)?, mode)
}

fn change_owner(found: &Target, uid: u32, gid: u32) -> Result<usize> {
    writable(found.mount())?;
    let inode = found.inode();
    let cred = Cred::current();
    let id = |n: u32| (n != u32::MAX).then_some(n);
    let (uid, gid) = (id(uid), id(gid));
    if !cred.capable(Capability::CHOWN) {
        if uid.is_some_and(|u| u != inode.uid() || cred.uid != inode.uid()) {
            return Err(EPERM);
        }
        if gid.is_some_and(|g| cred.uid != inode.uid() || !(g == inode.gid() || cred.in_group(g))) {
            return Err(EPERM);
        }
    }
    let lost = if inode.is_dir() { Changes::default() } else { Changes::without_set_id(inode, &cred) };
    if lost.mode.is_some() && !cred.owns(inode) {
        // The bits go by a change of mode, which is the owner's.
        return Err(EPERM);
    }
    if uid.is_none() && gid.is_none() && lost == Changes::default() {
        return Ok(0);
    }
    attributes::change(inode, &Changes { uid, gid, ..lost })?;
    // Capabilities that go alone are no attribute to Linux.
    if uid.is_some() || gid.is_some() || lost.mode.is_some() {
        found.tell(ATTRIB);
    }
    Ok(0)
}

pub fn sys_chown(path: usize, uid: u32, gid: u32) -> Result<usize> {
    change_owner(&target(AT_FDCWD, path, true, false)?, uid, gid)
}

pub fn sys_lchown(path: usize, uid: u32, gid: u32) -> Result<usize> {
    change_owner(&target(AT_FDCWD, path, false, false)?, uid, gid)
}

pub fn sys_fchown(fd: i32, uid: u32, gid: u32) -> Result<usize> {
    let file = caller::file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    change_owner(&Target::File(file), uid, gid)
}

pub fn sys_fchownat(fd: i32, path: usize, uid: u32, gid: u32, flags: u32) -> Result<usize> {
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let follow = flags & AT_SYMLINK_NOFOLLOW == 0;
    change_owner(&target(fd, path, follow, flags & AT_EMPTY_PATH != 0)?, uid, gid)
}

const UTIME_NOW: i64 = 0x3fff_ffff;
const UTIME_OMIT: i64 = 0x3fff_fffe;

/// `None`: both times are now.
fn change_times(found: &Target, times: Option<[Option<i64>; 2]>, now: [bool; 2]) -> Result<usize> {
    let inode = found.inode();
    if times == Some([None, None]) {
        return Ok(0);
    }
    writable(found.mount())?;
    let cred = Cred::current();
    let all_now = times.is_none() || now == [true, true];
    if !cred.owns(inode) {
        if !all_now {
            return Err(EPERM);
        }
        access::check(inode, &cred, WRITE)?;
    }
    let here = clock::coarse();
    let [accessed, modified] = times.unwrap_or([Some(here), Some(here)]);
    attributes::change(inode, &Changes { accessed, modified, ..Changes::default() })?;
    // One time alone is told as if the file had been read or written.
    found.tell(match (accessed, modified) {
        (Some(_), None) => ACCESS,
        (None, _) => MODIFY,
        _ => ATTRIB,
    });
    Ok(0)
}

/// Reads two times, each as seconds and a fraction (nanoseconds or microseconds, as the call has it).
fn read_times(address: usize) -> Result<[(i64, i64); 2]> {
    let [a, b, c, d] = UserPtr::<[i64; 4]>::new(address).read()?;
    Ok([(a, b), (c, d)])
}

pub fn sys_utimensat(fd: i32, path: usize, times: usize, flags: u32) -> Result<usize> {
    if flags & !(AT_SYMLINK_NOFOLLOW | AT_EMPTY_PATH) != 0 {
        return Err(EINVAL);
    }
    let raw = if times == 0 { None } else { Some(read_times(times)?) };
    if raw.is_some_and(|[(_, a), (_, b)]| a == UTIME_OMIT && b == UTIME_OMIT) {
        // Nothing to do: nobody asks for the file.
        return Ok(0);
    }
    let found = if path == 0 {
        if fd == AT_FDCWD {
            return Err(EFAULT);
        }
        Target::File(caller::file(fd)?)
    } else {
        target(fd, path, flags & AT_SYMLINK_NOFOLLOW == 0, flags & AT_EMPTY_PATH != 0)?
    };
    let mut now = [false; 2];
    let given = if let Some(raw) = raw {
        let mut given = [None; 2];
        let here = clock::coarse();
        for (i, (seconds, nanos)) in raw.into_iter().enumerate() {
            let value = match nanos {
                UTIME_OMIT => None,
                UTIME_NOW => {
                    if let Some(flag) = now.get_mut(i) {
                        *flag = true;
                    }
                    Some(here)
                }
                0..SECOND => Some(seconds.saturating_mul(SECOND).saturating_add(nanos)),
                _ => return Err(EINVAL),
            };
            if let Some(slot) = given.get_mut(i) {
                *slot = value;
            }
        }
        Some(given)
    } else {
        None
    };
    change_times(&found, given, now)
}

#[expect(clippy::arithmetic_side_effects, reason = "microseconds are below a million")]
pub fn sys_futimesat(fd: i32, path: usize, times: usize) -> Result<usize> {
    let mut given = None;
    if times != 0 {
        let [(a, b), (c, d)] = read_times(times)?;
        if !(0..1_000_000).contains(&b) || !(0..1_000_000).contains(&d) {
            return Err(EINVAL);
        }
        let time = |s: i64, us: i64| Some(s.saturating_mul(SECOND).saturating_add(us * 1000));
        given = Some([time(a, b), time(c, d)]);
    }
    let found = if path == 0 { Target::File(caller::file(fd)?) } else { target(fd, path, true, false)? };
    change_times(&found, given, [false; 2])
}

pub fn sys_utimes(path: usize, times: usize) -> Result<usize> {
    if path == 0 {
        return Err(EFAULT);
    }
    sys_futimesat(AT_FDCWD, path, times)
}

pub fn sys_utime(path: usize, times: usize) -> Result<usize> {
    let mut given = None;
    if times != 0 {
        let [a, m] = UserPtr::<[i64; 2]>::new(times).read()?;
        given = Some([Some(a.saturating_mul(SECOND)), Some(m.saturating_mul(SECOND))]);
    }
    change_times(&target(AT_FDCWD, path, true, false)?, given, [false; 2])
}

pub fn sys_truncate(path: usize, size: i64) -> Result<usize> {
    let size = u64::try_from(size).map_err(|_| EINVAL)?;
    let found = target(AT_FDCWD, path, true, false)?;
    let inode = found.inode();
    match inode.kind {
        Kind::Regular => {}
        Kind::Directory => return Err(EISDIR),
        _ => return Err(EINVAL),
    }
    if let Some(mount) = found.mount() {
        access::check_on(mount, inode, &Cred::current(), WRITE)?;
    }
    let lost = truncate::lost_by_size(inode);
    truncate::truncate(inode, size)?;
    found.tell(MODIFY | lost);
    Ok(0)
}

/// `struct statfs` of x86-64.
fn write_statfs(found: &Target, address: usize) -> Result<usize> {
    let mut s = Fields::<120>::new();
    match found.mount() {
        Some(mount) => {
            let superblock = &mount.superblock;
            let sizes = superblock.ops.statfs(superblock)?;
            s.u64(superblock.kind.magic);
            s.u64(4096);
            let available = sizes.free.saturating_sub(sizes.reserved);
            for n in [sizes.blocks, sizes.free, available, sizes.files, sizes.files_free] {
                s.u64(n);
            }
            s.u64(superblock.device);
            s.u64(255);
            s.u64(4096);
            // ST_VALID, and the mount's flags, of which ro, nosuid, nodev and noexec have mount(2)'s bits.
            s.u64(0x20 | u64::from(mount.flags() & 0xf));
        }
        None => {
            s.u64(0x5049_5045);
            s.u64(4096);
            for n in [0, 0, 0, 0, 0, 0, 255, 4096, 0x20] {
                s.u64(n);
            }
        }
    }
    UserSlice::new(address, 120).write(&s.bytes)?;
    Ok(0)
}

/// ustat(2): of the file system that has a device number, what is free.
pub fn sys_ustat(device: u32, address: usize) -> Result<usize> {
    let device = u64::from(device);
    let sizes = match mount::of_device(device) {
        Some(mount) => mount.superblock.ops.statfs(&mount.superblock)?,
        None if anon::has_device(device) => StatFs::default(),
        None => return Err(EINVAL),
    };
    let mut s = Fields::<32>::new();
    // A block's number is an int.
    s.u32(sizes.free as u32);
    s.u32(0);
    s.u64(sizes.files_free);
    UserSlice::new(address, 32).write(&s.bytes)?;
    Ok(0)
}

/// sysfs(2): kinds of file systems by number and name, in the order of /proc/filesystems.
pub fn sys_sysfs(option: i32, a: usize, b: usize) -> Result<usize> {
    let types = superblock::types();
    match option {
        1 => {
            let name = PathText::read(a)?;
            if name.bytes().is_empty() {
                return Err(ENOENT);
            }
            types.iter().position(|kind| kind.name.as_bytes() == name.bytes()).ok_or(EINVAL)
        }
        2 => {
            let name = types.get(a as u32 as usize).ok_or(EINVAL)?.name.as_bytes();
            let to = UserSlice::new(b, name.len().saturating_add(1));
            to.write(name)?;
            to.skip(name.len()).write(&[0])?;
            Ok(0)
        }
        3 => Ok(types.len()),
        _ => Err(EINVAL),
    }
}

pub fn sys_statfs(path: usize, address: usize) -> Result<usize> {
    write_statfs(&target(AT_FDCWD, path, true, false)?, address)
}

pub fn sys_fstatfs(fd: i32, address: usize) -> Result<usize> {
    write_statfs(&Target::File(caller::file(fd)?), address)
}
