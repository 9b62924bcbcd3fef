//! From which NUMA nodes memory comes (set_mempolicy(2), mbind(2)).
//!
//! A policy is one word. It is a property of a segment, of a range of an object's pages, and of a task. Which of them holds for a page: that of the
//! object, else that of the mapping, else that of the running task, else none: then the page comes from the running CPU's node.
//!
//! Until somebody sets a policy ([`in_use`]) nobody asks for one, so who has none pays for one look at a line that nobody writes.
//!
//! Invariants: CountLocal. A task's policy is written by the task alone. No lock is taken here.
#![forbid(unsafe_code)]

mod task;
#[cfg(test)]
mod tests;
mod weights;

pub use task::TaskPolicy;
pub use weights::{set_weight, weight_of};

use crate::addr::PAGE_SHIFT;
use crate::error::FaultError;
use crate::frame::{self, MAX_NUMA_NODES, OwnedBlock, OwnedFrame};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use sync::machine;

/// A set of NUMA nodes, a bit each.
pub type Nodes = u16;

const _: () = assert!(Nodes::BITS as usize == MAX_NUMA_NODES);

/// What a policy does with its nodes. The numbers are Linux's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Mode {
    /// One node, others where it has nothing left.
    Preferred = 1,
    /// The nodes and no others.
    Bind = 2,
    /// One node after the other, by the page's place.
    Interleave = 3,
    /// The running CPU's node, whatever the task's policy says.
    Local = 4,
    /// The nodes, others where they have nothing left.
    PreferredMany = 5,
    /// As Interleave, with as many pages in a row as the node weighs.
    WeightedInterleave = 6,
}

impl Mode {
    /// The mode of Linux's number. None: 0, the default, or no mode.
    pub const fn from_number(number: u32) -> Option<Self> {
        Some(match number {
            1 => Self::Preferred,
            2 => Self::Bind,
            3 => Self::Interleave,
            4 => Self::Local,
            5 => Self::PreferredMany,
            6 => Self::WeightedInterleave,
            _ => return None,
        })
    }

    /// Do pages go to one node after the other?
    pub const fn interleaves(self) -> bool {
        matches!(self, Self::Interleave | Self::WeightedInterleave)
    }
}

/// What the nodes of a policy that a program names mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Naming {
    /// Nodes by number.
    Plain,
    /// The same; they are told as they were named (MPOL_F_STATIC_NODES).
    Static,
    /// The first, second … of the nodes that have memory (MPOL_F_RELATIVE_NODES).
    Relative,
}

/// A policy, or none.
///
/// | bits  |                                                            |
/// |-------|------------------------------------------------------------|
/// | 0-2   | the mode; 0: there is no policy                            |
/// | 3-4   | how its nodes are named                                    |
/// | 5-9   | the home node plus one; 0: none                            |
/// | 16-31 | the nodes: as they were named, if static or relative       |
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Policy(u32);

const STATIC: u32 = 1 << 3;
const RELATIVE: u32 = 1 << 4;
const HOME_SHIFT: u32 = 5;
const HOME: u32 = 0x1f << HOME_SHIFT;
const NODES_SHIFT: u32 = 16;

impl Policy {
    /// There is none.
    pub const NONE: Self = Self(0);

    /// A policy of `mode` for `nodes`, as the program named them. None: none of them has memory, where the mode needs one.
    pub fn new(mode: Mode, naming: Naming, nodes: u64) -> Option<Self> {
        let flag = match naming {
            Naming::Plain => 0,
            Naming::Static => STATIC,
            Naming::Relative => RELATIVE,
        };
        if mode == Mode::Local {
            return Some(Self(mode as u32 | flag));
        }
        let meant = meant(naming, nodes);
        let named = match naming {
            Naming::Plain if mode == Mode::Preferred => first_of(meant),
            Naming::Plain => meant,
            Naming::Static => nodes as Nodes,
            // What lies beyond the word is told folded.
            Naming::Relative if nodes >> MAX_NUMA_NODES != 0 => fold(nodes, with_memory().count_ones()),
            Naming::Relative => nodes as Nodes,
        };
        (meant != 0).then_some(Self(mode as u32 | flag | u32::from(named) << NODES_SHIFT))
    }

    /// None: there is no policy.
    #[inline]
    pub fn mode(self) -> Option<Mode> {
        Mode::from_number(self.0 & 7)
    }

    pub fn is_none(self) -> bool {
        self.0 == 0
    }

    pub fn naming(self) -> Naming {
        match self.0 & (STATIC | RELATIVE) {
            STATIC => Naming::Static,
            RELATIVE => Naming::Relative,
            _ => Naming::Plain,
        }
    }

    /// The nodes as get_mempolicy(2) tells them.
    pub fn told(self) -> Nodes {
        (self.0 >> NODES_SHIFT) as Nodes
    }

    /// The nodes that are meant.
    pub fn nodes(self) -> Nodes {
        let meant = meant(self.naming(), self.told().into());
        if self.mode() == Some(Mode::Preferred) { first_of(meant) } else { meant }
    }

    /// The same with a home node: the first to be asked (set_mempolicy_home_node(2)).
    pub fn with_home(self, node: u32) -> Self {
        let home = node.saturating_add(1).min(MAX_NUMA_NODES as u32) << HOME_SHIFT;
        Self(self.0 & !HOME | home)
    }

    fn home(self) -> Option<usize> {
        (((self.0 & HOME) >> HOME_SHIFT) as usize).checked_sub(1)
    }

    pub(crate) const fn from_word(word: u32) -> Self {
        Self(word)
    }

    pub(crate) const fn word(self) -> u32 {
        self.0
    }

    /// Whom to ask for the page at place `page`; None: it has no place, and nodes take turns. None as an answer: nobody but as without a policy.
    fn choice(self, page: Option<u64>) -> Option<Choice> {
        let here = machine::node_of(machine::cpu_id()) as usize % MAX_NUMA_NODES;
        let nodes = self.nodes();
        let plain = |first: usize, allowed| Choice { first, allowed, others: true, interleaves: false };
        Some(match self.mode()? {
            Mode::Local => return None,
            Mode::Preferred => plain(nodes.trailing_zeros() as usize % MAX_NUMA_NODES, Nodes::MAX),
            Mode::Bind => Choice { others: false, ..plain(self.home().unwrap_or(here), nodes) },
            Mode::PreferredMany => plain(self.home().unwrap_or(here), nodes),
            mode => {
                let first = match page {
                    Some(page) if mode == Mode::Interleave => nth_of(nodes, page),
                    Some(page) => weights::nth_of(nodes, page),
                    None => self.turn(),
                };
                Choice { interleaves: true, ..plain(first, Nodes::MAX) }
            }
        })
    }

    /// The node whose turn it is in the running task.
    fn turn(self) -> usize {
        let mut node = None;
        frame::with_task_policy(&mut |task| node = Some(task.advance(self)));
        // No program's thread runs.
        node.unwrap_or_else(|| nth_of(self.nodes(), 0))
    }

    /// Itself, or the running task's where it is none.
    fn in_force(self) -> Self {
        let mut policy = self;
        if policy.is_none() {
            frame::with_task_policy(&mut |task| policy = task.get());
        }
        policy
    }
}

/// Nodes that are asked for a page.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Choice {
    /// Asked first, and then those after it, if they are allowed.
    pub first: usize,
    pub allowed: Nodes,
    /// Where those have nothing left, others are asked.
    pub others: bool,
    /// It is counted whether it came from the first.
    pub interleaves: bool,
}

/// The nodes that have memory.
pub fn with_memory() -> Nodes {
    frame::nodes_with_memory()
}

impl Choice {
    /// The node that the page should come from: the first, or the one after it that is allowed.
    pub fn wanted(&self) -> usize {
        if self.allowed >> self.first & 1 != 0 || self.allowed == 0 {
            return self.first;
        }
        next_of(self.allowed, self.first)
    }
}

fn meant(naming: Naming, nodes: u64) -> Nodes {
    let there = with_memory();
    match naming {
        Naming::Plain | Naming::Static => nodes as Nodes & there,
        Naming::Relative => onto(fold(nodes, there.count_ones()), there),
    }
}

/// The nodes modulo `count`.
fn fold(nodes: u64, count: u32) -> Nodes {
    let folded = |n: u32| n.checked_rem(count).map_or(0, |n| 1 << n);
    (0..u64::BITS).filter(|n| nodes >> n & 1 != 0).fold(0, |all, n| all | folded(n))
}

/// The first, second … of `there`, as `which` says.
fn onto(which: Nodes, there: Nodes) -> Nodes {
    let mut nth = 0;
    (0..Nodes::BITS).filter(|n| there >> n & 1 != 0).fold(0, |all, n| {
        let is_meant = which.checked_shr(nth).unwrap_or(0) & 1;
        nth = nth.saturating_add(1);
        all | is_meant << n
    })
}

const fn first_of(nodes: Nodes) -> Nodes {
    nodes & nodes.wrapping_neg()
}

/// The `n`th of `nodes`, counted round: the node whose turn it is at place `n`.
pub fn nth_of(nodes: Nodes, n: u64) -> usize {
    let skipped = n.checked_rem(nodes.count_ones().into()).unwrap_or(0);
    let rest = (0..skipped).fold(nodes, |rest, _| rest & rest.wrapping_sub(1));
    rest.trailing_zeros() as usize % MAX_NUMA_NODES
}

/// The node of `nodes` after `last`, round.
pub(crate) fn next_of(nodes: Nodes, last: usize) -> usize {
    let beyond = u32::try_from(last).ok().and_then(|last| Nodes::MAX.checked_shl(last.saturating_add(1)));
    let after = nodes & beyond.unwrap_or(0);
    (if after == 0 { nodes } else { after }).trailing_zeros() as usize % MAX_NUMA_NODES
}

static IN_USE: AtomicBool = AtomicBool::new(false);

/// Has anybody ever set a policy?
#[inline]
pub fn in_use() -> bool {
    IN_USE.load(Relaxed)
}

/// Somebody sets one.
pub(crate) fn note_use() {
    if !in_use() {
        IN_USE.store(true, Relaxed);
    }
}

/// Whom to ask for the page at place `page`: by `policy`, or the running task's where that is none. None: whoever is asked without a policy.
#[inline]
fn choose(policy: Policy, page: Option<u64>) -> Option<Choice> {
    #[cold]
    fn choose(policy: Policy, page: Option<u64>) -> Option<Choice> {
        policy.in_force().choice(page)
    }
    if in_use() { choose(policy, page) } else { None }
}

/// A page of `node` and of no other, with unspecified contents.
pub(crate) fn on_node(node: usize) -> Option<OwnedFrame> {
    let first = node % MAX_NUMA_NODES;
    frame::alloc_dirty_from(&Choice { first, allowed: 1 << first, others: false, interleaves: false })
}

/// A page of zeros for the cache of a file, which goes by the running task's policy; nodes are interleaved in the order of asking.
#[inline]
pub(crate) fn alloc_cache_page() -> Option<OwnedFrame> {
    match choose(Policy::NONE, None) {
        Some(choice) => frame::alloc_zeroed_from(&choice),
        None => frame::alloc_zeroed(),
    }
}

/// Where a page of a mapping or an object comes from: the policy there is for it, and its place among the pages that are interleaved.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(crate) struct Place {
    pub policy: Policy,
    pub page: u64,
}

impl Place {
    /// Of a page of private memory for which no policy is known.
    #[inline]
    pub const fn of_anonymous(address: usize) -> Self {
        Self { policy: Policy::NONE, page: (address >> PAGE_SHIFT) as u64 }
    }

    /// What it means that there is no page for it.
    #[cold]
    pub fn exhausted(self) -> FaultError {
        let is_bound = self.policy.in_force().mode() == Some(Mode::Bind) && frame::has_any();
        if is_bound { FaultError::NoneBound } else { FaultError::NoMemory }
    }

    /// A page with unspecified contents; None where memory is exhausted, or that of the nodes that are allowed.
    #[inline(always)]
    pub fn alloc_dirty(self) -> Option<OwnedFrame> {
        if in_use() { self.alloc_chosen(false) } else { frame::alloc_dirty() }
    }

    /// A page of zeros. Not to be called with a leaf locked (NothingSlowUnderLeaf).
    #[inline(always)]
    pub fn alloc_zeroed(self) -> Option<OwnedFrame> {
        if in_use() { self.alloc_chosen(true) } else { frame::alloc_zeroed() }
    }

    /// A block for a large page, with unspecified contents; `self` is the place of its first page. From the node whose turn it is, or, where a policy names
    /// nodes, from those. None: they have none just now. Neither waits nor asks other CPUs.
    #[cold]
    pub fn try_block(self) -> Option<OwnedBlock> {
        match choose(self.policy, Some(self.page >> frame::LARGE_ORDER)) {
            Some(choice) if choice.allowed != Nodes::MAX => {
                OwnedBlock::try_take(choice.first, choice.allowed)
            }
            Some(choice) => OwnedBlock::try_take(choice.first, 1 << choice.first),
            None => {
                let here = machine::node_of(machine::cpu_id()) as usize % MAX_NUMA_NODES;
                OwnedBlock::try_take(here, 1 << here)
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn alloc_chosen(self, zeroed: bool) -> Option<OwnedFrame> {
        match (choose(self.policy, Some(self.page)), zeroed) {
            (Some(choice), true) => frame::alloc_zeroed_from(&choice),
            (Some(choice), false) => frame::alloc_dirty_from(&choice),
            (None, true) => frame::alloc_zeroed(),
            (None, false) => frame::alloc_dirty(),
        }
    }
}
