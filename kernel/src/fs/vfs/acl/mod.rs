//! Access control lists (acl(5)): what single users and groups may do, beside owner, group and others.
//!
//! * here      what a list says, and the bytes that programs see it as (`system.posix_acl_access`, `system.posix_acl_default`: version 2 of
//!   Linux's format, a header of four bytes and eight for each entry)
//! * `kept`    the lists of an inode
//!
//! A list and the mode say the same where they can: owner and others have the mode's bits, and the mode's group bits are the list's mask, which
//! limits all whom the list names. A list that says no more than a mode is none.
//!
//! No locks here.
#![forbid(unsafe_code)]

pub mod kept;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec::Vec;

use sync::TryVec;

use super::access::Cred;
use super::inode::Inode;
use crate::errno::{EINVAL, EIO, EOPNOTSUPP, Result};

const VERSION: u32 = 2;
const HEADER: usize = 4;
const ENTRY: usize = 8;
/// The id of an entry that has none.
const NOBODY: u32 = u32::MAX;
/// All that an entry gives: read, write, execute.
const ALL: u32 = 7;

/// Whom an entry is about. The numbers are those of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
enum Whom {
    Owner = 0x01,
    User = 0x02,
    Group = 0x04,
    NamedGroup = 0x08,
    /// All but the owner and others have no more than this.
    Mask = 0x10,
    Others = 0x20,
}

impl Whom {
    fn from_tag(tag: u16) -> Option<Whom> {
        let all = [Whom::Owner, Whom::User, Whom::Group, Whom::NamedGroup, Whom::Mask, Whom::Others];
        all.into_iter().find(|whom| *whom as u16 == tag)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Entry {
    whom: Whom,
    /// Of a valid list no more than `ALL`.
    permissions: u16,
    id: u32,
}

impl Entry {
    fn gives(&self, want: u32) -> bool {
        u32::from(self.permissions) & want == want
    }

    fn set(&mut self, permissions: u32) {
        self.permissions = (permissions & ALL) as u16;
    }
}

/// A list, in the order of the format.
#[derive(PartialEq, Eq, Debug)]
pub struct Acl(Box<[Entry]>);

impl Acl {
    /// From the value of an attribute. `None`: there is nothing in it.
    ///
    /// # Errors
    /// EINVAL; EOPNOTSUPP: another version; ENOMEM.
    pub fn parse(value: &[u8]) -> Result<Option<Acl>> {
        let Some((header, entries)) = value.split_first_chunk::<HEADER>() else {
            return if value.is_empty() { Ok(None) } else { Err(EINVAL) };
        };
        if u32::from_le_bytes(*header) != VERSION {
            return Err(EOPNOTSUPP);
        }
        let (entries, []) = entries.as_chunks::<ENTRY>() else { return Err(EINVAL) };
        let mut list = sync::try_vec(entries.len())?;
        for &[a, b, c, d, e, f, g, h] in entries {
            let whom = Whom::from_tag(u16::from_le_bytes([a, b])).ok_or(EINVAL)?;
            let has_id = matches!(whom, Whom::User | Whom::NamedGroup);
            let id = if has_id { u32::from_le_bytes([e, f, g, h]) } else { NOBODY };
            if has_id && id == NOBODY {
                return Err(EINVAL);
            }
            list.try_push(Entry { whom, permissions: u16::from_le_bytes([c, d]), id })?;
        }
        Ok((!list.is_empty()).then(|| Acl(list.into_boxed_slice())))
    }

    /// Bytes of its value.
    #[expect(clippy::arithmetic_side_effects, reason = "what is in memory has a length")]
    pub fn size(&self) -> usize {
        HEADER + ENTRY * self.0.len()
    }

    /// Appends its value.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn append_to(&self, out: &mut Vec<u8>) -> Result {
        out.try_extend_from_slice(&VERSION.to_le_bytes())?;
        for entry in &self.0 {
            let [a, b] = (entry.whom as u16).to_le_bytes();
            let [c, d] = entry.permissions.to_le_bytes();
            let [e, f, g, h] = entry.id.to_le_bytes();
            out.try_extend_from_slice(&[a, b, c, d, e, f, g, h])?;
        }
        Ok(())
    }

    pub fn try_clone(&self) -> Result<Acl> {
        Ok(Acl(Vec::try_from_slice(&self.0)?.into_boxed_slice()))
    }

    /// Is it a list as there may be one: an owner, users, a group, named groups, a mask if it names any, and others, in this order?
    ///
    /// # Errors
    /// EINVAL.
    pub fn check(&self) -> Result {
        let (mut last, mut named) = (None, false);
        for Entry { whom, permissions, .. } in &self.0 {
            let may_follow = match whom {
                Whom::Owner => last.is_none(),
                Whom::User => matches!(last, Some(Whom::Owner | Whom::User)),
                Whom::Group => matches!(last, Some(Whom::Owner | Whom::User)),
                Whom::NamedGroup | Whom::Mask => matches!(last, Some(Whom::Group | Whom::NamedGroup)),
                Whom::Others => match last {
                    Some(Whom::Mask) => true,
                    Some(Whom::Group | Whom::NamedGroup) => !named,
                    _ => false,
                },
            };
            if !may_follow || u32::from(*permissions) > ALL {
                return Err(EINVAL);
            }
            named |= matches!(whom, Whom::User | Whom::NamedGroup);
            last = Some(*whom);
        }
        if last == Some(Whom::Others) { Ok(()) } else { Err(EINVAL) }
    }

    /// The mode's bits for owner, group and others that it comes to, and whether it says more than they do.
    pub fn mode(&self) -> (u32, bool) {
        let (mut mode, mut says_more) = (0, false);
        for entry in &self.0 {
            let bits = u32::from(entry.permissions) & ALL;
            match entry.whom {
                Whom::Owner => mode |= bits << 6,
                Whom::Group => mode |= bits << 3,
                Whom::Others => mode |= bits,
                Whom::Mask => {
                    mode = mode & !(ALL << 3) | bits << 3;
                    says_more = true;
                }
                Whom::User | Whom::NamedGroup => says_more = true,
            }
        }
        (mode, says_more)
    }

    /// The mode is `mode` from now on. The lists of inodes have a group.
    ///
    /// # Errors
    /// EIO: this one has none.
    pub fn follow_mode(&mut self, mode: u32) -> Result {
        for entry in &mut self.0 {
            match entry.whom {
                Whom::Owner => entry.set(mode >> 6),
                Whom::Others => entry.set(mode),
                _ => {}
            }
        }
        self.group_class()?.set(mode >> 3);
        Ok(())
    }

    /// It is the list of what is made with `mode`, of which it leaves what it gives too, and has no more than that itself.
    ///
    /// # Errors
    /// EIO, as `follow_mode`.
    pub fn limit_by(&mut self, mode: &mut u32) -> Result {
        let mut limit = |entry: &mut Entry, shift: u32| {
            let both = u32::from(entry.permissions) & (*mode >> shift) & ALL;
            entry.set(both);
            *mode = *mode & !(ALL << shift) | both << shift;
        };
        for entry in &mut self.0 {
            match entry.whom {
                Whom::Owner => limit(entry, 6),
                Whom::Others => limit(entry, 0),
                _ => {}
            }
        }
        limit(self.group_class()?, 3);
        Ok(())
    }

    /// What the mode's group bits are: the mask, or the group where there is none.
    fn group_class(&mut self) -> Result<&mut Entry> {
        let place = |whom| self.0.iter().position(|entry| entry.whom == whom);
        let place = place(Whom::Mask).or_else(|| place(Whom::Group));
        place.and_then(|n| self.0.get_mut(n)).ok_or(EIO)
    }

    /// May `cred` do all of `want` (access::READ and so on)? It takes a look at each entry, of which there are as many as an attribute has room for.
    pub fn permits(&self, inode: &Inode, cred: &Cred, want: u32) -> bool {
        let mask = || self.0.iter().find(|entry| entry.whom == Whom::Mask);
        let within_mask = |entry: &Entry| entry.gives(want) && mask().is_none_or(|mask| mask.gives(want));
        let mut in_a_group = false;
        for entry in &self.0 {
            let is_group = match entry.whom {
                Whom::Owner if cred.uid == inode.uid() => return entry.gives(want),
                Whom::User if cred.uid == entry.id => return within_mask(entry),
                Whom::Group => cred.in_group(inode.gid()),
                Whom::NamedGroup => cred.in_group(entry.id),
                Whom::Others => return !in_a_group && entry.gives(want),
                Whom::Owner | Whom::User | Whom::Mask => false,
            };
            if is_group && entry.gives(want) {
                return within_mask(entry);
            }
            in_a_group |= is_group;
        }
        false
    }
}
