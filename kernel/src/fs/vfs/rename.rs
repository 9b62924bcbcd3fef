//! rename(2) and renameat2(2).
//!
//! Within one directory its lock is enough. Between two, the super block's rename lock keeps the shape of the tree still
//! while it is asked who lies above whom, and orders the two directory locks: the upper one first, else by address.
//!
//! Lock order: super block's rename → directories → a directory that is replaced.
#![forbid(unsafe_code)]

use core::ptr;

use super::access::{self, Cred, EXEC, WRITE};
use super::context::FsContext;
use super::dentry::{Dentry, DentryRef, Link, Name};
use super::directory::{Directory, Entry, Names};
use super::lookup::{Last, Parent, Start, resolve_parent};
use crate::errno::*;

pub const NO_REPLACE: u32 = 1;
pub const EXCHANGE: u32 = 2;

fn directory(dentry: &Dentry) -> Result<&Directory> {
    dentry.directory.as_deref().ok_or(ENOTDIR)
}

/// Is `upper` at or above `lower`? The rename lock is held, so parents do not change.
fn contains(upper: &Dentry, lower: &DentryRef) -> bool {
    let mut here = lower.clone();
    loop {
        if ptr::eq(upper, &*here) {
            return true;
        }
        match here.parent() {
            Some(parent) => here = parent,
            None => return false,
        }
    }
}

pub fn rename_at(
    context: &FsContext,
    cred: &Cred,
    from: (Start<'_>, &[u8]),
    to: (Start<'_>, &[u8]),
    flags: u32,
) -> Result {
    if flags & !(NO_REPLACE | EXCHANGE) != 0 || flags == NO_REPLACE | EXCHANGE {
        return Err(EINVAL);
    }
    let from = resolve_parent(context, cred, from.0, from.1)?;
    let to = resolve_parent(context, cred, to.0, to.1)?;
    if from.dir.mount.id != to.dir.mount.id {
        return Err(EXDEV);
    }
    let Last::Name(old_name) = &from.last else { return Err(EBUSY) };
    let Last::Name(new_name) = &to.last else {
        return Err(if flags & NO_REPLACE != 0 { EEXIST } else { EBUSY });
    };
    if !from.dir.mount.superblock.kind.names_complete {
        return from.dir.dentry.inode.ops.allow_remove();
    }
    let old_dir = directory(&from.dir.dentry)?;
    let new_dir = directory(&to.dir.dentry)?;
    if ptr::eq(old_dir, new_dir) {
        let mut names = old_dir.names.lock();
        return Rename { from: &from, to: &to, old_name, new_name, cred, flags }.within(old_dir, &mut names);
    }
    let _still = from.dir.mount.superblock.rename.lock();
    let rename = Rename { from: &from, to: &to, old_name, new_name, cred, flags };
    let new_above = contains(&to.dir.dentry, &from.dir.dentry);
    let old_above = contains(&from.dir.dentry, &to.dir.dentry);
    if old_above || (!new_above && ptr::from_ref(old_dir).addr() < ptr::from_ref(new_dir).addr()) {
        let mut old = old_dir.names.lock();
        let mut new = new_dir.names.lock_nested();
        rename.between((old_dir, &mut old), (new_dir, &mut new))
    } else {
        let mut new = new_dir.names.lock();
        let mut old = old_dir.names.lock_nested();
        rename.between((old_dir, &mut old), (new_dir, &mut new))
    }
}

struct Rename<'a> {
    from: &'a Parent,
    to: &'a Parent,
    old_name: &'a alloc::sync::Arc<Name>,
    new_name: &'a alloc::sync::Arc<Name>,
    cred: &'a Cred,
    flags: u32,
}

impl Rename<'_> {
    fn within(&self, dir: &Directory, names: &mut Names) -> Result {
        let old = dir.get(names, &self.old_name.bytes).ok_or(ENOENT)?;
        let target = dir.get(names, &self.new_name.bytes);
        if names.dead {
            return Err(ENOENT);
        }
        if !self.check(&old, target.as_ref())? {
            return Ok(());
        }
        self.empty(target.as_ref())?;
        match &target {
            Some(other) if self.flags & EXCHANGE != 0 => {
                dir.replace(names, self.new_name, old.dentry.clone())?;
                dir.replace(names, self.old_name, other.dentry.clone())?;
                self.relink(other, self.from, self.old_name)?;
            }
            Some(_) => {
                dir.replace(names, self.new_name, old.dentry.clone())?;
                dir.remove(names, self.old_name);
            }
            None => {
                dir.insert(names, self.new_name.clone(), old.dentry.clone())?;
                dir.remove(names, self.old_name);
            }
        }
        self.finish(&old, target.as_ref())
    }

    fn between(&self, from: (&Directory, &mut Names), to: (&Directory, &mut Names)) -> Result {
        let (old_dir, old_names) = from;
        let (new_dir, new_names) = to;
        let old = old_dir.get(old_names, &self.old_name.bytes).ok_or(ENOENT)?;
        let target = new_dir.get(new_names, &self.new_name.bytes);
        if old_names.dead || new_names.dead {
            return Err(ENOENT);
        }
        // Not into itself, and nothing that lies above the old name can be replaced.
        if contains(&old.dentry, &self.to.dir.dentry) {
            return Err(EINVAL);
        }
        if let Some(target) = &target
            && contains(&target.dentry, &self.from.dir.dentry)
        {
            return Err(if self.flags & EXCHANGE != 0 { EINVAL } else { ENOTEMPTY });
        }
        if !self.check(&old, target.as_ref())? {
            return Ok(());
        }
        self.empty(target.as_ref())?;
        match &target {
            Some(other) if self.flags & EXCHANGE != 0 => {
                new_dir.replace(new_names, self.new_name, old.dentry.clone())?;
                old_dir.replace(old_names, self.old_name, other.dentry.clone())?;
                self.relink(other, self.from, self.old_name)?;
            }
            Some(_) => {
                new_dir.replace(new_names, self.new_name, old.dentry.clone())?;
                old_dir.remove(old_names, self.old_name);
            }
            None => {
                new_dir.insert(new_names, self.new_name.clone(), old.dentry.clone())?;
                old_dir.remove(old_names, self.old_name);
            }
        }
        let (from_dir, to_dir) = (&self.from.dir.dentry.inode, &self.to.dir.dentry.inode);
        let exchanged = self.flags & EXCHANGE != 0;
        if old.dentry.inode.is_dir() {
            from_dir.drop_link();
            to_dir.add_link();
        }
        if let Some(other) = target.as_ref().filter(|t| exchanged && t.dentry.inode.is_dir()) {
            let _ = other;
            to_dir.drop_link();
            from_dir.add_link();
        }
        self.finish(&old, target.as_ref())
    }

    /// Permissions and kinds. `false`: both names are the same file, and nothing is to be done.
    fn check(&self, old: &Entry, target: Option<&Entry>) -> Result<bool> {
        let source = &old.dentry.inode;
        if self.from.slash && !source.is_dir() {
            return Err(ENOTDIR);
        }
        if self.to.slash && !source.is_dir() && self.flags & EXCHANGE == 0 {
            return Err(ENOTDIR);
        }
        if target.is_some() && self.flags & NO_REPLACE != 0 {
            return Err(EEXIST);
        }
        if target.is_none() && self.flags & EXCHANGE != 0 {
            return Err(ENOENT);
        }
        if let Some(target) = target
            && core::ptr::eq(&*target.dentry.inode, &**source)
        {
            return Ok(false);
        }
        let (from, to) = (&self.from.dir, &self.to.dir);
        access::check_remove(&from.mount, &from.dentry.inode, source, self.cred)?;
        match target {
            Some(target) => {
                let inode = &target.dentry.inode;
                access::check_remove(&to.mount, &to.dentry.inode, inode, self.cred)?;
                if self.flags & EXCHANGE == 0 {
                    if source.is_dir() && !inode.is_dir() {
                        return Err(ENOTDIR);
                    }
                    if !source.is_dir() && inode.is_dir() {
                        return Err(EISDIR);
                    }
                }
                if target.dentry.is_mount_point() {
                    return Err(EBUSY);
                }
            }
            None => access::check_on(&to.mount, &to.dentry.inode, self.cred, WRITE | EXEC)?,
        }
        if old.dentry.is_mount_point() {
            return Err(EBUSY);
        }
        // A directory that gets another parent has its `..` changed.
        if source.is_dir() && !core::ptr::eq(&*from.dentry, &*to.dentry) {
            access::check(source, self.cred, WRITE)?;
        }
        from.dentry.inode.ops.allow_remove()?;
        to.dentry.inode.ops.allow_link()?;
        Ok(true)
    }

    /// A directory that is to be replaced must be empty, and nothing may be entered in it any more.
    fn empty(&self, target: Option<&Entry>) -> Result<()> {
        let Some(target) = target.filter(|_| self.flags & EXCHANGE == 0) else { return Ok(()) };
        if let Some(inner) = &target.dentry.directory {
            let mut inside = inner.names.lock_nested();
            if !inside.is_empty() {
                return Err(ENOTEMPTY);
            }
            inside.dead = true;
        }
        Ok(())
    }

    fn relink(&self, entry: &Entry, parent: &Parent, name: &alloc::sync::Arc<Name>) -> Result {
        entry.dentry.set_link(Link::try_new(Some(parent.dir.dentry.clone()), name.clone())?);
        entry.dentry.inode.touch_changed();
        Ok(())
    }

    fn finish(&self, old: &Entry, target: Option<&Entry>) -> Result {
        self.relink(old, self.to, self.new_name)?;
        if let Some(target) = target.filter(|_| self.flags & EXCHANGE == 0) {
            target.dentry.set_removed(true);
            if target.dentry.inode.is_dir() {
                target.dentry.inode.set_links(0);
                self.to.dir.dentry.inode.drop_link();
            } else {
                target.dentry.inode.drop_link();
            }
        }
        self.from.dir.dentry.inode.touch_modified();
        self.to.dir.dentry.inode.touch_modified();
        Ok(())
    }
}
