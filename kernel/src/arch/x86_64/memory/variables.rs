//! Where the kernel's variables lie, for the audit of memory (`crate::audit`): what nothing of them leads to is lost.

use core::ops::Range;

use super::super::cpu::percpu;

unsafe extern "C" {
    static __data_start: u8;
    static __data_end: u8;
}

/// The data of the image and the areas of all CPUs, their exception stacks included.
pub fn variables() -> impl Iterator<Item = Range<usize>> {
    let image = &raw const __data_start as usize..&raw const __data_end as usize;
    let areas = (0..sync::cpus()).map(percpu::area);
    core::iter::once(image).chain(areas)
}
