//! From which NUMA nodes memory comes: set_mempolicy(2), get_mempolicy(2), mbind(2), set_mempolicy_home_node(2). The work is in `vm::policy` and `vm::op::policy`.
//!
//! MPOL_F_NUMA_BALANCING is refused, as by a Linux that cannot balance: no page follows who uses it. Nodes are told up to [`MAX_NUMA_NODES`], which are all that
//! there may be.
#![forbid(unsafe_code)]

mod migrate;
mod nodes;

pub use migrate::{sys_migrate_pages, sys_move_pages};
use nodes::NodeMask;

use super::pages;
use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::ipc::attach;
use crate::memory::user::UserPtr;
use crate::process::{self, Capability};
use linux_raw_sys::mempolicy as abi;
use sync::machine;
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::frame::MAX_NUMA_NODES;
use vm::policy::{Mode, Naming, Nodes, Policy, with_memory};
use vm::{Access, Coverage, Migration, Target, VmError};

const _: () = assert!(MAX_NUMA_NODES <= 64, "nodes are told in one word");

/// MPOL_DEFAULT, and how nodes are named.
const DEFAULT: u32 = abi::MPOL_DEFAULT as u32;
const STATIC: u32 = abi::MPOL_F_STATIC_NODES;
const RELATIVE: u32 = abi::MPOL_F_RELATIVE_NODES;
const BALANCING: u32 = abi::MPOL_F_NUMA_BALANCING;

/// A mode without its flags; None: the default.
///
/// # Errors
/// EINVAL.
fn mode(word: u32) -> Result<(Option<Mode>, Naming)> {
    let naming = match word & (STATIC | RELATIVE | BALANCING) {
        0 => Naming::Plain,
        STATIC => Naming::Static,
        RELATIVE => Naming::Relative,
        _ => return Err(Errno::EINVAL),
    };
    match word & !(STATIC | RELATIVE | BALANCING) {
        DEFAULT => Ok((None, naming)),
        number => Ok((Some(Mode::from_number(number).ok_or(Errno::EINVAL)?), naming)),
    }
}

/// The policy of `mode` for the nodes that are named; none for the default.
///
/// # Errors
/// EINVAL: nodes are named where there may be none, or none where there must be; or none of them has memory.
fn policy(mode: Option<Mode>, naming: Naming, nodes: &NodeMask) -> Result<Policy> {
    let mode = match mode {
        None if nodes.is_empty() => return Ok(Policy::NONE),
        None => return Err(Errno::EINVAL),
        Some(Mode::Preferred) if nodes.is_empty() => Mode::Local,
        Some(Mode::Local) if !nodes.is_empty() => return Err(Errno::EINVAL),
        Some(mode) => mode,
    };
    if mode == Mode::Local {
        let is_plain = naming == Naming::Plain;
        return Policy::new(mode, naming, 0).filter(|_| is_plain).ok_or(Errno::EINVAL);
    }
    let named = if naming == Naming::Relative { nodes.folded() } else { nodes.first_word() };
    Policy::new(mode, naming, named).ok_or(Errno::EINVAL)
}

/// set_mempolicy(2).
pub fn sys_set_mempolicy(word: u32, mask: usize, bits: usize) -> Result<usize> {
    let (mode, naming) = mode(word)?;
    let nodes = NodeMask::read(mask, bits)?;
    process::current().memory_policy.set(policy(mode, naming, &nodes)?);
    Ok(0)
}

/// get_mempolicy(2).
pub fn sys_get_mempolicy(to: usize, mask: usize, bits: usize, address: usize, flags: usize) -> Result<usize> {
    const NODE: usize = abi::MPOL_F_NODE as usize;
    const ADDR: usize = abi::MPOL_F_ADDR as usize;
    const BOTH: usize = NODE | ADDR;
    const ALLOWED: usize = abi::MPOL_F_MEMS_ALLOWED as usize;
    if mask != 0 && bits < machine::nodes() as usize {
        return Err(Errno::EINVAL);
    }
    let (told, nodes) = match flags {
        ALLOWED => (0, with_memory()),
        0 | NODE | ADDR | BOTH => policy_and_nodes(address, flags & NODE != 0, flags & ADDR != 0)?,
        _ => return Err(Errno::EINVAL),
    };
    if let Some(to) = UserPtr::<u32>::new(to).non_null() {
        to.write(&told)?;
    }
    if mask != 0 {
        nodes::tell(nodes.into(), mask, bits)?;
    }
    Ok(0)
}

/// The policy's mode, or, with `node`, a node; and the policy's nodes.
fn policy_and_nodes(address: usize, node: bool, of_address: bool) -> Result<(u32, u16)> {
    let thread = process::current();
    let policy = if of_address {
        thread.space().policy_at(VirtAddr(address)).ok_or(Errno::EFAULT)?
    } else if address == 0 {
        thread.memory_policy.get()
    } else {
        return Err(Errno::EINVAL);
    };
    let told = match (node, of_address) {
        (true, true) => node_of(address)?,
        (true, false) => thread.memory_policy.next().ok_or(Errno::EINVAL)? as u32,
        (false, _) => {
            let naming = match policy.naming() {
                Naming::Plain => 0,
                Naming::Static => STATIC,
                Naming::Relative => RELATIVE,
            };
            policy.mode().map_or(DEFAULT, |mode| mode as u32) | naming
        }
    };
    Ok((told, policy.told()))
}

/// The node of the page at `address`, which is brought in by a read.
///
/// # Errors
/// EFAULT: it cannot be read.
fn node_of(address: usize) -> Result<u32> {
    let thread = process::current();
    let page = VirtAddr(address).page_start();
    loop {
        let mut found = None;
        thread.space().for_each_page(page.0..page.0.saturating_add(PAGE_SIZE), &mut |page| {
            found = Some(page.frame.numa_node() as u32);
        });
        if let Some(node) = found {
            return Ok(node);
        }
        thread.space().fault(page, Access::READ).map_err(|_| Errno::EFAULT)?;
        if crate::sched::give_way() {
            return Err(Errno::EFAULT);
        }
    }
}

/// The whole pages from `start` on. None: there are none.
///
/// # Errors
/// EINVAL.
fn range(start: usize, len: usize) -> Result<Option<core::ops::Range<usize>>> {
    if !start.is_multiple_of(PAGE_SIZE) {
        return Err(Errno::EINVAL);
    }
    // A length that is 0 once it is rounded up, past the last address too, is nothing to do.
    let Some(len) = pages(len) else { return Ok(None) };
    Ok(Some(start..start.checked_add(len).ok_or(Errno::EINVAL)?))
}

/// mbind(2).
pub fn sys_mbind(start: usize, len: usize, word: u32, mask: usize, bits: usize, flags: u32) -> Result<usize> {
    let (mode, naming) = mode(word)?;
    let nodes = NodeMask::read(mask, bits)?;
    if flags & !(abi::MPOL_MF_STRICT | abi::MPOL_MF_MOVE | abi::MPOL_MF_MOVE_ALL) != 0 {
        return Err(Errno::EINVAL);
    }
    let shared = flags & abi::MPOL_MF_MOVE_ALL != 0;
    if shared && !process::current().capable(Capability::SYS_NICE) {
        return Err(Errno::EPERM);
    }
    let Some(range) = range(start, len)? else { return Ok(0) };
    let policy = policy(mode, naming, &nodes)?;
    let current = process::current();
    let space = current.space();
    let reached = range.start.min(USER_END)..range.end.min(USER_END);
    let covered = if reached.is_empty() { Coverage::Nothing } else { space.coverage(reached.clone()) };
    let is_covered = match covered {
        Coverage::Nothing => false,
        Coverage::Holes => mode.is_none(),
        Coverage::Whole => mode.is_none() || range.end == reached.end,
    };
    if !is_covered {
        return Err(Errno::EFAULT);
    }
    let moves = flags & (abi::MPOL_MF_MOVE | abi::MPOL_MF_MOVE_ALL) != 0;
    let is_strict = flags & abi::MPOL_MF_STRICT != 0 && mode.is_some();
    let from = !(nodes.first_word() as Nodes);
    attach::around(space, reached.clone(), || Ok(space.set_policy(reached.clone(), policy)?))?;
    if !moves && !is_strict {
        return Ok(0);
    }
    // Without moving, what lies elsewhere is only counted.
    let to = moves.then_some(Target::Policy(policy));
    let failed = space.migrate(reached, &Migration { from, to, shared: shared || !moves });
    if failed > 0 && is_strict { Err(Errno::EIO) } else { Ok(0) }
}

/// set_mempolicy_home_node(2).
pub fn sys_set_mempolicy_home_node(start: usize, len: usize, node: usize, flags: usize) -> Result<usize> {
    if !start.is_multiple_of(PAGE_SIZE) || flags != 0 {
        return Err(Errno::EINVAL);
    }
    let node = u32::try_from(node).ok().filter(|node| *node < machine::nodes()).ok_or(Errno::EINVAL)?;
    let Some(range) = range(start, len)? else { return Ok(0) };
    let current = process::current();
    let space = current.space();
    let reached = range.start.min(USER_END)..range.end.min(USER_END);
    let any = attach::around(space, reached.clone(), || {
        space.set_home_node(reached.clone(), node).map_err(|e| match e {
            VmError::Invalid => Errno::EOPNOTSUPP,
            e => e.into(),
        })
    })?;
    if any { Ok(0) } else { Err(Errno::ENOENT) }
}
