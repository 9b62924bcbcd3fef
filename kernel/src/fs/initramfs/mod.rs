//! Unpacks the initramfs into the root file system. Later members replace earlier ones, as Linux's unpacking does.
#![forbid(unsafe_code)]

pub mod cpio;

use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::TryVec;

use self::cpio::{Member, Reader};
use crate::errno::*;
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::attributes::{self, Changes};
use crate::fs::vfs::context::FsContext;
use crate::fs::vfs::create::{self, Making};
use crate::fs::vfs::dentry::Name;
use crate::fs::vfs::device_number;
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::lookup::{self, Start};
use crate::fs::vfs::mount::Path;
use crate::fs::vfs::remove;

/// The first name of a file that has several: they come later in the archive, and the last one brings the data.
struct Linked {
    key: (u32, (u32, u32, u32)),
    path: Path,
}

/// Unpacks `data` and returns how many members there were. Members that cannot be made are named in the log and left out.
#[expect(clippy::arithmetic_side_effects, reason = "a count of members in memory")]
pub fn unpack(context: &FsContext, data: &[u8]) -> usize {
    let cred = Cred::root();
    let mut linked = Vec::new();
    let mut reader = Reader::new(data);
    let mut count = 0;
    for member in reader.by_ref() {
        count += 1;
        if let Err(e) = enter(context, &cred, &member, &mut linked) {
            crate::warn!("initramfs: {}: {:?}", core::str::from_utf8(member.name).unwrap_or("?"), e);
        }
    }
    if let Some(error) = reader.error {
        crate::warn!("initramfs: {error} after {count} members");
    }
    count
}

#[expect(clippy::arithmetic_side_effects, reason = "no more is copied than is there")]
fn enter(context: &FsContext, cred: &Cred, member: &Member<'_>, linked: &mut Vec<Linked>) -> Result {
    let kind = Kind::from_mode(member.mode).ok_or(EINVAL)?;
    if member.name.is_empty() || member.name == b"." || member.name == b"/" {
        let root = context.root()?;
        return attributes::change(&root.dentry.inode, &changes(member, kind));
    }
    let key = (member.archive, member.inode);
    let several = kind != Kind::Directory && member.links > 1;
    let known = if several { linked.iter().find(|l| l.key == key).map(|l| l.path.clone()) } else { None };
    clear(context, cred, member.name, kind)?;
    let path = match known {
        Some(path) => {
            create::link_at(context, cred, &path, Start::Cwd, member.name)?;
            path
        }
        None => {
            let path = make(context, cred, member, kind)?;
            if several {
                linked.try_push(Linked { key, path: path.clone() })?;
            }
            path
        }
    };
    let inode = &path.dentry.inode;
    if kind == Kind::Regular && !member.data.is_empty() {
        let object = inode.object().ok_or(EINVAL)?;
        let mut done = 0;
        while let Some(rest) = member.data.get(done..)
            && !rest.is_empty()
        {
            let mut copied = 0;
            let n = object.write(done as u64, rest.len(), |mut to| {
                let n = to.copy_from(rest.get(copied..).unwrap_or(&[]).into());
                copied += n;
                n
            })?;
            if n == 0 {
                return Err(ENOSPC);
            }
            done += n;
        }
    }
    attributes::change(inode, &changes(member, kind))
}

/// What the archive says of a member.
#[expect(clippy::arithmetic_side_effects, reason = "seconds of 32 bits")]
fn changes(member: &Member<'_>, kind: Kind) -> Changes {
    Changes {
        mode: (kind != Kind::Symlink).then_some(member.mode),
        uid: Some(member.uid),
        gid: Some(member.gid),
        modified: Some(i64::from(member.modified) * 1_000_000_000),
        ..Changes::default()
    }
}

/// Takes away what stands at the name, unless it is a directory and is to be one.
fn clear(context: &FsContext, cred: &Cred, name: &[u8], kind: Kind) -> Result {
    match lookup::resolve(context, cred, Start::Cwd, name, false) {
        Ok(found) if found.dentry.inode.is_dir() => {
            if kind == Kind::Directory {
                return Ok(());
            }
            remove::rmdir_at(context, cred, Start::Cwd, name)
        }
        Ok(_) => remove::unlink_at(context, cred, Start::Cwd, name),
        Err(_) => Ok(()),
    }
}

fn make(context: &FsContext, cred: &Cred, member: &Member<'_>, kind: Kind) -> Result<Path> {
    let (major, minor) = member.rdev;
    let making = Making {
        kind,
        mode: member.mode & 0o7777,
        rdev: device_number::number(u64::from(major), u64::from(minor)),
        target: if kind == Kind::Symlink { member.data } else { &[] },
    };
    if kind == Kind::Directory
        && let Ok(found) = lookup::resolve(context, cred, Start::Cwd, member.name, true)
    {
        return Ok(found);
    }
    let parent = match lookup::resolve_parent(context, cred, Start::Cwd, member.name) {
        Err(ENOENT) => {
            make_above(context, cred, member.name)?;
            lookup::resolve_parent(context, cred, Start::Cwd, member.name)?
        }
        other => other?,
    };
    let lookup::Last::Name(name) = &parent.last else { return Err(EINVAL) };
    let dentry = create::make(&parent.dir, name, cred, &making, 0)?;
    Ok(Path { mount: parent.dir.mount, dentry })
}

/// Makes the directories above a name, for archives that leave them out.
fn make_above(context: &FsContext, cred: &Cred, path: &[u8]) -> Result {
    let making = Making { kind: Kind::Directory, mode: 0o755, rdev: 0, target: &[] };
    for (at, _) in path.iter().enumerate().filter(|&(at, &b)| at > 0 && b == b'/') {
        let above = path.get(..at).unwrap_or(&[]);
        match lookup::resolve_parent(context, cred, Start::Cwd, above) {
            Ok(parent) => {
                if let lookup::Last::Name(name) = &parent.last {
                    let name: &Arc<Name> = name;
                    match create::make(&parent.dir, name, cred, &making, 0) {
                        Ok(_) | Err(EEXIST) => {}
                        Err(e) => return Err(e),
                    }
                }
            }
            Err(e) => return Err(e),
        }
    }
    Ok(())
}
