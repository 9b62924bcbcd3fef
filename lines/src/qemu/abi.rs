//! The part of QEMU's plugin interface, version 4, that this plugin uses (QEMU 10, `include/qemu/qemu-plugin.h`).
//!
//! Debian does not package the header, so the declarations are written out here. The functions live in the QEMU
//! executable and are bound when it loads the plugin, so nothing in a test program may call them.

use core::ffi::{c_char, c_int, c_uint, c_void};

/// The interface version this plugin is written against. QEMU refuses to load a plugin whose version it lacks.
pub const VERSION: c_int = 4;

pub type PluginId = u64;

/// Opaque handles; QEMU owns what they point to, for the time of one callback.
#[repr(C)]
pub struct Tb {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct Insn {
    _opaque: [u8; 0],
}
#[repr(C)]
pub struct HwAddr {
    _opaque: [u8; 0],
}

/// `qemu_info_t`, as far as a system emulation fills it.
#[repr(C)]
pub struct Info {
    pub target_name: *const c_char,
    pub version_min: c_int,
    pub version_cur: c_int,
    pub system_emulation: bool,
    pub smp_vcpus: c_int,
    pub max_vcpus: c_int,
}

/// GLib's byte array, as far as a reader needs it.
#[repr(C)]
pub struct GByteArray {
    pub data: *mut u8,
    pub len: c_uint,
}

/// GLib's array of elements of one size, as far as a reader needs it.
#[repr(C)]
pub struct GArray {
    pub data: *const c_void,
    pub len: c_uint,
}

/// A register of the guest; only QEMU knows what it points to.
#[repr(C)]
pub struct Register {
    _opaque: [u8; 0],
}

/// `qemu_plugin_reg_descriptor`. The names are C strings that QEMU keeps.
#[repr(C)]
pub struct RegisterName {
    pub register: *mut Register,
    pub name: *const c_char,
    pub feature: *const c_char,
}

/// `struct qemu_plugin_scoreboard`
#[repr(C)]
pub struct Scoreboard {
    _opaque: [u8; 0],
}

/// `qemu_plugin_u64`: a number of each CPU.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Number {
    pub board: *mut Scoreboard,
    pub offset: usize,
}

pub type MemInfo = u32;
pub type SimpleCb = extern "C" fn(PluginId);
pub type VcpuSimpleCb = extern "C" fn(PluginId, c_uint);
pub type VcpuUdataCb = extern "C" fn(c_uint, *mut c_void);
pub type VcpuMemCb = extern "C" fn(c_uint, MemInfo, u64, *mut c_void);
pub type TbTransCb = extern "C" fn(PluginId, *mut Tb);

/// `QEMU_PLUGIN_CB_NO_REGS`: the callback does not look at guest registers, so QEMU need not store them first.
pub const CB_NO_REGS: c_int = 0;
/// `QEMU_PLUGIN_CB_R_REGS`: the callback reads guest registers.
pub const CB_READS_REGS: c_int = 1;
/// `QEMU_PLUGIN_INLINE_ADD_U64`
pub const ADD: c_int = 0;
/// `QEMU_PLUGIN_MEM_RW`
pub const MEM_RW: c_int = 3;

unsafe extern "C" {
    pub fn qemu_plugin_reset(id: PluginId, cb: SimpleCb);
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, cb: VcpuSimpleCb);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, cb: TbTransCb);
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        insn: *mut Insn,
        cb: VcpuUdataCb,
        flags: c_int,
        data: *mut c_void,
    );
    /// Once for each beginning of the block.
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        tb: *mut Tb,
        cb: VcpuUdataCb,
        flags: c_int,
        data: *mut c_void,
    );
    /// Has QEMU itself change the number of the CPU that executes the instruction, before it does.
    pub fn qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(
        insn: *mut Insn,
        operation: c_int,
        number: Number,
        operand: u64,
    );
    /// Elements of so many bytes, one for each CPU, zero at first.
    pub fn qemu_plugin_scoreboard_new(bytes: usize) -> *mut Scoreboard;
    pub fn qemu_plugin_u64_get(number: Number, cpu: c_uint) -> u64;
    pub fn qemu_plugin_tb_n_insns(tb: *const Tb) -> usize;
    pub fn qemu_plugin_tb_get_insn(tb: *const Tb, index: usize) -> *mut Insn;
    pub fn qemu_plugin_insn_data(insn: *const Insn, to: *mut c_void, len: usize) -> usize;
    pub fn qemu_plugin_insn_vaddr(insn: *const Insn) -> u64;
    pub fn qemu_plugin_register_vcpu_mem_cb(
        insn: *mut Insn,
        cb: VcpuMemCb,
        flags: c_int,
        rw: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_mem_size_shift(info: MemInfo) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: MemInfo) -> bool;
    pub fn qemu_plugin_get_hwaddr(info: MemInfo, vaddr: u64) -> *mut HwAddr;
    pub fn qemu_plugin_hwaddr_is_io(addr: *const HwAddr) -> bool;
    pub fn qemu_plugin_hwaddr_phys_addr(addr: *const HwAddr) -> u64;
    /// Reads the memory of the CPU whose callback runs, through its page tables; false: not all of it is mapped.
    pub fn qemu_plugin_read_memory_vaddr(addr: u64, data: *mut GByteArray, len: usize) -> bool;
    /// An array of `RegisterName`, the caller's to free. From a CPU's callback, that of its beginning at the earliest.
    pub fn qemu_plugin_get_registers() -> *mut GArray;
    /// Appends the register's bytes, in the guest's order, to `to`. From a callback registered with `CB_READS_REGS`.
    pub fn qemu_plugin_read_register(register: *mut Register, to: *mut GByteArray) -> c_int;
    // GLib's, which QEMU is linked with.
    pub fn g_array_free(array: *mut GArray, with_content: c_int) -> *mut c_char;
    pub fn g_byte_array_new() -> *mut GByteArray;
    pub fn g_byte_array_set_size(array: *mut GByteArray, bytes: c_uint) -> *mut GByteArray;
    pub fn g_byte_array_unref(array: *mut GByteArray);
}
