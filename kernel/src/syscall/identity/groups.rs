//! Supplementary groups: a program chooses how many of 65,536 there are, so reading, sorting and telling them gives way.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::{TryVec, try_vec};

use super::{change, given};
use crate::errno::{EINTR, EINVAL, EPERM, Result};
use crate::memory::user::UserPtr;
use crate::process::{self, Capability};
use crate::sched::give_way;

const GROUPS_MAX: usize = 65_536;
/// What is read, sorted or written before others may run.
const TURN: usize = 1024;

/// EINTR after a fatal signal, which nobody sees.
fn pause() -> Result {
    if give_way() { Err(EINTR) } else { Ok(()) }
}

/// getgroups(2).
pub fn sys_getgroups(size: i32, to: usize) -> Result<usize> {
    let c = process::credentials();
    let size = usize::try_from(size).map_err(|_| EINVAL)?;
    if size != 0 {
        if c.groups.len() > size {
            return Err(EINVAL);
        }
        for (n, group) in c.groups.iter().enumerate() {
            if n.is_multiple_of(TURN) {
                pause()?;
            }
            UserPtr::<u32>::new(to).at(n)?.write(group)?;
        }
    }
    Ok(c.groups.len())
}

/// setgroups(2).
pub fn sys_setgroups(size: u32, from: usize) -> Result<usize> {
    if !process::current().capable(Capability::SETGID) {
        return Err(EPERM);
    }
    if size as usize > GROUPS_MAX {
        return Err(EINVAL);
    }
    let mut groups = Vec::new();
    for n in 0..size as usize {
        if n.is_multiple_of(TURN) {
            pause()?;
        }
        let group = UserPtr::<u32>::new(from).at(n)?.read()?;
        groups.try_push(given(group).ok_or(EINVAL)?)?;
    }
    // Linux keeps them sorted, and tells them so.
    let groups = sorted(groups, pause)?;
    change(|c| {
        c.groups = groups;
        Ok(())
    })
}

/// The same, ascending. `pause` is called after each turn, and may sleep.
fn sorted(mut groups: Vec<u32>, mut pause: impl FnMut() -> Result) -> Result<Vec<u32>> {
    for run in groups.chunks_mut(TURN) {
        run.sort_unstable();
        pause()?;
    }
    let mut merged = try_vec(groups.len())?;
    let mut width = TURN;
    while width < groups.len() {
        merged.clear();
        for pair in groups.chunks(width.saturating_mul(2)) {
            let (mut left, mut right) = pair.split_at(width.min(pair.len()));
            loop {
                let from = if right.first().is_none_or(|r| left.first().is_some_and(|l| l <= r)) {
                    &mut left
                } else {
                    &mut right
                };
                let Some((first, rest)) = from.split_first() else { break };
                merged.try_push(*first)?;
                *from = rest;
                if merged.len().is_multiple_of(TURN) {
                    pause()?;
                }
            }
        }
        core::mem::swap(&mut groups, &mut merged);
        width = width.saturating_mul(2);
    }
    Ok(groups)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn groups_are_sorted_a_turn_at_a_time(seed in any::<u32>(), len in 0usize..9000, most in 1u32..) {
            let next = |n: &u32| Some(n.wrapping_mul(1_664_525).wrapping_add(1_013_904_223));
            let groups: Vec<u32> = core::iter::successors(Some(seed), next).map(|n| n % most).take(len).collect();
            let (mut expected, mut turns) = (groups.clone(), 0);
            expected.sort_unstable();
            let got = sorted(groups, || {
                turns += 1;
                Ok(())
            });
            prop_assert_eq!(got, Ok(expected));
            prop_assert!(turns >= len / TURN);
        }
    }
}
