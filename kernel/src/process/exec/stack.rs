//! The first stack of a program: strings, auxiliary vector, pointers, argument count (System V ABI, x86-64; getauxval(3)).
#![forbid(unsafe_code)]

use super::arguments::Strings;
use super::load::Loaded;
use super::place::Places;
use crate::arch;
use crate::errno::{Errno, Result};
use crate::memory::Space;
use crate::process::credentials::Ids;
use crate::process::rseq;
use alloc::vec::Vec;
use linux_raw_sys::auxvec as abi;
use sync::TryVec;
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::{Backing, MapFlags, MapRequest, Prot};
use zerocopy::IntoBytes;

/// Address space set aside at birth; the mapping grows from there to the stack limit.
const FIRST_SIZE: usize = 132 << 10;

/// Bytes written before others may run.
const AT_ONCE: usize = 64 << 10;
/// Pointers made before others may run.
const POINTERS_AT_ONCE: usize = 1024;

/// AT_PLATFORM, NUL padded.
const PLATFORM: [u8; 16] = *b"x86_64\0\0\0\0\0\0\0\0\0\0";

/// What the auxiliary vector tells besides addresses of the stack itself.
pub struct Facts<'a> {
    pub program: &'a Loaded,
    /// Where the interpreter lies; 0: none.
    pub interpreter_base: usize,
    /// Program headers in memory and their number.
    pub headers: usize,
    pub header_count: usize,
    pub ids: Ids,
    pub random: [u8; 16],
    /// The vDSO's ELF header; 0: none.
    pub vdso: usize,
    /// The path that was executed.
    pub name: &'a [u8],
    pub secure: bool,
}

/// What a process remembers of its first stack, for /proc.
#[derive(Clone, Copy, Debug, Default)]
pub struct InitialStack {
    pub sp: usize,
    pub arguments: (usize, usize),
    pub environment: (usize, usize),
    pub auxv: (usize, usize),
}

/// Maps the stack and fills it.
///
/// # Errors
/// ENOMEM; E2BIG: the strings do not fit; EINTR: a fatal signal came.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "arguments are below the limit of the stack, at whose top they lie"
)]
pub fn build(
    space: &Space,
    argv: &Strings,
    envp: &Strings,
    facts: &Facts<'_>,
    places: &Places,
    exec: bool,
) -> Result<InitialStack> {
    let (top, slide) = (places.stack_top(), places.stack_slide());
    let needed = argv.cost() + envp.cost() + facts.name.len() + slide + 4 * PAGE_SIZE;
    let size = needed.max(FIRST_SIZE).next_multiple_of(PAGE_SIZE);
    let prot = if exec { Prot::READ | Prot::WRITE | Prot::EXEC } else { Prot::READ | Prot::WRITE };
    space.map(&MapRequest {
        hint: VirtAddr(top.checked_sub(size).ok_or(Errno::E2BIG)?),
        len: size,
        prot,
        flags: MapFlags::FIXED | MapFlags::GROWSDOWN | MapFlags::STACK,
        backing: Backing::Anonymous,
    })?;

    // From the top down: a null word, the name, environment, arguments; a distance that chance decides; platform, random bytes, and what the
    // stack pointer leads to.
    let name_at = top - size_of::<usize>() - (facts.name.len() + 1);
    let environment_at = name_at - envp.bytes.len();
    let arguments_at = environment_at - argv.bytes.len();
    let platform_at = ((arguments_at - slide) & !15) - size_of_val(&PLATFORM);
    let random_at = platform_at - facts.random.len();

    let auxv = auxv(facts, name_at, platform_at, random_at);
    let auxv = auxv.as_flattened();
    let words = 1 + argv.count + 1 + envp.count + 1 + auxv.len();
    // A word that fills up to 16 bytes, if need be.
    let sp = (random_at - words * size_of::<usize>()) & !15;

    let length = top - size_of::<usize>() - arguments_at;
    if length <= AT_ONCE {
        let mut strings = sync::heap::try_vec(length)?;
        for part in [&argv.bytes, &envp.bytes, facts.name, &[0]] {
            strings.try_extend_from_slice(part)?;
        }
        write(space, arguments_at, &strings)?;
    } else {
        write(space, arguments_at, &argv.bytes)?;
        write(space, environment_at, &envp.bytes)?;
        write(space, name_at, facts.name)?;
    }

    let block_len = (platform_at + size_of_val(&PLATFORM) - sp) / size_of::<usize>();
    let mut block: Vec<usize> = sync::heap::try_vec(block_len)?;
    block.try_push(argv.count)?;
    push_pointers(&mut block, argv, arguments_at)?;
    push_pointers(&mut block, envp, environment_at)?;
    let auxv_at = sp + size_of_val(&*block);
    block.try_extend_from_slice(auxv)?;
    let auxv_end = sp + size_of_val(&*block);
    if auxv_end < random_at {
        block.try_push(0)?;
    }
    for bytes in [facts.random, PLATFORM] {
        let (low, high) = bytes.split_at(8);
        for half in [low, high] {
            block.try_push(half.try_into().map_or(0, usize::from_ne_bytes))?;
        }
    }
    write(space, sp, block.as_bytes())?;
    Ok(InitialStack {
        sp,
        arguments: (arguments_at, environment_at),
        environment: (environment_at, name_at),
        auxv: (auxv_at, auxv_end),
    })
}

fn auxv(facts: &Facts<'_>, name_at: usize, platform_at: usize, random_at: usize) -> [[usize; 2]; 22] {
    let entries = [
        (if facts.vdso != 0 { abi::AT_SYSINFO_EHDR } else { abi::AT_IGNORE }, facts.vdso),
        (abi::AT_MINSIGSTKSZ, arch::min_signal_stack()),
        (abi::AT_HWCAP, arch::hwcap()),
        (abi::AT_PAGESZ, PAGE_SIZE),
        (abi::AT_CLKTCK, 100),
        (abi::AT_PHDR, facts.headers),
        (abi::AT_PHENT, 56),
        (abi::AT_PHNUM, facts.header_count),
        (abi::AT_BASE, facts.interpreter_base),
        (abi::AT_FLAGS, 0),
        (abi::AT_ENTRY, facts.program.entry),
        (abi::AT_UID, facts.ids.uid as usize),
        (abi::AT_EUID, facts.ids.euid as usize),
        (abi::AT_GID, facts.ids.gid as usize),
        (abi::AT_EGID, facts.ids.egid as usize),
        (abi::AT_SECURE, usize::from(facts.secure)),
        (abi::AT_RANDOM, random_at),
        (abi::AT_EXECFN, name_at),
        (abi::AT_PLATFORM, platform_at),
        (abi::AT_RSEQ_FEATURE_SIZE, rseq::FEATURE_SIZE),
        (abi::AT_RSEQ_ALIGN, rseq::ALIGN),
        (abi::AT_NULL, 0),
    ];
    entries.map(|(key, value)| [key as usize, value])
}

#[expect(clippy::arithmetic_side_effects, reason = "strings on the stack")]
fn push_pointers(block: &mut Vec<usize>, strings: &Strings, mut at: usize) -> Result {
    for text in strings.iter() {
        block.try_push(at)?;
        at += text.len() + 1;
        if block.len().is_multiple_of(POINTERS_AT_ONCE) && crate::sched::give_way() {
            return Err(Errno::EINTR);
        }
    }
    Ok(block.try_push(0)?)
}

#[expect(clippy::arithmetic_side_effects, reason = "bytes on the stack")]
fn write(space: &Space, mut at: usize, bytes: &[u8]) -> Result {
    for part in bytes.chunks(AT_ONCE) {
        space.write_remote(VirtAddr(at), part)?;
        at += part.len();
        if part.len() == AT_ONCE && crate::sched::give_way() {
            return Err(Errno::EINTR);
        }
    }
    Ok(())
}
