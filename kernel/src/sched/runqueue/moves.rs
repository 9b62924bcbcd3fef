//! Why tasks went from one CPU's queue to another's, for `/proc`. Who moves a task counts it on its own CPU.

use super::machine::Machine;
use sync::machine::CpuId;
use sync::per_cpu;
use sync::percpu::Count;

/// Why a task moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It woke, and another CPU idled.
    Wakes,
    /// It woke, and takes turns with who woke it.
    TakesTurns,
    /// A CPU that idles took it.
    Idles,
    /// It was owed more than others, by the times of two CPUs.
    IsOwed,
    /// It left its CPU while it ran: its affinity, a new program, a core of its own.
    Leaves,
}

const KINDS: usize = 5;

struct Moves {
    by_kind: [Count; KINDS],
    between_nodes: Count,
}

per_cpu! {
    static MOVES: Moves = Moves { by_kind: [const { Count::new() }; KINDS], between_nodes: Count::new() };
}

/// A task moves from a CPU to another.
pub fn count(machine: &impl Machine, why: Why, from: CpuId, to: CpuId) {
    if from == to {
        return;
    }
    let moves = MOVES.this();
    if let Some(count) = moves.by_kind.get(why as usize) {
        count.add(1);
    }
    if machine.node_of(from) != machine.node_of(to) {
        moves.between_nodes.add(1);
    }
}

/// What `cpu` has moved, in the order of `Why`; and how many of those went to another node.
pub fn of(cpu: CpuId) -> ([u64; KINDS], u64) {
    let moves = MOVES.of(cpu);
    (core::array::from_fn(|n| moves.by_kind[n].get()), moves.between_nodes.get())
}
