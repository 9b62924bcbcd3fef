//! open(2): from a path and flags to an open file description.
#![forbid(unsafe_code)]

use alloc::sync::Arc;

use super::count::Counted;
use super::{File, OpenFlags};
use super::{told, truncate};
use crate::errno::*;
use crate::fs::vfs::access::{self, Cred, EXEC, READ, WRITE};
use crate::fs::vfs::context::FsContext;
use crate::fs::vfs::create::{self, Making};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::lookup::{self, Child, Last, Limits, Start, Walk};
use crate::fs::vfs::mount::{NO_DEV, NO_EXEC, Path};
use crate::fs::vfs::notify::{self, events};

/// EINVAL: O_CREAT of a directory, or O_TMPFILE without O_DIRECTORY or to read only.
pub fn check_flags(flags: OpenFlags) -> Result {
    let wants_directory = OpenFlags::DIRECTORY.union(OpenFlags::TMPFILE);
    if !flags.intersects(wants_directory) || flags.contains(OpenFlags::PATH) {
        return Ok(());
    }
    let unnamed = flags.contains(OpenFlags::TMPFILE);
    let wrong = unnamed && (!flags.contains(OpenFlags::DIRECTORY) || flags.bits() & 3 == 0);
    if wrong || flags.contains(OpenFlags::DIRECTORY.union(OpenFlags::CREATE)) { Err(EINVAL) } else { Ok(()) }
}

/// Opens `path`; `flags` are checked. `mode` is for files that O_CREAT makes.
///
/// # Errors
/// ENFILE comes before all that the path says.
pub fn open(
    context: &FsContext,
    cred: &Cred,
    start: Start<'_>,
    path: &[u8],
    flags: OpenFlags,
    mode: u32,
) -> Result<Arc<File>> {
    open_within(context, cred, start, path, (flags, mode), Limits::empty())
}

/// As `open`, where the walk goes no further than `limits` allow.
pub fn open_within(
    context: &FsContext,
    cred: &Cred,
    start: Start<'_>,
    path: &[u8],
    (flags, mode): (OpenFlags, u32),
    limits: Limits,
) -> Result<Arc<File>> {
    let counted = Counted::try_new()?;
    let walk = &mut Walk::new(context, cred, start, path)?;
    if !limits.is_empty() {
        walk.limit(limits)?;
    }
    if flags.contains(OpenFlags::PATH) {
        let kept = OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW | OpenFlags::CLOEXEC;
        let flags = flags & kept;
        return open_as_path(walk.target(!flags.contains(OpenFlags::NOFOLLOW))?, flags, counted);
    }
    if flags.contains(OpenFlags::TMPFILE) {
        let dir = walk.target(!flags.contains(OpenFlags::NOFOLLOW))?;
        return open_unnamed(context, cred, dir, (flags, mode), counted);
    }
    let (found, made) = find(context, cred, walk, flags, mode)?;
    open_found((found, made), cred, flags, counted)
}

/// Opens what was found without a path; `flags` are checked. What O_TMPFILE makes may be used by nobody.
///
/// # Errors
/// As open(2), of a name that is there.
pub fn open_place(context: &FsContext, cred: &Cred, place: Path, flags: OpenFlags) -> Result<Arc<File>> {
    let counted = Counted::try_new()?;
    let kind = place.dentry.inode.kind;
    if flags.contains(OpenFlags::PATH) {
        let kept = OpenFlags::PATH | OpenFlags::DIRECTORY | OpenFlags::NOFOLLOW | OpenFlags::CLOEXEC;
        return open_as_path(place, flags & kept, counted);
    }
    if kind == Kind::Symlink {
        return Err(ELOOP);
    }
    if flags.contains(OpenFlags::TMPFILE) {
        return open_unnamed(context, cred, place, (flags, 0), counted);
    }
    if flags.contains(OpenFlags::CREATE | OpenFlags::EXCLUSIVE) {
        return Err(EEXIST);
    }
    if flags.contains(OpenFlags::CREATE) && kind == Kind::Directory {
        return Err(EISDIR);
    }
    open_found((place, false), cred, flags, counted)
}

fn open_as_path(found: Path, flags: OpenFlags, counted: Counted) -> Result<Arc<File>> {
    if flags.contains(OpenFlags::DIRECTORY) && !found.dentry.inode.is_dir() {
        return Err(ENOTDIR);
    }
    File::try_open_counted(found, flags, counted)
}

fn open_unnamed(
    context: &FsContext,
    cred: &Cred,
    dir: Path,
    (flags, mode): (OpenFlags, u32),
    counted: Counted,
) -> Result<Arc<File>> {
    let found = make_unnamed(context, cred, dir, mode)?;
    let flags = flags.difference(OpenFlags::TMPFILE | OpenFlags::DIRECTORY);
    let file = File::try_open_counted(found, flags, counted)?;
    if notify::is_used() {
        told::on_file(&file, events::OPEN);
    }
    Ok(file)
}

fn open_found(
    (found, made): (Path, bool),
    cred: &Cred,
    flags: OpenFlags,
    counted: Counted,
) -> Result<Arc<File>> {
    if !made {
        check(&found, cred, flags)?;
    }
    let file = File::try_open_counted(found, flags, counted)?;
    // Told once it is open: a fifo may have no reader.
    if flags.contains(OpenFlags::DIRECT) && !file.inode().is_direct() {
        return Err(EINVAL);
    }
    if notify::is_used() {
        told::on_file(&file, events::OPEN);
    }
    if flags.contains(OpenFlags::TRUNCATE) && !made && file.inode().kind == Kind::Regular {
        let lost = truncate::lost_by_size(file.inode());
        let cut = if flags.writes() {
            truncate::set_size(file.inode(), 0)
        } else {
            truncate::set_size_unopened(file.inode(), 0)
        };
        if notify::is_used() {
            match cut {
                Ok(()) => told::on_place(&file, events::MODIFY | lost),
                Err(_) => told::on_close(&file),
            }
        }
        cut?;
    }
    Ok(file)
}

/// What is to be opened, and whether this call made it.
fn find(
    context: &FsContext,
    cred: &Cred,
    walk: &mut Walk<'_>,
    flags: OpenFlags,
    mode: u32,
) -> Result<(Path, bool)> {
    let follow = !flags.contains(OpenFlags::NOFOLLOW);
    if !flags.contains(OpenFlags::CREATE) {
        return Ok((walk.target(follow)?, false));
    }
    let exclusive = flags.contains(OpenFlags::EXCLUSIVE);
    loop {
        let parent = walk.parent()?;
        if parent.slash && matches!(parent.last, Last::Name(_) | Last::TooLong) {
            return Err(EISDIR);
        }
        // `.` and `..` are there.
        let name = parent.name(if exclusive { EEXIST } else { EISDIR })?;
        match walk.child(&parent, name, follow && !exclusive)? {
            Child::Followed => {}
            Child::Found(_) if exclusive => return Err(EEXIST),
            Child::Found(found) if found.dentry.inode.is_dir() => return Err(EISDIR),
            Child::Found(found) => {
                access::check_opened_to_make(&parent.dir.dentry.inode, &found.dentry.inode, cred)?;
                return Ok((found, false));
            }
            Child::Missing => {
                let making = Making { kind: Kind::Regular, mode, rdev: 0, target: &[] };
                match create::make(&parent.dir, name, cred, &making, context.umask()) {
                    Ok(dentry) => return Ok((Path { mount: parent.dir.mount.clone(), dentry }, true)),
                    // Somebody else made it meanwhile.
                    Err(EEXIST) if !exclusive => {}
                    Err(e) => return Err(e),
                }
            }
        }
    }
}

/// May what was found be opened like this?
fn check(found: &Path, cred: &Cred, flags: OpenFlags) -> Result {
    let inode = &found.dentry.inode;
    if flags.contains(OpenFlags::DIRECTORY) && !inode.is_dir() {
        return Err(ENOTDIR);
    }
    match inode.kind {
        Kind::Symlink => return Err(ELOOP),
        Kind::Directory if flags.writes() || flags.is_for_ioctl() || flags.contains(OpenFlags::TRUNCATE) => {
            return Err(EISDIR);
        }
        Kind::Character | Kind::Block if found.mount.flags() & NO_DEV != 0 => return Err(EACCES),
        _ => {}
    }
    let mut want = 0;
    if flags.reads() {
        want |= READ;
    }
    if flags.writes() || flags.contains(OpenFlags::TRUNCATE) {
        want |= WRITE;
    }
    if flags.bits() & 3 == 3 {
        want = READ | WRITE;
    }
    inode.refresh()?;
    access::check_on(&found.mount, inode, cred, want)?;
    if flags.contains(OpenFlags::NOATIME) && !cred.owns(inode) {
        return Err(EPERM);
    }
    Ok(())
}

fn make_unnamed(context: &FsContext, cred: &Cred, dir: Path, mode: u32) -> Result<Path> {
    let making = Making { kind: Kind::Regular, mode, rdev: 0, target: &[] };
    let dentry = create::make_unnamed(&dir, cred, &making, context.umask())?;
    Ok(Path { mount: dir.mount, dentry })
}

/// Opens a program: a regular file that may be executed, on a mount that allows it.
pub fn open_exec(context: &FsContext, start: Start<'_>, path: &[u8], follow: bool) -> Result<Arc<File>> {
    let counted = Counted::try_new()?;
    let cred = Cred::current();
    let found = lookup::resolve(context, &cred, start, path, follow)?;
    may_exec(&found, &cred)?;
    Ok(opened_for_exec(File::try_open_counted(found, OpenFlags::empty(), counted)?))
}

/// The file is executed, and no descriptor refers to it.
pub fn opened_for_exec(file: Arc<File>) -> Arc<File> {
    file.set_undescribed();
    if notify::is_used() {
        told::on_file(&file, events::OPEN | events::OPEN_EXEC);
    }
    file
}

/// The checks of `open_exec` for what is found already (execveat with AT_EMPTY_PATH).
pub fn may_exec(found: &Path, cred: &Cred) -> Result {
    let inode = &found.dentry.inode;
    if inode.kind == Kind::Symlink {
        return Err(ELOOP);
    }
    if inode.kind != Kind::Regular || found.mount.flags() & NO_EXEC != 0 {
        return Err(EACCES);
    }
    access::check(inode, cred, EXEC)
}
