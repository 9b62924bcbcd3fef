//! name_to_handle_at(2), open_by_handle_at(2).
#![forbid(unsafe_code)]

use super::{AT_EMPTY_PATH, AT_FDCWD, AT_SYMLINK_FOLLOW, Target, enter, target};
use crate::errno::*;
use crate::fs::caller::{self, Capability};
use crate::fs::file::{File, OpenFlags, Place, open};
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::handles;
use crate::fs::vfs::mount::{self, MountRef, Path};
use crate::fs::vfs::superblock::SuperBlock;
use crate::memory::user::{UserPtr, UserSlice};

const AT_HANDLE_MNT_ID_UNIQUE: u32 = 1;
const AT_HANDLE_FID: u32 = 0x200;
/// The longest handle that there may be.
const LEN_MAX: usize = 128;
/// Length and type come before it.
const HEAD: usize = 8;
/// Types: one that finds the file; one that only tells it from others; none.
const FINDS: u32 = 1;
const TELLS: u32 = 0x81;
const NONE: u32 = 0xff;

fn has_handles(superblock: &SuperBlock) -> bool {
    superblock.ops.has_handles(superblock)
}

/// A memory file, which has a handle without a place.
fn is_memory_file(file: &File) -> bool {
    file.path().is_none() && file.inode().ops.seals().is_some()
}

/// The handle by which the file is found again; `None`: its file system has none.
fn handle_of(target: &Target) -> Result<Option<[u32; 3]>> {
    let at = |path: &Path| {
        let superblock = &path.mount.superblock;
        if has_handles(superblock) { handles::of_place(&path.dentry, superblock).map(Some) } else { Ok(None) }
    };
    match target {
        Target::Path(path) => at(path),
        // Of a file system that makes its names up.
        Target::Inode(..) => Ok(None),
        Target::File(file) => match &file.place {
            Place::Named(path) => at(path),
            Place::Anonymous(inode, _) if is_memory_file(file) => {
                let text = crate::fs::file::describe::file(file, &mount::root()?)?;
                handles::of_unplaced(inode, &text).map(Some)
            }
            Place::Anonymous(..) => Ok(None),
        },
    }
}

fn may_have_handle(target: &Target) -> bool {
    match target {
        Target::Path(path) => has_handles(&path.mount.superblock),
        Target::Inode(..) => false,
        Target::File(file) => match &file.place {
            Place::Named(path) => has_handles(&path.mount.superblock),
            Place::Anonymous(..) => is_memory_file(file),
        },
    }
}

pub fn sys_name_to_handle_at(fd: i32, path: usize, handle: usize, mount: usize, flags: u32) -> Result<usize> {
    if flags & !(AT_SYMLINK_FOLLOW | AT_EMPTY_PATH | AT_HANDLE_FID | AT_HANDLE_MNT_ID_UNIQUE) != 0 {
        return Err(EINVAL);
    }
    // Not even with AT_EMPTY_PATH there may be no path at all.
    if path == 0 {
        return Err(EFAULT);
    }
    let found = target(fd, path, flags & AT_SYMLINK_FOLLOW != 0, flags & AT_EMPTY_PATH != 0)?;
    let finds = may_have_handle(&found);
    if !finds && flags & AT_HANDLE_FID == 0 {
        return Err(EOPNOTSUPP);
    }
    let [room, _] = UserPtr::<[u32; 2]>::new(handle).read()?;
    if room as usize > LEN_MAX {
        return Err(EINVAL);
    }
    let mut text = [0u8; HEAD + handles::LEN];
    let fits = room as usize >= handles::LEN;
    let (kind, words) = match handle_of(&found)?.filter(|_| fits) {
        _ if !fits => (NONE, [0; 3]),
        Some(words) => (FINDS, words),
        None => {
            let number = found.inode().number;
            (TELLS, [number as u32, (number >> 32) as u32, 0])
        }
    };
    let all = [handles::LEN as u32, kind].into_iter().chain(words);
    for (to, word) in text.as_chunks_mut::<4>().0.iter_mut().zip(all) {
        *to = word.to_ne_bytes();
    }
    let id = found.mount().map_or(0, |mount| mount.id);
    if flags & AT_HANDLE_MNT_ID_UNIQUE != 0 {
        UserPtr::<u64>::new(mount).write(&if id == 0 { 0 } else { mount::unique(id) })?;
    } else {
        UserPtr::<u32>::new(mount).write(&(id as u32))?;
    }
    let written = if fits { &text[..] } else { text.get(..HEAD).unwrap_or(&[]) };
    UserSlice::new(handle, written.len()).write(written)?;
    if fits { Ok(0) } else { Err(EOVERFLOW) }
}

/// What a handle is looked for in.
enum Base {
    Mount(MountRef),
    /// A file without a place, by its device number.
    Unplaced(u64),
}

fn base(fd: i32) -> Result<Base> {
    if fd == AT_FDCWD {
        return Ok(Base::Mount(caller::context().cwd()?.mount));
    }
    let file = caller::file(fd)?;
    if file.flags().contains(OpenFlags::PATH) {
        return Err(EBADF);
    }
    Ok(match &file.place {
        Place::Named(path) => Base::Mount(path.mount.clone()),
        Place::Anonymous(inode, _) => Base::Unplaced(inode.device),
    })
}

pub fn sys_open_by_handle_at(fd: i32, handle: usize, flags: u32) -> Result<usize> {
    let base = base(fd)?;
    if !caller::capable(Capability::DAC_READ_SEARCH) {
        return Err(EPERM);
    }
    let [len, _kind] = UserPtr::<[u32; 2]>::new(handle).read()?;
    let len = len as usize;
    if len == 0 || len > LEN_MAX {
        return Err(EINVAL);
    }
    let mut bytes = [0u8; LEN_MAX];
    let bytes = bytes.get_mut(..len).ok_or(EINVAL)?;
    UserSlice::new(handle.checked_add(HEAD).ok_or(EFAULT)?, len).read(bytes)?;
    let [first, second, third, ..] = bytes.as_chunks::<4>().0 else { return Err(ESTALE) };
    let words = [first, second, third].map(|word| u32::from_ne_bytes(*word));
    let (mount, dentry) = match base {
        Base::Mount(mount) if !has_handles(&mount.superblock) => return Err(ESTALE),
        Base::Mount(mount) => {
            let dentry = handles::find(Some(&mount.superblock), mount.superblock.device, words)?;
            (mount, dentry)
        }
        Base::Unplaced(device) => (mount::root()?.mount, handles::find(None, device, words)?),
    };
    let limit = caller::descriptor_limit();
    caller::files().check_room(limit)?;
    let flags = OpenFlags::from_bits_truncate(flags) | OpenFlags::LARGEFILE;
    open::check_flags(flags)?;
    let context = caller::context();
    enter(open::open_place(&context, &Cred::current(), Path { mount, dentry }, flags)?, flags, limit)
}
