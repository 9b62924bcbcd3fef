//! Segment descriptors and the task-state segment, one set per CPU (SDM vol. 3, 3.4.5 and 9.7).
//!
//! Selectors are Linux's, because programs see them in signal frames: kernel code 0x10, kernel data 0x18, user data
//! 0x2b, user code 0x33, and 0x7b, whose limit is the number of the CPU. There is no 32-bit user code segment, so no program can enter compatibility mode.

use core::arch::asm;

pub const KERNEL_CODE: u16 = 0x10;
pub const KERNEL_DATA: u16 = 0x18;
pub const USER_DATA: u16 = 0x2b;
pub const USER_CODE: u16 = 0x33;
const TSS_SELECTOR: u16 = 0x40;

/// STAR (SDM vol. 3, 6.8.8): SYSCALL loads CS 0x10 and SS 0x18; 64-bit SYSRET loads CS 0x23 + 16 and SS 0x23 + 8.
pub const STAR: u64 = (0x23 << 48) | (0x10 << 32);

#[repr(C, align(8))]
pub struct Descriptors([u64; 16]);

impl Descriptors {
    pub const fn new() -> Descriptors {
        Descriptors([
            0,
            0,
            0x00af_9b00_0000_ffff, // 0x10: code, ring 0, 64-bit
            0x00cf_9300_0000_ffff, // 0x18: data, ring 0
            0,                     // 0x20: would be 32-bit user code
            0x00cf_f300_0000_ffff, // 0x28: data, ring 3
            0x00af_fb00_0000_ffff, // 0x30: code, ring 3, 64-bit
            0,
            0, // 0x40: task-state segment, two words
            0,
            0, // 0x50 to 0x70: Linux's for local descriptors, and three that its 32-bit programs may set
            0,
            0,
            0,
            0,
            0, // 0x78: the CPU's number
        ])
    }
}

/// The 64-bit task-state segment; packed because its 64-bit fields lie at odd multiples of four.
#[repr(C, packed(4))]
pub struct Tss {
    reserved0: u32,
    rsp: [u64; 3],
    reserved1: u64,
    ist: [u64; 7],
    reserved2: u64,
    reserved3: u16,
    /// Beyond the segment's limit: no program may use a port.
    io_map: u16,
}

impl Tss {
    pub const RSP0: usize = 4;

    pub const fn new() -> Tss {
        Tss {
            reserved0: 0,
            rsp: [0; 3],
            reserved1: 0,
            ist: [0; 7],
            reserved2: 0,
            reserved3: 0,
            io_map: size_of::<Tss>() as u16,
        }
    }

    /// Sets exception stack `i` (IST `i + 1`).
    pub fn set_exception_stack(&mut self, i: usize, top: usize) {
        self.ist[i] = top as u64;
    }
}

/// Loads this CPU's descriptors; `number` is its number and its node, as RDPID tells it.
///
/// # Safety
/// Both are this CPU's, in place for good.
pub unsafe fn load(descriptors: *mut Descriptors, tss: *const Tss, number: u32) {
    #[repr(C, packed)]
    struct Pointer {
        limit: u16,
        base: u64,
    }
    let base = tss as u64;
    let limit = (size_of::<Tss>() - 1) as u64;
    // Available 64-bit TSS, present (SDM vol. 3, figure 9-4).
    let low = limit
        | (base & 0xff_ffff) << 16
        | 0x89 << 40
        | ((limit >> 16) & 0xf) << 48
        | ((base >> 24) & 0xff) << 56;
    // SAFETY: as the caller says; the new table has the code and data segments that are loaded after it.
    unsafe {
        (*descriptors).0[8] = low;
        (*descriptors).0[9] = base >> 32;
        // Data, ring 3, read-only, down from the limit, of 32 bits (SDM vol. 3, 3.4.5.1): nothing can be read in it, LSL tells its limit.
        (*descriptors).0[15] =
            0x0040_f500_0000_0000 | u64::from(number & 0xffff) | u64::from(number >> 16 & 0xf) << 48;
        let pointer = Pointer { limit: (size_of::<Descriptors>() - 1) as u16, base: descriptors as u64 };
        asm!(
            "lgdt [{pointer}]",
            "push {code}",
            "lea {tmp}, [rip + 2f]",
            "push {tmp}",
            "retfq",
            "2:",
            "mov ss, {data:e}",
            "mov ds, {zero:e}",
            "mov es, {zero:e}",
            "mov fs, {zero:e}",
            "mov gs, {zero:e}",
            "lldt {zero:x}",
            "ltr {tss:x}",
            pointer = in(reg) &raw const pointer,
            code = const KERNEL_CODE,
            data = in(reg) u32::from(KERNEL_DATA),
            zero = in(reg) 0u32,
            tss = in(reg) u32::from(TSS_SELECTOR),
            tmp = out(reg) _,
        );
    }
}
