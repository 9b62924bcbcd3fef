//! The lists of an inode: who may do what with it, and for a directory what is made in it begins with.
//!
//! They are read under RCU, so a search through directories with lists writes no shared line. Who changes one makes a new pair; what is made in a
//! directory gets a copy, so that directories which have a list from a common one share nothing. They count for the user who set them, as other
//! attributes do (`account`).
//!
//! Lists change under the inode's `write_lock`, with the mode. No locks of their own.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;

use sync::level::Held;
use sync::quota::UNLIMITED;
use sync::rcu::{RcuArc, RcuHead};
use sync::try_arc;

use super::Acl;
use crate::account::{Charge, Kind as Counted};
use crate::errno::{EACCES, ENODATA, ENOMEM, EOPNOTSUPP, EPERM, Result};
use crate::fs::caller;
use crate::fs::vfs::access::Cred;
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::inode::{Inode, Kind, SET_GROUP_ID};

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Who may do what.
    Access,
    /// What is made in the directory begins with it.
    Default,
}

impl Which {
    const BOTH: [(Which, &'static [u8]); 2] =
        [(Which::Access, b"system.posix_acl_access"), (Which::Default, b"system.posix_acl_default")];

    /// By the name of its attribute.
    pub fn named(name: &[u8]) -> Option<Which> {
        Self::BOTH.iter().find(|(_, own)| *own == name).map(|(which, _)| *which)
    }
}

/// An inode's lists, of which there is at least one.
struct Lists {
    access: Option<Arc<Acl>>,
    default: Option<Arc<Acl>>,
    _charge: Charge,
    rcu: RcuHead,
}

sync::rcu_object!(Lists);

impl Lists {
    fn of(&self, which: Which) -> Option<&Arc<Acl>> {
        match which {
            Which::Access => self.access.as_ref(),
            Which::Default => self.default.as_ref(),
        }
    }

    fn try_new(access: Option<Arc<Acl>>, default: Option<Arc<Acl>>) -> Result<Option<Arc<Lists>>> {
        const KIB: usize = 1024;
        if access.is_none() && default.is_none() {
            return Ok(None);
        }
        let bytes = [&access, &default]
            .into_iter()
            .flatten()
            .fold(0, |sum: usize, acl| sum.saturating_add(acl.size()));
        let uid = caller::current().ids().fsuid;
        let charge = Charge::try_new(uid, Counted::Attributes, bytes.div_ceil(KIB) as u64, UNLIMITED);
        let lists = Lists { access, default, _charge: charge.map_err(|_| ENOMEM)?, rcu: RcuHead::new() };
        Ok(Some(try_arc(lists)?))
    }
}

/// The place for them in an inode: a word.
pub struct Place(RcuArc<Lists>);

/// Lists that are ready for an inode.
pub struct Ready(Option<Arc<Lists>>);

impl Place {
    pub const fn new() -> Place {
        Place(RcuArc::empty())
    }

    #[inline(always)]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn put(&self, lists: Ready) {
        self.0.swap(lists.0);
    }

    fn has(&self, which: Which) -> bool {
        self.0.load(&sync::rcu::read()).is_some_and(|lists| lists.of(which).is_some())
    }

    #[cold]
    fn get(&self, which: Which) -> Option<Arc<Acl>> {
        self.0.load(&sync::rcu::read())?.of(which).cloned()
    }

    /// What is to be there when the list `which` is `acl`. The inode's `write_lock` is held.
    fn with(&self, which: Which, acl: Option<Arc<Acl>>) -> Result<Ready> {
        let lists = match which {
            Which::Access => Lists::try_new(acl, self.get(Which::Default)),
            Which::Default => Lists::try_new(self.get(Which::Access), acl),
        };
        lists.map(Ready)
    }
}

/// What the inode's list says of `cred`, if it has one.
pub fn permits(inode: &Inode, cred: &Cred, want: u32) -> Option<bool> {
    let read = sync::rcu::read();
    let lists = inode.acls.0.load(&read)?;
    Some(lists.access.as_ref()?.permits(inode, cred, want))
}

/// Sets a list, or takes it away. May sleep.
///
/// # Errors
/// EOPNOTSUPP: the file system keeps none of this inode's. EACCES: a default list, and no directory. EPERM: the caller is not the owner. EINVAL. ENOMEM.
pub fn set(inode: &Inode, which: Which, acl: Option<Acl>) -> Result {
    if !inode.ops.keeps_acls() {
        return Err(EOPNOTSUPP);
    }
    let order = &mut Held::clean();
    let _write = inode.lock_write(order);
    if which == Which::Default && !inode.is_dir() {
        return if acl.is_some() { Err(EACCES) } else { Ok(()) };
    }
    let cred = Cred::current();
    if !cred.owns(inode) {
        return Err(EPERM);
    }
    acl.as_ref().map_or(Ok(()), Acl::check)?;
    inode.begin_change()?;
    if which == Which::Access { set_access(inode, &cred, acl) } else { put(inode, which, acl, None) }
}

/// The list and the mode that it comes to.
fn set_access(inode: &Inode, cred: &Cred, acl: Option<Acl>) -> Result {
    let said = acl.as_ref().map(Acl::mode);
    let bits = said.map_or(inode.mode() & 0o777, |(bits, _)| bits);
    let lost = if cred.keeps_group_id(inode.gid()) { 0 } else { SET_GROUP_ID };
    let acl = acl.filter(|_| said.is_some_and(|(_, says_more)| says_more));
    put(inode, Which::Access, acl, Some(inode.mode() & !0o777 & !lost | bits))
}

/// The mode's group bits are the list's mask. So that the group never has them without the list, this comes before them, and goes after them.
fn put(inode: &Inode, which: Which, acl: Option<Acl>, mode: Option<u32>) -> Result {
    let changes = Changes { mode, ..Changes::default() };
    let comes = acl.is_some();
    let ready = inode.acls.with(which, acl.map(try_arc).transpose()?)?;
    if comes {
        inode.acls.put(ready);
        inode.apply(&changes);
    } else {
        inode.apply(&changes);
        inode.acls.put(ready);
    }
    Ok(())
}

/// Appends the value of a list. May sleep.
///
/// # Errors
/// EOPNOTSUPP: the file system keeps none of this inode's. ENODATA: it has none. ENOMEM.
pub fn get(inode: &Inode, which: Which, out: &mut Vec<u8>) -> Result {
    if !inode.ops.keeps_acls() {
        return Err(EOPNOTSUPP);
    }
    inode.acls.get(which).ok_or(ENODATA)?.append_to(out)
}

/// The names of the attributes of those that there are.
pub fn names(inode: &Inode) -> impl Iterator<Item = &'static [u8]> {
    Which::BOTH.into_iter().filter(|(which, _)| inode.acls.has(*which)).map(|(_, name)| name)
}

/// The lists of an inode that gets the mode `mode`, if it has one that the mode changes. The `write_lock` is held.
///
/// # Errors
/// ENOMEM.
pub fn following(inode: &Inode, mode: u32) -> Result<Option<Ready>> {
    let Some(acl) = inode.acls.get(Which::Access) else { return Ok(None) };
    let mut acl = acl.try_clone()?;
    acl.follow_mode(mode)?;
    inode.acls.with(Which::Access, Some(try_arc(acl)?)).map(Some)
}

/// The lists of what is made in `dir`, and its mode, of which `umask` takes nothing away where they come from the directory.
///
/// # Errors
/// ENOMEM.
#[inline(always)]
pub fn inherited(dir: &Inode, kind: Kind, mode: &mut u32, umask: u32) -> Result<Option<Ready>> {
    if kind == Kind::Symlink {
        return Ok(None);
    }
    if !dir.acls.is_empty()
        && let Some(default) = dir.acls.get(Which::Default)
    {
        return from_default(&default, kind, mode).map(Some);
    }
    *mode &= !umask;
    Ok(None)
}

#[cold]
fn from_default(default: &Acl, kind: Kind, mode: &mut u32) -> Result<Ready> {
    let mut access = default.try_clone()?;
    access.limit_by(mode)?;
    let says_more = access.mode().1;
    let access = if says_more { Some(try_arc(access)?) } else { None };
    let default = if kind == Kind::Directory { Some(try_arc(default.try_clone()?)?) } else { None };
    Ok(Ready(Lists::try_new(access, default)?))
}
