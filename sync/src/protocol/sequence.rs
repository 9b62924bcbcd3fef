//! Words that are read together without a lock, while a writer may change them (a sequence lock).
//!
//! A number is odd while the words change, and another after each change. A reader looks at it before and after: found even and the same, nobody wrote
//! in between.
//!
//! - Writers exclude each other by a lock of their own.
//! - Who has read a word of a change sees on its second look that the change has begun: a word is stored with release and loaded with acquire
//!   (`sequence.store`, `sequence.load`), and the number is odd before (`sequence.begin`).
//! - Who has seen on its first look that a change is over sees all its words (`sequence.over`, `sequence.look`).
//!
//! A reader that comes upon writers without end takes their lock.
#![forbid(unsafe_code)]

use crate::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering, const_new, site, step};

/// The number.
#[derive(Debug)]
pub struct Sequence(AtomicU64);

impl Default for Sequence {
    fn default() -> Self {
        Self::new()
    }
}

impl Sequence {
    const_new! {
        pub fn new() -> Self {
            Sequence(AtomicU64::new(0))
        }
    }

    /// What `read` gives, which loads words and decides nothing yet. None: they were changed meanwhile.
    #[inline(always)]
    pub fn read<T>(&self, read: impl FnOnce() -> T) -> Option<T> {
        let before = self.0.load(site("sequence.look", Ordering::Acquire));
        if before & 1 != 0 {
            return None;
        }
        let found = read();
        // Behind the words, which are loaded with acquire.
        (self.0.load(Ordering::Relaxed) == before).then_some(found)
    }

    /// Changes words by `write`. One writer at a time.
    #[inline]
    pub fn write(&self, write: impl FnOnce()) {
        let before = self.0.load(Ordering::Relaxed);
        if step("sequence.begin") {
            self.0.store(before.wrapping_add(1), Ordering::Relaxed);
        }
        write();
        self.0.store(before.wrapping_add(2), site("sequence.over", Ordering::Release));
    }
}

/// A word that is read so.
#[derive(Debug)]
pub struct Word(AtomicU64);

impl Default for Word {
    fn default() -> Self {
        Self::new()
    }
}

impl Word {
    const_new! {
        pub fn new() -> Self {
            Word(AtomicU64::new(0))
        }
    }

    const_new! {
        pub fn with(word: u64) -> Self {
            Word(AtomicU64::new(word))
        }
    }

    #[inline(always)]
    pub fn load(&self) -> u64 {
        self.0.load(site("sequence.load", Ordering::Acquire))
    }

    #[inline(always)]
    pub fn store(&self, to: u64) {
        self.0.store(to, site("sequence.store", Ordering::Release));
    }
}

/// A word of half the size.
#[derive(Debug)]
pub struct HalfWord(AtomicU32);

impl Default for HalfWord {
    fn default() -> Self {
        Self::new()
    }
}

impl HalfWord {
    const_new! {
        pub fn new() -> Self {
            HalfWord(AtomicU32::new(0))
        }
    }

    const_new! {
        pub fn with(word: u32) -> Self {
            HalfWord(AtomicU32::new(word))
        }
    }

    #[inline(always)]
    pub fn load(&self) -> u32 {
        self.0.load(site("sequence.load", Ordering::Acquire))
    }

    #[inline(always)]
    pub fn store(&self, to: u32) {
        self.0.store(to, site("sequence.store", Ordering::Release));
    }
}

/// A byte.
#[derive(Debug)]
pub struct Byte(AtomicU8);

impl Default for Byte {
    fn default() -> Self {
        Self::new()
    }
}

impl Byte {
    const_new! {
        pub fn new() -> Self {
            Byte(AtomicU8::new(0))
        }
    }

    #[inline(always)]
    pub fn load(&self) -> u8 {
        self.0.load(site("sequence.load", Ordering::Acquire))
    }

    #[inline(always)]
    pub fn store(&self, to: u8) {
        self.0.store(to, site("sequence.store", Ordering::Release));
    }
}
