//! A device's registers, mapped by somebody else.

/// How many bytes one access moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Width {
    Byte = 1,
    Half = 2,
    Word = 4,
}

/// A window of registers. Little endian. Accesses have side effects, so each call is one access.
pub trait Registers: Send + Sync {
    /// Bytes of the window.
    fn len(&self) -> usize;

    /// All ones if the access does not lie in the window whole and aligned.
    fn read(&self, at: usize, width: Width) -> u32;

    /// Nothing if the access does not lie in the window whole and aligned.
    fn write(&self, at: usize, width: Width, value: u32);

    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn read_word(&self, at: usize) -> u32 {
        self.read(at, Width::Word)
    }

    fn write_word(&self, at: usize, value: u32) {
        self.write(at, Width::Word, value);
    }
}

/// The two halves of a 64-bit value, the low one first.
pub(crate) fn halves(value: u64) -> [u32; 2] {
    [value as u32, (value >> 32) as u32]
}
