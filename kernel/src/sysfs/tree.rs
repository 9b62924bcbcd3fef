//! The names of sysfs, and where each leads.
#![forbid(unsafe_code)]

use alloc::vec::Vec;

use sync::TryVec;

use super::texts::{OfCache, OfCpu, OfDisk, OfNode, Set, Text};
use crate::arch;
use crate::device::virtio::disk::Disk;
use crate::errno::Result;
use crate::fs::block;
use sync::machine;

/// A folder; numbers are those of CPUs, caches of each CPU, and nodes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Folder {
    Root,
    Devices,
    System,
    Cpus,
    Cpu(u32),
    Topology(u32),
    Caches(u32),
    Cache(u32, u32),
    Nodes,
    Node(u32),
    /// Threads of one core.
    Smt,
    Clocks,
    Clock,
    /// Links to all disks, by name; by number.
    Block,
    Dev,
    DevBlock,
    /// Where a disk lies.
    Virtio(u32),
    VirtioBlock(u32),
    Disk(u32),
    DiskQueue(u32),
    /// Whatever a disk is part of, or is made of: nothing.
    Holders(u32),
    Slaves(u32),
    /// How the kernel gives out memory: pages in a row that nodes get where a policy weighs them.
    Kernel,
    Memory,
    Policies,
    Weights,
}

/// A link between a CPU and its node, or to a disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Link {
    ToNode(u32),
    ToCpu(u32),
    /// From the folder of all disks; from that of their numbers.
    ToDisk(u32),
    NumberToDisk(u32),
}

impl Link {
    pub fn write(self, out: &mut Vec<u8>) -> Result {
        let (before, n) = match self {
            Link::ToNode(n) => (&b"../../node/node"[..], n),
            Link::ToCpu(n) => (&b"../../cpu/cpu"[..], n),
            Link::ToDisk(n) => (&b"../devices/virtio"[..], n),
            Link::NumberToDisk(n) => (&b"../../devices/virtio"[..], n),
        };
        out.try_extend_from_slice(before)?;
        out.try_extend_from_slice(Numbered::new(b"", n).bytes())?;
        let is_disk = matches!(self, Link::ToDisk(_) | Link::NumberToDisk(_));
        if let Some((.., name)) = disk(n).filter(|_| is_disk) {
            out.try_extend_from_slice(b"/block/")?;
            out.try_extend_from_slice(name.as_bytes())?;
        }
        Ok(())
    }
}

/// The disk in a place.
pub fn disk(n: u32) -> Option<(usize, &'static Disk, &'static str)> {
    block::names().nth(n as usize)
}

const DISK_FILES: &[(&str, OfDisk)] = &[
    ("alignment_offset", OfDisk::Zero),
    ("dev", OfDisk::Number),
    ("discard_alignment", OfDisk::Zero),
    ("hidden", OfDisk::Zero),
    ("removable", OfDisk::Zero),
    ("ro", OfDisk::ReadOnly),
    ("size", OfDisk::Sectors),
    ("stat", OfDisk::Stat),
];

const QUEUE_FILES: &[(&str, OfDisk)] = &[
    ("discard_granularity", OfDisk::DiscardUnit),
    ("discard_max_bytes", OfDisk::DiscardMost),
    ("discard_zeroes_data", OfDisk::Zero),
    ("hw_sector_size", OfDisk::Block),
    ("logical_block_size", OfDisk::Block),
    ("max_hw_sectors_kb", OfDisk::RequestMost),
    ("max_sectors_kb", OfDisk::RequestMost),
    ("minimum_io_size", OfDisk::PhysicalBlock),
    ("optimal_io_size", OfDisk::Zero),
    ("physical_block_size", OfDisk::PhysicalBlock),
    ("rotational", OfDisk::One),
    ("scheduler", OfDisk::Scheduler),
    ("write_cache", OfDisk::Cache),
];

/// What a name is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leads {
    Folder(Folder),
    Text(Text),
    Link(Link),
}

/// A word and a number.
pub struct Numbered {
    bytes: [u8; 24],
    len: usize,
}

impl Numbered {
    pub fn new(word: &[u8], n: u32) -> Self {
        let mut name = Numbered { bytes: [0; 24], len: 0 };
        word.iter().for_each(|&byte| name.put(byte));
        // Ten digits at most, none before the first that is not 0.
        for place in (0..10).rev() {
            let above = n.checked_div(10u32.saturating_pow(place)).unwrap_or(0);
            if above > 0 || place == 0 {
                name.put(b"0123456789"[above as usize % 10]);
            }
        }
        name
    }

    fn put(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.len) {
            *place = byte;
            self.len = self.len.saturating_add(1);
        }
    }

    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or(&[])
    }
}

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

/// The major number of disks, as their names by number begin.
const NUMBER: &[u8] = b"254:";
const _: () = assert!(block::MAJOR == 254);

fn each_disk(mut each: impl FnMut(u32, &'static str)) {
    block::names().zip(0..).for_each(|((.., name), n)| each(n, name));
}

type Each<'a> = &'a mut dyn FnMut(u64, &[u8], Leads) -> bool;

/// Numbers names while they come, until somebody has what he wants.
struct Names<'a> {
    next: u64,
    each: Each<'a>,
    ended: bool,
}

impl Names<'_> {
    fn put(&mut self, name: &[u8], leads: Leads) {
        if !self.ended {
            self.ended = !(self.each)(self.next, name, leads);
            self.next = self.next.saturating_add(1);
        }
    }

    fn text(&mut self, name: &str, text: Text) {
        self.put(name.as_bytes(), Leads::Text(text));
    }

    fn folder(&mut self, name: &str, folder: Folder) {
        self.put(name.as_bytes(), Leads::Folder(folder));
    }

    fn numbered(&mut self, word: &[u8], n: u32, leads: Leads) {
        self.put(Numbered::new(word, n).bytes(), leads);
    }
}

impl Folder {
    /// Calls `each` with the place, the name and the end of each entry, until it answers false.
    pub fn each(self, each: Each<'_>) {
        let mut names = Names { next: 0, each, ended: false };
        match self {
            Folder::Root => {
                names.folder("block", Folder::Block);
                names.folder("dev", Folder::Dev);
                names.folder("devices", Folder::Devices);
                names.folder("kernel", Folder::Kernel);
            }
            Folder::Kernel => names.folder("mm", Folder::Memory),
            Folder::Memory => names.folder("mempolicy", Folder::Policies),
            Folder::Policies => names.folder("weighted_interleave", Folder::Weights),
            Folder::Weights => {
                (0..machine::nodes()).for_each(|n| names.numbered(b"node", n, Leads::Text(Text::Weight(n))))
            }
            Folder::Devices => {
                names.folder("system", Folder::System);
                each_disk(|n, _| names.numbered(b"virtio", n, Leads::Folder(Folder::Virtio(n))));
            }
            Folder::Block => {
                each_disk(|n, name| names.put(name.as_bytes(), Leads::Link(Link::ToDisk(n))));
            }
            Folder::Dev => names.folder("block", Folder::DevBlock),
            Folder::DevBlock => each_disk(|n, _| {
                let minor = u32::try_from(block::minor(n as usize)).unwrap_or(u32::MAX);
                names.numbered(NUMBER, minor, Leads::Link(Link::NumberToDisk(n)));
            }),
            Folder::Virtio(n) => names.folder("block", Folder::VirtioBlock(n)),
            Folder::VirtioBlock(n) => {
                if let Some((.., name)) = disk(n) {
                    names.folder(name, Folder::Disk(n));
                }
            }
            Folder::Disk(n) => {
                DISK_FILES.iter().for_each(|(name, of)| names.text(name, Text::Disk(*of, n)));
                names.folder("holders", Folder::Holders(n));
                names.folder("queue", Folder::DiskQueue(n));
                names.folder("slaves", Folder::Slaves(n));
            }
            Folder::DiskQueue(n) => {
                QUEUE_FILES.iter().for_each(|(name, of)| names.text(name, Text::Disk(*of, n)));
            }
            Folder::Holders(_) | Folder::Slaves(_) => {}
            Folder::System => {
                names.folder("clocksource", Folder::Clocks);
                names.folder("cpu", Folder::Cpus);
                names.folder("node", Folder::Nodes);
            }
            Folder::Cpus => {
                CPU_FILES.iter().for_each(|(name, text)| names.text(name, *text));
                names.folder("smt", Folder::Smt);
                (0..machine::cpus()).for_each(|n| names.numbered(b"cpu", n, Leads::Folder(Folder::Cpu(n))));
            }
            Folder::Cpu(cpu) => {
                // The first cannot be taken away, and has none on Linux.
                if cpu != 0 {
                    names.text("online", Text::One);
                }
                let node = machine::node_of(cpu);
                names.numbered(b"node", node, Leads::Link(Link::ToNode(node)));
                names.folder("topology", Folder::Topology(cpu));
                if arch::cache(0).is_some() {
                    names.folder("cache", Folder::Caches(cpu));
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
                caches.for_each(|n| names.numbered(b"index", n, Leads::Folder(Folder::Cache(cpu, n))));
            }
            Folder::Cache(cpu, n) => {
                OF_CACHE.iter().for_each(|(name, of)| names.text(name, Text::Cache(*of, cpu, n)));
                names.text("shared_cpu_list", Text::List(Set::Sharing(cpu, n)));
                names.text("shared_cpu_map", Text::Mask(Set::Sharing(cpu, n)));
            }
            Folder::Smt => {
                names.text("active", Text::ThreadsShare);
                names.text("control", Text::Word("notimplemented"));
            }
            Folder::Clocks => names.folder("clocksource0", Folder::Clock),
            Folder::Clock => {
                names.text("available_clocksource", Text::Word("tsc "));
                names.text("current_clocksource", Text::Word("tsc"));
            }
            Folder::Nodes => {
                NODE_FILES.iter().for_each(|(name, text)| names.text(name, *text));
                (0..machine::nodes())
                    .for_each(|n| names.numbered(b"node", n, Leads::Folder(Folder::Node(n))));
            }
            Folder::Node(node) => {
                names.text("cpulist", Text::List(Set::OfNode(node)));
                names.text("cpumap", Text::Mask(Set::OfNode(node)));
                names.text("distance", Text::Node(OfNode::Distances, node));
                names.text("meminfo", Text::Node(OfNode::Memory, node));
                names.text("numastat", Text::Node(OfNode::Taken, node));
                names.text("vmstat", Text::Node(OfNode::FreePages, node));
                let own = (0..machine::cpus()).filter(|cpu| machine::node_of(*cpu) == node);
                own.for_each(|cpu| names.numbered(b"cpu", cpu, Leads::Link(Link::ToCpu(cpu))));
            }
        }
    }

    /// The inode number of the `n`th entry.
    pub fn number(self, n: u64) -> u64 {
        let (kind, a, b) = match self {
            Folder::Root => (1, 0, 0),
            Folder::Devices => (2, 0, 0),
            Folder::System => (3, 0, 0),
            Folder::Cpus => (4, 0, 0),
            Folder::Cpu(cpu) => (5, cpu, 0),
            Folder::Topology(cpu) => (6, cpu, 0),
            Folder::Caches(cpu) => (7, cpu, 0),
            Folder::Cache(cpu, cache) => (8, cpu, cache),
            Folder::Nodes => (9, 0, 0),
            Folder::Node(node) => (10, node, 0),
            Folder::Block => (11, 0, 0),
            Folder::Dev => (12, 0, 0),
            Folder::DevBlock => (13, 0, 0),
            Folder::Virtio(disk) => (14, disk, 0),
            Folder::VirtioBlock(disk) => (15, disk, 0),
            Folder::Disk(disk) => (16, disk, 0),
            Folder::DiskQueue(disk) => (17, disk, 0),
            Folder::Kernel => (23, 0, 0),
            Folder::Memory => (24, 0, 0),
            Folder::Policies => (25, 0, 0),
            Folder::Weights => (26, 0, 0),
            Folder::Holders(disk) => (18, disk, 0),
            Folder::Slaves(disk) => (19, disk, 0),
            Folder::Smt => (20, 0, 0),
            Folder::Clocks => (21, 0, 0),
            Folder::Clock => (22, 0, 0),
        };
        kind << 52 | u64::from(a) << 32 | u64::from(b) << 24 | n
    }
}
