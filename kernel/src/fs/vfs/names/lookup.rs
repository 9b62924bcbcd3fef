//! Path lookup. Names are walked under RCU and no reference is taken until the end, where one is taken to the mount and
//! one to the dentry, both counted on this CPU. The walk leaves the read section only where something may sleep: a name that the
//! cache does not hold, or the text of a symbolic link; it then holds references to where it stands and goes on from there.
//!
//! There is no sequence count to check: see `directory` for why a name that is found was there, and one that is not found was not.
//! What a name that is not plainly there asks for is `attend`'s to say, and of one that is not in the table `missed`'s.
//!
//! No locks; what asks the file system (`cache::ask`) claims the name.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ptr;

use sync::TryVec;
use sync::rcu::RcuRead;

use super::cache::{self, Cache};
use super::dentry::{self, Dentry, DentryRef, NAME_MAX, Name, Seen};
pub use super::limits::Limits;
use crate::bytes;
use crate::errno::{EACCES, EAGAIN, EINTR, ELOOP, ENAMETOOLONG, ENOENT, ENOTDIR, EXDEV, Errno, Result};
use crate::fs::caller;
use crate::fs::vfs::access::{self, Cred, EXEC};
use crate::fs::vfs::clock;
use crate::fs::vfs::context::FsContext;
use crate::fs::vfs::inode::{Inode, Kind};
use crate::fs::vfs::mount::{self, Mount, MountRef, NO_SYMFOLLOW, Path};
use crate::fs::vfs::operations::LinkText;
use crate::sched::give_way;

/// Longest path, with its NUL.
pub const PATH_MAX: usize = 4096;
/// Symbolic links on one walk.
const LINKS_MAX: u32 = 40;

/// Where a relative path starts.
#[derive(Clone, Copy)]
pub enum Start<'a> {
    Cwd,
    At(&'a Path),
}

/// The last component of a path whose parent was asked for.
pub enum Last {
    Name(Arc<Name>),
    /// No name can be so long. Who wants it is told where Linux looks it up, which may be after other faults.
    TooLong,
    Dot,
    DotDot,
    /// The path is nothing but slashes.
    Root,
}

pub struct Parent {
    pub dir: Path,
    pub last: Last,
    /// The name was followed by a slash, so it must be (or become) a directory.
    pub slash: bool,
}

impl Parent {
    /// The last component as a name to be looked up.
    ///
    /// # Errors
    /// `other`: it is none; ENAMETOOLONG, for which a directory whose names come from the kernel says ENOENT.
    #[inline]
    pub fn name(&self, other: Errno) -> Result<&Arc<Name>> {
        match &self.last {
            Last::Name(name) => Ok(name),
            Last::TooLong if self.dir.dentry.inode.ops.names_are_given() => Err(ENOENT),
            Last::TooLong => Err(ENAMETOOLONG),
            _ => Err(other),
        }
    }
}

/// What a path leads to, for a call that asks nothing of the last name.
pub enum Found {
    Place(Path),
    /// In a file system that makes its names up: no dentry was made for this one.
    Inode(MountRef, Arc<Inode>),
}

#[derive(Clone, Copy, PartialEq)]
enum Want {
    Target {
        follow: bool,
    },
    /// The same, where no dentry has to be made for it.
    Inode {
        follow: bool,
    },
    Parent,
}

impl Want {
    /// Is the last name followed if it is a link?
    #[inline(always)]
    fn follows(self) -> bool {
        matches!(self, Want::Target { follow: true } | Want::Inode { follow: true })
    }
}

enum Step {
    Done(Path),
    Inode(MountRef, Arc<Inode>),
    Parent(Path),
    Link { dir: Path, link: DentryRef },
    Ask { dir: Path },
}

pub struct Walk<'a> {
    pub(super) context: &'a FsContext,
    cred: &'a Cred,
    pub(super) start: Start<'a>,
    /// Where the walk stands, with what is walked already (`at`), once it had to take references.
    here: Option<Path>,
    pub(super) first: &'a [u8],
    /// The text, once a link has replaced it.
    pub(super) text: Option<Vec<u8>>,
    /// What is walked already of the text: where `here` is reached.
    at: usize,
    /// The component at which `fast` stopped: for a link, to ask, or as the last.
    part: Cell<Component>,
    links: u32,
    pub(super) limits: Limits,
    /// The directory that the walk does not leave, with `BENEATH` and `IN_ROOT`.
    pub(super) scope: Option<Path>,
}

/// The component that begins at or after `at`: its range, and where the text goes on after it and its slashes.
#[derive(Clone, Copy)]
struct Component {
    start: usize,
    end: usize,
    next: usize,
}

#[expect(clippy::arithmetic_side_effects, reason = "places in a path in memory")]
fn component(text: &[u8], at: usize) -> Option<Component> {
    let rest = text.get(at..)?;
    let start = at + rest.iter().position(|&b| b != b'/')?;
    let end = bytes::find(b'/', text.get(start..)?).map_or(text.len(), |n| start + n);
    let next = text.get(end..)?.iter().position(|&b| b != b'/').map_or(text.len(), |n| end + n);
    Some(Component { start, end, next })
}

/// Finds what `path` leads to.
pub fn resolve(
    context: &FsContext,
    cred: &Cred,
    start: Start<'_>,
    path: &[u8],
    follow: bool,
) -> Result<Path> {
    Walk::new(context, cred, start, path)?.target(follow)
}

/// As `resolve`, for a call that asks nothing of the last name.
pub fn find(context: &FsContext, cred: &Cred, start: Start<'_>, path: &[u8], follow: bool) -> Result<Found> {
    let mut walk = Walk::new(context, cred, start, path)?;
    match walk.run(Want::Inode { follow })? {
        Step::Inode(mount, inode) => {
            walk.check_slash(&inode)?;
            Ok(Found::Inode(mount, inode))
        }
        step => walk.reached(step).map(Found::Place),
    }
}

/// Finds the directory that holds the last component of `path`.
pub fn resolve_parent(context: &FsContext, cred: &Cred, start: Start<'_>, path: &[u8]) -> Result<Parent> {
    Walk::new(context, cred, start, path)?.parent()
}

impl<'a> Walk<'a> {
    pub fn new(context: &'a FsContext, cred: &'a Cred, start: Start<'a>, path: &'a [u8]) -> Result<Self> {
        if path.is_empty() {
            return Err(ENOENT);
        }
        if path.len() >= PATH_MAX {
            return Err(ENAMETOOLONG);
        }
        let (limits, scope) = (Limits::empty(), None);
        let part = Cell::new(Component { start: 0, end: 0, next: 0 });
        let (here, text) = (None, None);
        Ok(Walk { context, cred, start, here, first: path, text, at: 0, part, links: 0, limits, scope })
    }

    fn text(&self) -> &[u8] {
        self.text.as_deref().unwrap_or(self.first)
    }

    pub fn target(&mut self, follow: bool) -> Result<Path> {
        let step = self.run(Want::Target { follow })?;
        self.reached(step)
    }

    #[inline(always)]
    fn reached(&self, step: Step) -> Result<Path> {
        let Step::Done(path) = step else { return Err(ENOENT) };
        self.check_end(&path)?;
        self.check_slash(&path.dentry.inode)?;
        Ok(path)
    }

    /// A slash at the end says that it is a directory.
    #[inline(always)]
    fn check_slash(&self, inode: &Inode) -> Result {
        if self.text().last() == Some(&b'/') && !inode.is_dir() { Err(ENOTDIR) } else { Ok(()) }
    }

    /// The directory of the last name. Asked again, it is walked to again.
    pub fn parent(&mut self) -> Result<Parent> {
        match self.run(Want::Parent)? {
            Step::Parent(dir) => {
                self.check_end(&dir)?;
                let (text, part) = (self.text(), self.part.get());
                let name = text.get(part.start..part.end).unwrap_or(&[]);
                let last = match name {
                    b"." => Last::Dot,
                    b".." => Last::DotDot,
                    name if name.len() > NAME_MAX => Last::TooLong,
                    name => Last::Name(Name::try_new(name)?),
                };
                Ok(Parent { dir, last, slash: part.end < text.len() })
            }
            Step::Done(dir) => Ok(Parent { dir, last: Last::Root, slash: true }),
            _ => Err(ENOENT),
        }
    }

    /// After `parent`: what its last name leads to now, or `None`. With `follow`, a link sets the walk to where it leads, and the
    /// caller asks for the parent again.
    pub fn child(&mut self, parent: &Parent, name: &Name, follow: bool) -> Result<Child> {
        let mut found = None;
        let said = {
            let read = sync::rcu::read();
            let (mount, dir) = (Seen::Held(&parent.dir.mount), Seen::Held(&parent.dir.dentry));
            match lookup(dir, &name.bytes, name.hash, &read) {
                Some(child) => {
                    let said = if child.is_plain() { Said::There } else { attend(&mount, &child) };
                    if said == Said::There {
                        found = Some(keep(cross(mount, child, &read)));
                    }
                    said
                }
                None if mount.superblock.cache == Cache::Complete => Said::Absent,
                None => missed(&dir),
            }
        };
        if said == Said::Unknown {
            found = match ask(&parent.dir, &name.bytes) {
                Ok(found) => Some(found),
                Err(ENOENT) => None,
                Err(e) => return Err(e),
            };
        }
        match found {
            None => Ok(Child::Missing),
            Some(path) if self.limits.contains(Limits::ONE_MOUNT) && path.mount.id != parent.dir.mount.id => {
                Err(EXDEV)
            }
            Some(path) if follow && path.dentry.inode.kind == Kind::Symlink => {
                let end = self.part.get().end;
                match self.follow(parent.dir.clone(), &path.dentry.inode, end, true)? {
                    Some(target) => Ok(Child::Found(target)),
                    None => Ok(Child::Followed),
                }
            }
            Some(path) => Ok(Child::Found(path)),
        }
    }

    fn run(&mut self, want: Want) -> Result<Step> {
        loop {
            let step = {
                let read = sync::rcu::read();
                self.fast(want, &read)?
            };
            match step {
                Step::Done(_) | Step::Inode(..) | Step::Parent(_) => return Ok(step),
                Step::Link { dir, link } => self.link(dir, &link.inode)?,
                Step::Ask { dir } => {
                    let part = self.part.get();
                    if self.limits.contains(Limits::CACHED) {
                        return Err(EAGAIN);
                    }
                    let name = self.text().get(part.start..part.end).unwrap_or(&[]);
                    let last = part.next == self.text().len();
                    let slash = part.end < self.text().len();
                    let follow = !last || slash || want.follows();
                    if follow && let Some(text) = dir.dentry.inode.ops.link_at(name) {
                        self.follow_text(dir, part.end, text)?;
                        continue;
                    }
                    if dir.mount.superblock.cache == Cache::Uncached {
                        match self.ask_uncached(dir, follow, want)? {
                            Some(step) => return Ok(step),
                            None => continue,
                        }
                    }
                    let found = ask(&dir, name)?;
                    if self.limits.contains(Limits::ONE_MOUNT) && found.mount.id != dir.mount.id {
                        return Err(EXDEV);
                    }
                    if found.dentry.inode.kind == Kind::Symlink && follow {
                        self.link(dir, &found.dentry.inode)?;
                    } else if last {
                        return Ok(Step::Done(found));
                    } else {
                        self.here = Some(found);
                        self.at = part.next;
                    }
                }
            }
        }
    }

    /// Asks a file system that makes its names up for the component `self.part`. Such a name is in no table, so nothing is mounted on it.
    /// `None`: the walk goes on.
    fn ask_uncached(&mut self, dir: Path, follow: bool, want: Want) -> Result<Option<Step>> {
        let part = self.part.get();
        let text = self.text();
        let name = text.get(part.start..part.end).unwrap_or(&[]);
        let last = part.next == text.len();
        let inode = dir.dentry.inode.ops.lookup(&dir.dentry.inode, name)?;
        if follow && inode.kind == Kind::Symlink {
            self.link(dir, &inode)?;
            return Ok(None);
        }
        if last && matches!(want, Want::Inode { .. }) && self.limits.is_empty() {
            return Ok(Some(Step::Inode(dir.mount, inode)));
        }
        let dentry = Dentry::try_unowned(inode, Some(dir.dentry), name)?;
        let found = Path { mount: dir.mount, dentry };
        if last {
            return Ok(Some(Step::Done(found)));
        }
        self.here = Some(found);
        self.at = part.next;
        Ok(None)
    }

    /// The link's component is `self.part`.
    fn link(&mut self, dir: Path, link: &Inode) -> Result<()> {
        let part = self.part.get();
        let last = part.next == self.text().len();
        let target = self.follow(dir, link, part.end, last)?;
        if let Some(path) = target {
            self.here = Some(path);
            self.at = part.next;
        }
        Ok(())
    }

    /// Before one more link of `dir` is followed.
    #[expect(clippy::arithmetic_side_effects, reason = "at most MAX_LINKS")]
    fn begin_link(&mut self, dir: &Path) -> Result {
        self.links += 1;
        if self.links > LINKS_MAX {
            return Err(ELOOP);
        }
        // Each may be as long as a path.
        if give_way() {
            return Err(EINTR);
        }
        if dir.mount.flags() & NO_SYMFOLLOW != 0 || self.limits.contains(Limits::NO_LINKS) {
            return Err(ELOOP);
        }
        Ok(())
    }

    /// Goes where a link leads: a place (links of /proc), or a new text that is walked from the link's directory. The link's component ends at `end`; `last`:
    /// it is the last of the path.
    fn follow(&mut self, dir: Path, inode: &Inode, end: usize, last: bool) -> Result<Option<Path>> {
        if last {
            access::check_follow(&dir.dentry.inode, inode, self.cred)?;
        }
        self.begin_link(&dir)?;
        if let Some(path) = inode.ops.follow(inode) {
            return self.check_jump(&dir, path?).map(Some);
        }
        let target = inode.ops.read_link(inode)?;
        self.go(dir, end, target)?;
        Ok(None)
    }

    /// As `follow`, a link that `text` makes the text of, without a dentry.
    fn follow_text(&mut self, dir: Path, end: usize, text: LinkText) -> Result {
        /// What such a text is not longer than, as a rule.
        const SHORT: usize = 32;
        self.begin_link(&dir)?;
        let mut target = sync::try_vec(self.text().len().saturating_add(SHORT))?;
        text(&mut target)?;
        self.go(dir, end, target)
    }

    /// Walks on in `target`, a link's text, and in what follows `end` in the text so far.
    fn go(&mut self, dir: Path, end: usize, mut target: Vec<u8>) -> Result {
        if target.is_empty() {
            return Err(ENOENT);
        }
        target.try_extend_from_slice(self.text().get(end..).unwrap_or(&[]))?;
        if target.len() >= PATH_MAX {
            return Err(ENAMETOOLONG);
        }
        self.here = Some(if target.first() == Some(&b'/') { self.root_from(&dir)? } else { dir });
        self.text = Some(target);
        self.at = 0;
        Ok(())
    }

    /// Walks as far as it goes without sleeping, from where the walk stands: that stays there.
    fn fast<'g>(&'g self, want: Want, read: &'g RcuRead) -> Result<Step> {
        let text = self.text();
        let paths = self.context.paths(read).ok_or(ENOENT)?;
        let root = self.scope.as_ref().unwrap_or(&paths.root);
        let begin = match (&self.here, self.start) {
            (Some(path), _) => path,
            (None, _) if text.first() == Some(&b'/') => root,
            (None, Start::Cwd) => &paths.cwd,
            (None, Start::At(path)) => path,
        };
        let mut here = (Seen::Held(&begin.mount), Seen::Held(&begin.dentry));
        let mut at = self.at;
        while let Some(part) = component(text, at) {
            let dentry = here.1;
            if !dentry.inode.is_dir() {
                return Err(ENOTDIR);
            }
            access::check(&dentry.inode, self.cred, EXEC)?;
            let name = text.get(part.start..part.end).unwrap_or(&[]);
            let last = part.next == text.len();
            if last && want == Want::Parent {
                self.part.set(part);
                return Ok(Step::Parent(keep(here)));
            }
            if name.len() > NAME_MAX {
                let given = dentry.inode.ops.names_are_given();
                return Err(if given { ENOENT } else { ENAMETOOLONG });
            }
            here = match name {
                b"." => here,
                b".." => {
                    let above = up(here, root, read);
                    if !self.limits.is_empty() {
                        self.check_step(here, above, name, root)?;
                    }
                    above
                }
                _ => match lookup(dentry, name, dentry::hash(name), read) {
                    Some(child) => {
                        let found = match if child.is_plain() { Said::There } else { attend(&here.0, &child) }
                        {
                            Said::There => cross(here.0, child, read),
                            Said::Absent => return Err(ENOENT),
                            Said::Unknown => {
                                self.part.set(part);
                                return Ok(Step::Ask { dir: keep(here) });
                            }
                        };
                        if !self.limits.is_empty() {
                            self.check_step(here, found, name, root)?;
                        }
                        let follow = !last || part.end < text.len() || want.follows();
                        if found.1.inode.kind == Kind::Symlink && follow {
                            self.part.set(part);
                            return Ok(Step::Link { dir: keep(here), link: found.1.keep() });
                        }
                        found
                    }
                    None if here.0.superblock.cache == Cache::Complete => return Err(ENOENT),
                    None => match missed(&dentry) {
                        Said::Absent => return Err(ENOENT),
                        _ => {
                            self.part.set(part);
                            return Ok(Step::Ask { dir: keep(here) });
                        }
                    },
                },
            };
            at = part.next;
        }
        Ok(Step::Done(keep(here)))
    }
}

/// What the last name of a path leads to.
pub enum Child {
    Missing,
    Found(Path),
    /// It was a link; the walk stands at its text.
    Followed,
}

/// A mount and a dentry in it, met under RCU.
pub(super) type Here<'g> = (Seen<'g, Mount>, Seen<'g, Dentry>);

#[inline(always)]
pub(super) fn keep((mount, dentry): Here<'_>) -> Path {
    Path { mount: mount.keep(), dentry: dentry.keep() }
}

/// What the cache says of a name.
#[derive(Clone, Copy, PartialEq)]
enum Said {
    There,
    Absent,
    /// The file system has to be asked.
    Unknown,
}

fn lookup<'g>(dir: Seen<'g, Dentry>, name: &[u8], hash: u64, read: &'g RcuRead) -> Option<Seen<'g, Dentry>> {
    let entry = dir.as_ref().directory.as_ref()?.find(name, hash, read)?;
    Some(Seen::Owned(&entry.dentry))
}

/// Of a name that is in the table but not plain: it is cached, or something is mounted there.
#[inline(always)]
fn attend(mount: &Mount, child: &Dentry) -> Said {
    if child.is_cached() { attend_cached(mount, child) } else { Said::There }
}

#[cold]
fn attend_cached(mount: &Mount, child: &Dentry) -> Said {
    let asks = mount.superblock.cache == Cache::Revalidated && !child.is_mount_point();
    if asks && (!child.is_fresh(clock::since_boot()) || caller::walks_anew()) {
        return Said::Unknown;
    }
    child.note_use();
    if child.is_absent() { Said::Absent } else { Said::There }
}

/// Of a name that is not in the table, where that is not the directory.
#[cold]
fn missed(dir: &Dentry) -> Said {
    let claims = dir.directory.as_ref().and_then(|d| d.claims.as_ref());
    if claims.is_some_and(|c| c.is_whole()) { Said::Absent } else { Said::Unknown }
}

/// Asks the file system for a name that the cache does not hold. May sleep.
fn ask(dir: &Path, name: &[u8]) -> Result<Path> {
    let dentry = cache::ask(dir, name)?;
    if !dentry.is_mount_point() {
        return Ok(Path { mount: dir.mount.clone(), dentry });
    }
    let read = sync::rcu::read();
    Ok(keep(cross(Seen::Held(&dir.mount), Seen::Held(&dentry), &read)))
}

/// Looks for what has the name of `path` now.
pub fn again(path: &Path) -> Result<Path> {
    let (parent, name) = {
        let read = sync::rcu::read();
        let link = path.dentry.link(&read).ok_or(ENOENT)?;
        (link.parent.clone().ok_or(ENOENT)?, link.name.clone())
    };
    let dir = Path { mount: path.mount.clone(), dentry: parent };
    Ok(Path { dentry: cache::ask(&dir, &name.bytes)?, mount: dir.mount })
}

/// From a mount point to the root of what is mounted there.
fn cross<'g>(
    mut mount: Seen<'g, Mount>,
    mut dentry: Seen<'g, Dentry>,
    read: &'g RcuRead,
) -> (Seen<'g, Mount>, Seen<'g, Dentry>) {
    while dentry.is_mount_point() {
        let Some(inner) = mount::find(&mount, &dentry, read) else { break };
        mount = inner;
        dentry = Seen::Held(&inner.as_ref().root);
    }
    (mount, dentry)
}

/// `..`: not above the caller's root, and out of a mount where it begins.
pub(super) fn up<'g>(
    (mut mount, mut dentry): (Seen<'g, Mount>, Seen<'g, Dentry>),
    root: &Path,
    read: &'g RcuRead,
) -> (Seen<'g, Mount>, Seen<'g, Dentry>) {
    loop {
        if ptr::eq(dentry.as_ref(), &*root.dentry) && ptr::eq(mount.as_ref(), &*root.mount) {
            return (mount, dentry);
        }
        if ptr::eq(dentry.as_ref(), &*mount.root) {
            match mount.as_ref().point(read) {
                Some(point) => {
                    mount = Seen::Held(&point.mount);
                    dentry = Seen::Held(&point.dentry);
                    continue;
                }
                None => return (mount, dentry),
            }
        }
        let parent = dentry.as_ref().link(read).and_then(|l| l.parent.as_ref());
        if let Some(parent) = parent {
            dentry = Seen::Held(parent);
        }
        return cross(mount, dentry, read);
    }
}

/// Must be a directory that may be searched: chdir, chroot.
pub fn check_directory(path: &Path, cred: &Cred) -> Result<()> {
    if !path.dentry.inode.is_dir() {
        return Err(ENOTDIR);
    }
    access::check(&path.dentry.inode, cred, EXEC).map_err(|_| EACCES)
}
