//! Extended attributes (xattr(7)): who may see and change which.
//!
//! Here is what holds for all file systems: the rights that a name's first part asks for, and what the kernel itself makes of
//! `security.capability` and of access control lists (`acl`). Where the attributes are kept is the file system's (`InodeOps::set_xattr` and the like); those that keep them in memory have a
//! [`store::Xattrs`].
//!
//! Lock order: the inode's `write_lock`, under which attributes change → what the file system takes inside. Reading takes no lock here.
#![deny(unsafe_code)]

pub mod capabilities;
pub mod store;

use alloc::vec::Vec;

use self::capabilities::FileCapabilities;
use super::access::{self, Cred};
use super::acl::Acl;
use super::acl::kept::{self, Which};
use super::inode::{Inode, Kind, STICKY};
use super::operations::XattrMode;
use crate::errno::{EINVAL, ENODATA, EOPNOTSUPP, EPERM, Result};
use crate::fs::caller::Capability;
use sync::TryVec;
use sync::level::Held;

/// Longest value, and longest list of names, in bytes.
pub const SIZE_MAX: usize = 65536;

const SECURITY: &[u8] = b"security.";
const TRUSTED: &[u8] = b"trusted.";
const USER: &[u8] = b"user.";
const SYSTEM: &[u8] = b"system.";
pub const CAPABILITY: &[u8] = b"security.capability";

pub fn is_trusted(name: &[u8]) -> bool {
    name.starts_with(TRUSTED)
}

/// Is it a name that a file system in memory keeps? Access lists (`system.`) are kept elsewhere ([`kept`]).
///
/// # Errors
/// EOPNOTSUPP. EINVAL: it has a first part and no more.
pub fn kept_name(name: &[u8]) -> Result {
    let rest = [SECURITY, TRUSTED, USER].iter().find_map(|first| name.strip_prefix(*first));
    match rest {
        None => Err(EOPNOTSUPP),
        Some([]) => Err(EINVAL),
        Some(_) => Ok(()),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Read,
    Write,
}

/// May `cred` have the attribute `name`? As Linux's xattr_permission.
fn permit(inode: &Inode, cred: &Cred, name: &[u8], wants: Wants) -> Result {
    let refused = if wants == Wants::Write { Err(EPERM) } else { Err(ENODATA) };
    if name.starts_with(SECURITY) || name.starts_with(SYSTEM) {
        return Ok(());
    }
    if is_trusted(name) {
        return if cred.capable(Capability::SYS_ADMIN) { Ok(()) } else { refused };
    }
    if name.starts_with(USER) {
        match inode.kind {
            Kind::Regular => {}
            Kind::Directory => {
                if wants == Wants::Write && inode.mode() & STICKY != 0 && !cred.owns(inode) {
                    return Err(EPERM);
                }
            }
            _ => return refused,
        }
    }
    access::check(inode, cred, if wants == Wants::Write { access::WRITE } else { access::READ })
}

/// May `cred` change what the kernel's own decisions hang on?
fn permit_security(cred: &Cred, name: &[u8]) -> Result {
    let what = match name {
        CAPABILITY => Capability::SETFCAP,
        name if name.starts_with(SECURITY) => Capability::SYS_ADMIN,
        _ => return Ok(()),
    };
    if cred.capable(what) { Ok(()) } else { Err(EPERM) }
}

/// Sets an attribute. May sleep.
///
/// # Errors
/// EPERM, EACCES: the caller may not. EINVAL: no value that has a meaning, or half a name. EEXIST, ENODATA as `mode` says. EOPNOTSUPP, ENOSPC, ENOMEM.
pub fn set(inode: &Inode, name: &[u8], value: &[u8], mode: XattrMode) -> Result {
    if let Some(which) = Which::named(name) {
        // Whether there is one already does not matter, as on Linux.
        return kept::set(inode, which, Acl::parse(value)?);
    }
    let cred = Cred::current();
    let made;
    let value = if name == CAPABILITY && !value.is_empty() {
        // Told before a right that is lacking, as on Linux.
        made = FileCapabilities::parse(value)?.bytes();
        &*made
    } else {
        value
    };
    permit(inode, &cred, name, Wants::Write)?;
    permit_security(&cred, name)?;
    let order = &mut Held::clean();
    let _write = inode.lock_write(order);
    inode.ops.set_xattr(inode, name, value, mode)?;
    inode.touch_changed();
    if name == CAPABILITY {
        inode.note_capabilities(true);
    }
    Ok(())
}

/// Appends the attribute's value to `out`. May sleep.
///
/// # Errors
/// EACCES. ENODATA: there is none, or it is none of the caller's. EINVAL: capabilities without a meaning, or half a name. EOPNOTSUPP, ENOMEM.
pub fn get(inode: &Inode, name: &[u8], out: &mut Vec<u8>) -> Result {
    if let Some(which) = Which::named(name) {
        return kept::get(inode, which, out);
    }
    permit(inode, &Cred::current(), name, Wants::Read)?;
    inode.ops.get_xattr(inode, name, out)?;
    if name == CAPABILITY {
        FileCapabilities::parse(out)?;
    }
    Ok(())
}

/// Appends the names that the caller may see, a NUL after each, unless they are longer than a list may be ([`SIZE_MAX`]); gives their length. May sleep.
///
/// # Errors
/// EOPNOTSUPP, ENOMEM.
pub fn list(inode: &Inode, out: &mut Vec<u8>) -> Result<usize> {
    for name in kept::names(inode) {
        out.try_extend_from_slice(name)?;
        out.try_push(0)?;
    }
    let lists = out.len();
    let others = inode.ops.list_xattr(inode, Cred::current().capable(Capability::SYS_ADMIN), out)?;
    Ok(lists.saturating_add(others))
}

/// Takes an attribute away. May sleep.
///
/// # Errors
/// As `set`.
pub fn remove(inode: &Inode, name: &[u8]) -> Result {
    if let Some(which) = Which::named(name) {
        return kept::set(inode, which, None);
    }
    let cred = Cred::current();
    permit(inode, &cred, name, Wants::Write)?;
    permit_security(&cred, name)?;
    let order = &mut Held::clean();
    let _write = inode.lock_write(order);
    inode.ops.remove_xattr(inode, name)?;
    inode.touch_changed();
    if name == CAPABILITY {
        inode.note_capabilities(false);
    }
    Ok(())
}

/// What the file gives a program that is executed from it. May sleep.
///
/// # Errors
/// EINVAL: something without a meaning. ENOMEM.
pub fn file_capabilities(inode: &Inode) -> Result<Option<FileCapabilities>> {
    if !inode.has_capabilities() && !inode.is_elsewhere() {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    match inode.ops.get_xattr(inode, CAPABILITY, &mut bytes) {
        Ok(()) => FileCapabilities::parse(&bytes).map(Some),
        // It has just lost them, or never had any.
        Err(ENODATA | EOPNOTSUPP) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The file has other contents, or another owner: what it gave to those who execute it is gone. The lock of writes is held.
pub fn drop_capabilities(inode: &Inode) {
    // There may be none by now.
    let _ = inode.ops.remove_xattr(inode, CAPABILITY);
    inode.note_capabilities(false);
}
