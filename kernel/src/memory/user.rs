//! Typed user memory. An address from a program is an allegation: these types name what it is said to point at, and
//! reading or writing finds out. Every value is read once, into the kernel's own memory; nothing here hands out a
//! reference to user memory.
//!
//! All of these may sleep (a page may have to be read), so no spinning lock is held.
#![forbid(unsafe_code)]

use core::marker::PhantomData;
use core::mem::size_of;

use zerocopy::{FromBytes, Immutable, IntoBytes};

use crate::arch::user as raw;
use crate::errno::{EFAULT, ENAMETOOLONG, Errno, Result};

/// What a program says is the address of a `T`. Any alignment.
pub struct UserPtr<T> {
    address: usize,
    _what: PhantomData<*mut T>,
}

impl<T> Clone for UserPtr<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for UserPtr<T> {}

impl<T> UserPtr<T> {
    pub const fn new(address: usize) -> Self {
        UserPtr { address, _what: PhantomData }
    }

    pub fn is_null(self) -> bool {
        self.address == 0
    }

    /// `None` for a null pointer, for arguments that may be left out.
    pub fn non_null(self) -> Option<Self> {
        (!self.is_null()).then_some(self)
    }

    /// The pointer to the `n`th element of an array that begins here.
    pub fn at(self, n: usize) -> Result<Self> {
        let offset = n.checked_mul(size_of::<T>()).ok_or(EFAULT)?;
        Ok(Self::new(self.address.checked_add(offset).ok_or(EFAULT)?))
    }
}

impl<T: FromBytes + IntoBytes> UserPtr<T> {
    /// Reads the value: EFAULT if it is not all there.
    #[inline]
    pub fn read(self) -> Result<T> {
        let mut value = T::new_zeroed();
        raw::value_from_user(value.as_mut_bytes(), self.address)?;
        Ok(value)
    }
}

impl<T: IntoBytes + Immutable> UserPtr<T> {
    /// Writes the value: EFAULT if there is no room for all of it; a part may have been written.
    #[inline]
    pub fn write(self, value: &T) -> Result {
        raw::value_to_user(self.address, value.as_bytes())?;
        Ok(())
    }
}

/// What a program says is a buffer of `len` bytes.
#[derive(Clone, Copy, Debug)]
pub struct UserSlice {
    address: usize,
    len: usize,
}

impl UserSlice {
    pub const fn new(address: usize, len: usize) -> UserSlice {
        UserSlice { address, len }
    }

    /// EFAULT unless the range lies in the user half (which says nothing of what is mapped).
    pub fn check(self) -> Result<UserSlice> {
        if raw::in_user_half(self.address, self.len) { Ok(self) } else { Err(EFAULT) }
    }

    /// The part from `start` on.
    pub fn skip(self, start: usize) -> UserSlice {
        let start = start.min(self.len);
        UserSlice { address: self.address.wrapping_add(start), len: self.len - start }
    }

    /// At most the first `len` bytes.
    pub fn take(self, len: usize) -> UserSlice {
        UserSlice { len: self.len.min(len), ..self }
    }

    /// Fills `to` from the buffer's first bytes; EFAULT if they are not all there or the buffer is shorter.
    pub fn read(self, to: &mut [u8]) -> Result {
        if to.len() > self.len {
            return Err(EFAULT);
        }
        Ok(raw::copy_from_user(to, self.address)?)
    }

    /// Writes `from` to the buffer's first bytes; EFAULT if there is no room.
    pub fn write(self, from: &[u8]) -> Result {
        if from.len() > self.len {
            return Err(EFAULT);
        }
        Ok(raw::copy_to_user(self.address, from)?)
    }

    /// As [`read`](Self::read), as much as can be had: the bytes read.
    pub fn read_partial(self, to: &mut [u8]) -> usize {
        let len = to.len().min(self.len);
        to.get_mut(..len).map_or(0, |to| raw::copy_from_user_partial(to.into(), self.address))
    }
}

/// What a program says is a NUL-terminated string.
#[derive(Clone, Copy, Debug)]
pub struct UserStr {
    address: usize,
}

impl UserStr {
    pub const fn new(address: usize) -> UserStr {
        UserStr { address }
    }

    /// Reads the string into `buffer` and returns it without the NUL: EFAULT if it is not all there, `too_long` if the NUL
    /// does not fit in `buffer`.
    pub fn read_or(self, buffer: &mut [u8], too_long: Errno) -> Result<&[u8]> {
        let len = raw::strncpy_from_user(buffer, self.address).map_err(|error| match error {
            raw::StringError::Fault => EFAULT,
            raw::StringError::TooLong => too_long,
        })?;
        Ok(buffer.get(..len).unwrap_or(&[]))
    }

    /// Reads a path or name: ENAMETOOLONG if it does not fit.
    pub fn read(self, buffer: &mut [u8]) -> Result<&[u8]> {
        self.read_or(buffer, ENAMETOOLONG)
    }
}
