//! Where a new program's parts go, and chance in it (address space randomisation), with Linux's ranges on x86-64:
//!
//! | what                                           | below or from                   | chance                          |
//! |------------------------------------------------|---------------------------------|---------------------------------|
//! | stack                                          | the end of user addresses       | 22 bits of pages                |
//! | stack pointer                                  | the strings on the stack        | 8 KiB, in steps of 16           |
//! | mmap, vDSO, interpreter, PIE without one       | the stack's largest size below  | 28 bits of pages                |
//! | PIE with an interpreter                        | two thirds of user addresses    | 28 bits of pages                |
//! | heap                                           | a page above the program        | 1 GiB of pages, where it is 2   |
//!
//! Linux's switches turn it off: `norandmaps` on the kernel's command line, 0 in /proc/sys/kernel/randomize_va_space (1: the heap stays),
//! ADDR_NO_RANDOMIZE of personality(2). Without it an exec draws no random numbers, and counts of instructions repeat.
#![forbid(unsafe_code)]

use crate::arch::USER_END;
use crate::fs;
use crate::process::personality::{ADDR_COMPAT_LAYOUT, ADDR_NO_RANDOMIZE, Persona};
use core::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use vm::Placement;
use vm::addr::PAGE_SIZE;

/// A third of the user addresses.
const THIRD: usize = USER_END / 3;
/// Where a relocatable program with an interpreter begins at the lowest.
const PROGRAM_BASE: usize = (THIRD * 2) & !(PAGE_SIZE - 1);

const STACK_PAGES: usize = 1 << 22;
/// vm.mmap_rnd_bits.
pub const MMAP_BITS: u32 = 28;
const MMAP_PAGES: usize = 1 << MMAP_BITS;
const HEAP_PAGES: usize = (1 << 30) / PAGE_SIZE;
const STACK_POINTER_STEPS: usize = 8192 / 16;
/// Pages of a CPU's span that may stay unused at first (vm): half of it.
const SPAN_PAGES: usize = (1 << 29) / PAGE_SIZE;

/// Room below the stack's largest size, where nothing is mapped unless asked for (Linux's stack_guard_gap).
const STACK_GUARD: u64 = 256 * PAGE_SIZE as u64;
const STACK_GAP_MIN: u64 = 128 << 20;
const STACK_GAP_MAX: u64 = (USER_END / 6 * 5) as u64;

/// /proc/sys/kernel/randomize_va_space. Linux takes any number: 0 is none, 2 and more are all, others leave the heap out.
static RANDOMIZE: AtomicI32 = AtomicI32::new(2);

/// What the next programs get.
pub fn randomize_va_space() -> i32 {
    RANDOMIZE.load(Ordering::Relaxed)
}

pub fn set_randomize_va_space(to: i32) {
    RANDOMIZE.store(to, Ordering::Relaxed);
}

/// vm.legacy_va_layout: programs get their mappings upward from a third of the addresses.
static LEGACY: AtomicBool = AtomicBool::new(false);

pub fn is_layout_legacy() -> bool {
    LEGACY.load(Ordering::Relaxed)
}

pub fn set_layout_legacy(to: bool) {
    LEGACY.store(to, Ordering::Relaxed);
}

/// Takes `norandmaps` from the kernel's command line.
pub fn configure(command_line: &str) {
    if command_line.split_ascii_whitespace().any(|word| word == "norandmaps") {
        set_randomize_va_space(0);
    }
}

/// Where one exec puts things. Without chance all that is drawn is 0.
#[derive(Clone, Copy, Default, Debug)]
pub struct Places {
    chance: bool,
    heap_chance: bool,
    upward: bool,
    mmap: usize,
    program: usize,
    stack: usize,
    stack_pointer: usize,
    heap: usize,
    span: usize,
}

impl Places {
    /// For a program with this personality.
    pub fn draw(persona: Persona) -> Self {
        let mode = randomize_va_space();
        let upward = persona.has(ADDR_COMPAT_LAYOUT) || is_layout_legacy();
        if mode == 0 || persona.has(ADDR_NO_RANDOMIZE) {
            return Self { upward, ..Self::default() };
        }
        Self::from_random(u128::from_ne_bytes(fs::random_bytes()), mode >= 2, upward)
    }

    /// All bits drawn are distinct ones of `random`; what is left over is thrown away.
    #[expect(clippy::arithmetic_side_effects, reason = "bounds are powers of two above 1")]
    fn from_random(mut random: u128, heap_chance: bool, upward: bool) -> Self {
        // All bounds are powers of two.
        let mut below = |bound: usize| {
            let drawn = random as usize & (bound - 1);
            random >>= bound.trailing_zeros();
            drawn
        };
        Self {
            chance: true,
            heap_chance,
            upward,
            mmap: below(MMAP_PAGES),
            program: below(MMAP_PAGES),
            stack: below(STACK_PAGES),
            stack_pointer: below(STACK_POINTER_STEPS),
            heap: below(HEAP_PAGES),
            span: below(SPAN_PAGES),
        }
    }

    /// The end of the stack.
    #[expect(clippy::arithmetic_side_effects, reason = "what is drawn is bounded")]
    pub fn stack_top(&self) -> usize {
        USER_END - self.stack * PAGE_SIZE
    }

    /// How many bytes the stack pointer begins below where it could.
    #[expect(clippy::arithmetic_side_effects, reason = "what is drawn is bounded")]
    pub fn stack_slide(&self) -> usize {
        self.stack_pointer * 16
    }

    /// Where mappings without an address go, with a stack limit of `stack_limit` bytes.
    #[expect(clippy::arithmetic_side_effects, reason = "what is drawn is bounded")]
    pub fn placement(&self, stack_limit: u64) -> Placement {
        let base = if self.upward {
            THIRD.next_multiple_of(PAGE_SIZE) + self.mmap * PAGE_SIZE
        } else {
            let above = STACK_GUARD + if self.chance { (STACK_PAGES * PAGE_SIZE) as u64 } else { 0 };
            let gap =
                stack_limit.checked_add(above).unwrap_or(stack_limit).clamp(STACK_GAP_MIN, STACK_GAP_MAX);
            (USER_END - gap as usize - self.mmap * PAGE_SIZE).next_multiple_of(PAGE_SIZE)
        };
        Placement { base, upward: self.upward, slide: self.span }
    }

    /// Where a relocatable program with an interpreter begins, aligned to `align`.
    #[expect(clippy::arithmetic_side_effects, reason = "what is drawn is bounded")]
    pub fn program(&self, align: usize) -> usize {
        (PROGRAM_BASE + self.program * PAGE_SIZE) & !(align - 1)
    }

    /// Where the heap begins, of a program that ends at `end`; `alone`: it is relocatable and has no interpreter, so that it lies among
    /// the mappings, where the heap would have no room.
    #[expect(clippy::arithmetic_side_effects, reason = "what is drawn is bounded")]
    pub fn heap(&self, end: usize, alone: bool) -> usize {
        let end = end.min(USER_END).next_multiple_of(PAGE_SIZE);
        let lowest = match (alone, self.heap_chance) {
            (true, _) => (THIRD * 2).next_multiple_of(PAGE_SIZE),
            (false, true) => end.saturating_add(PAGE_SIZE),
            (false, false) => return end,
        };
        lowest.saturating_add(if self.heap_chance { self.heap * PAGE_SIZE } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::check;
    use proptest::prelude::*;

    #[test]
    fn without_chance_things_lie_where_linux_puts_them() {
        let places = Places::default();
        assert_eq!((places.stack_top(), places.stack_slide()), (USER_END, 0));
        assert_eq!(places.placement(8 << 20).base, 0x7fff_f7ff_f000);
        assert_eq!(places.program(PAGE_SIZE), 0x5555_5555_4000);
        assert_eq!(places.heap(0x40_2800, false), 0x40_3000);
        assert_eq!(places.heap(0x7fff_f7ff_f000, true), 0x5555_5555_5000);
        assert_eq!(Places { upward: true, ..places }.placement(8 << 20).base, 0x2aaa_aaaa_b000);
    }

    #[test]
    fn whatever_is_drawn_parts_keep_apart() {
        check(300, &(any::<u128>(), any::<bool>(), any::<u64>()), |(random, upward, limit)| {
            let places = Places::from_random(random, true, upward);
            let placement = places.placement(limit);
            assert!(places.stack_top() <= USER_END && places.stack_top() > USER_END - (16 << 30));
            assert!(places.stack_slide() < 8192 && places.stack_slide().is_multiple_of(16));
            assert!(placement.base.is_multiple_of(PAGE_SIZE) && placement.base >= USER_END / 8);
            assert!(upward || placement.base <= USER_END - (128 << 20) - STACK_GUARD as usize);
            let program = places.program(1 << 21);
            assert!(program.is_multiple_of(1 << 21) && program < PROGRAM_BASE + (1 << 40));
            assert!((0x40_4000..0x40_4000 + (1 << 30)).contains(&places.heap(0x40_3000, false)));
        });
    }
}
