//! The check for writes to memory that is free: it is filled with a pattern, and has to have it still when it is handed out again.
//!
//! It is on where assertions are (`make lockdep`, hosted tests); elsewhere there is nothing of it.
//!
//! | what | filled | looked at | a fault says |
//! |---|---|---|---|
//! | pages | when they are given back | when they are taken | the frame, what it was used for, where and what was written |
//! | objects of slabs | when they are freed, and when the slab is made | when they are handed out | the object, its cache and type, the same |
//! | what an object has beyond the bytes asked for | with it | when it is freed | the same |
//!
//! The first word of a free object is a link while it lies in its slab, and is looked at in the magazine alone.
//!
//! No locks.

/// Is the check on?
pub(crate) const ON: bool = cfg!(debug_assertions);

/// No address, and no small number either.
const PATTERN: u64 = 0x6b6b_6b6b_6b6b_6b6b;
const WORD: usize = size_of::<u64>();

/// Fills the whole words of `len` bytes at `start`.
///
/// # Safety
/// The memory is nobody's, and aligned to a word.
pub(crate) unsafe fn fill(start: *mut u8, len: usize) {
    for n in 0..len / WORD {
        // SAFETY: within the memory, as the caller promises.
        unsafe { start.cast::<u64>().add(n).write_volatile(PATTERN) };
    }
}

/// The first word of `len` bytes at `start` that has not the pattern: its offset, and what it has.
///
/// # Safety
/// As `fill`.
pub(crate) unsafe fn find(start: *const u8, len: usize) -> Option<(usize, u64)> {
    (0..len / WORD).find_map(|n| {
        // SAFETY: within the memory, as the caller promises.
        let word = unsafe { start.cast::<u64>().add(n).read_volatile() };
        (word != PATTERN).then_some((n * WORD, word))
    })
}

/// Boot option `plant=`: makes a fault that the check is there to find (tests/boot/checks/poison.sh).
///
/// * `page-after-free`, `object-after-free`: writes to a page, or an object, that was freed
/// * `past-object`: writes past what was asked for
#[cfg(debug_assertions)]
pub fn plant(command_line: &str) {
    use crate::frame::alloc_dirty;
    use alloc::alloc::{alloc, dealloc};
    use core::alloc::Layout;
    use core::hint::black_box;
    let option = |name: &str| {
        command_line.split_ascii_whitespace().any(|word| word.strip_prefix("plant=") == Some(name))
    };
    // 128 bytes are there. (The compiler leaves out an allocation of which it sees the end.)
    const ASKED: Layout = Layout::new::<[u64; 13]>();
    if option("page-after-free")
        && let Some(page) = alloc_dirty()
    {
        let bytes = page.frame().bytes_ptr();
        drop(page);
        // SAFETY: none: this is the fault. The magazine hands the page out next.
        unsafe { bytes.add(0x238).write_volatile(7) };
        let _ = alloc_dirty();
    }
    if option("object-after-free") {
        // SAFETY: none: this is the fault. The magazine hands the object out next.
        unsafe {
            let object = black_box(alloc(ASKED));
            dealloc(object, ASKED);
            object.add(24).write_volatile(7);
            black_box(alloc(ASKED));
        }
    }
    if option("past-object") {
        // SAFETY: none: this is the fault.
        unsafe {
            let object = black_box(alloc(ASKED));
            object.add(ASKED.size()).write_volatile(7);
            dealloc(object, ASKED);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_since_is_found_with_its_place() {
        let mut memory = [0u64; 8];
        let start = memory.as_mut_ptr().cast::<u8>();
        // SAFETY: the array's.
        unsafe {
            fill(start, 64);
            assert_eq!(find(start, 64), None);
            start.add(42).write(1);
            assert_eq!(find(start, 64), Some((40, 0x6b6b_6b6b_6b01_6b6b)));
            assert_eq!(find(start, 40), None);
        }
    }
}
