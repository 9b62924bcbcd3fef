//! The notes of a core: its PT_NOTE segment (elf(5)), in Linux's order.
#![forbid(unsafe_code)]

use super::regions::Regions;
use super::registers::Registers;
use crate::arch;
use crate::errno::Result;
use crate::process::Current;
use crate::process::signal::Info;
use alloc::vec::Vec;
use sync::TryVec;
use vm::addr::VirtAddr;

const NT_PRSTATUS: u32 = 1;
const NT_PRFPREG: u32 = 2;
const NT_PRPSINFO: u32 = 3;
const NT_AUXV: u32 = 6;
const NT_FILE: u32 = 0x4649_4c45;
const NT_SIGINFO: u32 = 0x5349_4749;
const NT_X86_XSTATE: u32 = 0x202;
const NT_X86_XSAVE_LAYOUT: u32 = 0x205;

/// Bytes of the vector registers that FXSAVE stores.
const LEGACY: usize = 512;
/// Bytes of arguments in NT_PRPSINFO.
const ARGUMENTS: usize = 80;

/// Bytes of a note with `length` bytes of contents.
const fn size_of_note(length: usize) -> usize {
    let header_and_name: usize = 12 + 8;
    header_and_name.saturating_add(length.next_multiple_of(4))
}

/// Puts one more note behind others.
fn put(out: &mut Vec<u8>, name: &[u8], kind: u32, contents: &[u8]) -> Result {
    // With the NUL; all names that are used fill eight bytes when padded.
    let with_nul = name.len().saturating_add(1);
    for word in [with_nul as u32, contents.len() as u32, kind] {
        out.try_extend_from_slice(&word.to_le_bytes())?;
    }
    let mut padded = [0; 8];
    for (to, from) in padded.iter_mut().zip(name) {
        *to = *from;
    }
    out.try_extend_from_slice(&padded)?;
    out.try_extend_from_slice(contents)?;
    while !out.len().is_multiple_of(4) {
        out.try_push(0)?;
    }
    Ok(())
}

/// Words of a C struct, one after another.
struct Fields(Vec<u8>);

impl Fields {
    const fn new() -> Self {
        Self(Vec::new())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<&mut Self> {
        self.0.try_extend_from_slice(bytes)?;
        Ok(self)
    }

    fn int(&mut self, value: u32) -> Result<&mut Self> {
        self.bytes(&value.to_le_bytes())
    }

    fn long(&mut self, value: u64) -> Result<&mut Self> {
        self.bytes(&value.to_le_bytes())
    }

    /// struct timeval.
    fn time(&mut self, ns: u64) -> Result<&mut Self> {
        self.long(ns / 1_000_000_000)?.long(ns / 1000 % 1_000_000)
    }
}

/// What all notes are about.
pub struct Subject<'a> {
    pub thread: &'a Current,
    pub info: &'a Info,
}

/// Bytes of the notes of one thread. All have as many vector registers.
pub fn size_of_thread(registers: &Registers) -> usize {
    let extended = registers.extended.len();
    let mut size = size_of_note(STATUS);
    if extended >= LEGACY {
        size = size.saturating_add(size_of_note(LEGACY));
    }
    if extended > LEGACY {
        size = size.saturating_add(size_of_note(extended));
    }
    size
}

/// Bytes of struct elf_prstatus.
const STATUS: usize = 336;

impl Subject<'_> {
    /// Process, parent, group, session.
    fn numbers(&self, number: u32) -> [u32; 4] {
        let process = &self.thread.process;
        [number, process.parent_pid(), process.group(), process.session_id()]
    }

    fn status(&self, registers: &Registers) -> Result<Vec<u8>> {
        let process = &self.thread.process;
        let mut fields = Fields::new();
        // elf_siginfo: signal, code, errno. Linux leaves the latter two.
        fields.int(self.info.signal)?.int(0)?.int(0)?;
        fields.int(self.info.signal & 0xffff)?;
        fields.long(registers.pending)?.long(registers.blocked)?;
        for number in self.numbers(registers.tid) {
            fields.int(number)?;
        }
        // The first thread stands for the process.
        let usage = if registers.tid == process.pid() { process.usage() } else { registers.usage };
        let children = process.children_usage();
        for ns in [usage.user_ns, usage.system_ns, children.user_ns, children.system_ns] {
            fields.time(ns)?;
        }
        for register in registers.general {
            fields.long(register)?;
        }
        fields.int(1)?.int(0)?;
        Ok(fields.0)
    }

    /// struct elf_prpsinfo.
    fn process_info(&self) -> Result<Vec<u8>> {
        let thread = self.thread;
        let ids = thread.ids();
        let mut fields = Fields::new();
        let nice = thread.task().nice() as u8;
        // Running, 'R', no zombie; no flags of Linux's.
        fields.bytes(&[0, b'R', 0, nice])?.int(0)?.long(0)?;
        fields.int(ids.uid)?.int(ids.gid)?;
        for number in self.numbers(thread.process.pid()) {
            fields.int(number)?;
        }
        fields.bytes(&thread.comm_padded())?;
        let mut arguments = [0; ARGUMENTS];
        let range = thread.process.memory.lock().arguments;
        let length = range.1.saturating_sub(range.0).min(ARGUMENTS.saturating_sub(1));
        if let Some(part) = arguments.get_mut(..length) {
            // What cannot be read is left out.
            let _ = thread.space().read_remote(VirtAddr(range.0), part);
            part.iter_mut().filter(|b| **b == 0).for_each(|b| *b = b' ');
        }
        fields.bytes(&arguments)?;
        Ok(fields.0)
    }

    fn auxv(&self) -> Result<Vec<u8>> {
        let range = self.thread.process.memory.lock().auxv;
        let mut bytes = Vec::new();
        bytes.try_resize(range.1.saturating_sub(range.0), 0)?;
        let _ = self.thread.space().read_remote(VirtAddr(range.0), &mut bytes);
        Ok(bytes)
    }

    /// The notes of the thread that got the signal, with those of the process between them.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn first(&self, registers: &Registers, regions: &Regions) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        put(&mut out, b"CORE", NT_PRSTATUS, &self.status(registers)?)?;
        put(&mut out, b"CORE", NT_PRPSINFO, &self.process_info()?)?;
        put(&mut out, b"CORE", NT_SIGINFO, &self.info.to_bytes())?;
        put(&mut out, b"CORE", NT_AUXV, &self.auxv()?)?;
        if let Some(files) = regions.files()? {
            put(&mut out, b"CORE", NT_FILE, &files)?;
        }
        put_extended(&mut out, registers)?;
        Ok(out)
    }

    /// The note behind those of all threads: where in NT_X86_XSTATE the components lie. It may be empty.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn last(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut fields = Fields::new();
        for component in arch::vector_components() {
            component.into_iter().try_for_each(|word| fields.int(word).map(|_| ()))?;
        }
        if !fields.0.is_empty() {
            put(&mut out, b"LINUX", NT_X86_XSAVE_LAYOUT, &fields.0)?;
        }
        Ok(out)
    }

    /// The notes of another thread: `size_of_thread` bytes.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn other(&self, registers: &Registers) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        put(&mut out, b"CORE", NT_PRSTATUS, &self.status(registers)?)?;
        put_extended(&mut out, registers)?;
        Ok(out)
    }
}

fn put_extended(out: &mut Vec<u8>, registers: &Registers) -> Result {
    if let Some(legacy) = registers.extended.get(..LEGACY) {
        put(out, b"CORE", NT_PRFPREG, legacy)?;
    }
    if registers.extended.len() > LEGACY {
        put(out, b"LINUX", NT_X86_XSTATE, &registers.extended)?;
    }
    Ok(())
}
