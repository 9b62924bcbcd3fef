//! Arguments and environment of a program on their way from the old space to the new one.
//!
//! Limits as Linux (execve(2)): 128 KiB for one string, a quarter of the stack limit, at most 6 MiB, for all, pointers
//! included; 128 KiB for all are always allowed.
#![forbid(unsafe_code)]

use crate::arch;
use crate::bytes;
use crate::errno::{Errno, Result};
use alloc::vec::Vec;
use sync::TryVec;
use vm::addr::PAGE_SIZE;

/// Bytes copied at a time.
const PIECE: usize = 256;
/// Bytes that a list has memory for at first: most need no more.
const FIRST: usize = 1024;
/// One string, with its NUL.
const STRING_MAX: usize = 32 * PAGE_SIZE;
const ALL_MAX: usize = 6 << 20;
const ALL_MIN: usize = 32 * PAGE_SIZE;

/// A list of strings, each with its NUL, one after the other.
#[derive(Default)]
pub struct Strings {
    pub bytes: Vec<u8>,
    pub count: usize,
}

impl Strings {
    pub const fn new() -> Self {
        Self { bytes: Vec::new(), count: 0 }
    }

    /// Appends `text`, which holds no NUL.
    ///
    /// # Errors
    /// ENOMEM.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of strings in memory")]
    pub fn push(&mut self, text: &[u8]) -> Result {
        self.bytes.try_extend_from_slice(text)?;
        self.bytes.try_push(0)?;
        self.count += 1;
        Ok(())
    }

    /// Puts `texts` before the others and leaves out the first `drop` of those.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn prepend(&mut self, texts: &[&[u8]], drop: usize) -> Result {
        let mut all = Strings::new();
        for text in texts {
            all.push(text)?;
        }
        for text in self.iter().skip(drop) {
            all.push(text)?;
        }
        *self = all;
        Ok(())
    }

    /// The strings, without their NULs.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let mut rest = self.bytes.as_slice();
        core::iter::from_fn(move || {
            let (text, after) = rest.split_at_checked(bytes::find(0, rest)?)?;
            rest = after.get(1..)?;
            Some(text)
        })
    }

    /// Bytes that the list takes on the new stack, pointers included.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of strings in memory")]
    pub fn cost(&self) -> usize {
        self.bytes.len() + self.count * size_of::<usize>()
    }

    /// Copies the null-terminated array of string pointers at `array`, which may be 0 (an empty list, as on Linux).
    /// `budget` is what all strings together may still cost.
    ///
    /// # Errors
    /// EFAULT; E2BIG: too long; ENOMEM; EINTR: a fatal signal came.
    #[expect(clippy::arithmetic_side_effects, reason = "counts of strings in memory")]
    pub fn copy_from_user(array: usize, budget: &mut usize) -> Result<Self> {
        let mut list = Strings::new();
        if array == 0 {
            return Ok(list);
        }
        loop {
            let at = array.checked_add(list.count * size_of::<usize>()).ok_or(Errno::EFAULT)?;
            let mut pointer = [0; size_of::<usize>()];
            arch::user::copy_from_user(&mut pointer, at)?;
            let pointer = usize::from_ne_bytes(pointer);
            if pointer == 0 {
                return Ok(list);
            }
            list.copy_string(pointer, budget)?;
            if list.count.is_multiple_of(256) && crate::sched::give_way() {
                return Err(Errno::EINTR);
            }
        }
    }

    #[expect(
        clippy::arithmetic_side_effects,
        reason = "each piece was copied from user memory, whose addresses end long before; lengths are in memory"
    )]
    fn copy_string(&mut self, mut from: usize, budget: &mut usize) -> Result {
        if self.bytes.capacity() == 0 {
            self.bytes = sync::heap::try_vec(FIRST)?;
        }
        let start = self.bytes.len();
        loop {
            // Up to the end of the page, so that a string that ends just before an unmapped page is no fault.
            // Most strings are short.
            let piece = (PAGE_SIZE - from % PAGE_SIZE).min(PIECE);
            let old = self.bytes.len();
            self.bytes.try_resize(old + piece, 0)?;
            let taken = match arch::user::copy_from_user(&mut self.bytes[old..], from) {
                Ok(()) => bytes::find(0, &self.bytes[old..]),
                Err(fault) => return Err(fault.into()),
            };
            self.bytes.truncate(old + taken.map_or(piece, |n| n + 1));
            let length = self.bytes.len() - start;
            if length > STRING_MAX || length + size_of::<usize>() > *budget {
                return Err(Errno::E2BIG);
            }
            if taken.is_some() {
                *budget -= length + size_of::<usize>();
                self.count += 1;
                return Ok(());
            }
            from += piece;
        }
    }
}

/// What argument and environment strings may cost together, for a stack limit of `stack` bytes.
pub fn budget(stack: u64) -> usize {
    ((stack / 4).min(ALL_MAX as u64) as usize).max(ALL_MIN)
}
