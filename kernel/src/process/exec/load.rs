//! Mapping an ELF image into a new address space.
#![forbid(unsafe_code)]

use super::image::{Image, Load};
use super::place::Places;
use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::memory::Space;
use crate::process::{self, Capability};
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::{Backing, MapFlags, MapRequest, ObjectRef, Prot};

/// An image that lies in a space.
#[derive(Clone, Copy, Debug)]
pub struct Loaded {
    /// Added to every address of the image.
    pub base: usize,
    pub entry: usize,
    /// First address after its last part, where the heap may begin.
    pub end: usize,
    pub code: (usize, usize),
    pub data: (usize, usize),
}

/// Maps `image`, whose file is `object`, into `space`: at its own address; a relocatable program with an interpreter where `places` says;
/// anything else relocatable among the other mappings.
///
/// # Errors
/// ENOMEM: no memory or no free addresses. EINVAL: parts that cannot be mapped.
#[expect(clippy::arithmetic_side_effects, reason = "ends were checked with each part")]
pub fn load(space: &Space, image: &Image, object: &ObjectRef, places: Option<&Places>) -> Result<Loaded> {
    if image.broken {
        return Err(Errno::EINVAL);
    }
    let (start, end) = image.span();
    let base = if !image.relocatable {
        0
    } else if let Some(places) = places {
        places.program(image.align).wrapping_sub(start)
    } else {
        find_free(space, end - start, image.align)?.wrapping_sub(start)
    };
    let mut loaded = Loaded {
        base,
        entry: image.entry.wrapping_add(base),
        end: end.wrapping_add(base),
        code: (usize::MAX, 0),
        data: (0, 0),
    };
    if loaded.entry >= USER_END {
        return Err(Errno::EINVAL);
    }
    // Below vm.mmap_min_addr only for those who may map there, as with mmap.
    let mut fixed = MapFlags::FIXED;
    fixed.set(MapFlags::LOW, process::current().capable(Capability::SYS_RAWIO));
    for load in &image.loads {
        let address = load.address.checked_add(base).ok_or(Errno::EINVAL)?;
        map_part(space, load, address, object, fixed)?;
        let file_end = address + load.file_size;
        if load.exec {
            loaded.code = (loaded.code.0.min(address), loaded.code.1.max(file_end));
        } else if load.write {
            loaded.data = (address, file_end);
        }
    }
    Ok(loaded)
}

/// A free run of `len` bytes, aligned to `align`.
#[expect(clippy::arithmetic_side_effects, reason = "align is at least a page")]
fn find_free(space: &Space, len: usize, align: usize) -> Result<usize> {
    let padded = len.checked_add(align - PAGE_SIZE).ok_or(Errno::ENOMEM)?;
    let request = MapRequest {
        hint: VirtAddr(0),
        len: padded,
        prot: Prot::empty(),
        flags: MapFlags::NORESERVE,
        backing: Backing::Anonymous,
    };
    let found = space.map(&request)?;
    space.unmap(found, padded)?;
    Ok(found.0.next_multiple_of(align))
}

#[expect(
    clippy::arithmetic_side_effects,
    reason = "ends are in user memory, and the part begins in its first page"
)]
fn map_part(space: &Space, load: &Load, address: usize, object: &ObjectRef, fixed: MapFlags) -> Result {
    let mut prot = Prot::empty();
    prot.set(Prot::READ, load.read);
    prot.set(Prot::WRITE, load.write);
    prot.set(Prot::EXEC, load.exec);
    let page_start = address & !(PAGE_SIZE - 1);
    let lead = address - page_start;
    let file_end = address.checked_add(load.file_size).ok_or(Errno::EINVAL)?;
    let memory_end = address.checked_add(load.memory_size).filter(|e| *e <= USER_END).ok_or(Errno::ENOMEM)?;
    let mapped_end = file_end.next_multiple_of(PAGE_SIZE);
    if load.file_size > 0 {
        space.map(&MapRequest {
            hint: VirtAddr(page_start),
            len: mapped_end - page_start,
            prot,
            flags: fixed,
            backing: Backing::Object { object: object.clone(), offset: load.offset - lead as u64 },
        })?;
    }
    let zero_from = if load.file_size > 0 { mapped_end } else { page_start };
    if memory_end > zero_from {
        space.map(&MapRequest {
            hint: VirtAddr(zero_from),
            len: (memory_end - zero_from).next_multiple_of(PAGE_SIZE),
            prot,
            flags: fixed,
            backing: Backing::Anonymous,
        })?;
    }
    // What the file holds after the part's end, in its last page, is not the program's.
    if load.write && load.file_size > 0 && load.memory_size > load.file_size && file_end < mapped_end {
        clear(space, file_end, mapped_end)?;
    }
    Ok(())
}

#[expect(clippy::arithmetic_side_effects, reason = "both ends are in one page")]
fn clear(space: &Space, from: usize, to: usize) -> Result {
    static ZEROS: [u8; PAGE_SIZE] = [0; PAGE_SIZE];
    let zeros = ZEROS.get(..to - from).ok_or(Errno::EINVAL)?;
    space.write_remote(VirtAddr(from), zeros)?;
    Ok(())
}
