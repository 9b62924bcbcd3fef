//! The CPUs and nodes of this machine: which APIC id is which CPU, which node a CPU and a physical address belong to.
//! Filled from ACPI once, on the boot CPU, then only read.

use super::super::acpi::{MAX_MEMORY_RANGES, MachineTables};
use super::super::cpu::percpu::MAX_CPUS;
use super::super::cpu::{BootCell, features};
use super::{PhysRange, siblings};

/// The most nodes there can be.
pub const MAX_NODES: usize = 64;

#[derive(Clone, Copy)]
struct NodeMemory {
    range: PhysRange,
    node: u32,
}

struct Topology {
    apic_ids: [u32; MAX_CPUS],
    node_of: [u32; MAX_CPUS],
    /// The next thread of the same core, and after the last the first: a CPU whose core has one thread leads to itself.
    next_thread: [u32; MAX_CPUS],
    has_threads: bool,
    cpus: u32,
    nodes: u32,
    memory: [NodeMemory; MAX_MEMORY_RANGES],
    memory_count: usize,
    /// SLIT distances by dense node number; 10 is local.
    distances: [[u8; MAX_NODES]; MAX_NODES],
}

static TOPOLOGY: BootCell<Topology> = BootCell::new(Topology {
    apic_ids: [0; MAX_CPUS],
    node_of: [0; MAX_CPUS],
    next_thread: [0; MAX_CPUS],
    has_threads: false,
    cpus: 1,
    nodes: 1,
    memory: [NodeMemory { range: PhysRange { start: 0, end: 0 }, node: 0 }; MAX_MEMORY_RANGES],
    memory_count: 0,
    distances: [[10; MAX_NODES]; MAX_NODES],
});

/// CPUs present.
#[inline]
pub fn cpus() -> u32 {
    TOPOLOGY.get().cpus
}

/// Nodes present.
#[inline]
pub fn nodes() -> u32 {
    TOPOLOGY.get().nodes
}

/// The node of a CPU.
#[inline]
pub fn node_of(cpu: u32) -> u32 {
    TOPOLOGY.get().node_of.get(cpu as usize).copied().unwrap_or(0)
}

/// The next thread of the core of a CPU, round and round; itself if there is no other.
#[inline]
pub fn next_thread(cpu: u32) -> u32 {
    TOPOLOGY.get().next_thread.get(cpu as usize).copied().unwrap_or(cpu)
}

/// Has any core several threads?
#[inline]
pub fn has_threads() -> bool {
    TOPOLOGY.get().has_threads
}

/// APIC id of a CPU.
#[inline]
pub fn apic_id(cpu: u32) -> u32 {
    TOPOLOGY.get().apic_ids.get(cpu as usize).copied().unwrap_or(u32::MAX)
}

/// How far the memory of node `b` is from the CPUs of node `a`; 10: they are the same.
pub fn distance(a: u32, b: u32) -> u8 {
    let fallback = if a == b { 10 } else { 20 };
    let row = TOPOLOGY.get().distances.get(a as usize);
    row.and_then(|row| row.get(b as usize)).copied().unwrap_or(fallback)
}

/// APIC id and node of a CPU.
pub fn cpu(cpu: u32) -> (u32, u32) {
    (apic_id(cpu), node_of(cpu))
}

/// Logs CPUs and memory of each node, and how far it is to the others.
pub fn show() {
    let t = TOPOLOGY.get();
    for node in 0..nodes() {
        let cpus = (0..cpus()).filter(|&cpu| node_of(cpu) == node).count();
        let own = t.memory.iter().take(t.memory_count).filter(|m| m.node == node);
        let memory: u64 = own.map(|m| m.range.end - m.range.start).sum();
        let row = t.distances.get(node as usize).and_then(|row| row.get(..nodes() as usize)).unwrap_or(&[]);
        debug!("node {node}: {cpus} CPUs, {} MiB, distances {row:?}", memory >> 20);
    }
}

/// The APIC id of this processor, before its area is in place (SDM vol. 3, 12.4.6 and 12.12.8).
pub fn own_apic_id() -> u32 {
    if features::max_leaf() >= 0xb {
        let leaf = features::cpuid(0xb, 0);
        if leaf.ebx != 0 {
            return leaf.edx;
        }
    }
    features::cpuid(1, 0).ebx >> 24
}

/// Fills the tables. The boot CPU is CPU 0; the others follow in the order of the MADT.
///
/// # Safety
/// Once, on the boot CPU, alone.
pub unsafe fn init(tables: &MachineTables) {
    // SAFETY: as the caller says.
    let t = unsafe { TOPOLOGY.get_mut() };
    // Proximity domains become dense node numbers in the order of the domains.
    let mut domains = [u32::MAX; MAX_NODES];
    let mut count = 0usize;
    let listed = tables.cpu_domains().map(|(_, d)| d).chain(tables.memory_domains().map(|(_, d)| d));
    for domain in listed {
        if !domains[..count].contains(&domain) && count < MAX_NODES {
            domains[count] = domain;
            count += 1;
        }
    }
    domains[..count].sort_unstable();
    let node = |domain: u32| domains[..count].iter().position(|&d| d == domain).unwrap_or(0) as u32;
    t.nodes = count.max(1) as u32;
    let own = own_apic_id();
    t.apic_ids[0] = own;
    t.cpus = 1;
    for id in tables.apic_ids() {
        let known = t.apic_ids[..t.cpus as usize].contains(&id);
        if !known && (t.cpus as usize) < MAX_CPUS {
            t.apic_ids[t.cpus as usize] = id;
            t.cpus += 1;
        }
    }
    let (cpus, bits) = (t.cpus as usize, siblings::thread_bits());
    let core = |cpu: usize| t.apic_ids[cpu].checked_shr(bits).unwrap_or(0);
    for cpu in 0..cpus {
        let next = (1..=cpus).map(|n| (cpu + n) % cpus).find(|other| core(*other) == core(cpu));
        t.next_thread[cpu] = next.unwrap_or(cpu) as u32;
        t.has_threads |= next != Some(cpu);
    }
    for (id, domain) in tables.cpu_domains() {
        if let Some(cpu) = t.apic_ids[..t.cpus as usize].iter().position(|&i| i == id) {
            t.node_of[cpu] = node(domain);
        }
    }
    for (range, domain) in tables.memory_domains() {
        if let Some(place) = t.memory.get_mut(t.memory_count) {
            *place = NodeMemory { range, node: node(domain) };
            t.memory_count += 1;
        }
    }
    t.memory[..t.memory_count].sort_unstable_by_key(|m| m.range.start);
    for a in 0..count {
        for b in 0..count {
            let fallback = if a == b { 10 } else { 20 };
            t.distances[a][b] = tables.distance(domains[a], domains[b]).unwrap_or(fallback);
        }
    }
}

/// The node that an address belongs to, as [`split_by_node`] has it.
pub fn node_of_address(address: u64) -> u32 {
    let t = TOPOLOGY.get();
    let mut ranges = t.memory.iter().take(t.memory_count);
    ranges.find(|m| (m.range.start..m.range.end).contains(&address)).map_or(0, |m| m.node)
}

/// Cuts `range` at node borders. Memory that no table mentions belongs to node 0.
pub fn split_by_node(range: PhysRange, f: &mut dyn FnMut(PhysRange, u32)) {
    let t = TOPOLOGY.get();
    let mut at = range.start;
    for m in &t.memory[..t.memory_count] {
        let (start, end) = (m.range.start.max(at), m.range.end.min(range.end));
        if start >= end {
            continue;
        }
        if at < start {
            f(PhysRange { start: at, end: start }, 0);
        }
        f(PhysRange { start, end }, m.node);
        at = end;
    }
    if at < range.end {
        f(PhysRange { start: at, end: range.end }, 0);
    }
}
