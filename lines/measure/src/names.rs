//! What a line is and what code is, in words: object, type and field instead of addresses.
//!
//! A line's address leads to a place (`place`); of the place those bytes are named that make the conflict. [`LineName::stable`] has no
//! address, no CPU and no count in it, so it is the same in repeated runs and on any number of CPUs.

use crate::code;
use crate::kernel::{Kernel, Map};
use crate::name::{CodeName, LineName, Part};
use crate::place::Place;
use crate::rust_name::{is_standard, simple, with_parameters};
use crate::{Error, Line, LineWindow, Symbols};

/// The names of one kernel.
pub struct Names {
    kernel: Kernel,
}

const LINE: u64 = 64;

impl Names {
    /// From a kernel's ELF file, or Linux's /proc/kallsyms (of a boot with `nokaslr`).
    pub fn new(image: &[u8]) -> Result<Names, Error> {
        Ok(Names { kernel: Kernel::new(image)? })
    }

    pub fn symbols(&self) -> &Symbols {
        &self.kernel.symbols
    }

    /// What the plugin must be told to read on a machine with so many CPUs: options, each with a comma before it.
    pub fn plugin_options(&self, cpus: u32) -> String {
        let read = |address: Option<u64>, words: u32| {
            address.map_or(String::new(), |address| format!(",read={address}:{}", 8 * words.clamp(1, 4096)))
        };
        match &self.kernel.map {
            Map::Darter(map) => {
                let count = u32::try_from(map.percpu_count).unwrap_or(cpus).min(cpus);
                format!(",frames={}{}", map.frame_table, read(Some(map.percpu_bases), count))
            }
            Map::Linux(map) => {
                let bases = [map.direct_map, map.vmalloc, map.vmemmap].map(|base| read(base, 1));
                format!("{}{}", read(map.areas, cpus), bases.concat())
            }
        }
    }

    /// A program counter in words: the innermost function that is not the standard library's, and what it was put into.
    pub fn code(&self, pc: u64) -> CodeName {
        if pc >> 63 == 0 {
            let function = if pc == 0 { "nobody" } else { "the program" };
            return CodeName { function: function.into(), ..CodeName::default() };
        }
        let whole = self.kernel.symbols.object(pc).map_or(format!("{pc:#x}"), |(name, start, _)| {
            self.kernel
                .types()
                .generic_function(start)
                .map_or(simple(name), |debug| with_parameters(name, debug))
        });
        let spots = self.kernel.source().map(|source| source.spots(pc)).unwrap_or_default();
        let own = |spot: &&code::Spot| spot.file.as_ref().is_some_and(|(file, _)| !code::is_standard(file));
        match spots.iter().find(own).or(spots.last()) {
            None => CodeName { function: whole, ..CodeName::default() },
            Some(spot) => {
                let function = spot.function.as_deref().map_or(whole.clone(), simple);
                // The function itself, whose parameters only `whole` says.
                let outermost = spots.last() == Some(spot);
                let function = if outermost && is_standard(&whole) { whole.clone() } else { function };
                let within = (function != whole).then_some(whole);
                CodeName { function, file: spot.file.clone(), within }
            }
        }
    }

    /// A line of this window in words.
    pub fn line(&self, window: &LineWindow, line: &Line) -> LineName {
        let vaddr = line.cpus.iter().map(|user| user.vaddr).filter(|vaddr| *vaddr != 0);
        // A program's address says whose the memory is, whoever else used it by the kernel's.
        let vaddr = vaddr.min().unwrap_or(line.vaddr);
        let mut name = LineName::default();
        let mut bytes = conflict(line);
        while bytes != 0 {
            let first = u64::from(bytes.trailing_zeros());
            let place = self.kernel.place(&window.memory, line.physical + first, vaddr + first);
            let len = (place.end.saturating_sub(vaddr)).clamp(first + 1, LINE);
            let here = bytes & (u64::MAX >> (LINE - len));
            bytes &= !here;
            name.cpu = name.cpu.or(place.cpu);
            if !place.one {
                let at = if vaddr >> 63 == 0 { vaddr } else { line.physical };
                name.address = Some(at);
            }
            name.parts.push(self.part(place, vaddr, here));
        }
        name.parts.dedup();
        name
    }

    /// The part that `bytes` of the line at `vaddr` are of this place.
    fn part(&self, place: Place, vaddr: u64, bytes: u64) -> Part {
        let (skip, offset) =
            (place.start.saturating_sub(vaddr).min(LINE - 1), vaddr.saturating_sub(place.start));
        let first = (vaddr + u64::from(bytes.trailing_zeros())).saturating_sub(place.start);
        let (type_, fields) = match place.type_ {
            Some(id) => {
                let types = self.kernel.types();
                let mut fields = types.fields(id, offset, bytes >> skip);
                // The whole of a simple variable.
                fields.retain(|field| !field.is_empty());
                (Some(simple(types.name(id))).filter(|name| !name.is_empty()), fields)
            }
            None if place.one => (None, vec![format!("+{first:#x}")]),
            None => (None, Vec::new()),
        };
        // Of memory that is anything of a size, a place in it is no name.
        let offset = (place.type_.is_none() && place.offsets && !place.one).then_some(first);
        Part { object: place.object, type_, fields, offset }
    }
}

/// The bytes that make the conflict: those that one CPU wrote and another used; where there are none (the line alone is shared),
/// those that were written; where nothing is known of bytes, the first.
fn conflict(line: &Line) -> u64 {
    let (mut shared, mut written, mut all) = (0, 0, 0);
    for (index, user) in line.cpus.iter().enumerate() {
        written |= user.written;
        all |= user.read | user.written;
        for other in line.cpus.iter().enumerate().filter(|(at, _)| *at != index).map(|(_, other)| other) {
            shared |= user.written & (other.read | other.written);
        }
    }
    [shared, written, all].into_iter().find(|bytes| *bytes != 0).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::map::DarterMap;
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
            kinds: ["page outside the allocator", "free page", "page", "page table", "slab", "heap block"]
                .map(String::from)
                .into(),
            ..DarterMap::default()
        };
        let symbols = "ffffffff80200000 T darter_vm::fault\nffffffff80414000 D darter_vm::FIRST\n\
                       ffffffff80414100 D darter_vm::MAGAZINE\nffffffff80600100 D darter_kernel::COUNTER\n";
        let symbols = Symbols::from_system_map(symbols).unwrap();
        Names { kernel: Kernel::with(Vec::new(), symbols, Map::Darter(map)) }
    }

    /// A window in which pages 5 (a page table), 8 to 11 (a block, one page of it a freed page table
    /// before), 12 (free) and 13 (a page
    /// table until it was freed) were read.
    fn window() -> LineWindow {
        let frame = |page: u64, kind: u8, flags: u8| {
            format!("[{},\"00000000{kind:02x}0000{flags:02x}\"]", FRAMES + page * 64)
        };
        let bases: String =
            AREAS.iter().flat_map(|base| base.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
        let memory = [
            frame(5, 3, 1),
            frame(8, 5, 2),
            frame(9, 0x83, 0),
            frame(12, 1, 0),
            frame(13, 0x83, 0),
            format!("[{BASES},\"{bases}\"]"),
        ];
        let text = format!(
            r#"{{"format":"darter-lines/1","mode":"lines","windows":[{{"number":0,"user_accesses":0,"kernel_accesses":0,
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
        assert_eq!(name.text(), name.stable(), "there is only one");
        let direct = names.line(&window(), &line(0x60_0140, DIRECT + 0x60_0140, [(0, 1), (1, 0)]));
        assert_eq!(direct.stable(), "kernel::COUNTER+0x40", "the image by its other address");
    }

    #[test]
    fn where_only_the_line_is_shared_what_was_written_is_named() {
        let line = line(0x60_0140, 0xffff_ffff_8060_0140, [(0, 0xf0_0000), (0xff, 0)]);
        assert_eq!(darter().line(&window(), &line).stable(), "kernel::COUNTER+0x54");
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
        assert_eq!(named(0x9000, DIRECT + 0x9000).stable(), "heap block", "a page inside a block");
        assert_eq!(named(0xc000, DIRECT + 0xc000).stable(), "free page", "a page after the block");
        assert_eq!(named(0xd000, DIRECT + 0xd000).stable(), "leaf page table", "what it was used for last");
        assert_eq!(named(0x80_0000, FRAMES + 5 * 64).stable(), "frame metadata of page table of level 1");
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
        let kallsyms = b"0000000000000000 A fixed_percpu_data\n0000000000001000 A runqueues\n0000000000003000 A last\n\
                         ffffffff81000000 T _text\nffffffff82000000 D __per_cpu_offset\nffffffff82000800 D page_offset_base\n\
                         ffffffff82000808 D vmemmap_base\nffffffff82000810 D vmalloc_base\n";
        let names = Names::new(kallsyms).unwrap();
        let variable = |offset: u64| 0xffff_ffff_8200_0000 + offset;
        let reads = [(0, 16), (0x800, 8), (0x810, 8), (0x808, 8)];
        let options = reads.map(|(offset, bytes)| format!(",read={}:{bytes}", variable(offset))).concat();
        assert_eq!(names.plugin_options(2), options);
        let (direct, vmemmap, vmalloc) =
            (0xff11_0000_0000_0000, 0xffd4_0000_0000_0000, 0xffa0_0000_0000_0000);
        let hex = |words: &[u64]| -> String {
            words.iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
        };
        let area = |cpu: u64| direct + 0x4000_0000 + cpu * 0x10_0000;
        let mut window = window();
        window.memory = vec![
            (variable(0), hex(&[area(0), area(1)])),
            (variable(0x800), hex(&[direct])),
            (variable(0x808), hex(&[vmemmap])),
            (variable(0x810), hex(&[vmalloc])),
        ]
        .into();
        let name = |physical, vaddr| names.line(&window, &line(physical, vaddr, [(0, 1), (1, 0)])).text();
        assert_eq!(name(0x4010_1040, area(1) + 0x1040), "per-CPU runqueues+0x40 of CPU 1");
        assert_eq!(name(0x4000_3040, area(0) + 0x3040), "per-CPU allocation of CPU 0 at 0x40003040");
        assert_eq!(name(0x1000, direct + 0x1000), "direct map page at 0x1000");
        assert_eq!(name(0x1000, vmemmap + 0x40), "struct page at 0x1000");
        assert_eq!(name(0x1000, vmalloc + 0x40), "vmalloc page or kernel stack at 0x1000");
        assert_eq!(name(0x1000, variable(0x40)), "__per_cpu_offset+0x40");
    }
}
