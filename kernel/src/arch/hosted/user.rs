//! Copies between the kernel and the memory of the running program. A fault goes to the program's space, as in hardware; if that
//! refuses, the copy ends short.

use core::ops::Range;
use core::sync::atomic::{AtomicU32, Ordering};

use super::machine::access;
use super::upcall;
use crate::arch::USER_END;
pub use crate::arch::user_fault::{StringError, UserFault, UserResult};
use vm::PAGE_SIZE;
use vm::frame::{SharedBytes, SharedBytesMut};

/// True if `start..start + len` lies in the user half.
pub fn in_user_half(start: usize, len: usize) -> bool {
    len <= USER_END && start <= USER_END - len
}

/// Runs `f` on the page at `address`, which is brought in first if the caller `waits`. None: there is none.
fn with_page<R>(address: usize, write: bool, waits: bool, f: impl Fn(*mut u8) -> R) -> Option<R> {
    if !in_user_half(address, 1) {
        return None;
    }
    loop {
        if let Some(result) = access(address, write, &f) {
            return Some(result);
        }
        if !waits || !upcall::kernel_fault(address, write) {
            return None;
        }
    }
}

/// Runs `f` on `len` bytes at `address`, page by page: with the place of the part that lies in the page, and which part that is. How many
/// bytes come before the first page that is not there.
fn with_pages(
    address: usize,
    len: usize,
    write: bool,
    waits: bool,
    f: impl Fn(*mut u8, Range<usize>),
) -> usize {
    let mut done = 0;
    while done < len {
        let at = address.wrapping_add(done);
        let part = done..len.min(done + PAGE_SIZE - at % PAGE_SIZE);
        if with_page(at, write, waits, |page| f(page, part.clone())).is_none() {
            break;
        }
        done = part.end;
    }
    done
}

/// Copies as much as can be had; returns the bytes copied.
pub fn copy_from_user_partial(dst: SharedBytesMut<'_>, src: usize) -> usize {
    copy_in(dst, src, true)
}

/// The same of the pages that are there; never waits.
pub fn copy_from_user_nofault(dst: SharedBytesMut<'_>, src: usize) -> usize {
    copy_in(dst, src, false)
}

fn copy_in(mut dst: SharedBytesMut<'_>, src: usize, waits: bool) -> usize {
    let to = dst.as_mut_ptr();
    with_pages(src, dst.len(), false, waits, |page, part| {
        // SAFETY: the part lies in `dst` and in the page. Other programs may write the page meanwhile: the bytes mix.
        unsafe { to.add(part.start).copy_from_nonoverlapping(page, part.len()) }
    })
}

/// Copies as much as there is room for; returns the bytes copied.
pub fn copy_to_user_partial(dst: usize, src: SharedBytes<'_>) -> usize {
    copy_out(dst, src, true)
}

/// The same to the pages that are there; never waits.
pub fn copy_to_user_nofault(dst: usize, src: SharedBytes<'_>) -> usize {
    copy_out(dst, src, false)
}

fn copy_out(dst: usize, src: SharedBytes<'_>, waits: bool) -> usize {
    let from = src.as_ptr();
    with_pages(dst, src.len(), true, waits, |page, part| {
        // SAFETY: as above.
        unsafe { page.copy_from_nonoverlapping(from.add(part.start), part.len()) }
    })
}

/// Fills `dst` from user memory.
pub fn copy_from_user(dst: &mut [u8], src: usize) -> UserResult {
    if !in_user_half(src, dst.len()) || copy_from_user_partial((&mut *dst).into(), src) != dst.len() {
        return Err(UserFault);
    }
    Ok(())
}

/// Writes all of `src` to user memory.
pub fn copy_to_user(dst: usize, src: &[u8]) -> UserResult {
    if !in_user_half(dst, src.len()) || copy_to_user_partial(dst, src.into()) != src.len() {
        return Err(UserFault);
    }
    Ok(())
}

/// As `copy_from_user`, of a value whose size is known where this is compiled.
pub fn value_from_user(dst: &mut [u8], src: usize) -> UserResult {
    copy_from_user(dst, src)
}

/// As `copy_to_user`, of a value whose size is known where this is compiled.
pub fn value_to_user(dst: usize, src: &[u8]) -> UserResult {
    copy_to_user(dst, src)
}

/// Copies a NUL-terminated string; returns its length without the NUL.
pub fn strncpy_from_user(dst: &mut [u8], src: usize) -> Result<usize, StringError> {
    for (n, to) in dst.iter_mut().enumerate() {
        copy_from_user(core::slice::from_mut(to), src.wrapping_add(n)).map_err(|_| StringError::Fault)?;
        if *to == 0 {
            return Ok(n);
        }
    }
    Err(StringError::TooLong)
}

/// The word at `place`.
///
/// # Safety
/// `place` is what `access` gave for an aligned address, and is used before it returns.
unsafe fn word<'a>(place: *mut u8) -> &'a AtomicU32 {
    // SAFETY: an aligned word of a page that stays meanwhile.
    unsafe { &*place.cast::<AtomicU32>() }
}

fn with_word<R>(address: usize, write: bool, f: impl Fn(&AtomicU32) -> R) -> UserResult<R> {
    if !in_user_half(address, 4) || !address.is_multiple_of(4) {
        return Err(UserFault);
    }
    // SAFETY: aligned, and used at once.
    with_page(address, write, true, |page| f(unsafe { word(page) })).ok_or(UserFault)
}

/// Reads an aligned word at once (a futex).
pub fn load_u32(address: usize) -> UserResult<u32> {
    with_word(address, false, |word| word.load(Ordering::SeqCst))
}

/// Reads an aligned word at once if its page is there; never waits.
pub fn load_u32_nofault(address: usize) -> UserResult<u32> {
    if !in_user_half(address, 4) || !address.is_multiple_of(4) {
        return Err(UserFault);
    }
    // SAFETY: aligned, and used at once.
    access(address, false, |page| unsafe { word(page) }.load(Ordering::SeqCst)).ok_or(UserFault)
}

/// Writes an aligned word at once.
pub fn store_u32(address: usize, value: u32) -> UserResult {
    with_word(address, true, |word| word.store(value, Ordering::SeqCst))
}

/// As `compare_exchange_u32`, if the page is there and may be written; never waits.
pub fn compare_exchange_u32_nofault(address: usize, old: u32, new: u32) -> UserResult<u32> {
    if !in_user_half(address, 4) || !address.is_multiple_of(4) {
        return Err(UserFault);
    }
    let exchange = |word: &AtomicU32| {
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|was| was)
    };
    // SAFETY: aligned, and used at once.
    access(address, true, |page| exchange(unsafe { word(page) })).ok_or(UserFault)
}

/// Compares an aligned word with `old` and exchanges it for `new`; returns what was there.
pub fn compare_exchange_u32(address: usize, old: u32, new: u32) -> UserResult<u32> {
    with_word(address, true, |word| {
        word.compare_exchange(old, new, Ordering::SeqCst, Ordering::SeqCst).unwrap_or_else(|was| was)
    })
}
