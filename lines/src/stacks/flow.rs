//! How a block of instructions ends, and so where the next may begin.
#![forbid(unsafe_code)]

use crate::code;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The last instruction of a block (SDM volume 2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum End {
    /// None that goes elsewhere.
    Plain,
    /// A jump to this address, or on.
    Jump(u64),
    /// A jump to where a register or memory says.
    Indirect,
    /// A call, and of what, where the instruction says it.
    Call(Option<u64>),
    Return,
    Syscall,
    /// IRET or SYSRET.
    Leave,
}

impl End {
    /// Of an instruction, by its bytes and the address behind it.
    pub fn of(bytes: &[u8], end: u64) -> End {
        let first = bytes.iter().position(
            |byte| !matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x40..=0x4f | 0x64..=0x67 | 0xf2 | 0xf3),
        );
        let short = |byte: u8| end.wrapping_add_signed(i64::from(byte as i8));
        let long = |word: &[u8; 4]| end.wrapping_add_signed(i64::from(i32::from_le_bytes(*word)));
        match first.and_then(|first| bytes.get(first..)).unwrap_or_default() {
            [0xe8, word @ ..] => End::Call(word.try_into().ok().map(long)),
            [0xe9, word @ ..] => word.try_into().map_or(End::Indirect, |word| End::Jump(long(word))),
            [0xeb | 0x70..=0x7f | 0xe0..=0xe3, byte] => End::Jump(short(*byte)),
            [0x0f, 0x80..=0x8f, word @ ..] => {
                word.try_into().map_or(End::Indirect, |word| End::Jump(long(word)))
            }
            [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 2 | 3) => End::Call(None),
            [0xff, modrm, ..] if matches!(modrm >> 3 & 7, 4 | 5) => End::Indirect,
            [0xc2 | 0xc3 | 0xca | 0xcb, ..] => End::Return,
            [0x0f, 0x05] => End::Syscall,
            [0xcf] | [0x0f, 0x07] => End::Leave,
            _ => End::Plain,
        }
    }
}

/// Instructions that QEMU translated together. Lives as long as the plugin.
#[derive(Debug)]
pub struct Block {
    pub start: u64,
    /// Behind its last instruction.
    pub end: u64,
    pub instructions: u64,
    pub ends: End,
    /// Interrupts and exceptions of the kernel's own code come here.
    pub entry: AtomicBool,
}

impl Block {
    pub fn new(start: u64, end: u64, instructions: u64, ends: End) -> Block {
        Block { start, end, instructions, ends, entry: AtomicBool::new(false) }
    }

    pub fn is_entry(&self) -> bool {
        self.entry.load(Relaxed)
    }

    pub fn in_kernel(&self) -> bool {
        code::in_kernel(self.start)
    }
}

/// A block where it is executed. QEMU translates a page of a file once for all programs that map it, and has the addresses of the first.
#[derive(Clone, Copy, Debug)]
pub struct Placed {
    pub block: &'static Block,
    /// From the block's own addresses to those here.
    pub shift: u64,
}

impl Placed {
    pub fn start(&self) -> u64 {
        self.block.start.wrapping_add(self.shift)
    }

    pub fn end(&self) -> u64 {
        self.block.end.wrapping_add(self.shift)
    }

    pub fn in_kernel(&self) -> bool {
        self.block.in_kernel()
    }

    pub fn ends(&self) -> End {
        self.block.ends
    }

    /// Is `next` within the block, or right behind it?
    fn reaches(&self, next: u64) -> bool {
        (self.start()..=self.end()).contains(&next)
    }

    /// May `next` follow without a call, a return or an interrupt?
    pub fn leads_to(&self, next: u64) -> bool {
        self.reaches(next) || self.ends() == End::Jump(next.wrapping_sub(self.shift))
    }

    /// Is `next` what this block, executed to its end, called?
    pub fn calls(&self, next: u64) -> bool {
        match self.ends() {
            End::Call(Some(target)) => target == next.wrapping_sub(self.shift),
            End::Call(None) => !self.reaches(next),
            _ => false,
        }
    }
}

/// What tells blocks apart: start, end, instructions, and how they end.
type Shape = (u64, u64, u64, End);

/// All blocks that were translated: one for each place and shape, however often QEMU translates it.
pub struct Known(Mutex<Option<HashMap<Shape, &'static Block>>>);

impl Known {
    pub const fn new() -> Known {
        Known(Mutex::new(None))
    }

    pub fn block(&self, start: u64, end: u64, instructions: u64, ends: End) -> &'static Block {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get_or_insert_default()
            .entry((start, end, instructions, ends))
            .or_insert_with(|| Box::leak(Box::new(Block::new(start, end, instructions, ends))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_known_by_their_bytes() {
        for (bytes, end) in [
            (&[0xe8, 0x10, 0, 0, 0][..], End::Call(Some(0x1010))),
            (&[0xe8, 0xf0, 0xff, 0xff, 0xff], End::Call(Some(0xff0))),
            (&[0xff, 0xd0], End::Call(None)),             // call rax
            (&[0x41, 0xff, 0x14, 0x24], End::Call(None)), // call [r12]
            (&[0x3e, 0xff, 0xe0], End::Indirect),         // notrack jmp rax
            (&[0xff, 0x30], End::Plain),                  // push [rax]
            (&[0xeb, 0xfe], End::Jump(0xffe)),
            (&[0x75, 0x02], End::Jump(0x1002)),
            (&[0x0f, 0x84, 1, 0, 0, 0], End::Jump(0x1001)),
            (&[0xc3], End::Return),
            (&[0xf3, 0xc3], End::Return),
            (&[0x0f, 0x05], End::Syscall),
            (&[0x48, 0xcf], End::Leave),
            (&[0x48, 0x0f, 0x07], End::Leave),
            (&[0x90], End::Plain),
            (&[], End::Plain),
        ] {
            assert_eq!(End::of(bytes, 0x1000), end, "{bytes:x?}");
        }
    }

    #[test]
    fn what_may_follow_is_where_the_block_is_executed() {
        let block = |ends| Known::new().block(0x1000, 0x1010, 4, ends);
        let placed = |ends| Placed { block: block(ends), shift: 0x5000 };
        let jump = placed(End::Jump(0x1234));
        assert_eq!(
            [0x6000, 0x6008, 0x6010, 0x6234, 0x1234].map(|to| jump.leads_to(to)),
            [true, true, true, true, false]
        );
        assert_eq!([0x6234, 0x6010].map(|to| placed(End::Call(Some(0x1234))).calls(to)), [true, false]);
        assert_eq!([0x6234, 0x6010].map(|to| placed(End::Call(None)).calls(to)), [true, false]);
        assert!(!jump.calls(0x6234));
    }

    #[test]
    fn a_block_is_made_once() {
        let known = Known::new();
        let block = known.block(1, 3, 2, End::Return);
        assert!(std::ptr::eq(block, known.block(1, 3, 2, End::Return)));
        assert!(!std::ptr::eq(block, known.block(1, 3, 2, End::Plain)));
    }
}
