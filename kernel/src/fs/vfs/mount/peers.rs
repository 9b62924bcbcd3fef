//! Who passes on to whom what is mounted and taken off (mount_namespaces(7), "Shared subtrees").
//!
//! A *group* is a set of mounts. Its members pass on to each other what is mounted in one of them, if it is shared: it has a number then, by which programs know it. A group that
//! is not shared has one member, a slave that passes nothing on. A group may have a *master*: another, shared one, whose slave it is: what happens there comes to all its members, and
//! nothing goes back. So the groups are a forest. A private mount is in no group.
//!
//! A group that has lost its last member stays while two groups or more are below it, which have its master for theirs: so a mount leaves without memory, and there are less of
//! these than there are groups with members.
//!
//! Lock order: all of it lies in `MOUNTS`.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ptr;
use core::sync::atomic::Ordering::Relaxed;

use sync::{TryVec, try_box};

use super::{Mount, MountRef};
use crate::errno::{ENOMEM, Result};
use crate::sched::schedule_if_needed;

/// Of a private mount, in the place of its group.
pub(super) const NONE: u32 = 0;

/// Where a group is among all, from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct At(u32);

struct Group {
    /// 0: it is not shared.
    number: u32,
    /// A group above it, of which the nearest with members is its master.
    above: Option<At>,
    /// Those that have it above them; the last that came first.
    below: Vec<At>,
    /// In the order in which what is mounted in one is passed on to the others, round.
    members: Vec<MountRef>,
}

pub(super) struct Peers {
    groups: Vec<Option<Box<Group>>>,
    /// Places that are free.
    free: Vec<At>,
    /// The numbers that are taken, in order.
    numbers: Vec<u32>,
}

impl Peers {
    pub(super) const fn new() -> Self {
        Self { groups: Vec::new(), free: Vec::new(), numbers: Vec::new() }
    }

    fn get(&self, at: At) -> Option<&Group> {
        self.groups.get(at.0.checked_sub(1)? as usize)?.as_deref()
    }

    fn get_mut(&mut self, at: At) -> Option<&mut Group> {
        self.groups.get_mut(at.0.checked_sub(1)? as usize)?.as_deref_mut()
    }

    /// The group of the mount, unless it is private.
    pub(super) fn of(&self, mount: &Mount) -> Option<At> {
        let at = mount.group.load(Relaxed);
        (at != NONE).then_some(At(at))
    }

    fn is_shared_group(&self, at: At) -> bool {
        self.get(at).is_some_and(|group| group.number != 0)
    }

    /// Is it of a group that is shared?
    pub(super) fn is_shared(&self, mount: &Mount) -> bool {
        self.of(mount).is_some_and(|at| self.is_shared_group(at))
    }

    /// The group's master.
    pub(super) fn master(&self, at: At) -> Option<At> {
        let mut above = self.get(at)?.above;
        while let Some(at) = above {
            let group = self.get(at)?;
            if !group.members.is_empty() {
                return Some(at);
            }
            above = group.above;
        }
        None
    }

    /// Is what is mounted in `from` mounted in `to` too, which is a peer of it or below it?
    pub(super) fn passes_on(&self, from: &Mount, to: &Mount) -> bool {
        let mut at = self.of(to);
        let from = self.of(from).filter(|at| self.is_shared_group(*at));
        while at.is_some() && at != from {
            at = at.and_then(|at| self.master(at));
        }
        at.is_some()
    }

    pub(super) fn members(&self, at: At) -> &[MountRef] {
        self.get(at).map_or(&[], |group| &group.members)
    }

    /// The groups right below.
    pub(super) fn below(&self, at: At) -> &[At] {
        self.get(at).map_or(&[], |group| &group.below)
    }

    /// By which programs know the group; 0 if it is not shared.
    pub(super) fn number(&self, at: At) -> u32 {
        self.get(at).map_or(0, |group| group.number)
    }

    /// The lowest number that is free is taken, as on Linux.
    fn take_number(&mut self) -> Result<u32> {
        // They begin at 1, without a gap up to the first that is free.
        let (mut low, mut high) = (0, self.numbers.len());
        while low < high {
            let middle = low.midpoint(high);
            if self.numbers.get(middle).is_some_and(|number| *number as usize == middle.saturating_add(1)) {
                low = middle.saturating_add(1);
            } else {
                high = middle;
            }
        }
        let number = low.saturating_add(1) as u32;
        self.numbers.try_insert(low, number)?;
        Ok(number)
    }

    fn drop_number(&mut self, number: u32) {
        if let Ok(index) = self.numbers.binary_search(&number) {
            self.numbers.remove(index);
        }
    }

    /// A group of that mount alone, which is of none or leaves it, with `above` above it.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn found(&mut self, mount: &MountRef, above: Option<At>, shared: bool) -> Result<At> {
        let mut members = Vec::new();
        members.try_push(mount.clone())?;
        let mut group = try_box(Group { number: 0, above, below: Vec::new(), members })?;
        if self.free.is_empty() {
            // So that there is room for it when it ends.
            self.free.try_reserve(self.groups.len().saturating_add(1)).map_err(|_| ENOMEM)?;
            self.groups.try_push(None)?;
            let at = At(self.groups.len() as u32);
            let _ = self.free.push_reserved(at);
        }
        let Some(at) = self.free.last().copied() else { return Err(ENOMEM) };
        if let Some(upper) = above.and_then(|above| self.get_mut(above)) {
            upper.below.try_insert(0, at)?;
        }
        if shared {
            match self.take_number() {
                Ok(number) => group.number = number,
                Err(error) => {
                    if let Some(upper) = above.and_then(|above| self.get_mut(above)) {
                        upper.below.retain(|below| *below != at);
                    }
                    return Err(error);
                }
            }
        }
        self.free.pop();
        if let Some(place) = at.0.checked_sub(1).and_then(|index| self.groups.get_mut(index as usize)) {
            *place = Some(group);
        }
        mount.group.store(at.0, Relaxed);
        Ok(at)
    }

    /// MS_SHARED: the mount is of a group that is shared from now on, of one of its own unless it is already.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn share(&mut self, mount: &MountRef) -> Result {
        match self.of(mount) {
            None => self.found(mount, None, true).map(drop),
            Some(at) if self.is_shared_group(at) => Ok(()),
            Some(at) => {
                let number = self.take_number()?;
                if let Some(group) = self.get_mut(at) {
                    group.number = number;
                }
                Ok(())
            }
        }
    }

    /// Takes back `share` of a mount that was not shared before.
    pub(super) fn unshare(&mut self, mount: &Mount) {
        let Some(at) = self.of(mount) else { return };
        if self.master(at).is_none() {
            return self.leave(mount);
        }
        let number = self.get_mut(at).map_or(0, |group| core::mem::take(&mut group.number));
        self.drop_number(number);
    }

    /// MS_SLAVE: a member of a group that is shared is a slave of that from now on, and if it was the last, of its master. What is not shared stays what it is.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn enslave(&mut self, mount: &MountRef) -> Result {
        let Some(at) = self.of(mount).filter(|at| self.is_shared_group(*at)) else { return Ok(()) };
        let above = if self.members(at).len() > 1 { Some(at) } else { self.master(at) };
        let Some(above) = above else {
            self.leave(mount);
            return Ok(());
        };
        // It has both until it leaves the old one.
        self.found(mount, Some(above), false)?;
        self.take_out(mount, at);
        Ok(())
    }

    /// A private mount becomes one like `other`: a member of its group, right behind it, or a slave of the same master.
    ///
    /// # Errors
    /// ENOMEM.
    pub(super) fn join(&mut self, mount: &MountRef, other: &Mount) -> Result {
        let Some(at) = self.of(other) else { return Ok(()) };
        if !self.is_shared_group(at) {
            let master = self.master(at);
            return self.found(mount, master, false).map(drop);
        }
        let Some(group) = self.get_mut(at) else { return Ok(()) };
        let behind = group.members.iter().position(|member| ptr::eq::<Mount>(&**member, other));
        let index = behind.map_or(group.members.len(), |behind| behind.saturating_add(1));
        group.members.try_insert(index, mount.clone())?;
        mount.group.store(at.0, Relaxed);
        Ok(())
    }

    /// MS_PRIVATE: the mount is of no group from now on.
    pub(super) fn leave(&mut self, mount: &Mount) {
        let Some(at) = self.of(mount) else { return };
        mount.group.store(NONE, Relaxed);
        self.take_out(mount, at);
    }

    fn take_out(&mut self, mount: &Mount, at: At) {
        let Some(group) = self.get_mut(at) else { return };
        if let Some(index) = group.members.iter().position(|member| ptr::eq::<Mount>(&**member, mount)) {
            group.members.remove(index);
        }
        if group.members.is_empty() {
            let number = core::mem::take(&mut group.number);
            self.drop_number(number);
            self.shrink(at);
        }
    }

    /// A group without members goes, unless it is needed to say of several what is above them.
    fn shrink(&mut self, mut at: At) {
        loop {
            let Some(group) = self.get(at).filter(|group| group.members.is_empty()) else { return };
            let above = group.above;
            match (above, group.below.as_slice()) {
                (Some(upper), []) => {
                    if let Some(upper) = self.get_mut(upper) {
                        upper.below.retain(|below| *below != at);
                    }
                    self.drop_group(at);
                    // That may be needed no more either.
                    at = upper;
                }
                (Some(upper), &[only]) => {
                    if let Some(place) = self
                        .get_mut(upper)
                        .and_then(|upper| upper.below.iter_mut().find(|below| **below == at))
                    {
                        *place = only;
                    }
                    if let Some(only) = self.get_mut(only) {
                        only.above = Some(upper);
                    }
                    return self.drop_group(at);
                }
                (Some(_), _) => return,
                (None, _) => return self.free_below(at),
            }
        }
    }

    /// The group, which has no members and nothing above, goes: those below it have no master any more.
    fn free_below(&mut self, top: At) {
        // One without members, and so are those above it up to `top`.
        let mut here = top;
        loop {
            let Some(group) = self.get_mut(here) else { return };
            if let Some(lower) = group.below.pop() {
                match self.get_mut(lower) {
                    Some(group) if group.members.is_empty() => here = lower,
                    Some(group) => {
                        group.above = None;
                        if group.number == 0 {
                            // A slave of nobody is private. None is below it, since it passes nothing on.
                            group.members.iter().for_each(|member| member.group.store(NONE, Relaxed));
                            self.drop_group(lower);
                        }
                    }
                    None => {}
                }
            } else {
                let above = group.above;
                self.drop_group(here);
                let Some(above) = above else { return };
                here = above;
            }
            schedule_if_needed();
        }
    }

    fn drop_group(&mut self, at: At) {
        let place = at.0.checked_sub(1).and_then(|index| self.groups.get_mut(index as usize));
        if place.is_some_and(|place| place.take().is_some()) {
            // There is room for as many as there are places.
            let _ = self.free.push_reserved(at);
        }
    }

    /// Panics unless the groups are whole; says how many there are.
    #[cfg(test)]
    pub(super) fn check(&self) -> usize {
        let mut numbers = Vec::new();
        let mut count = 0;
        for (index, group) in self.groups.iter().enumerate() {
            let at = At(index as u32 + 1);
            assert_eq!(self.free.contains(&at), group.is_none());
            let Some(group) = group else { continue };
            count += 1;
            assert!(group.members.iter().all(|member| member.group.load(Relaxed) == at.0));
            assert!(group.below.iter().all(|below| self.get(*below).unwrap().above == Some(at)));
            let is_below = |above| self.get(above).unwrap().below.contains(&at);
            assert!(group.above.is_none_or(is_below));
            if group.number != 0 {
                numbers.push(group.number);
                assert!(!group.members.is_empty());
            } else if group.members.is_empty() {
                assert!(group.above.is_some() && group.below.len() > 1, "a group for nothing");
            } else {
                assert!(group.members.len() == 1 && group.below.is_empty() && self.master(at).is_some());
            }
        }
        numbers.sort_unstable();
        assert_eq!(numbers, self.numbers);
        count
    }
}
