//! The fallible forms of vectors, strings and text.
#![forbid(unsafe_code)]

use super::{AllocError, allowed};
use alloc::string::String;
use alloc::vec::Vec;
use core::fmt;

/// `Vec::with_capacity` that can fail. (Not a method: std has an unstable one by the obvious name.)
pub fn try_vec<T>(capacity: usize) -> Result<Vec<T>, AllocError> {
    allowed()?;
    let mut all = Vec::new();
    all.try_reserve_exact(capacity)?;
    Ok(all)
}

/// The fallible forms of `Vec`'s operations.
pub trait TryVec<T>: Sized + Default {
    fn try_push(&mut self, value: T) -> Result<(), AllocError>;
    /// Inserts at `index`, or at the end if there are fewer elements, into room that was made before; gives `value` back if there is none.
    /// Allocates nothing.
    fn insert_reserved(&mut self, index: usize, value: T) -> Result<(), T>;
    /// The same at the end.
    fn push_reserved(&mut self, value: T) -> Result<(), T>;
    /// Inserts at `index`, or at the end if there are fewer elements.
    fn try_insert(&mut self, index: usize, value: T) -> Result<(), AllocError>;
    fn try_extend_from_slice(&mut self, values: &[T]) -> Result<(), AllocError>
    where
        T: Clone;
    /// Appends what `values` yields; those already appended stay if memory runs out.
    fn try_extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), AllocError>;
    fn try_resize(&mut self, len: usize, value: T) -> Result<(), AllocError>
    where
        T: Clone;
    fn try_from_slice(values: &[T]) -> Result<Self, AllocError>
    where
        T: Clone,
    {
        let mut all = Self::default();
        all.try_extend_from_slice(values)?;
        Ok(all)
    }
}

impl<T> TryVec<T> for Vec<T> {
    #[inline]
    fn try_push(&mut self, value: T) -> Result<(), AllocError> {
        if self.len() == self.capacity() {
            allowed()?;
            self.try_reserve(1)?;
        }
        self.push(value);
        Ok(())
    }

    #[inline]
    fn insert_reserved(&mut self, index: usize, value: T) -> Result<(), T> {
        if self.len() == self.capacity() {
            return Err(value);
        }
        self.insert(index.min(self.len()), value);
        Ok(())
    }

    #[inline]
    fn push_reserved(&mut self, value: T) -> Result<(), T> {
        if self.len() == self.capacity() {
            return Err(value);
        }
        self.push(value);
        Ok(())
    }

    fn try_insert(&mut self, index: usize, value: T) -> Result<(), AllocError> {
        if self.len() == self.capacity() {
            allowed()?;
            self.try_reserve(1)?;
        }
        self.insert(index.min(self.len()), value);
        Ok(())
    }

    fn try_extend_from_slice(&mut self, values: &[T]) -> Result<(), AllocError>
    where
        T: Clone,
    {
        allowed()?;
        self.try_reserve(values.len())?;
        self.extend_from_slice(values);
        Ok(())
    }

    fn try_extend(&mut self, values: impl IntoIterator<Item = T>) -> Result<(), AllocError> {
        let values = values.into_iter();
        self.try_reserve(values.size_hint().0)?;
        for value in values {
            self.try_push(value)?;
        }
        Ok(())
    }

    fn try_resize(&mut self, len: usize, value: T) -> Result<(), AllocError>
    where
        T: Clone,
    {
        if len > self.capacity() {
            allowed()?;
            self.try_reserve(len - self.len())?;
        }
        self.resize(len, value);
        Ok(())
    }
}

/// The fallible forms of `String`'s operations.
pub trait TryString: Sized {
    fn try_from_str(s: &str) -> Result<Self, AllocError>;
    fn try_push_str(&mut self, s: &str) -> Result<(), AllocError>;
    fn try_push_char(&mut self, c: char) -> Result<(), AllocError>;
}

impl TryString for String {
    fn try_from_str(s: &str) -> Result<Self, AllocError> {
        let mut all = String::new();
        all.try_push_str(s)?;
        Ok(all)
    }

    fn try_push_str(&mut self, s: &str) -> Result<(), AllocError> {
        allowed()?;
        self.try_reserve(s.len())?;
        self.push_str(s);
        Ok(())
    }

    fn try_push_char(&mut self, c: char) -> Result<(), AllocError> {
        self.try_push_str(c.encode_utf8(&mut [0; 4]))
    }
}

/// Writes formatted text into a vector or string fallibly: `write!(Text(&mut v), ...)` gives `fmt::Error` when memory is out.
pub struct Text<'a, S>(pub &'a mut S);

impl fmt::Write for Text<'_, String> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0.try_push_str(s).map_err(|_| fmt::Error)
    }
}

impl fmt::Write for Text<'_, Vec<u8>> {
    fn write_str(&mut self, s: &str) -> fmt::Result {
        self.0.try_extend_from_slice(s.as_bytes()).map_err(|_| fmt::Error)
    }
}
