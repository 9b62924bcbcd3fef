//! Moving pages of a process to other NUMA nodes: move_pages(2), migrate_pages(2). The work is in `vm::op::migrate`.
#![forbid(unsafe_code)]

use super::NodeMask;
use crate::errno::{Errno, Result};
use crate::memory::user::UserPtr;
use crate::memory::{HeldSpace, Space};
use crate::process::access::{self, By};
use crate::process::{self, Capability, Current, ids};
use crate::sched::give_way;
use linux_raw_sys::mempolicy as abi;
use vm::policy::{Nodes, nth_of, with_memory};
use vm::{Migrated, Migration, PAGE_SIZE, Target, VirtAddr};

/// The memory of a process.
enum Memory {
    Own(Current),
    Other(HeldSpace),
}

impl Memory {
    /// That of thread `tid`, the caller's own if it is 0, if the caller may look into it.
    ///
    /// # Errors
    /// ESRCH; EPERM; EINVAL: it has none any more.
    fn of(tid: u32) -> Result<Self> {
        let caller = process::current();
        if tid == 0 {
            return Ok(Self::Own(caller));
        }
        let look = |thread: &process::Thread| {
            if !access::may_inspect_thread(&caller, thread, By::RealIds) {
                return Err(Errno::EPERM);
            }
            thread.space_of().map(HeldSpace::new).ok_or(Errno::EINVAL)
        };
        ids::look_at_thread(tid, look).ok_or(Errno::ESRCH)?.map(Self::Other)
    }

    fn space(&self) -> &Space {
        match self {
            Self::Own(caller) => caller.space(),
            Self::Other(space) => space,
        }
    }
}

/// move_pages(2).
pub fn sys_move_pages(
    tid: u32,
    count: usize,
    pages: usize,
    nodes: usize,
    status: usize,
    flags: u32,
) -> Result<usize> {
    if flags & !(abi::MPOL_MF_MOVE | abi::MPOL_MF_MOVE_ALL) != 0 {
        return Err(Errno::EINVAL);
    }
    let shared = flags & abi::MPOL_MF_MOVE_ALL != 0;
    if shared && !process::current().capable(Capability::SYS_NICE) {
        return Err(Errno::EPERM);
    }
    let memory = Memory::of(tid)?;
    let space = memory.space();
    let (pages, status) = (UserPtr::<usize>::new(pages), UserPtr::<i32>::new(status));
    let nodes = UserPtr::<i32>::new(nodes).non_null();
    for n in 0..count {
        let page = VirtAddr(pages.at(n)?.read()?);
        let told = match nodes {
            None => node_of(space, page).unwrap_or_else(code),
            Some(nodes) => {
                let to = usize::try_from(nodes.at(n)?.read()?).map_err(|_| Errno::ENODEV)?;
                if !has(with_memory(), to) {
                    return Err(Errno::ENODEV);
                }
                move_page(space, page, to, shared).map_or_else(code, |()| to as i32)
            }
        };
        status.at(n)?.write(&told)?;
        if give_way() {
            return Err(Errno::EINTR);
        }
    }
    Ok(0)
}

/// What stands for an error in a page's status.
fn code(error: Errno) -> i32 {
    0i32.wrapping_sub(error.0)
}

fn has(nodes: Nodes, node: usize) -> bool {
    u32::try_from(node).ok().and_then(|node| nodes.checked_shr(node)).is_some_and(|nodes| nodes & 1 != 0)
}

/// The node of the page at `address`.
///
/// # Errors
/// EFAULT: nothing is mapped there, or the page of zeros. ENOENT: there is no page.
fn node_of(space: &Space, address: VirtAddr) -> Result<i32> {
    use vm::PageKind::Zero;
    let page = address.page_start().0;
    let mut found = Err(if space.kind_at(address).is_some() { Errno::ENOENT } else { Errno::EFAULT });
    space.for_each_page(page..page.saturating_add(PAGE_SIZE), &mut |page| {
        found = if page.kind == Zero { Err(Errno::EFAULT) } else { Ok(page.frame.numa_node() as i32) };
    });
    found
}

/// Moves the page at `address` to `node`.
///
/// # Errors
/// As `node_of`; EACCES: other processes have it too; EBUSY: it cannot be moved now; ENOMEM.
fn move_page(space: &Space, address: VirtAddr, node: usize, shared: bool) -> Result {
    if has(1 << (node_of(space, address)? as u32 % Nodes::BITS), node) {
        return Ok(());
    }
    let from = !(1 << (node as u32 % Nodes::BITS));
    match space.migrate_at(address, &Migration { from, to: Some(Target::Node(node)), shared }) {
        Migrated::Done => Ok(()),
        Migrated::Absent => Err(Errno::ENOENT),
        Migrated::Shared => Err(Errno::EACCES),
        Migrated::Busy => Err(Errno::EBUSY),
        Migrated::NoMemory => Err(Errno::ENOMEM),
    }
}

/// migrate_pages(2).
pub fn sys_migrate_pages(tid: u32, bits: usize, from: usize, to: usize) -> Result<usize> {
    let (from, to) = (NodeMask::read(from, bits)?, NodeMask::read(to, bits)?);
    let caller = process::current();
    let memory = Memory::of(tid)?;
    let may_all = caller.capable(Capability::SYS_NICE);
    let there = with_memory();
    if (to.goes_beyond() || to.first_word() & !u64::from(there) != 0) && !may_all {
        return Err(Errno::EPERM);
    }
    let (from, to) = (from.first_word() as Nodes, to.first_word() as Nodes & there);
    if to == 0 {
        return Err(Errno::EINVAL);
    }
    let mut failed = 0usize;
    let mut left = from;
    while let Some((source, node)) = next_step(from, to, left) {
        left &= !(1 << source);
        let how = Migration { from: 1 << source, to: Some(Target::Node(node)), shared: may_all };
        failed = failed.saturating_add(memory.space().migrate(0..crate::arch::USER_END, &how));
    }
    Ok(failed.min(i32::MAX as usize))
}

/// The next node whose pages are moved, of those in `left`, and where they go: the nth of `from` to the nth of `to`, and first one whose target has nothing on it that
/// is yet to be moved itself. Where there are not as many nodes in one as in the other, nothing leaves a node of `to`.
fn next_step(from: Nodes, to: Nodes, left: Nodes) -> Option<(u32, usize)> {
    let mut last = None;
    for source in (0..Nodes::BITS).filter(|n| left >> n & 1 != 0) {
        if from.count_ones() != to.count_ones() && to >> source & 1 != 0 {
            continue;
        }
        let nth = (from & (1u16 << source).wrapping_sub(1)).count_ones();
        let target = nth_of(to, nth.into());
        if target as u32 == source {
            continue;
        }
        last = Some((source, target));
        if !has(left, target) {
            break;
        }
    }
    last
}

#[cfg(test)]
mod tests {
    use super::next_step;
    use std::vec::Vec;

    fn steps(from: u16, to: u16) -> Vec<(u32, usize)> {
        let mut left = from;
        let next = || next_step(from, to, left).inspect(|(source, _)| left &= !(1 << source));
        core::iter::from_fn(next).collect()
    }

    #[test]
    fn nodes_are_emptied_before_they_are_filled() {
        assert_eq!(steps(0b0001, 0b0010), [(0, 1)]);
        assert_eq!(steps(0b0111, 0b1110), [(2, 3), (1, 2), (0, 1)]);
        assert_eq!(steps(0b0111, 0b0011), [(2, 0)]);
        assert_eq!(steps(0b0011, 0b1100), [(0, 2), (1, 3)]);
        assert_eq!(steps(0b0011, 0b0011), []);
        assert_eq!(steps(0b0000, 0b0001), []);
    }
}
