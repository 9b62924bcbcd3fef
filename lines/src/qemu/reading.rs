//! What QEMU tells, within a callback of a CPU, of that CPU: a register, and the guest's memory as it sees it.

use super::abi::*;
use crate::stacks::{NAMES, Register as Name};
use core::ffi::CStr;
use core::ptr;
use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// The registers of `NAMES`, as QEMU names them for all CPUs alike; null: it does not know one.
static REGISTERS: [AtomicPtr<Register>; NAMES.len()] =
    [const { AtomicPtr::new(ptr::null_mut()) }; NAMES.len()];

thread_local! {
    /// What a register's bytes come in; never given back.
    static ARRAY: Cell<*mut GByteArray> = const { Cell::new(ptr::null_mut()) };
}

/// The number of the window that the CPU of the present callback opens.
pub fn number() -> Option<u64> {
    register(Name::Rax)
}

/// A register of the CPU of the present callback, which is one that reads registers; none: QEMU does not know it.
pub fn register(name: Name) -> Option<u64> {
    let register = REGISTERS.get(name as usize)?.load(Relaxed);
    if register.is_null() {
        return None;
    }
    // SAFETY: the register is one of QEMU's own list, and the callback is registered as one that reads registers. The array is this thread's.
    unsafe {
        let array = ARRAY.with(|array| match array.get() {
            new if new.is_null() => {
                array.set(g_byte_array_new());
                array.get()
            }
            old => old,
        });
        g_byte_array_set_size(array, 0);
        if qemu_plugin_read_register(register, array) < 8 || (*array).len < 8 {
            return None;
        }
        Some((*array).data.cast::<u64>().read_unaligned())
    }
}

/// Looks for the registers.
pub fn find_registers() {
    // SAFETY: called from the beginning of a CPU. The array and its elements are valid until it is freed here; the names are
    // C strings that QEMU keeps, as are the registers.
    unsafe {
        let array = qemu_plugin_get_registers();
        let Some(list) = array.as_ref() else { return };
        let names = (0..list.len as usize).map(|index| &*list.data.cast::<RegisterName>().add(index));
        for name in names {
            let place = NAMES.iter().position(|known| *known == CStr::from_ptr(name.name));
            if let Some(register) = place.and_then(|place| REGISTERS.get(place)) {
                register.store(name.register, Relaxed);
            }
        }
        g_array_free(array, 1);
    }
}

/// `bytes` bytes of the guest's memory as the CPU of the present callback sees it; none where it is not mapped.
pub fn read_guest(address: u64, bytes: usize) -> Option<Vec<u8>> {
    // SAFETY: called from a callback of a CPU alone (`closed`, `walks`).
    with_bytes(|array| unsafe { qemu_plugin_read_memory_vaddr(address, array, bytes) })
}

/// What `fill` puts into an array of bytes; none where it fails.
fn with_bytes(fill: impl FnOnce(*mut GByteArray) -> bool) -> Option<Vec<u8>> {
    // SAFETY: the array is ours from its making to its release, and holds `len` bytes at `data` in between.
    unsafe {
        let array = g_byte_array_new();
        let content =
            fill(array).then(|| core::slice::from_raw_parts((*array).data, (*array).len as usize).to_vec());
        g_byte_array_unref(array);
        content
    }
}
