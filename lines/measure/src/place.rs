//! What lies at an address: a variable of the kernel (its symbols), a CPU's copy of one (the area that it lies in), an object of a slab
//! cache, or a page, which the kernel's metadata of the page tells (read by the plugin when the window was complete).

use crate::Memory;
use crate::Symbols;
use crate::kernel::{Kernel, Map};
use crate::map::{DarterMap, IMAGE, LinuxMap, bytes_at};
use crate::rust_name::simple;
use crate::types::TypeId;

/// An object in the guest's memory, as far as it is known.
pub struct Place {
    pub object: String,
    pub type_: Option<TypeId>,
    /// The addresses that belong to it.
    pub start: u64,
    pub end: u64,
    pub cpu: Option<u32>,
    /// Are offsets in it worth a name where the type is not known?
    pub offsets: bool,
    /// Is there only one of this name (on each CPU)?
    pub one: bool,
}

impl Place {
    fn new(object: String, start: u64, end: u64) -> Place {
        Place { object, type_: None, start, end, cpu: None, offsets: true, one: false }
    }

    /// The line at an address, of memory of which no part has a name of its own.
    fn line(object: impl Into<String>, vaddr: u64) -> Place {
        let start = vaddr & !(LINE - 1);
        Place { offsets: false, ..Place::new(object.into(), start, start + LINE) }
    }
}

const LINE: u64 = 64;
const PAGE: u64 = 4096;
/// A page may belong to a block of up to 1,024, whose first page says what it is.
const BLOCK_BITS: u32 = 10;
/// Types of Darter that hold what a place is.
const FRAME: &str = "vm::frame::meta::Frame";
const CACHE: &str = "vm::slab::cache::Cache";
/// The owner's word of a slab's frame that leads to the cache.
const CACHE_WORD: u64 = 4;
/// More than the addresses of any kernel stack or frame table take.
const REGION: u64 = 1 << 40;

impl Kernel {
    /// What lies at an address.
    pub(crate) fn place(&self, memory: &Memory, physical: u64, vaddr: u64) -> Place {
        if vaddr >> 63 == 0 {
            return Place::line("program memory", vaddr);
        }
        if vaddr >= IMAGE {
            return self.variable(vaddr, "", 0);
        }
        match &self.map {
            Map::Darter(map) => self.darter(map, memory, physical, vaddr),
            Map::Linux(map) => map.place(memory, physical, vaddr),
        }
    }

    fn darter(&self, map: &DarterMap, memory: &Memory, physical: u64, vaddr: u64) -> Place {
        if (map.stacks..map.stacks + REGION).contains(&vaddr) {
            return Place::line("kernel stack", vaddr);
        }
        let table = map.frame_table;
        if (table..table + REGION).contains(&vaddr) {
            let start = vaddr - (vaddr - table) % map.frame_size.max(1);
            let of = map.frame(memory, start).map_or("page".into(), |page| page.text());
            let object = format!("frame metadata of {of}");
            return Place {
                type_: self.types().by_name(FRAME),
                ..Place::new(object, start, start + map.frame_size)
            };
        }
        // The image is in the direct map as well.
        let in_image = IMAGE.saturating_add(physical);
        if (map.image_start..map.image_end).contains(&in_image) {
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
        let Some(page) = map.page(memory, physical / PAGE) else { return Place::line("memory", vaddr) };
        let cache = if page.kind == "slab" { self.cache(map, page.metadata) } else { None };
        cache.map_or_else(
            || Place::line(page.text(), vaddr),
            |cache| self.slab_object(&cache, physical, vaddr),
        )
    }

    /// The slab cache that a page's metadata leads to. Caches are constants of the image; where their fields are is known to the
    /// debug information.
    fn cache(&self, map: &DarterMap, metadata: &[u8]) -> Option<Cache> {
        let word = metadata.get(usize::try_from(map.frame_words + 8 * CACHE_WORD).ok()?..)?;
        let cache = u64::from_le_bytes(*word.first_chunk()?);
        let file = object::File::parse(self.image.as_slice()).ok()?;
        let field =
            |name, bytes| bytes_at(&file, cache.checked_add(self.types().offset(CACHE, name)?)?, bytes);
        let number = |name| Some(u32::from_le_bytes(*field(name, 4)?.first_chunk()?));
        let text = |name| {
            let (address, length) = field(name, 16)?.split_at(8);
            let [address, length] =
                [address, length].map(|word| word.try_into().map_or(0, u64::from_le_bytes));
            let bytes =
                if length == 0 { Some(&[][..]) } else { bytes_at(&file, address, length.min(1 << 10)) };
            bytes.map(|bytes| String::from_utf8_lossy(bytes).into_owned())
        };
        Some(Cache {
            name: text("name")?,
            type_name: text("type_name").unwrap_or_default(),
            size: number("size").filter(|size| *size > 0)?.into(),
            value_offset: number("value_offset").unwrap_or(0).into(),
            order: number("order").filter(|order| *order < 20)?,
        })
    }

    /// The object that lies at an address in a slab of this cache.
    fn slab_object(&self, cache: &Cache, physical: u64, vaddr: u64) -> Place {
        let slab = physical & !((PAGE << cache.order) - 1);
        let into = (physical - slab) % cache.size;
        let (start, value) = (vaddr - into, vaddr - into + cache.value_offset);
        if vaddr < value {
            // What lies before the value is its holder's.
            return Place {
                offsets: false,
                ..Place::new(format!("{}.references", cache.name), start, value)
            };
        }
        let named = !cache.type_name.is_empty();
        let type_ = if named { self.types().by_name_roughly(&cache.type_name) } else { None };
        Place { type_, ..Place::new(cache.name.clone(), value, start + cache.size) }
    }

    /// The variable at a link address, which is used at an address `moved` higher.
    fn variable(&self, link: u64, what: &str, moved: u64) -> Place {
        let (name, start, size) = self.symbols.object(link).unwrap_or(("kernel image", link, 1));
        let end = start.saturating_add(size).max(link + 1);
        let (from, to) = (start.wrapping_add(moved), end.wrapping_add(moved));
        let type_ = self.types().of_variable(start);
        Place { type_, one: true, ..Place::new(format!("{what}{}", simple(name)), from, to) }
    }
}

/// A slab cache: what it is called, the type of its objects (if it has one), their size, where in them the value begins, and log2 of
/// a slab's pages.
struct Cache {
    name: String,
    type_name: String,
    size: u64,
    value_offset: u64,
    order: u32,
}

/// What the kernel's metadata says of a page.
struct Page<'a> {
    /// What it is, or was last.
    kind: &'a str,
    free: bool,
    flags: u8,
    /// All that it says.
    metadata: &'a [u8],
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
    fn page<'a>(&'a self, memory: &'a Memory, number: u64) -> Option<Page<'a>> {
        let frame = |number| self.frame(memory, self.frame_table + number * self.frame_size);
        let own = frame(number)?;
        let block = || {
            (1..=BLOCK_BITS).find_map(|bits| {
                let head = frame(number >> bits << bits)?;
                (head.kind == "heap block" && !head.free && u32::from(head.flags) >= bits).then_some(head)
            })
        };
        if own.free { block().or(Some(own)) } else { Some(own) }
    }

    /// The page whose metadata begins at an address.
    fn frame<'a>(&'a self, memory: &'a Memory, address: u64) -> Option<Page<'a>> {
        let metadata = memory.at(address)?;
        let byte = |offset| metadata.get(usize::try_from(offset).ok()?).copied();
        let number = byte(self.frame_kind)?;
        // Bit 7: free since.
        let kind = self.kinds.get(usize::from(number & 0x7f)).map_or("page", String::as_str);
        let free = number >= 0x80 || kind == "free page";
        Some(Page { kind, free, flags: byte(self.frame_flags)?, metadata })
    }
}

impl LinuxMap {
    fn place(&self, memory: &Memory, physical: u64, vaddr: u64) -> Place {
        // Unknown regions begin where nothing lies.
        let base =
            |variable: Option<u64>| words(variable.and_then(|at| memory.at(at))).next().unwrap_or(u64::MAX);
        let (direct, vmalloc, vmemmap) = (base(self.direct_map), base(self.vmalloc), base(self.vmemmap));
        let virt = direct.wrapping_add(physical);
        let areas: Vec<u64> = words(self.areas.and_then(|at| memory.at(at))).collect();
        for (cpu, area) in areas.iter().enumerate() {
            // Symbols of per-CPU variables begin at 0; an area's address is that of symbol 0.
            let Some(offset) = virt.checked_sub(*area).filter(|offset| *offset < LINUX_AREA) else {
                continue;
            };
            if areas.iter().any(|other| (*area + 1..=virt).contains(other)) {
                continue;
            }
            let cpu = u32::try_from(cpu).ok();
            let Some((name, start, end)) =
                self.percpu.as_ref().and_then(|percpu| variable_of(percpu, offset))
            else {
                return Place { cpu, ..Place::line("per-CPU allocation", vaddr) };
            };
            let moved = |link: u64| link.wrapping_add(vaddr.wrapping_sub(offset));
            return Place {
                cpu,
                one: true,
                ..Place::new(format!("per-CPU {name}"), moved(start), moved(end))
            };
        }
        let mut regions = [
            (direct, "direct map page"),
            (vmalloc, "vmalloc page or kernel stack"),
            (vmemmap, "struct page"),
        ];
        regions.sort_unstable();
        let region = regions.iter().rev().find(|(start, _)| *start <= vaddr);
        Place::line(region.map_or("kernel memory", |(_, what)| *what), vaddr)
    }
}

/// More than a CPU's first area on Linux, static and dynamic variables together.
const LINUX_AREA: u64 = 2 << 20;

/// The per-CPU variable at an offset: name, start and end. The last symbol marks the end of them all.
fn variable_of(percpu: &Symbols, offset: u64) -> Option<(&str, u64, u64)> {
    let (name, start, size) = percpu.object(offset).filter(|_| offset < percpu.last())?;
    Some((name, start, start.saturating_add(size).min(percpu.last())))
}

fn words(bytes: Option<&[u8]>) -> impl Iterator<Item = u64> {
    bytes.unwrap_or(&[]).chunks_exact(8).filter_map(|word| word.try_into().ok().map(u64::from_le_bytes))
}
