//! A program's memory, as tests use it.

use std::vec::Vec;

use crate::arch::user;
use crate::process;
use vm::{Backing, MapFlags, MapRequest, PAGE_SIZE, Prot, VirtAddr};

/// An address at which nothing is ever mapped (vm.mmap_min_addr is above).
pub const BAD_ADDRESS: usize = 16;

/// Anonymous memory of the running process.
#[derive(Clone, Copy, Debug)]
pub struct Memory {
    pub address: usize,
    pub len: usize,
}

impl Memory {
    /// `len` bytes of zeros, rounded up to whole pages. The page behind them is not mapped.
    pub fn new(len: usize) -> Memory {
        let current = process::current();
        let space = current.space();
        let pages = len.next_multiple_of(PAGE_SIZE);
        let request = MapRequest {
            hint: VirtAddr(0),
            len: pages + PAGE_SIZE,
            prot: Prot::READ | Prot::WRITE,
            flags: MapFlags::empty(),
            backing: Backing::Anonymous,
        };
        let start = space.map(&request).expect("no memory to map");
        space.unmap(VirtAddr(start.0 + pages), PAGE_SIZE).expect("no guard page");
        Memory { address: start.0, len: pages }
    }

    /// Memory that begins with `bytes`.
    pub fn of(bytes: &[u8]) -> Memory {
        let memory = Memory::new(bytes.len().max(1));
        user::copy_to_user(memory.address, bytes).expect("the memory is there");
        memory
    }

    /// Memory with a NUL-terminated string.
    pub fn of_str(text: &str) -> Memory {
        Memory::of(&[text.as_bytes(), b"\0"].concat())
    }

    /// Its first `len` bytes.
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut bytes = std::vec![0; len];
        user::copy_from_user(&mut bytes, self.address).expect("the memory is there");
        bytes
    }

    /// The address of the last `len` bytes: what is longer runs into the page that is not mapped.
    pub fn end(&self, len: usize) -> usize {
        self.address + self.len - len
    }
}
