//! The link-time hooks through which `sync` and `vm` meet this machine (see `sync::machine`). Fat LTO inlines them.
//! Those that park threads are in `sched`.

use core::arch::asm;

use super::cpu::{features, percpu, reg};
use super::{boot::topology, memory};

#[unsafe(no_mangle)]
extern "Rust" fn __darter_cpu_id() -> u32 {
    percpu::cpu_id()
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_cpus() -> u32 {
    topology::cpus()
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_node_of(cpu: u32) -> u32 {
    topology::node_of(cpu)
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_nodes() -> u32 {
    topology::nodes()
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_cycles() -> u64 {
    reg::rdtsc()
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_relax() {
    core::hint::spin_loop();
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_irq_save() -> bool {
    super::disable_interrupts()
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_irq_restore(was: bool) {
    if was {
        super::enable_interrupts();
    }
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_percpu_base() -> usize {
    percpu::displacement()
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_percpu_base_of(cpu: u32) -> usize {
    percpu::displacement_of(cpu)
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_direct_map_base() -> usize {
    memory::DIRECT_MAP
}

#[unsafe(no_mangle)]
extern "Rust" fn __darter_frame_table() -> usize {
    memory::FRAME_TABLE
}

/// # Safety
/// `page` is a whole page that the caller owns.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __darter_zero_page(page: *mut u8) {
    if features::get().erms {
        // SAFETY: as the caller says. DF is clear in the kernel.
        unsafe {
            asm!("rep stosb", inout("rcx") 4096usize => _, inout("rdi") page => _, in("al") 0u8,
                 options(nostack, preserves_flags));
        }
    } else {
        // SAFETY: as above.
        unsafe {
            asm!("rep stosq", inout("rcx") 512usize => _, inout("rdi") page => _, in("rax") 0u64,
                 options(nostack, preserves_flags));
        }
    }
}

/// # Safety
/// Both sides have `len` bytes.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __darter_copy_bytes(to: *mut u8, from: *const u8, len: usize) {
    // SAFETY: as the caller says. DF is clear in the kernel. Programs may write the bytes meanwhile, which Rust does not see.
    unsafe {
        asm!("rep movsb", inout("rcx") len => _, inout("rdi") to => _, inout("rsi") from => _,
             options(nostack, preserves_flags));
    }
}

/// # Safety
/// Both are whole pages; the caller owns `to`.
#[unsafe(no_mangle)]
unsafe extern "Rust" fn __darter_copy_page(to: *mut u8, from: *const u8) {
    if features::get().erms {
        // SAFETY: as the caller says. DF is clear in the kernel.
        unsafe {
            asm!("rep movsb", inout("rcx") 4096usize => _, inout("rdi") to => _, inout("rsi") from => _,
                 options(nostack, preserves_flags));
        }
    } else {
        // SAFETY: as above.
        unsafe {
            asm!("rep movsq", inout("rcx") 512usize => _, inout("rdi") to => _, inout("rsi") from => _,
                 options(nostack, preserves_flags));
        }
    }
}
