//! Bytes of a page while others may write them: programs that map it, or other CPUs in the kernel.
//!
//! Rust's `&[u8]` says that nobody writes the bytes, and `&mut [u8]` that nobody else looks at them; of a page that programs map
//! neither is true. So such bytes are only copied, through raw pointers and by an instruction that the compiler knows nothing of
//! (`__darter_copy_bytes`). What is copied while somebody writes is a mixture of old and new bytes, as on any kernel.
//!
//! No reference to them can be had:
//!
//! ```compile_fail,E0608
//! fn first(bytes: vm::frame::SharedBytes<'_>) -> u8 {
//!     bytes[0]
//! }
//! ```
//!
//! ```compile_fail,E0308
//! fn whole<'a>(bytes: vm::frame::SharedBytesMut<'a>) -> &'a mut [u8] {
//!     bytes
//! }
//! ```
//!
//! Bytes of the kernel's own are taken as shared ones too, so that a file's contents go to a program and to a buffer by one code.
//!
//! A low room.

use super::{__darter_copy_bytes, Frame, zero_frame};
use crate::addr::PAGE_SIZE;
use core::marker::PhantomData;
use core::ops::Range;

/// Bytes to read, which others may write meanwhile.
#[derive(Clone, Copy)]
pub struct SharedBytes<'a> {
    start: *const u8,
    len: usize,
    /// Keeps the memory allocated.
    _memory: PhantomData<&'a u8>,
}

/// Bytes to write, which others may read and write meanwhile.
pub struct SharedBytesMut<'a> {
    start: *mut u8,
    len: usize,
    /// Keeps the memory allocated.
    _memory: PhantomData<&'a mut u8>,
}

impl<'a> SharedBytes<'a> {
    /// # Safety
    /// For `'a` there are `len` bytes of memory at `start`, to which no `&mut` exists.
    #[inline]
    pub(super) unsafe fn new(start: *const u8, len: usize) -> Self {
        Self { start, len, _memory: PhantomData }
    }

    /// A page of zeros.
    #[inline]
    pub fn zeros() -> SharedBytes<'static> {
        // SAFETY: the page of zeros is never written and never freed.
        unsafe { SharedBytes::new(zero_frame().bytes_ptr(), PAGE_SIZE) }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the bytes are, for copies by other means. They are there for `'a`.
    #[inline]
    pub fn as_ptr(&self) -> *const u8 {
        self.start
    }

    /// The bytes `part`; None: it does not lie within.
    #[inline]
    pub fn get(&self, part: Range<usize>) -> Option<SharedBytes<'a>> {
        let len = part.end.checked_sub(part.start).filter(|_| part.end <= self.len)?;
        // SAFETY: within the bytes that there are.
        Some(unsafe { Self::new(self.start.add(part.start), len) })
    }

    /// Copies as many bytes as both have, and says how many.
    #[inline]
    pub fn copy_to(&self, to: &mut [u8]) -> usize {
        SharedBytesMut::from(to).copy_from(*self)
    }
}

impl<'a> SharedBytesMut<'a> {
    /// # Safety
    /// For `'a` there are `len` bytes of memory at `start`, which may be written, and to which no reference exists.
    #[inline]
    pub(super) unsafe fn new(start: *mut u8, len: usize) -> Self {
        Self { start, len, _memory: PhantomData }
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where the bytes are, for copies by other means. They are there for `'a`.
    #[inline]
    pub fn as_mut_ptr(&mut self) -> *mut u8 {
        self.start
    }

    /// The bytes `part`; None: it does not lie within.
    #[inline]
    pub fn get_mut(&mut self, part: Range<usize>) -> Option<SharedBytesMut<'_>> {
        let len = part.end.checked_sub(part.start).filter(|_| part.end <= self.len)?;
        // SAFETY: within the bytes that there are; `self` is borrowed for as long.
        Some(unsafe { Self::new(self.start.add(part.start), len) })
    }

    /// The same bytes, to be read.
    #[inline]
    pub fn to_read(&self) -> SharedBytes<'_> {
        // SAFETY: the same bytes.
        unsafe { SharedBytes::new(self.start, self.len) }
    }

    /// Copies as many bytes as both have, and says how many.
    #[inline]
    pub fn copy_from(&mut self, from: SharedBytes<'_>) -> usize {
        let len = self.len.min(from.len);
        // SAFETY: both have that many bytes. They may overlap only where both are of one shared page: then the bytes mix.
        unsafe { __darter_copy_bytes(self.start, from.start, len) };
        len
    }

    /// Writes zeros, at most a page of them; says how many.
    pub fn clear(&mut self) -> usize {
        self.copy_from(SharedBytes::zeros())
    }
}

impl Frame {
    /// The page's bytes.
    ///
    /// # Safety
    /// Somebody has a reference to the frame for `'a`, and no reference to its bytes exists meanwhile.
    #[inline]
    pub(crate) unsafe fn shared_bytes<'a>(&self) -> SharedBytesMut<'a> {
        // SAFETY: the direct map has the page; the rest is the caller's promise.
        unsafe { SharedBytesMut::new(self.bytes_ptr(), PAGE_SIZE) }
    }
}

impl<'a> From<&'a [u8]> for SharedBytes<'a> {
    #[inline]
    fn from(bytes: &'a [u8]) -> Self {
        // SAFETY: borrowed for `'a`.
        unsafe { Self::new(bytes.as_ptr(), bytes.len()) }
    }
}

impl<'a> From<&'a mut [u8]> for SharedBytesMut<'a> {
    #[inline]
    fn from(bytes: &'a mut [u8]) -> Self {
        // SAFETY: borrowed alone for `'a`.
        unsafe { Self::new(bytes.as_mut_ptr(), bytes.len()) }
    }
}
