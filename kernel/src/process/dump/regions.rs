//! Which memory a core holds: a region for each mapping, with as many bytes of it as the process wants written (/proc/PID/coredump_filter).
#![forbid(unsafe_code)]

use crate::errno::Result;
use crate::fs::file::mapped::{self, Mapped};
use crate::memory::Space;
use alloc::sync::Arc;
use alloc::vec::Vec;
use sync::TryVec;
use vm::addr::{PAGE_SHIFT, PAGE_SIZE, VirtAddr};
use vm::{MappingInfo, Prot};

bitflags::bitflags! {
    /// What is written (core(5)). The bits are Linux's; those of huge pages and DAX, of which there are none, are kept.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub struct Filter: u32 {
        const ANONYMOUS_PRIVATE = 1;
        const ANONYMOUS_SHARED = 2;
        const FILE_PRIVATE = 4;
        const FILE_SHARED = 8;
        const ELF_HEADERS = 16;
        const ALL = 0x1ff;
        const DEFAULT = 0x33;
    }
}

/// A program header counts them in 16 bits, one of which is the notes'. What is mapped above is left out.
const MOST: usize = 65_533;

pub struct Region {
    pub start: usize,
    pub end: usize,
    pub prot: Prot,
    /// Bytes that are written, from the start.
    pub written: usize,
    /// What is mapped, and the byte of it at the start.
    source: Option<(Source, u64)>,
}

/// Where memory is from that is not private to begin with.
enum Source {
    File(Arc<Mapped>),
    /// Memory that programs share: on Linux an unnamed file.
    Shared,
}

impl Source {
    fn name(&self) -> [&[u8]; 2] {
        match self {
            Source::File(file) => file.name(),
            Source::Shared => [mapped::SHARED, b""],
        }
    }
}

pub struct Regions(pub Vec<Region>);

impl Regions {
    /// Those of `space`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn of(space: &Space, filter: Filter) -> Result<Self> {
        let mut list = Vec::new();
        let mut outcome = Ok(());
        space.for_each_mapping(&mut |mapping| {
            if outcome.is_ok() && list.len() < MOST {
                outcome = list.try_push(region(space, mapping, filter));
            }
        });
        outcome?;
        Ok(Self(list))
    }

    /// The contents of NT_FILE: how many, the size of a page; start, end and page in the file of each; then the names. None: no file is mapped.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn files(&self) -> Result<Option<Vec<u8>>> {
        let (mut head, mut names) = (Vec::new(), Vec::new());
        let mut count = 0u64;
        for region in &self.0 {
            let Some((source, offset)) = &region.source else { continue };
            for word in [region.start as u64, region.end as u64, offset >> PAGE_SHIFT] {
                head.try_extend_from_slice(&word.to_le_bytes())?;
            }
            for part in source.name() {
                names.try_extend_from_slice(part)?;
            }
            names.try_push(0)?;
            count = count.saturating_add(1);
        }
        if count == 0 {
            return Ok(None);
        }
        let mut all = Vec::new();
        for word in [count, PAGE_SIZE as u64] {
            all.try_extend_from_slice(&word.to_le_bytes())?;
        }
        all.try_extend_from_slice(&head)?;
        all.try_extend_from_slice(&names)?;
        Ok(Some(all))
    }
}

fn region(space: &Space, mapping: &MappingInfo<'_>, filter: Filter) -> Region {
    let file = mapping.object.and_then(mapped::find);
    let size = mapping.end.saturating_sub(mapping.start);
    let written = match part(space, mapping, file.as_deref(), filter) {
        Part::Nothing => 0,
        Part::Header => size.min(PAGE_SIZE),
        Part::Whole => size,
    };
    let shared = mapping.object.is_some() && mapping.shared;
    let source = match file {
        Some(file) => Some(Source::File(file)),
        None => shared.then_some(Source::Shared),
    };
    let source = source.map(|source| (source, mapping.offset));
    Region { start: mapping.start, end: mapping.end, prot: mapping.prot, written, source }
}

enum Part {
    Nothing,
    /// The first page: a debugger finds the build's number there.
    Header,
    Whole,
}

fn part(space: &Space, mapping: &MappingInfo<'_>, file: Option<&Mapped>, filter: Filter) -> Part {
    let whole_if = |what| if filter.contains(what) { Part::Whole } else { Part::Nothing };
    let (start, end) = (mapping.start, mapping.end);
    // The kernel's own pages (the vDSO): an object that is no file's.
    if mapping.object.is_some() && file.is_none() && !mapping.shared {
        return Part::Whole;
    }
    if mapping.no_dump {
        return Part::Nothing;
    }
    if mapping.shared {
        let has_name = file.is_some_and(Mapped::has_name);
        return whole_if(if has_name { Filter::FILE_SHARED } else { Filter::ANONYMOUS_SHARED });
    }
    if filter.contains(Filter::ANONYMOUS_PRIVATE) && space.next_private_page(start, end).is_some() {
        return Part::Whole;
    }
    let Some(file) = file else { return Part::Nothing };
    if filter.contains(Filter::FILE_PRIVATE) {
        return Part::Whole;
    }
    let begins = mapping.offset == 0 && mapping.prot.contains(Prot::READ);
    if filter.contains(Filter::ELF_HEADERS) && begins && (file.is_executable() || is_elf(space, start)) {
        return Part::Header;
    }
    Part::Nothing
}

/// Libraries need not be executable files.
fn is_elf(space: &Space, at: usize) -> bool {
    let mut magic = [0; 4];
    space.read_remote(VirtAddr(at), &mut magic).is_ok() && magic == *b"\x7fELF"
}
