//! rename(2) and renameat2(2).
//!
//! Within one directory its lock is enough. Between two, what is no directory moves under both their locks, where the second is free: it lies
//! above nothing, so the shape of the tree stays as it is, and who does not wait needs no order. Else the super block's rename lock keeps that shape
//! still while it is asked who lies above whom, and orders the two directory locks: the upper one first, else by address.
//!
//! The two names are claimed before, where names are cached (`site`). What may fail for want of memory is done before the file system is asked.
//!
//! Lock order: claims → super block's rename → directories → a directory that is replaced.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::ptr;

use sync::level::{Clean, Held};
use sync::percpu_ref::PerCpuOwner as Owner;
use sync::try_arc;

use super::create::{Making, attributes};
use super::dentry::{Dentry, DentryRef, Link};
use super::directory::{Directory, Names};
use super::lookup::{Last, Parent};
use super::site::Site;
use crate::errno::*;
use crate::fs::vfs::access::{self, Cred, EXEC, WRITE};
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::mount::{self, Namespace};
use crate::fs::vfs::notify::{self, Moved};
use crate::fs::vfs::operations::Moving;
use crate::fs::vfs::superblock::Shape;
use crate::lock_order as level;
use crate::sched::give_way;

pub const NO_REPLACE: u32 = 1;
pub const EXCHANGE: u32 = 2;
/// The old name stays, as that of a device of number 0.
pub const WHITEOUT: u32 = 4;

/// EINVAL: flags that are not known, or not together.
pub fn check_flags(flags: u32) -> Result {
    let known = flags & !(NO_REPLACE | EXCHANGE | WHITEOUT) == 0;
    if !known || flags & EXCHANGE != 0 && flags != EXCHANGE { Err(EINVAL) } else { Ok(()) }
}

/// Moves the name `from` to the name `to`. `flags` are checked. What other namespaces have mounted on the name that is replaced is taken off first. May sleep.
pub fn rename(cred: &Cred, from: &Parent, to: &Parent, flags: u32, within: &Namespace) -> Result {
    while let Ran::Covered(replaced, otherwise) = try_rename(cred, from, to, flags, within)? {
        otherwise?;
        mount::uncover(&replaced, within)?;
        if give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

/// Not `Ran::NeedsShape`.
fn try_rename(cred: &Cred, from: &Parent, to: &Parent, flags: u32, within: &Namespace) -> Result<Ran> {
    if from.dir.mount.id != to.dir.mount.id {
        return Err(EXDEV);
    }
    let no_name = |last: &Last| !matches!(last, Last::Name(_) | Last::TooLong);
    if no_name(&from.last) {
        return Err(EBUSY);
    }
    if no_name(&to.last) {
        return Err(if flags & NO_REPLACE != 0 { EEXIST } else { EBUSY });
    }
    let old_name = from.name(EBUSY)?;
    let Last::Name(new_name) = &to.last else {
        // The old name is looked up first.
        let old = Site::new(&from.dir, old_name)?;
        let there = old.exists(&old.here.names.lock());
        return if there { to.name(EBUSY).map(|_| Ran::Done) } else { Err(ENOENT) };
    };
    let (from_site, to_site) = Site::pair((&from.dir, old_name), (&to.dir, new_name))?;
    let rename = Rename { from, to, old: &from_site, new: &to_site, cred, flags, within };
    let (old_dir, new_dir) = (from_site.here, to_site.here);
    let mut clean = Held::clean();
    if ptr::eq(old_dir, new_dir) {
        let mut names = old_dir.names.lock_in(&mut clean);
        let (names, order) = names.split();
        return rename.run(&mut Locked::One(names), order);
    }
    match rename.run_in_two(&mut clean)? {
        Ran::NeedsShape => {}
        ran => return Ok(ran),
    }
    let mut still = from.dir.mount.superblock.rename.lock_in(&mut clean);
    let (shape, order) = still.split();
    let new_above = shape.contains(&to.dir.dentry, &from.dir.dentry);
    let old_above = shape.contains(&from.dir.dentry, &to.dir.dentry);
    if old_above || (!new_above && ptr::from_ref(old_dir).addr() < ptr::from_ref(new_dir).addr()) {
        let mut first = old_dir.names.lock_in(order);
        let (old, order) = first.split();
        let mut second = new_dir.names.lock_nested_in(order);
        let (new, order) = second.split();
        rename.run(&mut Locked::Two { old, new, shape: Some(shape) }, order)
    } else {
        let mut first = new_dir.names.lock_in(order);
        let (new, order) = first.split();
        let mut second = old_dir.names.lock_nested_in(order);
        let (old, order) = second.split();
        rename.run(&mut Locked::Two { old, new, shape: Some(shape) }, order)
    }
}

/// The names of the directories concerned, locked.
enum Locked<'a> {
    One(&'a mut Names),
    /// Without the shape no directory moves.
    Two {
        old: &'a mut Names,
        new: &'a mut Names,
        shape: Option<&'a Shape>,
    },
}

/// What became of a rename.
enum Ran {
    Done,
    /// Nothing: it asks which directory lies in which.
    NeedsShape,
    /// Nothing: other namespaces have something mounted on the name that is to be replaced. May it be replaced but for that?
    Covered(DentryRef, Result),
}

impl Locked<'_> {
    fn source(&mut self) -> &mut Names {
        match self {
            Locked::One(names) | Locked::Two { old: names, .. } => names,
        }
    }

    fn target(&mut self) -> &mut Names {
        match self {
            Locked::One(names) | Locked::Two { new: names, .. } => names,
        }
    }
}

/// A directory of the rename is locked: what may be locked next.
type Order<'a> = Held<'a, level::Directory>;

struct Rename<'a> {
    from: &'a Parent,
    to: &'a Parent,
    old: &'a Site<'a>,
    new: &'a Site<'a>,
    cred: &'a Cred,
    flags: u32,
    within: &'a Namespace,
}

type Found = Arc<Owner<Dentry>>;

impl Rename<'_> {
    fn exchanges(&self) -> bool {
        self.flags & EXCHANGE != 0
    }

    /// Between two directories without their super block's lock, if the second is free and no directory moves.
    fn run_in_two(&self, clean: &mut Held<'_, Clean>) -> Result<Ran> {
        let mut first = self.old.here.names.lock_in(clean);
        let Some(mut second) = self.new.here.names.try_lock() else { return Ok(Ran::NeedsShape) };
        let (old, order) = first.split();
        self.run(&mut Locked::Two { old, new: &mut second, shape: None }, order)
    }

    fn run(&self, locked: &mut Locked<'_>, order: &mut Order<'_>) -> Result<Ran> {
        let old = self.old.there(locked.source()).ok_or(ENOENT)?;
        let target = self.new.there(locked.target());
        if let Locked::Two { shape: None, .. } = locked
            && (old.inode.is_dir() || target.as_ref().is_some_and(|target| target.inode.is_dir()))
        {
            return Ok(Ran::NeedsShape);
        }
        if target.is_none() {
            self.new.check_makes()?;
        }
        if locked.source().dead || locked.target().dead {
            return Err(ENOENT);
        }
        self.check_kinds(&old, target.as_ref())?;
        if let Locked::Two { shape: Some(shape), .. } = locked {
            self.check_shape(shape, &old, target.as_ref())?;
        }
        if !self.check(&old, target.as_ref())? {
            return Ok(Ran::Done);
        }
        let replaced = target.as_ref().filter(|_| !self.exchanges());
        match replaced {
            None => self.change(locked, &old, target.as_ref())?,
            Some(replaced) => {
                if replaced.begin_removal().is_err() {
                    let may_be_empty =
                        |inner: &Directory| self.new.may_be_empty(&inner.names.lock_nested_in(order));
                    let is_empty = replaced.directory.as_deref().is_none_or(may_be_empty);
                    return Ok(Ran::Covered(
                        replaced.share(),
                        if is_empty { Ok(()) } else { Err(ENOTEMPTY) },
                    ));
                }
                let changed = self.replace(locked, order, &old, replaced);
                match changed {
                    Ok(()) => self.new.bury(replaced, order),
                    Err(_) => replaced.end_removal(false),
                }
                changed?;
            }
        }
        if notify::is_used() {
            self.tell(&old, target.as_ref(), replaced);
        }
        Ok(Ran::Done)
    }

    /// Tells the watches of the directories and files.
    #[cold]
    fn tell(&self, old: &Found, target: Option<&Found>, replaced: Option<&Found>) {
        let (from, to) = ((self.old.parent(), self.old.name), (self.new.parent(), self.new.name));
        notify::on_move(&Moved { from, to }, &old.inode, replaced.map(|replaced| &**replaced));
        if let Some(other) = target.filter(|_| self.exchanges()) {
            notify::on_move(&Moved { from: to, to: from }, &other.inode, None);
        }
    }

    /// A directory that is to be replaced must be empty, and nothing may be entered in it any more.
    fn replace(
        &self,
        locked: &mut Locked<'_>,
        order: &mut Order<'_>,
        old: &Found,
        replaced: &Found,
    ) -> Result {
        let Some(inner) = replaced.directory.as_deref() else {
            return self.change(locked, old, Some(replaced));
        };
        let mut inside = inner.names.lock_nested_in(order);
        if !self.new.may_be_empty(&inside) {
            return Err(ENOTEMPTY);
        }
        self.change(locked, old, Some(replaced))?;
        inside.dead = true;
        Ok(())
    }

    /// Finds the memory, has the file system do it, and changes the names.
    fn change(&self, locked: &mut Locked<'_>, old: &Found, target: Option<&Found>) -> Result {
        let swapped = target.filter(|_| self.exchanges());
        let link = Link::try_new(Some(self.to.dir.dentry.clone()), self.new.name.clone())?;
        let place = match target {
            Some(_) => self.new.prepare(locked.target(), old)?,
            None => self.new.prepare_new(locked.target(), old)?,
        };
        let back = match swapped {
            None if self.flags & WHITEOUT != 0 => {
                let mark = self.make_whiteout()?;
                let place = self.old.prepare(locked.source(), &mark)?;
                Some((mark, None, place))
            }
            Some(other) => {
                let link = Link::try_new(Some(self.from.dir.dentry.clone()), self.old.name.clone())?;
                Some((other.clone(), Some(link), self.old.prepare(locked.source(), other)?))
            }
            None => None,
        };
        let moving = Moving {
            old_dir: self.old.parent(),
            old_name: &self.old.name.bytes,
            old: &old.inode,
            new_dir: self.new.parent(),
            new_name: &self.new.name.bytes,
            target: target.map(|t| &*t.inode),
            exchange: self.exchanges(),
            no_replace: self.flags & NO_REPLACE != 0,
        };
        if let Err(error) = self.old.parent().ops.rename(&moving) {
            self.old.doubt(locked.source(), error);
            return Err(self.new.doubt(locked.target(), error));
        }
        self.new.enter(locked.target(), place, old);
        old.set_link(link);
        match back {
            Some((other, link, place)) => {
                self.old.enter(locked.source(), place, &other);
                if let Some(link) = link {
                    other.set_link(link);
                }
            }
            None => self.old.leave(locked.source()),
        }
        Ok(())
    }

    /// What gets the old name, in its place.
    fn make_whiteout(&self) -> Result<Found> {
        let making = Making { kind: Kind::Character, mode: 0, rdev: 0, target: &[] };
        let (dir, parent) = (&self.from.dir.dentry, self.old.parent());
        if !parent.ops.leaves_marks() {
            return Err(EINVAL);
        }
        let (new, lists) = attributes(dir, self.cred, &making, 0)?;
        let inode = parent.ops.mknod(parent, &self.old.name.bytes, &new)?;
        if let Some(lists) = lists {
            inode.acls.put(lists);
        }
        Ok(try_arc(Dentry::try_new(inode, Some(dir.clone()), self.old.name.clone())?)?)
    }

    /// Between two directories: not into itself, and nothing that lies above the old name can be replaced.
    fn check_shape(&self, shape: &Shape, old: &Found, target: Option<&Found>) -> Result {
        if shape.contains(old, &self.to.dir.dentry) {
            return Err(EINVAL);
        }
        if target.is_some_and(|target| shape.contains(target, &self.from.dir.dentry)) {
            return Err(if self.exchanges() { EINVAL } else { ENOTEMPTY });
        }
        Ok(())
    }

    /// Is there what the flags ask for, and is what is named with a slash a directory? All this is told first.
    fn check_kinds(&self, old: &Found, target: Option<&Found>) -> Result {
        if target.is_some() && self.flags & NO_REPLACE != 0 {
            return Err(EEXIST);
        }
        if self.exchanges() {
            let other = target.ok_or(ENOENT)?;
            if self.to.slash && !other.inode.is_dir() {
                return Err(ENOTDIR);
            }
        }
        let slash = self.from.slash || self.to.slash && !self.exchanges();
        if slash && !old.inode.is_dir() { Err(ENOTDIR) } else { Ok(()) }
    }

    /// Permissions. `false`: both names are the same file, and nothing is to be done.
    fn check(&self, old: &Found, target: Option<&Found>) -> Result<bool> {
        let source = &old.inode;
        if let Some(target) = target
            && ptr::eq(&*target.inode, &**source)
        {
            return Ok(false);
        }
        let (from, to) = (&self.from.dir, &self.to.dir);
        access::check_remove(&from.mount, &from.dentry.inode, source, self.cred)?;
        match target {
            Some(target) => {
                let inode = &target.inode;
                access::check_remove(&to.mount, &to.dentry.inode, inode, self.cred)?;
                if self.flags & EXCHANGE == 0 {
                    if source.is_dir() && !inode.is_dir() {
                        return Err(ENOTDIR);
                    }
                    if !source.is_dir() && inode.is_dir() {
                        return Err(EISDIR);
                    }
                }
                if target.is_mount_point() && mount::covers(target, self.within) {
                    return Err(EBUSY);
                }
            }
            None => access::check_on(&to.mount, &to.dentry.inode, self.cred, WRITE | EXEC)?,
        }
        if old.is_mount_point() && mount::covers(old, self.within) {
            return Err(EBUSY);
        }
        // A directory that gets another parent has its `..` changed.
        if source.is_dir() && !ptr::eq(&*from.dentry, &*to.dentry) {
            access::check(source, self.cred, WRITE)?;
        }
        Ok(true)
    }
}
