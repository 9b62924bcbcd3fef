//! The inodes of /proc: what each name (`names`, `entry`) leads to.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::try_box;

use super::TextFile;
use super::content::{OfLocks, OfMachine, OfProcess, OfSetting};
use super::entry::{Entry, LinkTo, Make, MakeOf, Of, Setting, What, WhatOf};
use super::names::{PROCESS, ROOT, from_letter};
use super::space::{Row, Rows, map_files, memory, pagemap};
use super::system::kmsg;
use super::task::descriptors::{Decimal, InfoOf, file_of, inode_of_fd, inode_of_info, list_descriptors};
use super::task::who::{Who, check_access, number_of};
use super::task::{login, numbers, process as files};
use crate::bytes;
use crate::errno::{EACCES, EBADF, EINVAL, ENOENT, EPERM, ESRCH, Errno, Result};
use crate::fs::Shown;
use crate::fs::anon::namespace::Kept;
use crate::fs::caller::{self, Capability};
use crate::fs::file::describe;
use crate::fs::file::{FileOps, OpenFlags, Place};
use crate::fs::vfs::access::EXEC;
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::dentry::Dentry;
use crate::fs::vfs::inode::{Attributes, Inode, Kind, NewInode};
use crate::fs::vfs::mount::Path;
use crate::fs::vfs::operations::{DirEntry, InodeOps, LinkText, Moving, Writing};
use crate::process::{Credentials, Pid, Process, ids, walk_processes_from};

/// What an inode of /proc stands for.
enum Node {
    Root,
    Fixed(&'static [Entry], u64),
    Text(Make),
    /// The first is done at each open.
    Secret(fn(), Make),
    Locks,
    Log,
    Link(Make),
    Setting(&'static Setting),
    /// Directory of a process or of one of its threads.
    Process(Who),
    Tasks(Who),
    Spaces(Who),
    TextOf(Who, MakeOf, &'static Of),
    LinkOf(Who, MakeOf, LinkTo),
    RowsOf(Who, Row),
    Memory(Who),
    Pagemap(Who),
    MapFiles(Who),
    MapFile(Who, map_files::Place),
    Fds(Who),
    Fd(Who, i32),
    FdInfos(Who),
    FdInfo(Who, i32),
}

/// The name of that link.
const MOUNT_SPACE: &[u8] = b"mnt";

fn make(device: u64, number: u64, kind: Kind, mode: u32, node: Node) -> Result<Arc<Inode>> {
    let new = NewInode { kind, mode, uid: 0, gid: 0, rdev: 0 };
    let inode = Inode::try_with(number, device, &new, try_box(node)?, Attributes::Elsewhere)?;
    // Whoever opens a file or shows its attributes refreshes it; a walk goes through a directory as it is.
    if kind == Kind::Directory && mode & EXEC == 0 {
        inode.refresh()?;
    }
    Ok(inode)
}

/// Is this the name of an entry? Most differ in length or in the first byte, so that few are compared.
#[inline]
fn is_named(own: &'static str, name: &[u8]) -> bool {
    own.len() == name.len() && own.as_bytes().first() == name.first() && bytes::equal(own.as_bytes(), name)
}

/// The process whose directory this is. No directory of a thread is one.
///
/// # Errors
/// EBADF: it is none; ESRCH: the process is gone.
pub fn process_of(inode: &Inode) -> Result<Arc<Process>> {
    let ops: &dyn core::any::Any = &*inode.ops;
    match ops.downcast_ref() {
        Some(Node::Process(who)) if who.tid == 0 => who.process().ok_or(ESRCH),
        _ => Err(EBADF),
    }
}

pub fn root(device: u64) -> Result<Arc<Inode>> {
    make(device, 1, Kind::Directory, 0o555, Node::Root)
}

fn fixed(device: u64, number: u64, what: What) -> Result<Arc<Inode>> {
    match what {
        What::Text(f) => make(device, number, Kind::Regular, 0o444, Node::Text(f)),
        What::Secret(before, f) => make(device, number, Kind::Regular, 0o400, Node::Secret(before, f)),
        What::Locks => make(device, number, Kind::Regular, 0o444, Node::Locks),
        What::Log => make(device, number, Kind::Regular, 0o400, Node::Log),
        What::Link(f) => make(device, number, Kind::Symlink, 0o777, Node::Link(f)),
        What::Dir(list) => make(device, number, Kind::Directory, 0o555, Node::Fixed(list, number)),
        What::Restored(s) => make(device, number, Kind::Regular, 0o444, Node::Setting(s)),
        What::Hidden(s) => {
            let mode = if s.write.is_some() { 0o600 } else { 0o400 };
            make(device, number, Kind::Regular, mode, Node::Setting(s))
        }
        What::Asked(s) => make(device, number, Kind::Regular, 0o200, Node::Setting(s)),
        What::Setting(s) => {
            let mode = if s.write.is_some() { 0o644 } else { 0o444 };
            make(device, number, Kind::Regular, mode, Node::Setting(s))
        }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "numbers of fixed entries are small")]
fn find_fixed(device: u64, base: u64, list: &'static [Entry], name: &[u8]) -> Result<Arc<Inode>> {
    let (i, entry) = list.iter().enumerate().find(|(_, e)| is_named(e.name, name)).ok_or(ENOENT)?;
    fixed(device, base * 64 + 2 + i as u64, entry.what)
}

/// The link to its namespace of mounts, in the directory of its namespaces. Descriptors' numbers follow.
fn inode_of_space(who: Who) -> u64 {
    number_of(who.pid, who.tid, 63)
}

/// A decimal number as /proc writes it: no sign, no leading zero.
fn parse(name: &[u8]) -> Option<u32> {
    if name.is_empty() || name.first() == Some(&b'0') && name.len() > 1 {
        return None;
    }
    name.iter().try_fold(0u32, |number, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 { None } else { number.checked_mul(10)?.checked_add(digit.into()) }
    })
}

#[expect(clippy::arithmetic_side_effects, reason = "numbers of fixed entries are small")]
fn list_fixed(
    base: u64,
    list: &'static [Entry],
    position: u64,
    emit: &mut dyn FnMut(&DirEntry<'_>) -> bool,
) -> bool {
    for (i, entry) in list.iter().enumerate().skip(position.saturating_sub(2) as usize) {
        let kind = match entry.what {
            What::Link(_) => Kind::Symlink,
            What::Dir(_) => Kind::Directory,
            _ => Kind::Regular,
        };
        let next = i as u64 + 3;
        if !emit(&DirEntry { name: entry.name.as_bytes(), number: base * 64 + 2 + i as u64, kind, next }) {
            return false;
        }
    }
    true
}

/// Where numbers begin in a listing that names come before: position `NUMBERS + n` is at or after number n.
pub(super) const NUMBERS: u64 = 1 << 20;

/// The first number at or after `position`.
fn first_number(position: u64) -> Pid {
    Pid::try_from(position.saturating_sub(NUMBERS)).unwrap_or(Pid::MAX)
}

/// The folder of a process or thread.
#[expect(clippy::arithmetic_side_effects, reason = "numbers of processes are small")]
fn emit_number(n: Pid, inode: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> bool {
    let next = NUMBERS + u64::from(n) + 1;
    emit(&DirEntry { name: Decimal::new(n).bytes(), number: inode, kind: Kind::Directory, next })
}

impl Node {
    #[expect(clippy::arithmetic_side_effects, reason = "numbers of fixed entries are small")]
    fn lookup_in_process(device: u64, who: Who, name: &[u8]) -> Result<Arc<Inode>> {
        if !who.is_there() {
            return Err(ENOENT);
        }
        let (before, entries) = from_letter(name).ok_or(ENOENT)?;
        let (i, entry) = entries.iter().enumerate().find(|(_, e)| is_named(e.name, name)).ok_or(ENOENT)?;
        let number = number_of(who.pid, who.tid, (before + i) as u64 + 1);
        match entry.what {
            what if !what.is_of(who) => Err(ENOENT),
            WhatOf::Text(f) | WhatOf::Whole(f) | WhatOf::Inner(f) | WhatOf::Part(f) => {
                make(device, number, Kind::Regular, entry.mode, Node::TextOf(who, f, entry))
            }
            WhatOf::Link(f, to) => make(device, number, Kind::Symlink, entry.mode, Node::LinkOf(who, f, to)),
            WhatOf::Rows(row) => make(device, number, Kind::Regular, entry.mode, Node::RowsOf(who, row)),
            WhatOf::Pagemap => make(device, number, Kind::Regular, entry.mode, Node::Pagemap(who)),
            WhatOf::MapFiles => make(device, number, Kind::Directory, entry.mode, Node::MapFiles(who)),
            WhatOf::Memory => make(device, number, Kind::Regular, entry.mode, Node::Memory(who)),
            WhatOf::Fixed(list, base) => {
                make(device, number, Kind::Directory, entry.mode, Node::Fixed(list, base))
            }
            WhatOf::Fds => make(device, number, Kind::Directory, entry.mode, Node::Fds(who)),
            WhatOf::FdInfos => make(device, number, Kind::Directory, entry.mode, Node::FdInfos(who)),
            WhatOf::Tasks => make(device, number, Kind::Directory, entry.mode, Node::Tasks(who)),
            WhatOf::Spaces => make(device, number, Kind::Directory, entry.mode, Node::Spaces(who)),
        }
    }

    /// Whom it is about.
    fn who(&self) -> Option<Who> {
        match *self {
            Node::Process(who)
            | Node::Tasks(who)
            | Node::Spaces(who)
            | Node::TextOf(who, ..)
            | Node::LinkOf(who, ..)
            | Node::RowsOf(who, _)
            | Node::Memory(who)
            | Node::Pagemap(who)
            | Node::MapFiles(who)
            | Node::MapFile(who, _)
            | Node::Fds(who)
            | Node::Fd(who, ..)
            | Node::FdInfos(who)
            | Node::FdInfo(who, ..) => Some(who),
            _ => None,
        }
    }
}

impl InodeOps for Node {
    fn lookup(&self, dir: &Inode, name: &[u8]) -> Result<Arc<Inode>> {
        let device = dir.device;
        match *self {
            Node::Root => match parse(name) {
                Some(pid) => {
                    let who = ids::look_at(pid, |process| Who::of(process, 0)).ok_or(ENOENT)?;
                    make(device, number_of(pid, 0, 0), Kind::Directory, 0o555, Node::Process(who))
                }
                None => find_fixed(device, 0, ROOT, name),
            },
            Node::Fixed(list, number) => find_fixed(device, number, list, name),
            Node::Process(who) => Node::lookup_in_process(device, who, name),
            Node::Tasks(who) => {
                let tid = parse(name).ok_or(ENOENT)?;
                who.process().and_then(|p| p.thread(tid)).ok_or(ENOENT)?;
                let number = number_of(who.pid, tid, 512);
                make(device, number, Kind::Directory, 0o555, Node::Process(Who { tid, ..who }))
            }
            Node::Spaces(who) if name == MOUNT_SPACE && who.is_there() => {
                let link = Node::LinkOf(who, files::mount_namespace, LinkTo::Namespace);
                make(device, inode_of_space(who), Kind::Symlink, 0o777, link)
            }
            Node::MapFiles(who) => {
                let process = who.process().ok_or(ENOENT)?;
                check_access(&process)?;
                let (place, mode) = map_files::find(&process, name)?;
                let number = map_files::inode_of(who, place.0);
                make(device, number, Kind::Symlink, mode, Node::MapFile(who, place))
            }
            Node::Fds(who) | Node::FdInfos(who) => {
                let fd = parse(name).and_then(|n| i32::try_from(n).ok()).ok_or(ENOENT)?;
                let (process, thread) = who.find().map_err(|_| ENOENT)?;
                check_access(&process)?;
                let file = file_of(&thread, fd)?;
                if let Node::FdInfos(_) = self {
                    return make(device, inode_of_info(who, fd), Kind::Regular, 0o444, Node::FdInfo(who, fd));
                }
                let mode = if file.flags().reads() { 0o500 } else { 0 }
                    | if file.flags().writes() { 0o300 } else { 0 };
                make(device, inode_of_fd(who, fd), Kind::Symlink, mode, Node::Fd(who, fd))
            }
            _ => Err(ENOENT),
        }
    }

    fn link_at(&self, name: &[u8]) -> Option<LinkText> {
        if !matches!(self, Node::Root) || name.first().is_some_and(u8::is_ascii_digit) {
            return None;
        }
        ROOT.iter().find_map(|entry| match entry.what {
            What::Link(text) if is_named(entry.name, name) => Some(text),
            _ => None,
        })
    }

    fn fsync(&self, _: &Inode, _: bool) -> Result {
        Err(EINVAL)
    }

    fn names_are_given(&self) -> bool {
        true
    }

    /// Linux has the directory of a process immutable, and below /proc/sys the mode alone counts.
    fn refuses_writing(&self) -> Option<Errno> {
        match self {
            Node::Process(_) => Some(EPERM),
            Node::Fixed(..) => Some(EACCES),
            Node::Setting(setting) if setting.write.is_none() => Some(EACCES),
            _ => None,
        }
    }

    /// A process may look at its own descriptors and mappings, though it may not be looked into.
    fn grants(&self) -> bool {
        matches!(*self, Node::Fds(who) | Node::MapFiles(who) if who.is_caller())
    }

    fn rename(&self, _: &Moving<'_>) -> Result {
        Err(EPERM)
    }

    #[expect(clippy::arithmetic_side_effects, reason = "numbers of fixed entries are small")]
    fn read_dir(&self, _: &Inode, position: u64, emit: &mut dyn FnMut(&DirEntry<'_>) -> bool) -> Result {
        match *self {
            Node::Root => {
                if position < NUMBERS && !list_fixed(0, ROOT, position, emit) {
                    return Ok(());
                }
                walk_processes_from(first_number(position), |p| {
                    emit_number(p.pid(), number_of(p.pid(), 0, 0), emit)
                });
            }
            Node::Fixed(list, number) => {
                list_fixed(number, list, position, emit);
            }
            Node::Process(who) => {
                who.process().ok_or(ENOENT)?;
                for (i, entry) in PROCESS.iter().enumerate().skip(position.saturating_sub(2) as usize) {
                    let kind = match entry.what {
                        what if !what.is_of(who) => continue,
                        WhatOf::Text(_)
                        | WhatOf::Whole(_)
                        | WhatOf::Part(_)
                        | WhatOf::Inner(_)
                        | WhatOf::Rows(_)
                        | WhatOf::Pagemap
                        | WhatOf::Memory => Kind::Regular,
                        WhatOf::Link(..) => Kind::Symlink,
                        WhatOf::Fixed(..)
                        | WhatOf::Fds
                        | WhatOf::FdInfos
                        | WhatOf::MapFiles
                        | WhatOf::Tasks
                        | WhatOf::Spaces => Kind::Directory,
                    };
                    let (number, next) = (number_of(who.pid, who.tid, i as u64 + 1), i as u64 + 3);
                    if !emit(&DirEntry { name: entry.name.as_bytes(), number, kind, next }) {
                        break;
                    }
                }
            }
            Node::Tasks(who) => {
                let process = who.process().ok_or(ENOENT)?;
                numbers::each_thread(&process, first_number(position), |tid| {
                    emit_number(tid, number_of(who.pid, tid, 512), emit)
                })?;
            }
            Node::MapFiles(who) => {
                let process = who.process().ok_or(ENOENT)?;
                check_access(&process)?;
                map_files::list(&process, who, position, emit)?;
            }
            Node::Spaces(who) => {
                who.process().ok_or(ENOENT)?;
                if position <= 2 {
                    let number = inode_of_space(who);
                    emit(&DirEntry { name: MOUNT_SPACE, number, kind: Kind::Symlink, next: 3 });
                }
            }
            Node::Fds(who) | Node::FdInfos(who) => {
                let (process, thread) = who.find().map_err(|_| ENOENT)?;
                check_access(&process)?;
                let infos = matches!(self, Node::FdInfos(_));
                let list = |files: Shown<'_>| list_descriptors(files, who, infos, position, emit);
                thread.with_files(list).ok_or(ENOENT)?;
            }
            _ => return Err(crate::errno::ENOTDIR),
        }
        Ok(())
    }

    fn read_link(&self, _: &Inode) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        match *self {
            Node::Link(f) => f(&mut out)?,
            Node::LinkOf(who, f, _) => {
                let (process, thread) = who.find().map_err(|_| ENOENT)?;
                check_access(&process)?;
                f(&process, &thread, &mut out)?;
            }
            Node::MapFile(who, place) => {
                let process = who.process().ok_or(ENOENT)?;
                check_access(&process)?;
                map_files::read(&process, place, &mut out)?;
            }
            Node::Fd(who, fd) => {
                let (process, thread) = who.find().map_err(|_| ENOENT)?;
                check_access(&process)?;
                let file = file_of(&thread, fd)?;
                out = describe::file(&file, &caller::context().root()?)?;
            }
            _ => return Err(crate::errno::EINVAL),
        }
        if out.len() >= crate::fs::vfs::lookup::PATH_MAX {
            return Err(crate::errno::ENAMETOOLONG);
        }
        Ok(out)
    }

    fn follow(&self, _: &Inode) -> Option<Result<Path>> {
        let follow = |who: Who| -> Result<_> {
            let (process, thread) = who.find().map_err(|_| ENOENT)?;
            check_access(&process)?;
            Ok((process, thread))
        };
        match *self {
            Node::LinkOf(who, _, to) => Some(follow(who).and_then(|(process, thread)| match to {
                LinkTo::Exe => process.exe().and_then(|f| f.path().cloned()).ok_or(ENOENT),
                LinkTo::Cwd => thread.fs_of().ok_or(ENOENT)?.cwd(),
                LinkTo::Root => thread.fs_of().ok_or(ENOENT)?.root(),
                LinkTo::Namespace => thread.look_at_fs(Kept::of).ok_or(ENOENT)?.path(),
            })),
            Node::MapFile(who, place) => Some((|| {
                let process = who.process().ok_or(ENOENT)?;
                check_access(&process)?;
                map_files::follow(&process, place)
            })()),
            Node::Fd(who, fd) => Some(follow(who).and_then(|(_, thread)| {
                let file = file_of(&thread, fd)?;
                match &file.place {
                    Place::Named(path) => Ok(path.clone()),
                    Place::Anonymous(..) => crate::fs::reopen(&file),
                }
            })),
            _ => None,
        }
    }

    fn open(&self, dentry: &Dentry, flags: OpenFlags) -> Result<Option<Box<dyn FileOps>>> {
        let read_only = matches!(self, Node::Setting(setting) if setting.write.is_none());
        if read_only && (flags.writes() || flags.contains(OpenFlags::TRUNCATE)) {
            return Err(EACCES);
        }
        // Below /proc/sys no capability makes up for the mode.
        if matches!(self, Node::Setting(_)) && flags.reads() && dentry.inode.mode() & 0o400 == 0 {
            return Err(EACCES);
        }
        match *self {
            Node::Text(make) => TextFile::open(OfMachine(make)).map(Some),
            Node::Secret(before, make) => {
                before();
                TextFile::open(OfMachine(make)).map(Some)
            }
            Node::Locks => TextFile::open(OfLocks::new()).map(Some),
            Node::Log => kmsg::open().map(Some),
            Node::Setting(setting) => TextFile::open(OfSetting(setting)).map(Some),
            Node::TextOf(who, make, entry) => {
                // A zombie has no thread, but still something to say.
                if matches!(entry.what, WhatOf::Inner(_)) {
                    check_access(&*who.process().ok_or(ENOENT)?)?;
                } else if !who.is_there() {
                    return Err(ENOENT);
                }
                let denies = core::ptr::fn_addr_eq(make, login::setgroups as MakeOf) && flags.writes();
                if denies && !caller::capable(Capability::SYS_ADMIN) {
                    return Err(EACCES);
                }
                TextFile::open(OfProcess(who, make, entry.manner)).map(Some)
            }
            Node::RowsOf(who, row) => {
                check_access(&*who.process().ok_or(ENOENT)?)?;
                TextFile::open(Rows { who, row }).map(Some)
            }
            Node::Pagemap(who) => pagemap::open(who).map(Some),
            Node::Memory(who) => memory::open(who).map(Some),
            Node::FdInfos(who) => check_access(&*who.process().ok_or(ENOENT)?).map(|()| None),
            Node::FdInfo(who, fd) => TextFile::open(InfoOf { who, fd }).map(Some),
            _ => Ok(None),
        }
    }

    /// O_TRUNC has no effect; nothing else can be changed.
    fn set_attributes(&self, _: &Inode, changes: &Changes, _: Writing<'_>) -> Result {
        if changes.size.is_some() { Ok(()) } else { Err(EPERM) }
    }

    /// Files of a process are its user's; those of one whose user may not look into it are root's, but for its directories.
    fn refresh(&self, inode: &Inode) -> Result {
        let Some(who) = self.who() else { return Ok(()) };
        let owner = |process: &Process| {
            let shown = process.is_dumpable() || matches!(self, Node::Process(_) | Node::Tasks(_));
            let owner = |ids: &Credentials| if shown { (ids.euid, ids.egid) } else { (0, 0) };
            process.look_at_leader(|leader| leader.look_at_credentials(owner)).flatten()
        };
        let Some((uid, gid)) = who.look_at(owner).flatten() else { return Ok(()) };
        if inode.uid() != uid || inode.gid() != gid {
            inode.apply(&Changes { uid: Some(uid), gid: Some(gid), ..Changes::default() });
        }
        Ok(())
    }
}
