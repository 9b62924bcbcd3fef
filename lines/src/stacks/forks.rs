//! Calls that return in two threads: what the caller was, for the other thread to begin with.
//!
//! The other thread may run for the first time long after the call, when others have made the same call from the same place. So it is known by where the call
//! returns, by the stack pointer it begins with, and by the registers that the call leaves as they were in both threads.
#![forbid(unsafe_code)]

use super::threads::Frame;
use super::tree::Program;
use super::{Machine, Register};
use std::collections::HashMap;

/// System calls (arch/x86/entry/syscalls of Linux).
const CLONE: u64 = 56;
const FORK: u64 = 57;
const VFORK: u64 = 58;
const CLONE3: u64 = 435;
/// `stack` and `stack_size` in clone3's argument (clone(2)).
const STACK: u64 = 40;
/// The registers that such a call leaves as they were.
const KEPT: [Register; 11] = [
    Register::Rbx,
    Register::Rbp,
    Register::Rdi,
    Register::Rsi,
    Register::Rdx,
    Register::R8,
    Register::R9,
    Register::R12,
    Register::R13,
    Register::R14,
    Register::R15,
];

/// What the other thread is known by.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Beginning {
    place: u64,
    sp: u64,
    kept: [u64; KEPT.len()],
}

impl Beginning {
    fn new(place: u64, sp: u64, machine: &mut impl Machine) -> Beginning {
        Beginning { place, sp, kept: KEPT.map(|register| machine.register(register)) }
    }
}

/// What a thread was when it made the call.
#[derive(Clone, Debug, Default)]
pub struct Fork {
    pub program: Program,
    /// None if the other thread has a stack of its own.
    pub user: Vec<Frame>,
}

/// The calls whose other threads have not run yet.
#[derive(Debug, Default)]
pub struct Forks(HashMap<Beginning, (Fork, u32)>);

/// The stack pointer that the other thread of a system call begins with, if there is one. The registers are the program's still.
pub fn forks(number: u64, machine: &mut impl Machine) -> Option<u64> {
    let own = match number {
        FORK | VFORK => 0,
        CLONE => machine.register(Register::Rsi),
        CLONE3 => {
            let at = machine.register(Register::Rdi).wrapping_add(STACK);
            let words = machine.memory(at, 16).unwrap_or_default();
            let words = words.chunks_exact(8).filter_map(|word| word.try_into().ok());
            words.map(u64::from_le_bytes).fold(0, u64::wrapping_add)
        }
        _ => return None,
    };
    Some(if own == 0 { machine.register(Register::Rsp) } else { own })
}

impl Forks {
    /// A call begins that returns at `place`, in another thread with the stack pointer `sp`.
    pub fn begins(&mut self, place: u64, sp: u64, fork: Fork, machine: &mut impl Machine) {
        let (known, waiting) = self.0.entry(Beginning::new(place, sp, machine)).or_default();
        *known = fork;
        *waiting = waiting.saturating_add(1);
    }

    /// What the caller was of the call that has just returned in a new thread.
    pub fn returns(&mut self, place: u64, sp: u64, machine: &mut impl Machine) -> Option<Fork> {
        let beginning = Beginning::new(place, sp, machine);
        let (fork, waiting) = self.0.get_mut(&beginning)?;
        *waiting -= 1;
        if *waiting > 0 {
            return Some(fork.clone());
        }
        self.0.remove(&beginning).map(|(fork, _)| fork)
    }
}
