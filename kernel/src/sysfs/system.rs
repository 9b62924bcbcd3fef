//! The folders of /sys/devices/system: CPUs, caches, nodes, memory and clocks.
#![forbid(unsafe_code)]

use sync::machine;

use super::folder::{Bus, Folder};
use super::memory;
use super::texts::{OfCache, OfCpu, OfNode, Set, Text};
use super::tree::Names;
use crate::arch::{self, flaws};

const CPU_FILES: &[(&str, Text)] = &[
    ("enabled", Text::List(Set::Cpus)),
    ("isolated", Text::Nothing),
    ("kernel_max", Text::LastCpu),
    ("offline", Text::Nothing),
    ("online", Text::List(Set::Cpus)),
    ("possible", Text::List(Set::Cpus)),
    ("present", Text::List(Set::Cpus)),
];

const NODE_FILES: &[(&str, Text)] = &[
    ("has_cpu", Text::List(Set::NodesWithCpus)),
    ("has_memory", Text::List(Set::Nodes)),
    ("has_normal_memory", Text::List(Set::Nodes)),
    ("online", Text::List(Set::Nodes)),
    ("possible", Text::List(Set::Nodes)),
];

/// What `topology` of a CPU says of those that sit with it; and the same as a list.
const TOGETHER: &[(&str, &str, OfCpu)] = &[
    ("cluster_cpus", "cluster_cpus_list", OfCpu::Core),
    ("core_cpus", "core_cpus_list", OfCpu::Core),
    ("core_siblings", "core_siblings_list", OfCpu::Package),
    ("die_cpus", "die_cpus_list", OfCpu::Package),
    ("package_cpus", "package_cpus_list", OfCpu::Package),
    ("thread_siblings", "thread_siblings_list", OfCpu::Core),
];

const OF_CACHE: &[(&str, OfCache)] = &[
    ("coherency_line_size", OfCache::Line),
    ("id", OfCache::Id),
    ("level", OfCache::Level),
    ("number_of_sets", OfCache::Sets),
    ("physical_line_partition", OfCache::Partitions),
    ("size", OfCache::Size),
    ("type", OfCache::Kind),
    ("ways_of_associativity", OfCache::Ways),
];

/// The entries of one of these folders.
pub fn system(names: &mut Names<'_>) {
    match names.of {
        Folder::System => {
            names.folders([Folder::Clocks, Folder::Cpus, Folder::Memory, Folder::Nodes]);
        }
        Folder::Cpus => {
            CPU_FILES.iter().for_each(|(name, text)| names.text(name, *text));
            names.folders([Folder::Smt, Folder::Flaws]);
            (0..machine::cpus()).for_each(|n| names.folder(Folder::Cpu(n)));
        }
        Folder::Flaws => {
            let flaws = (0..flaws::COUNT).filter_map(flaws::flaw);
            flaws.for_each(|(name, said)| names.text(name, Text::Word(said)));
        }
        Folder::Cpu(cpu) => {
            // The first cannot be taken away, and has none on Linux.
            if cpu != 0 {
                names.text("online", Text::One);
            }
            names.link_to(Folder::Node(machine::node_of(cpu)));
            names.on_bus(Bus::Cpu);
            names.folder(Folder::Topology(cpu));
            if arch::cache(0).is_some() {
                names.folder(Folder::Caches(cpu));
            }
        }
        Folder::Topology(cpu) => {
            for (mask, list, of) in TOGETHER {
                names.text(mask, Text::Mask(Set::With(*of, cpu)));
                names.text(list, Text::List(Set::With(*of, cpu)));
            }
            names.text("cluster_id", Text::NoId);
            names.text("core_id", Text::CoreId(cpu));
            names.text("die_id", Text::Zero);
            names.text("physical_package_id", Text::PackageId(cpu));
        }
        Folder::Caches(cpu) => {
            // As many as a word of CPUID can count are not there.
            let caches = (0..32).take_while(|n| arch::cache(*n).is_some());
            caches.for_each(|n| names.folder(Folder::Cache(cpu, n)));
            names.text("uevent", Text::Silent);
        }
        Folder::Cache(cpu, n) => {
            OF_CACHE.iter().for_each(|(name, of)| names.text(name, Text::Cache(*of, cpu, n)));
            names.text("shared_cpu_list", Text::List(Set::Sharing(cpu, n)));
            names.text("shared_cpu_map", Text::Mask(Set::Sharing(cpu, n)));
            names.text("uevent", Text::Silent);
        }
        Folder::Smt => {
            names.text("active", Text::ThreadsShare);
            names.text("control", Text::Word("notimplemented"));
        }
        Folder::Clocks => {
            names.folder(Folder::Clock);
            names.text("uevent", Text::Silent);
        }
        Folder::Clock => {
            names.text("available_clocksource", Text::Word("tsc "));
            names.text("current_clocksource", Text::Word("tsc"));
            names.on_bus(Bus::Clocksource);
            names.text("uevent", Text::Silent);
        }
        Folder::Nodes => {
            NODE_FILES.iter().for_each(|(name, text)| names.text(name, *text));
            (0..machine::nodes()).for_each(|n| names.folder(Folder::Node(n)));
        }
        Folder::Node(node) => of_node(names, node),
        Folder::Memory => {
            names.text("auto_online_blocks", Text::Word("online"));
            names.text("block_size_bytes", Text::BlockBytes);
            memory::blocks().for_each(|n| names.folder(Folder::MemoryBlock(n)));
            names.text("uevent", Text::Silent);
        }
        Folder::MemoryBlock(n) => {
            names.link_to(Folder::Node(memory::node_of(n)));
            names.text("online", Text::One);
            names.text("phys_device", Text::Zero);
            names.text("phys_index", Text::BlockNumber(n));
            // None can be taken away.
            names.text("removable", Text::Zero);
            names.text("state", Text::Word("online"));
            names.on_bus(Bus::Memory);
            names.text("uevent", Text::Silent);
            names.text("valid_zones", Text::Word("Normal"));
        }
        _ => {}
    }
}

fn of_node(names: &mut Names<'_>, node: u32) {
    names.text("cpulist", Text::List(Set::OfNode(node)));
    names.text("cpumap", Text::Mask(Set::OfNode(node)));
    names.text("distance", Text::Node(OfNode::Distances, node));
    names.text("meminfo", Text::Node(OfNode::Memory, node));
    names.text("numastat", Text::Node(OfNode::Taken, node));
    names.on_bus(Bus::Node);
    names.text("uevent", Text::Silent);
    names.text("vmstat", Text::Node(OfNode::FreePages, node));
    let own = (0..machine::cpus()).filter(|cpu| machine::node_of(*cpu) == node);
    own.for_each(|cpu| names.link_to(Folder::Cpu(cpu)));
    let blocks = memory::blocks().filter(|n| memory::node_of(*n) == node);
    blocks.for_each(|n| names.link_to(Folder::MemoryBlock(n)));
}
