//! What the kernel needs to know of an ELF program, parsed once and kept with the file.
//!
//! Every field comes from a file that anybody may have written: all arithmetic is checked, and what Linux refuses is refused
//! with its errno (elf(5), fs/binfmt_elf.c's rules as documented there).
#![forbid(unsafe_code)]

use crate::arch::USER_END;
use crate::errno::{Errno, Result};
use crate::fs::File;
use alloc::vec::Vec;
use linux_raw_sys::elf_uapi as abi;
use sync::TryVec;
use vm::addr::PAGE_SIZE;
use zerocopy::{FromBytes, Immutable, KnownLayout};

/// The bytes of a file that exec looks at first (BINPRM_BUF_SIZE).
pub const HEAD: usize = 256;
/// Program headers of one file, in bytes: one page, as on Linux.
const HEADERS_MAX: usize = 65_536;

#[derive(Clone, Copy, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct FileHeader {
    magic: [u8; 4],
    class: u8,
    data: u8,
    ident: [u8; 10],
    kind: u16,
    machine: u16,
    version: u32,
    entry: u64,
    headers: u64,
    sections: u64,
    flags: u32,
    size: u16,
    header_size: u16,
    header_count: u16,
    rest: [u16; 3],
}

#[derive(Clone, Copy, FromBytes, KnownLayout, Immutable)]
#[repr(C)]
struct ProgramHeader {
    kind: u32,
    flags: u32,
    offset: u64,
    address: u64,
    physical: u64,
    file_size: u64,
    memory_size: u64,
    align: u64,
}

/// A part of the file that is mapped.
#[derive(Clone, Copy, Debug)]
pub struct Load {
    /// Where it begins, before the base is added; not page aligned.
    pub address: usize,
    pub offset: u64,
    pub file_size: usize,
    pub memory_size: usize,
    pub read: bool,
    pub write: bool,
    pub exec: bool,
}

/// A program, or the interpreter of one.
#[derive(Debug)]
pub struct Image {
    /// It may lie anywhere (ET_DYN).
    pub relocatable: bool,
    pub entry: usize,
    pub loads: Vec<Load>,
    /// Largest alignment that a part asks for; a power of two, at least a page.
    pub align: usize,
    /// Path of the interpreter, without its NUL.
    pub interpreter: Option<Vec<u8>>,
    /// Where the program headers appear in memory, before the base is added; 0: nowhere.
    pub headers: usize,
    pub header_count: usize,
    /// Its parts cannot be mapped. Linux finds that out when the old program is gone already.
    pub broken: bool,
    /// PT_GNU_STACK asks for an executable stack.
    pub stack_exec: bool,
}

impl Image {
    /// Does the file begin like an ELF file?
    pub fn is_elf(head: &[u8]) -> bool {
        head.starts_with(b"\x7fELF")
    }

    /// Reads the headers of `file`, whose first bytes are `head`.
    ///
    /// # Errors
    /// ENOEXEC: not a program for this machine. EINVAL, EIO, ENOMEM as Linux gives them.
    #[expect(clippy::arithmetic_side_effects, reason = "sixteen bits of headers")]
    pub fn parse(file: &File, head: &[u8]) -> Result<Self> {
        let (header, _) = FileHeader::read_from_prefix(head).map_err(|_| Errno::ENOEXEC)?;
        let relocatable = match u32::from(header.kind) {
            abi::ET_EXEC => false,
            abi::ET_DYN => true,
            _ => return Err(Errno::ENOEXEC),
        };
        const EM_X86_64: u16 = 62;
        let count = usize::from(header.header_count);
        let size = count * size_of::<ProgramHeader>();
        if header.magic != *b"\x7fELF"
            || header.machine != EM_X86_64
            || usize::from(header.header_size) != size_of::<ProgramHeader>()
            || count == 0
            || size > HEADERS_MAX
        {
            return Err(Errno::ENOEXEC);
        }
        let mut table = Vec::new();
        table.try_resize(size, 0u8)?;
        read_exact(file, header.headers, &mut table).map_err(|errno| match errno {
            Errno::EIO | Errno::EINVAL => Errno::ENOEXEC,
            other => other,
        })?;
        let mut image = Image {
            relocatable,
            entry: header.entry as usize,
            loads: Vec::new(),
            align: PAGE_SIZE,
            interpreter: None,
            headers: 0,
            header_count: count,
            broken: false,
            stack_exec: false,
        };
        for raw in table.chunks_exact(size_of::<ProgramHeader>()) {
            let part = ProgramHeader::read_from_bytes(raw).map_err(|_| Errno::ENOEXEC)?;
            image.add(file, &part, header.headers)?;
        }
        image.broken |= image.loads.is_empty();
        Ok(image)
    }

    fn add(&mut self, file: &File, part: &ProgramHeader, headers: u64) -> Result {
        match part.kind {
            abi::PT_LOAD => match self.add_load(part, headers) {
                Err(Errno::EINVAL) => {
                    self.broken = true;
                    Ok(())
                }
                other => other,
            },
            abi::PT_INTERP if self.interpreter.is_none() => {
                let size = part.file_size as usize;
                if !(2..=4096).contains(&size) {
                    return Err(Errno::ENOEXEC);
                }
                let mut path = Vec::new();
                path.try_resize(size, 0u8)?;
                read_exact(file, part.offset, &mut path)?;
                if path.pop() != Some(0) {
                    return Err(Errno::ENOEXEC);
                }
                path.truncate(path.iter().position(|b| *b == 0).unwrap_or(path.len()));
                self.interpreter = Some(path);
                Ok(())
            }
            abi::PT_GNU_STACK => {
                self.stack_exec = part.flags & abi::PF_X != 0;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    #[expect(clippy::arithmetic_side_effects, reason = "the part's end was checked, and holds the headers")]
    fn add_load(&mut self, part: &ProgramHeader, headers: u64) -> Result {
        let end = part.address.checked_add(part.memory_size).ok_or(Errno::EINVAL)?;
        let in_page = PAGE_SIZE as u64 - 1;
        if part.file_size > part.memory_size
            || end > USER_END as u64
            || part.offset & in_page != part.address & in_page
            || part.offset.checked_add(part.file_size).is_none_or(|e| e > i64::MAX as u64)
        {
            return Err(Errno::EINVAL);
        }
        if self.loads.last().is_some_and(|l| l.address as u64 > part.address) {
            // Linux maps parts in the order given; programs whose parts do not ascend do not exist.
            return Err(Errno::EINVAL);
        }
        if part.align.is_power_of_two() && part.align <= USER_END as u64 {
            self.align = self.align.max(part.align as usize);
        }
        if (part.offset..part.offset.saturating_add(part.file_size)).contains(&headers) {
            self.headers = (part.address + (headers - part.offset)) as usize;
        }
        self.loads.try_push(Load {
            address: part.address as usize,
            offset: part.offset,
            file_size: part.file_size as usize,
            memory_size: part.memory_size as usize,
            read: part.flags & abi::PF_R != 0,
            write: part.flags & abi::PF_W != 0,
            exec: part.flags & abi::PF_X != 0,
        })?;
        Ok(())
    }

    /// The address span of all parts, page aligned, before the base is added.
    #[expect(clippy::arithmetic_side_effects, reason = "each part's end was checked")]
    pub fn span(&self) -> (usize, usize) {
        let start = self.loads.first().map_or(0, |l| l.address & !(PAGE_SIZE - 1));
        let end = self.loads.iter().map(|l| l.address + l.memory_size).max().unwrap_or(start);
        (start, end.next_multiple_of(PAGE_SIZE))
    }
}

/// Fills `buffer` from `offset`.
///
/// # Errors
/// EIO: the file ends before. EINVAL: there are no such places in a file.
#[expect(clippy::arithmetic_side_effects, reason = "no more is read than fits")]
fn read_exact(file: &File, offset: u64, buffer: &mut [u8]) -> Result {
    let mut done = 0;
    while done < buffer.len() {
        let at = offset.checked_add(done as u64).filter(|at| *at <= i64::MAX as u64).ok_or(Errno::EINVAL)?;
        match file.read_at_kernel(at, &mut buffer[done..])? {
            0 => return Err(Errno::EIO),
            n => done += n,
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
