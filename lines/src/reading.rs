//! What QEMU tells, within a callback of a CPU, of that CPU: a register, and the guest's memory as it sees it.

use crate::abi::*;
use core::ffi::CStr;
use core::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};

/// Where who opens a window has its number, as QEMU names it for all CPUs alike; null: QEMU does not know the register.
static NUMBER: AtomicPtr<Register> = AtomicPtr::new(ptr::null_mut());
const NUMBER_REGISTER: &CStr = c"rax";

/// The number of the window that the CPU of the present callback opens.
pub fn number() -> Option<u64> {
    let register = NUMBER.load(Relaxed);
    if register.is_null() {
        return None;
    }
    // SAFETY: the register is one of QEMU's own list, and the callback is registered as one that reads registers.
    let bytes = with_bytes(|array| unsafe { qemu_plugin_read_register(register, array) > 0 })?;
    Some(u64::from_le_bytes(bytes.get(..8)?.try_into().ok()?))
}

/// Looks for the register in which the number of a window stands.
pub fn find_register() {
    // SAFETY: called from the beginning of a CPU. The array and its elements are valid until it is freed here; the names are
    // C strings that QEMU keeps, as are the registers.
    unsafe {
        let array = qemu_plugin_get_registers();
        let Some(list) = array.as_ref() else { return };
        let names = (0..list.len as usize).map(|index| &*list.data.cast::<RegisterName>().add(index));
        for name in names {
            if CStr::from_ptr(name.name) == NUMBER_REGISTER {
                NUMBER.store(name.register, Relaxed);
            }
        }
        g_array_free(array, 1);
    }
}

/// `bytes` bytes of the guest's memory as the CPU of the present callback sees it; none where it is not mapped.
pub fn read_guest(address: u64, bytes: usize) -> Option<Vec<u8>> {
    // SAFETY: called from a callback of a CPU alone (`closed`).
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
