//! The machine as a hosted test sees it: the items of the door that the rooms above use, over std.
//!
//! Above this door everything is the kernel's own code: the scheduler with its run queues, RCU, address spaces, processes.
//!
//! * A *CPU* is a number that host threads hand to each other. Each task has a host thread of its own, and only the one that
//!   has a CPU runs (`context`). So what is per CPU is touched by one thread at a time, and kernel code is not preempted.
//! * *Interrupts* come where a CPU idles or changes its task (`cpu`). One CPU's flush is done by the CPU that asks, while the
//!   other has interrupts enabled.
//! * A *program* is a closure (`program`). Its memory is its address space's, translated as a processor would, without a TLB (`machine`,
//!   `user`). What it may not touch is a fault, as in hardware.
//!
//! What is not here: boot, devices, vector registers, the vDSO.

mod context;
mod cpu;
#[path = "../x86_64/divide.rs"]
mod divide;
pub mod flaws;
mod fpu;
pub mod identity;
mod machine;
pub mod pci;
pub mod port;
pub mod program;
mod registers;
pub mod signal_frame;
pub mod time;
mod trap;
pub mod upcall;
pub mod user;

use super::Trap;
use super::interrupts::Entered;
pub use context::{Context, KernelStack, switch};
pub use cpu::{Segments, arch_prctl, call_others, idle_wait, load_kernel_root, send_reschedule, start_cpus};
pub use divide::divide;
pub use fpu::{FpuState, load_initial_vectors, vector_components};
pub use machine::Machine;
pub use program::enter_user;
pub use registers::Registers;
pub use sync::machine::hosted::{cpu_id, nodes};
pub use trap::{
    CORE_REGISTERS, TrapRecord, UserRegs, core_registers, place, set_traced_register, set_traced_registers,
    traced_registers,
};

/// Puts the registers where the thread's first entry of user mode finds them.
pub fn user_regs(stack: &KernelStack) -> *mut UserRegs {
    stack.regs()
}

/// The host has a stack for each thread.
///
/// # Safety
/// None: unlike in hardware nothing goes by it.
pub unsafe fn set_kernel_stack(_top: usize) {}

/// Nothing is watched here.
pub fn load_watches(_: &super::Watches, _steps: bool) {}

pub fn unload_watches() {}

/// Interrupts come where a CPU idles or changes its task, so nobody is ever found in a call.
pub fn entered_by() -> Entered {
    Entered::Other
}

/// The host's stacks are not walked.
pub fn frame_at(_frame: usize) -> Option<(usize, usize)> {
    None
}

/// As [`frame_at`].
pub fn user_frame_at(_frame: usize) -> Option<(usize, usize)> {
    None
}

/// As in [`entered_by`].
pub fn left_program_at() -> Option<(usize, usize)> {
    None
}

/// As in [`entered_by`].
pub fn is_idle_at(_pc: usize) -> bool {
    true
}

pub fn trim_stacks() -> bool {
    false
}

pub fn percpu_ready() -> bool {
    true
}

pub fn memory_ranges() -> impl Iterator<Item = (u64, u64)> {
    core::iter::once((0x10_0000, 0x1fff_ffff))
}

/// As the machine's; here there is none.
#[derive(Clone, Copy)]
pub struct FirmwareTables {
    pub entry: &'static [u8],
    pub structures: &'static [u8],
    pub count: Option<u16>,
}

pub fn firmware_tables() -> Option<FirmwareTables> {
    None
}

/// All memory is node 0's.
pub fn node_of_address(_address: u64) -> u32 {
    0
}

pub fn command_line() -> &'static str {
    "hosted"
}

/// # Panics
/// Always: a test shall not end so.
pub fn power_off() -> ! {
    panic!("the machine was powered off")
}

/// # Panics
/// Always, as `power_off`.
pub fn reset() -> ! {
    panic!("the machine was reset")
}

/// No device interrupts.
pub fn route_isa_line(_line: u8) -> bool {
    false
}

/// As [`route_isa_line`].
pub fn route_device_line(_interrupt: u32) -> bool {
    false
}

/// As [`route_isa_line`].
pub fn device_message(_cpu: u32) -> Option<virtio::pci::Message> {
    None
}

/// As [`route_isa_line`].
pub fn device_change_message(_cpu: u32) -> Option<virtio::pci::Message> {
    None
}

pub fn hardware_random() -> Option<u64> {
    None
}

pub fn min_signal_stack() -> usize {
    signal_frame::max_size()
}

pub fn hwcap() -> usize {
    0
}

/// Each CPU has a core of its own.
pub fn seat(cpu: sync::CpuId) -> crate::arch::seat::Seat {
    crate::arch::seat::Seat { place: cpu, core: cpu, core_in_package: cpu, package: 0 }
}

pub fn next_thread(cpu: sync::CpuId) -> sync::CpuId {
    cpu
}

pub fn has_threads() -> bool {
    false
}

/// Caches are not known.
pub fn cache(_index: u32) -> Option<crate::arch::seat::Cache> {
    None
}

pub fn distance(a: u32, b: u32) -> u8 {
    if a == b { 10 } else { 20 }
}

/// How long a host above this one let `cpu` wait, ns.
pub fn stolen_ns(_cpu: sync::CpuId) -> u64 {
    0
}

/// The same of this CPU.
pub fn stolen_here_ns() -> u64 {
    0
}

/// A thread of the host that waits does not spin.
pub fn may_poll_idle() -> bool {
    false
}

/// Programs here raise no floating-point traps.
pub fn float_code(_trap: Trap) -> u32 {
    linux_raw_sys::general::FPE_FLTINV
}

/// What to map into a program so that it reads the clock by itself.
pub struct Vdso {
    pub data: vm::ObjectOwner,
    pub data_len: usize,
    pub code: vm::ObjectOwner,
    pub code_len: usize,
}

/// There is none.
pub fn vdso() -> Option<&'static Vdso> {
    None
}
