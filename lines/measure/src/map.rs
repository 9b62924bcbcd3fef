//! Where a kernel's memory is what: for Darter from the map that its ELF file carries (section `.memory_map`, written by
//! `kernel/src/arch/x86_64/memory/map.rs`), for Linux from its symbols.

use crate::{Error, Symbols};
use object::{Object, ObjectSection, ObjectSymbol};

/// Darter's map. Addresses are virtual, sizes and offsets bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DarterMap {
    pub direct_map: u64,
    pub frame_table: u64,
    pub frame_size: u64,
    pub frame_kind: u64,
    pub frame_flags: u64,
    pub frame_words: u64,
    pub stacks: u64,
    pub stack_slot: u64,
    pub stack_size: u64,
    /// An array of so many addresses: where each CPU's area begins.
    pub percpu_bases: u64,
    pub percpu_count: u64,
    /// The image that areas are copies of.
    pub percpu_start: u64,
    pub percpu_end: u64,
    /// The kernel's image, from its code on.
    pub image_start: u64,
    pub image_end: u64,
    /// What pages of each kind are.
    pub kinds: Vec<String>,
}

const MAGIC: &[u8] = b"DARTERMM";
const VERSION: u64 = 2;
const WORDS: usize = 15;

impl DarterMap {
    /// The map of this kernel; none if the file has none.
    pub fn read(image: &[u8]) -> Result<Option<DarterMap>, Error> {
        let file = object::File::parse(image).map_err(|error| Error::Symbols(error.to_string()))?;
        let Some(section) = file.section_by_name(".memory_map") else { return Ok(None) };
        let data = section.data().map_err(|error| Error::Symbols(error.to_string()))?;
        let words: Vec<u64> =
            data.chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes)).collect();
        let short = || Error::Symbols("the kernel's map of memory is cut short".into());
        let words: &[u64; WORDS] = words.first_chunk().ok_or_else(short)?;
        let &[_, version, direct_map, frame_table, frame_size, frame_kind, frame_flags, frame_words, ..] =
            words;
        let &[.., stacks, stack_slot, stack_size, percpu_bases, percpu_count, kinds, kind_count] = words;
        if !data.starts_with(MAGIC) || version != VERSION {
            return Err(Error::Symbols(format!(
                "the kernel's map of memory has version {version}, not {VERSION}"
            )));
        }
        let symbol = |name: &str| {
            let found = file.symbols().find(|symbol| symbol.name() == Ok(name));
            found.map(|symbol| symbol.address()).ok_or_else(|| Error::Symbols(format!("{name} is missing")))
        };
        let kinds = (0..kind_count.min(256))
            .map(|index| {
                let entry = bytes_at(&file, kinds + index * 16, 16)?;
                let (address, length) = entry.split_at(8);
                let [address, length] =
                    [address, length].map(|word| word.try_into().map_or(0, u64::from_le_bytes));
                bytes_at(&file, address, length).map(|name| String::from_utf8_lossy(name).into_owned())
            })
            .collect::<Option<_>>()
            .ok_or_else(short)?;
        Ok(Some(DarterMap {
            direct_map,
            frame_table,
            frame_size,
            frame_kind,
            frame_flags,
            frame_words,
            stacks,
            stack_slot,
            stack_size,
            percpu_bases,
            percpu_count,
            percpu_start: symbol("__percpu_start")?,
            percpu_end: symbol("__percpu_end")?,
            image_start: symbol("__text_start")?,
            image_end: symbol("__data_end")?,
            kinds,
        }))
    }
}

/// What the file holds for these addresses of the running kernel, where one section holds it all.
pub fn bytes_at<'a>(file: &object::File<'a>, address: u64, length: u64) -> Option<&'a [u8]> {
    file.sections().find_map(|section| section.data_range(address, length).ok().flatten())
}

/// Linux 6.12 on x86-64 with `nokaslr`.
pub struct LinuxMap {
    /// The per-CPU variables by their offset in an area.
    pub percpu: Option<Symbols>,
    /// Addresses of variables: the array of the areas' addresses, and where the direct map, vmalloc's region and the array of
    /// `struct page` begin.
    pub areas: Option<u64>,
    pub direct_map: Option<u64>,
    pub vmalloc: Option<u64>,
    pub vmemmap: Option<u64>,
}

impl LinuxMap {
    pub fn new(kallsyms: &str, symbols: &Symbols) -> LinuxMap {
        LinuxMap {
            percpu: Symbols::linux_percpu(kallsyms).ok(),
            areas: symbols.address("__per_cpu_offset"),
            direct_map: symbols.address("page_offset_base"),
            vmalloc: symbols.address("vmalloc_base"),
            vmemmap: symbols.address("vmemmap_base"),
        }
    }
}

/// The last two gigabytes: a kernel's own image, on Linux and on Darter.
pub const IMAGE: u64 = 0xffff_ffff_8000_0000;
