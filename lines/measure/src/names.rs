//! What a line is and what code is, in words: object, type and field instead of addresses.
//!
//! A line's address leads to a place: a variable of the kernel (its symbols), a CPU's copy of one (the area that it lies in), or a
//! page, which the kernel's metadata of the page tells (read by the plugin when the window was complete). Of the place those
//! bytes are named that make the conflict. [`LineName::stable`] has no address, no CPU and no count in it, so it is the same in
//! repeated runs and on any number of CPUs.

use crate::map::{DarterMap, linux};
use crate::{Error, Line, LineWindow, Memory, Symbols};
use std::fmt::Write as _;

/// One object of which a line holds bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// A variable's name, or what the memory is used for.
    pub object: String,
    /// Its type, where that is known.
    pub type_: Option<String>,
    /// The fields that were used, from the object's beginning: `state.owner`, `[].len`; `+0x40` where the type is not known.
    pub fields: Vec<String>,
}

/// A line in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LineName {
    /// In the order of their addresses; at least one.
    pub parts: Vec<Part>,
    /// The CPU whose copy of a per-CPU variable this is.
    pub cpu: Option<u32>,
    /// Where exactly, for people: an address.
    pub place: String,
}

impl LineName {
    /// The names `object.field`, one for each field, without anything that differs from run to run.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.parts.iter().flat_map(Part::names).collect();
        names.dedup();
        names
    }

    /// The same line's name in every run and on any number of CPUs.
    pub fn stable(&self) -> String {
        self.names().join(" + ")
    }

    /// For people: which CPU's copy, the type, and where.
    pub fn text(&self) -> String {
        let mut text = self.stable();
        if let Some(cpu) = self.cpu {
            let _ = write!(text, " of CPU {cpu}");
        }
        if let [Part { type_: Some(type_), object, .. }] = self.parts.as_slice()
            && type_ != object
        {
            let _ = write!(text, " ({type_})");
        }
        if !self.place.is_empty() {
            let _ = write!(text, " at {}", self.place);
        }
        text
    }
}

impl Part {
    fn names(&self) -> Vec<String> {
        if self.fields.is_empty() {
            return vec![self.object.clone()];
        }
        let joined = |field: &String| match field.as_bytes().first() {
            Some(b'[' | b'+') => format!("{}{field}", self.object),
            _ => format!("{}.{field}", self.object),
        };
        self.fields.iter().map(joined).collect()
    }
}

/// A place in the code in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CodeName {
    pub function: String,
    /// Path from the root of the repository, and line.
    pub file: Option<(String, u32)>,
    /// The function that the compiler put `function` into.
    pub within: Option<String>,
}

impl CodeName {
    pub fn text(&self) -> String {
        let mut text = self.function.clone();
        if let Some((file, line)) = &self.file {
            let _ = write!(text, " {file}:{line}");
        }
        if let Some(within) = &self.within {
            let _ = write!(text, " in {within}");
        }
        text
    }
}

/// An object in the guest's memory, as far as it is known.
struct Place {
    object: String,
    type_: Option<String>,
    /// The addresses that belong to it.
    start: u64,
    end: u64,
    cpu: Option<u32>,
    /// Are offsets in it worth a name where the type is not known?
    offsets: bool,
}

enum Kernel {
    Darter(DarterMap),
    /// The per-CPU variables by their offset in an area, and the array of the areas' addresses.
    Linux {
        percpu: Option<Symbols>,
        areas: Option<u64>,
    },
}

/// The names of one kernel.
pub struct Names {
    symbols: Symbols,
    kernel: Kernel,
}

const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// Where the kernel's own image lies, on Linux and on Darter: the last two gigabytes.
const IMAGE: u64 = linux::IMAGE;
/// A page may belong to a block of up to 1,024, whose first page says what it is.
const BLOCK_BITS: u32 = 10;

impl Names {
    /// From a kernel's ELF file, or Linux's /proc/kallsyms (of a boot with `nokaslr`).
    pub fn new(image: &[u8]) -> Result<Names, Error> {
        let symbols = Symbols::from_either(image)?;
        let darter = if image.starts_with(b"\x7fELF") { DarterMap::read(image)? } else { None };
        let kernel = match darter {
            Some(map) => Kernel::Darter(map),
            None => {
                let percpu = Symbols::linux_percpu(&String::from_utf8_lossy(image)).ok();
                Kernel::Linux { percpu, areas: symbols.address("__per_cpu_offset") }
            }
        };
        Ok(Names { symbols, kernel })
    }

    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// What the plugin must be told to read on a machine with so many CPUs: options, each with a comma before it.
    pub fn plugin_options(&self, cpus: u32) -> String {
        let bases = |array: u64, count: u64| format!(",read={array}:{}", 8 * count.clamp(1, 4096));
        match &self.kernel {
            Kernel::Darter(map) => {
                let count = map.percpu_count.min(cpus.into());
                format!(",frames={}{}", map.frame_table, bases(map.percpu_bases, count))
            }
            Kernel::Linux { areas: Some(areas), .. } => bases(*areas, cpus.into()),
            Kernel::Linux { .. } => String::new(),
        }
    }

    /// A program counter in words.
    pub fn code(&self, pc: u64) -> CodeName {
        let function = match pc {
            0 => "nobody".into(),
            pc if pc >> 63 == 0 => "the program".into(),
            pc => short(self.symbols.name(pc)),
        };
        CodeName { function, ..CodeName::default() }
    }

    /// A line of this window in words.
    pub fn line(&self, window: &LineWindow, line: &Line) -> LineName {
        let vaddr = line.cpus.iter().map(|user| user.vaddr).filter(|vaddr| *vaddr != 0);
        // A program's address says whose the memory is, whoever else used it by the kernel's.
        let vaddr = vaddr.min().unwrap_or(line.vaddr);
        let place = match vaddr >> 63 {
            0 => format!("{vaddr:#x}"),
            _ => format!("{:#x}", line.physical),
        };
        let mut name = LineName { place, ..LineName::default() };
        let mut bytes = conflict(line);
        while bytes != 0 {
            let first = u64::from(bytes.trailing_zeros());
            let place = self.place(&window.memory, line.physical + first, vaddr + first);
            let len = (place.end.saturating_sub(vaddr)).clamp(first + 1, LINE);
            let here = bytes & (u64::MAX >> (LINE - len));
            bytes &= !here;
            name.cpu = name.cpu.or(place.cpu);
            name.parts.push(self.part(place, vaddr, here));
        }
        name.parts.dedup();
        if !name.parts.iter().all(|part| part.fields.is_empty()) {
            // The name itself says where.
            name.place.clear();
        }
        name
    }

    /// The part that `bytes` of the line at `vaddr` are of this place.
    fn part(&self, place: Place, vaddr: u64, bytes: u64) -> Part {
        let offset = (vaddr + u64::from(bytes.trailing_zeros())).saturating_sub(place.start);
        let fields = if place.offsets { vec![format!("+{offset:#x}")] } else { Vec::new() };
        Part { object: place.object, type_: place.type_, fields }
    }

    /// What lies at an address.
    fn place(&self, memory: &Memory, physical: u64, vaddr: u64) -> Place {
        if vaddr >> 63 == 0 {
            return whole("program memory".into(), vaddr);
        }
        if vaddr >= IMAGE {
            return self.variable(vaddr, "", 0);
        }
        match &self.kernel {
            Kernel::Darter(map) => self.darter(map, memory, physical, vaddr),
            Kernel::Linux { percpu, areas } => linux_place(percpu.as_ref(), *areas, memory, physical, vaddr),
        }
    }

    fn darter(&self, map: &DarterMap, memory: &Memory, physical: u64, vaddr: u64) -> Place {
        if (map.stacks..map.stacks + (1 << 40)).contains(&vaddr) {
            return whole("kernel stack".into(), vaddr);
        }
        let table = map.frame_table;
        if (table..table + (1 << 40)).contains(&vaddr) {
            let start = vaddr - (vaddr - table) % map.frame_size.max(1);
            let of = map.frame(memory, start).map_or("page".into(), |page| page.text());
            return Place {
                object: format!("frame metadata of {of}"),
                type_: Some("Frame".into()),
                start,
                end: start + map.frame_size,
                cpu: None,
                offsets: true,
            };
        }
        // The image is in the direct map as well.
        let in_image = IMAGE + physical;
        if physical < 1 << 31 && (map.image_start..map.image_end).contains(&in_image) {
            return self.variable(in_image, "", vaddr.wrapping_sub(in_image));
        }
        let virt = map.direct_map + physical;
        for (cpu, base) in words(memory.at(map.percpu_bases)).enumerate().filter(|(_, base)| *base != 0) {
            let link = virt.wrapping_sub(base).wrapping_add(map.percpu_start);
            if (map.percpu_start..map.percpu_end).contains(&link) {
                let place = self.variable(link, "per-CPU ", vaddr.wrapping_sub(link));
                return Place { cpu: u32::try_from(cpu).ok(), ..place };
            }
        }
        whole(map.page(memory, physical / PAGE).map_or("memory".into(), |page| page.text()), vaddr)
    }

    /// The variable at a link address, which is used at an address `moved` higher.
    fn variable(&self, link: u64, what: &str, moved: u64) -> Place {
        let (name, start, size) = self.symbols.object(link).unwrap_or(("kernel image", link, 1));
        let end = start.saturating_add(size).max(link + 1);
        Place {
            object: format!("{what}{}", short(name)),
            type_: None,
            start: start.wrapping_add(moved),
            end: end.wrapping_add(moved),
            cpu: None,
            offsets: true,
        }
    }
}

/// What the kernel's metadata says of a page.
struct Page<'a> {
    kind: &'a str,
    flags: u8,
}

impl Page<'_> {
    fn text(&self) -> String {
        match (self.kind, self.flags) {
            ("page table", 0) => "leaf page table".into(),
            ("page table", level) => format!("page table of level {level}"),
            (kind, _) => kind.to_owned(),
        }
    }
}

impl DarterMap {
    /// The page with this number. Of a page inside a block nothing but the block's first page tells; the flags of that are the
    /// block's size.
    fn page(&self, memory: &Memory, number: u64) -> Option<Page<'_>> {
        let frame = |number| self.frame(memory, self.frame_table + number * self.frame_size);
        let own = frame(number)?;
        let block = (1..=BLOCK_BITS).find_map(|bits| {
            let head = frame(number >> bits << bits)?;
            (matches!(head.kind, "slab" | "block") && u64::from(head.flags) >= u64::from(bits))
                .then_some(head)
        });
        match own.kind {
            "free page" => block.or(Some(own)),
            _ => Some(own),
        }
    }

    /// The page whose metadata begins at an address.
    fn frame(&self, memory: &Memory, address: u64) -> Option<Page<'_>> {
        let bytes = memory.at(address)?;
        let byte = |offset| bytes.get(usize::try_from(offset).ok()?).copied();
        let kind = usize::from(byte(self.frame_kind)?);
        Some(Page {
            kind: self.kinds.get(kind).map_or("page", String::as_str),
            flags: byte(self.frame_flags)?,
        })
    }
}

fn linux_place(
    percpu: Option<&Symbols>,
    areas: Option<u64>,
    memory: &Memory,
    physical: u64,
    vaddr: u64,
) -> Place {
    if let (Some(percpu), Some(areas)) = (percpu, areas) {
        for (cpu, base) in words(memory.at(areas)).enumerate() {
            // Symbols of per-CPU variables begin at 0; an area's address is that of symbol 0.
            let offset = (linux::DIRECT_MAP + physical).wrapping_sub(base);
            if let Some((name, start, size)) = percpu.object(offset).filter(|_| offset < percpu.last()) {
                let moved = vaddr.wrapping_sub(offset);
                let end = start.saturating_add(size).min(percpu.last()).max(offset + 1);
                return Place {
                    object: format!("per-CPU {name}"),
                    type_: None,
                    start: start.wrapping_add(moved),
                    end: end.wrapping_add(moved),
                    cpu: u32::try_from(cpu).ok(),
                    offsets: true,
                };
            }
        }
    }
    let what = match vaddr {
        linux::DIRECT_MAP..linux::DIRECT_MAP_END => "direct map page",
        linux::VMALLOC..linux::VMALLOC_END => "vmalloc page or kernel stack",
        linux::VMEMMAP..linux::VMEMMAP_END => "struct page",
        _ => "kernel memory",
    };
    whole(what.into(), vaddr)
}

/// Memory of which no part has a name of its own.
fn whole(object: String, vaddr: u64) -> Place {
    let start = vaddr & !(LINE - 1);
    Place { object, type_: None, start, end: start + LINE, cpu: None, offsets: false }
}

fn words(bytes: Option<&[u8]>) -> impl Iterator<Item = u64> {
    bytes.unwrap_or(&[]).chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes))
}

/// The bytes that make the conflict: those that one CPU wrote and another used; where there are none (the line alone is shared),
/// all that were used; where nothing is known of bytes, the first.
fn conflict(line: &Line) -> u64 {
    let (mut shared, mut all) = (0, 0);
    for (index, user) in line.cpus.iter().enumerate() {
        all |= user.read | user.written;
        for other in line.cpus.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, other)| other) {
            shared |= user.written & (other.read | other.written);
        }
    }
    match (shared, all) {
        (0, 0) => 1,
        (0, all) => all,
        (shared, _) => shared,
    }
}

/// A Rust name without what everybody knows: the crates are called after the rooms.
fn short(name: &str) -> String {
    name.replace("darter_", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{User, parse_lines};

    const FRAMES: u64 = 0xffff_c000_0000_0000;
    const DIRECT: u64 = 0xffff_8000_0000_0000;
    const BASES: u64 = 0xffff_ffff_8060_0000;
    /// Where the areas of CPU 0 and CPU 1 lie.
    const AREAS: [u64; 2] = [DIRECT + 0x1000_0000, DIRECT + 0x2000_0000];

    fn darter() -> Names {
        let map = DarterMap {
            direct_map: DIRECT,
            frame_table: FRAMES,
            frame_size: 64,
            frame_kind: 4,
            frame_flags: 7,
            stacks: 0xffff_d000_0000_0000,
            percpu_bases: BASES,
            percpu_count: 256,
            percpu_start: 0xffff_ffff_8041_4000,
            percpu_end: 0xffff_ffff_8041_8000,
            image_start: 0xffff_ffff_8020_0000,
            image_end: 0xffff_ffff_8070_0000,
            kinds: ["page outside the allocator", "free page", "page", "page table", "slab", "block"]
                .map(String::from)
                .into(),
            ..DarterMap::default()
        };
        let symbols = "ffffffff80200000 T darter_vm::fault\nffffffff80414000 D darter_vm::FIRST\n\
                       ffffffff80414100 D darter_vm::MAGAZINE\nffffffff80600100 D darter_kernel::COUNTER\n";
        Names { symbols: Symbols::from_system_map(symbols).unwrap(), kernel: Kernel::Darter(map) }
    }

    /// A window in which pages 5 (a page table), 8 to 11 (a slab, one page of it freed before) and 12 (free) were read.
    fn window() -> LineWindow {
        let frame = |page: u64, kind: u8, flags: u8| {
            format!("[{},\"00000000{kind:02x}0000{flags:02x}\"]", FRAMES + page * 64)
        };
        let bases: String =
            AREAS.iter().flat_map(|base| base.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
        let memory = [
            frame(5, 3, 1),
            frame(8, 4, 2),
            frame(9, 1, 0),
            frame(12, 1, 0),
            format!("[{BASES},\"{bases}\"]"),
        ];
        let text = format!(
            r#"{{"format":"darter-lines/1","mode":"lines","windows":[{{"seq":0,"user_accesses":0,"kernel_accesses":0,
            "user_reads":0,"user_writes":0,"kernel_reads":0,"kernel_writes":0,"remote":0,"matrix":[],"lines":[],
            "memory":[{}]}}]}}"#,
            memory.join(",")
        );
        parse_lines(&text).unwrap().remove(0)
    }

    fn line(physical: u64, vaddr: u64, masks: [(u64, u64); 2]) -> Line {
        let user = |(cpu, (read, written))| User { cpu, read, written, vaddr, ..User::default() };
        let cpus = (0..).zip(masks).map(user).collect();
        Line { physical, vaddr, class: None, transfers: 0, remote: 0, cpus, pairs: Vec::new() }
    }

    fn named(physical: u64, vaddr: u64) -> LineName {
        darter().line(&window(), &line(physical, vaddr, [(0, 0xff), (0xff, 0)]))
    }

    #[test]
    fn a_variable_is_named_by_its_first_shared_byte() {
        let names = darter();
        let name =
            names.line(&window(), &line(0x60_0140, 0xffff_ffff_8060_0140, [(0, 0xff00), (0xff00, 0xf)]));
        assert_eq!(name.stable(), "kernel::COUNTER+0x48");
        assert_eq!(name.text(), "kernel::COUNTER+0x48");
        let direct = names.line(&window(), &line(0x60_0140, DIRECT + 0x60_0140, [(0, 1), (1, 0)]));
        assert_eq!(direct.stable(), "kernel::COUNTER+0x40", "the image by its other address");
    }

    #[test]
    fn a_copy_of_a_per_cpu_variable_has_one_name_on_all_cpus() {
        let names: Vec<_> = AREAS.iter().map(|area| named(area - DIRECT + 0x100, area + 0x100)).collect();
        assert_eq!(names[0].stable(), "per-CPU vm::MAGAZINE+0x0");
        assert_eq!(names[0].stable(), names[1].stable());
        assert_eq!(names[1].text(), "per-CPU vm::MAGAZINE+0x0 of CPU 1");
    }

    #[test]
    fn a_page_is_what_its_frame_says_and_a_frame_is_that_of_its_page() {
        assert_eq!(named(0x5040, DIRECT + 0x5040).stable(), "page table of level 1");
        assert_eq!(named(0x9000, DIRECT + 0x9000).stable(), "slab", "a page inside a block");
        assert_eq!(named(0xc000, DIRECT + 0xc000).stable(), "free page", "a page after the block");
        assert_eq!(named(0x80_0000, FRAMES + 5 * 64).stable(), "frame metadata of page table of level 1+0x0");
        assert_eq!(named(0x90_0000, DIRECT + 0x90_0000).text(), "memory at 0x900000");
    }

    #[test]
    fn program_memory_is_known_by_the_programs_own_address() {
        let mut line = line(0x5000, DIRECT + 0x5000, [(0, 1), (1, 0)]);
        line.cpus[1].vaddr = 0x40_1000;
        assert_eq!(darter().line(&window(), &line).stable(), "program memory");
        assert_eq!(darter().code(0x40_1000).text(), "the program");
    }

    #[test]
    fn linux_has_symbols_areas_and_regions() {
        let kallsyms =
            b"0000000000000000 A fixed_percpu_data\n0000000000001000 A runqueues\n0000000000003000 A last\n\
                         ffffffff81000000 T _text\nffffffff82000000 D __per_cpu_offset\n";
        let names = Names::new(kallsyms).unwrap();
        assert_eq!(names.plugin_options(2), format!(",read={}:16", 0xffff_ffff_8200_0000u64));
        let mut window = window();
        let base = linux::DIRECT_MAP + 0x4000_0000;
        window.memory =
            vec![(0xffff_ffff_8200_0000, base.to_le_bytes().map(|byte| format!("{byte:02x}")).concat())]
                .into();
        let name = |physical, vaddr| names.line(&window, &line(physical, vaddr, [(0, 1), (1, 0)])).text();
        assert_eq!(name(0x4000_1040, base + 0x1040), "per-CPU runqueues+0x40 of CPU 0");
        assert_eq!(name(0x1000, linux::DIRECT_MAP + 0x1000), "direct map page at 0x1000");
        assert_eq!(name(0x1000, linux::VMEMMAP + 0x40), "struct page at 0x1000");
        assert_eq!(name(0x1000, 0xffff_ffff_8200_0040), "__per_cpu_offset+0x40");
    }
}
