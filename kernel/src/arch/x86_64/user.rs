//! Copies between the kernel and user memory (the only way to touch it): range check, SMAP window, and a fixup for
//! every instruction that may fault.
//!
//! A fault inside a copy goes to the current space like any other (`process::kernel_fault`), which may sleep; if that
//! refuses, the copy ends short. With interrupts off a copy never waits: it ends short at a page that is not present.
//! So no spinning lock may be held, unless with interrupts off and a caller that is ready for the short end.

use core::arch::asm;

use vm::frame::{SharedBytes, SharedBytesMut};

use super::cpu::features;
use crate::arch::USER_END;
pub use crate::arch::user_fault::{StringError, UserFault, UserResult};

/// One line of the exception table: an instruction that may fault, and where to go on then.
#[repr(C)]
struct Fixup {
    instruction: usize,
    target: usize,
}

unsafe extern "C" {
    static __ex_table_start: Fixup;
    static __ex_table_end: Fixup;
}

fn table() -> (*const Fixup, usize) {
    let start = &raw const __ex_table_start;
    (start, (&raw const __ex_table_end as usize - start as usize) / size_of::<Fixup>())
}

/// Sorts the exception table.
///
/// # Safety
/// Once, on the boot CPU, alone, while constants are still writable (first page tables).
pub unsafe fn sort_fixups() {
    let (start, count) = table();
    // SAFETY: the linker put the table between the two symbols; nobody else looks at it, as the caller says.
    let table = unsafe { core::slice::from_raw_parts_mut(start.cast_mut(), count) };
    table.sort_unstable_by_key(|f| f.instruction);
}

/// Where execution goes on after a fault at `pc` that nobody can serve, if `pc` is one of the instructions here.
pub fn fixup(pc: usize) -> Option<usize> {
    let (start, count) = table();
    // SAFETY: the linker put the table between the two symbols; it is only read after `sort_fixups`.
    let table = unsafe { core::slice::from_raw_parts(start, count) };
    table.binary_search_by_key(&pc, |f| f.instruction).ok().and_then(|i| table.get(i)).map(|f| f.target)
}

/// True if `start..start + len` lies in the user half.
#[inline(always)]
pub fn in_user_half(start: usize, len: usize) -> bool {
    len <= USER_END && start <= USER_END - len
}

/// SMAP window; the `.smap_sites` entry lets boot replace the instruction on processors without SMAP.
macro_rules! stac {
    () => {
        "991: stac\n.pushsection .smap_sites, \"a\"\n.quad 991b\n.popsection"
    };
}
macro_rules! clac {
    () => {
        "992: clac\n.pushsection .smap_sites, \"a\"\n.quad 992b\n.popsection"
    };
}
/// Says that the instruction at label `$from` goes on at `$to` after a fault.
macro_rules! on_fault {
    ($from:literal, $to:literal) => {
        concat!(".pushsection .ex_table, \"a\"\n.quad ", $from, "b, ", $to, "b\n.popsection")
    };
}
pub(super) use {clac, on_fault, stac};

/// Before an access that may fault and then sleep: with interrupts off a fault is not served.
#[inline(always)]
pub(super) fn assert_may_fault() {
    if sync::lock::order::CHECKED && super::interrupts_enabled() {
        sync::lock::order::assert_may_sleep();
    }
}

/// Copies up to this many bytes by plain moves; more with a repeated string instruction.
const PLAIN: usize = 64;

/// Copies, and returns how many bytes are left undone.
///
/// # Safety
/// The kernel side is valid for `len` bytes and the user side lies in the user half.
#[inline(never)]
unsafe fn copy(to: *mut u8, from: *const u8, len: usize) -> usize {
    assert_may_fault();
    let left: usize;
    if len <= PLAIN {
        // SAFETY: as the caller says; a fault on the user side goes on at 9.
        unsafe {
            asm!(
                stac!(),
                "cmp {left}, 8",
                "jb 5f",
                "2: mov {word}, [{from}]",
                "3: mov [{to}], {word}",
                "add {from}, 8",
                "add {to}, 8",
                "sub {left}, 8",
                "cmp {left}, 8",
                "jae 2b",
                "5: test {left}, {left}",
                "jz 9f",
                "6: mov {word:l}, [{from}]",
                "7: mov [{to}], {word:l}",
                "inc {from}",
                "inc {to}",
                "dec {left}",
                "jnz 6b",
                "9:",
                clac!(),
                // What is left of a word before the fault is copied byte by byte.
                on_fault!("2", "6"),
                on_fault!("3", "6"),
                on_fault!("6", "9"),
                on_fault!("7", "9"),
                left = inout(reg) len => left,
                from = inout(reg) from => _,
                to = inout(reg) to => _,
                word = out(reg_abcd) _,
            );
        }
    } else if features::get().erms {
        // SAFETY: as the caller says; a fault goes on at 3 with RCX bytes left.
        unsafe {
            asm!(stac!(), "2: rep movsb", "3:", clac!(), on_fault!("2", "3"),
                 inout("rcx") len => left, inout("rsi") from => _, inout("rdi") to => _);
        }
    } else {
        let mut words = len / 8;
        let mut bytes = len % 8;
        // SAFETY: as above; RCX counts words in the first instruction and bytes in the second.
        unsafe {
            asm!(
                stac!(),
                "2: rep movsq",
                "xchg rcx, {bytes}",
                "3: rep movsb",
                "xchg rcx, {bytes}",
                "4:",
                clac!(),
                on_fault!("2", "4"),
                // After the exchange: RCX bytes left, and no words.
                ".pushsection .ex_table, \"a\"\n.quad 3b, 5f\n.popsection",
                "jmp 6f",
                "5: xchg rcx, {bytes}",
                "jmp 4b",
                "6:",
                bytes = inout(reg) bytes,
                inout("rcx") words, inout("rsi") from => _, inout("rdi") to => _,
            );
        }
        left = words * 8 + bytes;
    }
    left
}

/// Copies by one move of `$word` for each offset. Gives 0 if all could be moved.
macro_rules! moves {
    ($to:expr, $from:expr, $word:literal, $($at:literal),+) => {{
        let bad: u32;
        // SAFETY: as the caller says; a fault on the user side goes on at 9, with `bad` at 1.
        unsafe {
            asm!(
                stac!(),
                $(
                    concat!("2: mov {word", $word, "}, [{from} + ", $at, "]"),
                    ".pushsection .ex_table, \"a\"\n.quad 2b, 9f\n.popsection",
                    concat!("2: mov [{to} + ", $at, "], {word", $word, "}"),
                    ".pushsection .ex_table, \"a\"\n.quad 2b, 9f\n.popsection",
                )+
                "xor {bad:e}, {bad:e}",
                "9:",
                clac!(),
                to = in(reg) $to,
                from = in(reg) $from,
                word = out(reg) _,
                bad = inout(reg) 1u32 => bad,
                options(nostack),
            );
        }
        bad == 0
    }};
}

/// As `copy`, for a `len` that is a constant where this is inlined: the sizes that system calls have most often are copied without a loop. After a
/// fault `copy` begins anew, and finds out how far it comes.
///
/// # Safety
/// As `copy`.
#[inline(always)]
unsafe fn copy_fixed(to: *mut u8, from: *const u8, len: usize) -> UserResult {
    assert_may_fault();
    let copied = match len {
        2 => moves!(to, from, ":x", 0),
        4 => moves!(to, from, ":e", 0),
        8 => moves!(to, from, ":r", 0),
        16 => moves!(to, from, ":r", 0, 8),
        32 => moves!(to, from, ":r", 0, 8, 16, 24),
        // A signal's frame.
        48 => moves!(to, from, ":r", 0, 8, 16, 24, 32, 40),
        64 => moves!(to, from, ":r", 0, 8, 16, 24, 32, 40, 48, 56),
        192 => moves!(
            to, from, ":r", 0, 8, 16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96, 104, 112, 120, 128, 136, 144,
            152, 160, 168, 176, 184
        ),
        _ => false,
    };
    // SAFETY: as the caller says.
    if copied || unsafe { copy(to, from, len) } == 0 { Ok(()) } else { Err(UserFault) }
}

/// Copies as much as can be had; returns the bytes copied.
pub fn copy_from_user_partial(mut dst: SharedBytesMut<'_>, src: usize) -> usize {
    if src >= USER_END {
        return 0;
    }
    let len = dst.len().min(USER_END - src);
    // SAFETY: `dst` is valid for `len` bytes, `src` lies in the user half.
    len - unsafe { copy(dst.as_mut_ptr(), src as *const u8, len) }
}

/// Copies as much as there is room for; returns the bytes copied.
pub fn copy_to_user_partial(dst: usize, src: SharedBytes<'_>) -> usize {
    if dst >= USER_END {
        return 0;
    }
    let len = src.len().min(USER_END - dst);
    // SAFETY: `src` is valid for `len` bytes, `dst` lies in the user half.
    len - unsafe { copy(dst as *mut u8, src.as_ptr(), len) }
}

/// Runs `copy`, which never waits meanwhile.
#[inline(always)]
fn without_faults(copy: impl FnOnce() -> usize) -> usize {
    let was = super::disable_interrupts();
    let n = copy();
    if was {
        super::enable_interrupts();
    }
    n
}

/// As `copy_from_user_partial`, of the pages that are there; never waits. At most a page.
#[inline]
pub fn copy_from_user_nofault(dst: SharedBytesMut<'_>, src: usize) -> usize {
    without_faults(|| copy_from_user_partial(dst, src))
}

/// As `copy_to_user_partial`, to the pages that are there; never waits. At most a page.
#[inline]
pub fn copy_to_user_nofault(dst: usize, src: SharedBytes<'_>) -> usize {
    without_faults(|| copy_to_user_partial(dst, src))
}

/// Fills `dst` from user memory.
#[inline]
pub fn copy_from_user(dst: &mut [u8], src: usize) -> UserResult {
    if !in_user_half(src, dst.len()) {
        return Err(UserFault);
    }
    // SAFETY: `dst` is valid, `src` lies in the user half.
    if unsafe { copy(dst.as_mut_ptr(), src as *const u8, dst.len()) } == 0 { Ok(()) } else { Err(UserFault) }
}

/// Writes all of `src` to user memory.
#[inline]
pub fn copy_to_user(dst: usize, src: &[u8]) -> UserResult {
    if !in_user_half(dst, src.len()) {
        return Err(UserFault);
    }
    // SAFETY: `src` is valid, `dst` lies in the user half.
    if unsafe { copy(dst as *mut u8, src.as_ptr(), src.len()) } == 0 { Ok(()) } else { Err(UserFault) }
}

/// As `copy_from_user`, of a value whose size is known where this is compiled.
#[inline(always)]
pub fn value_from_user(dst: &mut [u8], src: usize) -> UserResult {
    if !in_user_half(src, dst.len()) {
        return Err(UserFault);
    }
    // SAFETY: `dst` is valid, `src` lies in the user half.
    unsafe { copy_fixed(dst.as_mut_ptr(), src as *const u8, dst.len()) }
}

/// As `copy_to_user`, of a value whose size is known where this is compiled.
#[inline(always)]
pub fn value_to_user(dst: usize, src: &[u8]) -> UserResult {
    if !in_user_half(dst, src.len()) {
        return Err(UserFault);
    }
    // SAFETY: `src` is valid, `dst` lies in the user half.
    unsafe { copy_fixed(dst as *mut u8, src.as_ptr(), src.len()) }
}

/// Copies a NUL-terminated string; returns its length without the NUL. `dst` may be written past the NUL.
pub fn strncpy_from_user(dst: &mut [u8], src: usize) -> Result<usize, StringError> {
    const CHUNK: usize = 64;
    let mut done = 0;
    while done < dst.len() {
        let from = src.wrapping_add(done);
        if from >= USER_END {
            return Err(StringError::Fault);
        }
        // Up to the next multiple of 64: never past the page that holds the string's end.
        let want = (CHUNK - from % CHUNK).min(dst.len() - done);
        let Some(part) = dst.get_mut(done..done + want) else { break };
        let got = copy_from_user_partial((&mut *part).into(), from);
        if let Some(end) = crate::bytes::find(0, part.get(..got).unwrap_or_default()) {
            return Ok(done + end);
        }
        if got < want {
            return Err(StringError::Fault);
        }
        done += want;
    }
    Err(StringError::TooLong)
}

/// Reads an aligned word at once (a futex).
#[inline]
pub fn load_u32(address: usize) -> UserResult<u32> {
    assert_may_fault();
    if !in_user_half(address, 4) || !address.is_multiple_of(4) {
        return Err(UserFault);
    }
    let (value, bad): (u32, u32);
    // SAFETY: in the user half; a fault leaves `bad` at 1.
    unsafe {
        asm!(stac!(), "2: mov {value:e}, [{address}]", "xor {bad:e}, {bad:e}", "3:", clac!(), on_fault!("2", "3"),
             value = out(reg) value, address = in(reg) address, bad = inout(reg) 1u32 => bad, options(nostack));
    }
    if bad == 0 { Ok(value) } else { Err(UserFault) }
}

/// Reads an aligned word at once if its page is there; never waits.
pub fn load_u32_nofault(address: usize) -> UserResult<u32> {
    let was = super::disable_interrupts();
    let value = load_u32(address);
    if was {
        super::enable_interrupts();
    }
    value
}

/// Writes an aligned word at once.
#[inline]
pub fn store_u32(address: usize, value: u32) -> UserResult {
    assert_may_fault();
    if !in_user_half(address, 4) || !address.is_multiple_of(4) {
        return Err(UserFault);
    }
    let bad: u32;
    // SAFETY: in the user half; a fault leaves `bad` at 1.
    unsafe {
        asm!(stac!(), "2: mov [{address}], {value:e}", "xor {bad:e}, {bad:e}", "3:", clac!(), on_fault!("2", "3"),
             value = in(reg) value, address = in(reg) address, bad = inout(reg) 1u32 => bad, options(nostack));
    }
    if bad == 0 { Ok(()) } else { Err(UserFault) }
}

/// As `compare_exchange_u32`, if the page is there and may be written; never waits.
pub fn compare_exchange_u32_nofault(address: usize, old: u32, new: u32) -> UserResult<u32> {
    let was = super::disable_interrupts();
    let value = compare_exchange_u32(address, old, new);
    if was {
        super::enable_interrupts();
    }
    value
}

/// Compares an aligned word with `old` and exchanges it for `new`; returns what was there.
pub fn compare_exchange_u32(address: usize, old: u32, new: u32) -> UserResult<u32> {
    assert_may_fault();
    if !in_user_half(address, 4) || !address.is_multiple_of(4) {
        return Err(UserFault);
    }
    let (was, bad): (u32, u32);
    // SAFETY: in the user half; a fault leaves `bad` at 1.
    unsafe {
        asm!(stac!(), "2: lock cmpxchg [{address}], {new:e}", "mov {bad:e}, 0", "3:", clac!(), on_fault!("2", "3"),
             new = in(reg) new, address = in(reg) address, inout("eax") old => was,
             bad = inout(reg) 1u32 => bad, options(nostack));
    }
    if bad == 0 { Ok(was) } else { Err(UserFault) }
}

/// Reads a word of kernel memory that may not be mapped (for a backtrace through a broken stack).
pub fn peek_kernel(address: usize) -> Option<usize> {
    let (value, bad): (usize, u32);
    // SAFETY: a fault goes on at 3 with `bad` at 1; reading memory has no effect.
    unsafe {
        asm!("2: mov {value}, [{address}]", "xor {bad:e}, {bad:e}", "3:", on_fault!("2", "3"),
             value = out(reg) value, address = in(reg) address, bad = inout(reg) 1u32 => bad, options(nostack, readonly));
    }
    (bad == 0).then_some(value)
}
