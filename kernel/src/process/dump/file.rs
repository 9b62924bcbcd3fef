//! The core as a file: ELF header, program headers, notes, memory. Pages that are not in memory are holes, so a core is as large on its file
//! system as what the process had.
#![forbid(unsafe_code)]

use super::notes::{self, Subject};
use super::regions::{Region, Regions};
use super::registers::Registers;
use super::{Filter, name};
use crate::errno::{EFBIG, EINTR, EINVAL, EPERM, Result};
use crate::fs::file::buffer::Input;
use crate::fs::file::told;
use crate::fs::vfs::notify;
use crate::fs::{self, File};
use crate::memory::Space;
use crate::process::signal::Info;
use crate::process::{Current, find_process};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::Ordering;
use sync::TryVec;
use sync::level::Held;
use vm::Prot;
use vm::addr::{PAGE_SIZE, VirtAddr};

const EHDR: usize = 64;
const PHDR: usize = 56;
const PT_LOAD: u32 = 1;
const PT_NOTE: u32 = 4;

/// A file that is written from its beginning, with holes.
struct Writer {
    file: Arc<File>,
    at: u64,
    /// What may still be written, holes apart (RLIMIT_CORE).
    left: u64,
}

impl Writer {
    /// # Errors
    /// EFBIG: RLIMIT_CORE; EINTR: the process is killed; as write(2).
    fn put(&mut self, mut bytes: &[u8]) -> Result {
        while !bytes.is_empty() {
            if crate::sched::give_way() {
                return Err(EINTR);
            }
            let length = bytes.len().min(PAGE_SIZE);
            let (now, later) = bytes.split_at_checked(length).ok_or(EINVAL)?;
            self.left = self.left.checked_sub(length as u64).ok_or(EFBIG)?;
            let n =
                self.file.ops().write(&self.file, self.at, &mut Input::kernel(now), Held::clean().lower())?;
            self.at = self.at.saturating_add(n as u64);
            if notify::is_used() {
                told::on_file(&self.file, notify::events::MODIFY);
            }
            if n < length {
                return Err(EFBIG);
            }
            bytes = later;
        }
        Ok(())
    }

    fn skip_to(&mut self, at: u64) {
        self.at = at;
    }

    /// The file is as long as its headers say, though its last page may be a hole.
    fn finish(&mut self) -> Result {
        if self.at > self.file.inode().size() {
            self.at = self.at.saturating_sub(1);
            self.put(&[0])?;
        }
        Ok(())
    }
}

/// Writes a core of the running process, whose other threads are `others`. True: it was begun; it may have been cut short by a limit. One that is `for_root`
/// lies where the pattern says from the root of all, and takes no other file's place.
pub fn write(
    thread: &Current,
    info: &Info,
    (own, others): (&Registers, &[Registers]),
    limit: u64,
    for_root: bool,
) -> bool {
    let filter = Filter::from_bits_retain(thread.process.dump_filter.load(Ordering::Relaxed));
    let Ok(name) = name::make(thread, info) else { return false };
    let created = if for_root { create_for_root(&name) } else { fs::create_core(&name) };
    let Ok(file) = created else { return false };
    let mut writer = Writer { file, at: 0, left: limit };
    let Ok(regions) = Regions::of(thread.space(), filter) else { return false };
    let subject = Subject { thread, info };
    let (Ok(first), Ok(last)) = (subject.first(own, &regions), subject.last()) else { return false };
    let written = write_all(&mut writer, &subject, (&first, &last), others, &regions);
    // A file that ends in a hole ends where it ends; one that was cut short ends there.
    let _ = written.and_then(|()| writer.finish());
    true
}

/// # Errors
/// EPERM: the name is not a whole path. As open(2).
fn create_for_root(name: &[u8]) -> Result<Arc<File>> {
    let first = || find_process(1)?.leader()?.fs_of();
    let context = first().filter(|_| name.starts_with(b"/")).ok_or(EPERM)?;
    fs::create_core_for_root(&context, name)
}

fn write_all(
    out: &mut Writer,
    subject: &Subject<'_>,
    (first, last): (&[u8], &[u8]),
    others: &[Registers],
    regions: &Regions,
) -> Result {
    let note_bytes = others
        .iter()
        .map(notes::size_of_thread)
        .fold(first.len().saturating_add(last.len()), |sum, size| sum.saturating_add(size));
    let headers = regions.0.len().saturating_add(1).saturating_mul(PHDR).saturating_add(EHDR);
    let data = headers.saturating_add(note_bytes).next_multiple_of(PAGE_SIZE);

    out.put(&elf_header(regions.0.len().saturating_add(1))?)?;
    out.put(&program_header(PT_NOTE, 0, headers as u64, (0, 0, note_bytes), 4)?)?;
    let mut at = data as u64;
    for region in &regions.0 {
        let size = region.end.saturating_sub(region.start);
        let place = (region.start, size, region.written);
        out.put(&program_header(PT_LOAD, rights(region.prot), at, place, PAGE_SIZE as u64)?)?;
        at = at.saturating_add(region.written as u64);
    }
    out.put(first)?;
    for other in others {
        out.put(&subject.other(other)?)?;
    }
    out.put(last)?;
    let mut at = data as u64;
    for region in &regions.0 {
        out.skip_to(at);
        put_memory(out, subject.thread.space(), region, at)?;
        at = at.saturating_add(region.written as u64);
    }
    out.skip_to(at);
    Ok(())
}

/// Writes the pages of a region that are in memory. It lies at `base` in the file.
fn put_memory(out: &mut Writer, space: &Space, region: &Region, base: u64) -> Result {
    let end = region.start.saturating_add(region.written);
    let mut from = region.start;
    let mut page = Vec::new();
    page.try_resize(PAGE_SIZE, 0)?;
    while let Some(at) = space.next_page_in_memory(from, end) {
        if space.copy_mapped_page(at, &mut page) || space.read_remote(VirtAddr(at), &mut page).is_ok() {
            out.skip_to(base.saturating_add(at.saturating_sub(region.start) as u64));
            out.put(&page)?;
        }
        from = at.saturating_add(PAGE_SIZE);
        if crate::sched::give_way() {
            return Err(EINTR);
        }
    }
    Ok(())
}

fn rights(prot: Prot) -> u32 {
    [(Prot::READ, 4), (Prot::WRITE, 2), (Prot::EXEC, 1)]
        .iter()
        .fold(0, |flags, (right, bit)| if prot.contains(*right) { flags | bit } else { flags })
}

fn elf_header(headers: usize) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    // 64 bits, little-endian, version 1.
    out.try_extend_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0")?;
    // ET_CORE, EM_X86_64.
    for half in [4u16, 62] {
        out.try_extend_from_slice(&half.to_le_bytes())?;
    }
    out.try_extend_from_slice(&1u32.to_le_bytes())?;
    for word in [0, EHDR as u64, 0] {
        out.try_extend_from_slice(&word.to_le_bytes())?;
    }
    out.try_extend_from_slice(&0u32.to_le_bytes())?;
    for half in [EHDR as u16, PHDR as u16, headers as u16, 0, 0, 0] {
        out.try_extend_from_slice(&half.to_le_bytes())?;
    }
    Ok(out)
}

/// `place`: address, bytes in memory, bytes in the file.
fn program_header(
    kind: u32,
    flags: u32,
    offset: u64,
    (address, in_memory, in_file): (usize, usize, usize),
    align: u64,
) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    for word in [kind, flags] {
        out.try_extend_from_slice(&word.to_le_bytes())?;
    }
    for word in [offset, address as u64, 0, in_file as u64, in_memory as u64, align] {
        out.try_extend_from_slice(&word.to_le_bytes())?;
    }
    Ok(out)
}
