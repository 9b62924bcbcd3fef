//! statmount(2), listmount(2): mounts by their unique numbers.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;

use super::attributes::Fields;
use super::openat2::check_rest;
use crate::errno::*;
use crate::fs::caller::{self, Capability};
use crate::fs::vfs::device_number;
use crate::fs::vfs::mount::{self, Mount, MountRef, Namespace, Path, namespace};
use crate::memory::user::{UserPtr, UserSlice};
use crate::sched::give_way;

/// Sizes of `struct mnt_id_req`: the first there was, the one that is known, and the largest that may come.
const REQUEST_FIRST: usize = 24;
const REQUEST: usize = 32;
const REQUEST_MAX: usize = 4096;
/// `struct statmount` without its texts.
const PLAIN: usize = 512;
const SB_BASIC: u64 = 1;
const MNT_BASIC: u64 = 2;
const PROPAGATE_FROM: u64 = 4;
const MNT_ROOT: u64 = 8;
const MNT_POINT: u64 = 16;
const FS_TYPE: u64 = 32;
const MNT_NS_ID: u64 = 64;
const MNT_OPTS: u64 = 128;
/// What is asked for in the place of a mount's number: the root.
const LSMT_ROOT: u64 = u64::MAX;
const LISTMOUNT_REVERSE: u32 = 1;
/// So many numbers can be asked for at once.
const LIST_MAX: usize = 1_000_000;
/// Numbers that are written at once.
const PART: usize = 64;

struct Request {
    mount: u64,
    parameter: u64,
    namespace: u64,
}

fn read_request(address: usize) -> Result<Request> {
    let size = UserPtr::<u32>::new(address).read()? as usize;
    if size > REQUEST_MAX {
        return Err(E2BIG);
    }
    if size < REQUEST_FIRST {
        return Err(EINVAL);
    }
    check_rest(address, REQUEST, size)?;
    let mut known = [0u8; REQUEST];
    let part = known.get_mut(..size.min(REQUEST)).ok_or(EINVAL)?;
    UserSlice::new(address, part.len()).read(part)?;
    let ([head, mount, parameter, namespace], _) = known.as_chunks::<8>() else { return Err(EINVAL) };
    if u64::from_ne_bytes(*head) >> 32 != 0 {
        return Err(EINVAL);
    }
    let [mount, parameter, namespace] = [mount, parameter, namespace].map(|word| u64::from_ne_bytes(*word));
    // No number of a mount is so low: that would be one of those that are not unique.
    if mount <= mount::UNIQUE {
        return Err(EINVAL);
    }
    Ok(Request { mount, parameter, namespace })
}

/// Calls `f` with the namespace that is asked for, and the root from which its mounts are seen: the caller's in his own.
///
/// # Errors
/// `refused`: it is another's, and the caller may not see it.
fn within<R>(request: &Request, refused: Errno, f: impl FnOnce(&Namespace, &Path) -> Result<R>) -> Result<R> {
    let context = caller::context();
    let own = context.namespace();
    if request.namespace == 0 || request.namespace == own.number() {
        return f(own, &context.root()?);
    }
    let other = namespace::of_number(request.namespace).ok_or(ENOENT)?;
    if !caller::capable(Capability::SYS_ADMIN) {
        return Err(refused);
    }
    f(&other, &mount::top(other.root()?))
}

fn root_of(mount: &MountRef) -> Path {
    Path { mount: mount.clone(), dentry: mount.root.clone() }
}

/// Does it lie at or below `from`?
fn is_below(mount: &MountRef, from: &Path) -> Result<bool> {
    Ok(mount::text_of(&root_of(mount), from)?.1)
}

/// EPERM: it lies outside of the caller's root.
fn check_seen(mount: &MountRef, root: &Path) -> Result {
    if caller::capable(Capability::SYS_ADMIN) || is_below(mount, root)? { Ok(()) } else { Err(EPERM) }
}

/// The flags as MOUNT_ATTR_*.
fn attributes(mount: &Mount) -> u64 {
    let flags = mount.flags();
    let same = flags & (mount::READ_ONLY | mount::NO_SUID | mount::NO_DEV | mount::NO_EXEC);
    let others = [
        (mount::NO_ATIME, 0x10),
        (mount::STRICT_ATIME, 0x20),
        (mount::NO_DIR_ATIME, 0x80),
        (mount::NO_SYMFOLLOW, 0x20_0000),
    ];
    let more = others.iter().filter(|(flag, _)| flags & flag != 0).fold(0, |all, (_, told)| all | told);
    u64::from(same | more)
}

/// What is told of a mount: the fields, and the texts behind them.
struct Told {
    mask: u64,
    texts: Vec<u8>,
    root: u32,
    point: u32,
    kind: u32,
    options: u32,
    groups: mount::Told,
}

impl Told {
    /// A text, if it is asked for.
    fn text(&mut self, asked: u64, which: u64, make: impl FnOnce(&mut Vec<u8>) -> Result) -> Result<u32> {
        if asked & which == 0 {
            return Ok(0);
        }
        if self.texts.is_empty() {
            // What is not told is an empty text, at 0.
            self.texts.try_push(0)?;
        }
        let at = self.texts.len();
        make(&mut self.texts)?;
        self.texts.try_push(0)?;
        self.mask |= which;
        Ok(at as u32)
    }

    fn of(mount: &MountRef, asked: u64, root: &Path, within: &Namespace) -> Result<Told> {
        let plain = SB_BASIC | MNT_BASIC | PROPAGATE_FROM | MNT_NS_ID;
        let groups = mount::told(mount, within, root)?;
        let mut told =
            Told { mask: asked & plain, texts: Vec::new(), root: 0, point: 0, kind: 0, options: 0, groups };
        let superblock = &mount.superblock;
        told.kind =
            told.text(asked, FS_TYPE, |out| Ok(out.try_extend_from_slice(superblock.kind.name.as_bytes())?))?;
        told.root = told.text(asked, MNT_ROOT, |out| {
            // Where the file system itself is the root.
            let whole = mount::detached(superblock.clone())?;
            let base = Path { dentry: whole.root.clone(), mount: whole.clone() };
            let inside = Path { dentry: mount.root.clone(), mount: whole };
            out.try_extend_from_slice(&mount::text_of(&inside, &base)?.0)?;
            if mount.root.is_removed() {
                out.try_extend_from_slice(b"//deleted")?;
            }
            Ok(())
        })?;
        told.point = told.text(asked, MNT_POINT, |out| {
            let (text, reached) = mount::text_of(&root_of(mount), root)?;
            if reached {
                out.try_extend_from_slice(&text)?;
            }
            Ok(())
        })?;
        told.options = told.text(asked, MNT_OPTS, |out| {
            let mut options = Vec::new();
            superblock.ops.show_options(superblock, &mut options)?;
            // Each has a comma before it.
            Ok(out.try_extend_from_slice(options.get(1..).unwrap_or(&[]))?)
        })?;
        Ok(told)
    }

    fn fields(&self, mount: &Mount, within: &Namespace) -> Fields<PLAIN> {
        let mut s = Fields::<PLAIN>::new();
        let if_told = |which: u64, value: u64| if self.mask & which != 0 { value } else { 0 };
        let superblock = &mount.superblock;
        let parent = mount.point(&sync::rcu::read()).map_or(mount.id, |point| point.mount.id);
        let size = PLAIN.saturating_add(self.texts.len());
        s.u32(size as u32);
        s.u32(self.options);
        s.u64(self.mask);
        s.u32(if_told(SB_BASIC, device_number::major(superblock.device)) as u32);
        s.u32(if_told(SB_BASIC, device_number::minor(superblock.device)) as u32);
        s.u64(if_told(SB_BASIC, superblock.kind.magic));
        s.u32(if_told(SB_BASIC, superblock.told_flags().into()) as u32);
        s.u32(self.kind);
        s.u64(if_told(MNT_BASIC, mount::unique(mount.id)));
        s.u64(if_told(MNT_BASIC, mount::unique(parent)));
        s.u32(if_told(MNT_BASIC, mount.id) as u32);
        s.u32(if_told(MNT_BASIC, parent) as u32);
        s.u64(if_told(MNT_BASIC, attributes(mount)));
        let groups = &self.groups;
        let kinds = [
            (mount.is_unbindable(), 1 << 17),
            (groups.master.is_some(), 1 << 19),
            (groups.group.is_some(), 1 << 20),
        ];
        let kinds = kinds.iter().filter(|(is, _)| *is).fold(0, |all, (_, kind)| all | kind);
        // MS_PRIVATE.
        s.u64(if_told(MNT_BASIC, if kinds == 0 { 1 << 18 } else { kinds }));
        s.u64(if_told(MNT_BASIC, groups.group.unwrap_or(0).into()));
        s.u64(if_told(MNT_BASIC, groups.master.unwrap_or(0).into()));
        s.u64(if_told(PROPAGATE_FROM, groups.from.unwrap_or(0).into()));
        s.u32(self.root);
        s.u32(self.point);
        s.u64(if_told(MNT_NS_ID, within.number()));
        s
    }
}

pub fn sys_statmount(request: usize, buffer: usize, size: usize, flags: u32) -> Result<usize> {
    if flags != 0 {
        return Err(EINVAL);
    }
    let request = read_request(request)?;
    let (told, fields) = within(&request, EPERM, |within, root| {
        let mount = mount::of_unique(request.mount, within).ok_or(ENOENT)?;
        check_seen(&mount, root)?;
        let told = Told::of(&mount, request.parameter, root, within)?;
        let fields = told.fields(&mount, within);
        Ok((told, fields))
    })?;
    let text = told.texts.len();
    if text != 0 && size < PLAIN.saturating_add(text) {
        return Err(EOVERFLOW);
    }
    let fields = fields.bytes.get(..size.min(PLAIN)).unwrap_or(&fields.bytes);
    UserSlice::new(buffer, fields.len()).write(fields)?;
    if text != 0 {
        UserSlice::new(buffer.checked_add(PLAIN).ok_or(EFAULT)?, text).write(&told.texts)?;
    }
    Ok(0)
}

/// Numbers of the mounts below a mount, or at and below the root, that come after `request.parameter`.
fn list(request: &Request, count: usize, reverse: bool, within: &Namespace, root: &Path) -> Result<Vec<u64>> {
    let from = if request.mount == LSMT_ROOT {
        root.clone()
    } else {
        let mount = mount::of_unique(request.mount, within).ok_or(ENOENT)?;
        check_seen(&mount, root)?;
        root_of(&mount)
    };
    let mut list = Vec::new();
    let mut all = mount::all(within)?;
    if reverse {
        all.reverse();
    }
    let last = request.parameter;
    for mount in &all {
        if give_way() {
            return Err(EINTR);
        }
        if list.len() == count {
            break;
        }
        let number = mount::unique(mount.id);
        let passed = last != 0 && if reverse { number >= last } else { number <= last };
        if !passed && number != request.mount && is_below(mount, &from)? {
            list.try_push(number)?;
        }
    }
    Ok(list)
}

pub fn sys_listmount(request: usize, to: usize, count: usize, flags: u32) -> Result<usize> {
    if flags & !LISTMOUNT_REVERSE != 0 {
        return Err(EINVAL);
    }
    if count > LIST_MAX {
        return Err(EOVERFLOW);
    }
    let request = read_request(request)?;
    if request.parameter != 0 && request.parameter <= mount::UNIQUE {
        return Err(EINVAL);
    }
    let reverse = flags & LISTMOUNT_REVERSE != 0;
    let list = within(&request, ENOENT, |within, root| list(&request, count, reverse, within, root))?;
    let mut at = to;
    for numbers in list.chunks(PART) {
        let mut part = [0u8; PART * 8];
        for (to, number) in part.as_chunks_mut::<8>().0.iter_mut().zip(numbers) {
            *to = number.to_ne_bytes();
        }
        let part = part.get(..numbers.len().saturating_mul(8)).ok_or(EFAULT)?;
        UserSlice::new(at, part.len()).write(part)?;
        at = at.checked_add(part.len()).ok_or(EFAULT)?;
    }
    Ok(list.len())
}
