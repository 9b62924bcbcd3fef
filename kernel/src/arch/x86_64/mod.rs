//! x86-64 in a virtual machine: boot, traps, interrupts, page-table entries, context switch, user copies, time.
//!
//! "SDM" in comments is the Intel 64 and IA-32 Architectures Software Developer's Manual; "APM" is AMD's.

mod acpi;
mod apic;
mod boot;
mod context;
mod cpu;
mod debug;
mod divide;
mod exit;
mod fpu;
mod hooks;
mod ipi;
mod irq;
mod kvm;
mod machine;
mod memory;
pub mod pci;
mod registers;
mod segments;
pub mod signal_frame;
mod stack;
pub mod time;
mod trap;
pub mod upcall;
pub mod user;
mod vdso;

use core::arch::{asm, naked_asm};

use super::Trap;
use super::interrupts::{Entered, RESCHEDULES_SENT};
pub use boot::siblings::{cache, seat};
pub use boot::smbios::firmware_tables;
pub use boot::topology::{cpus, distance, has_threads, next_thread, node_of_address, nodes};
pub use boot::{command_line, early_init, initramfs, memory_ranges};
pub use context::{Context, switch};
pub use cpu::percpu::{cpu_id, set_kernel_stack};
pub use cpu::port;
pub use cpu::{flaws, identity};
pub use debug::{load_watches, unload_watches};
pub use divide::divide;
pub use exit::{exit_vm, halt_forever, power_off, reset};
pub use fpu::{FpuState, load_initial_vectors, vector_components};
pub use ipi::{call_others, waited_for};
pub use kvm::{may_poll_idle, stolen_here_ns, stolen_ns};
pub use machine::Machine;
#[cfg(feature = "lockdep")]
pub use memory::variables::variables;
pub use registers::Registers;
pub use segments::{
    CORE_REGISTERS, Segments, arch_prctl, core_registers, place, set_traced_register, set_traced_registers,
    traced_registers,
};
pub use stack::{KernelStack, trim as trim_stacks};
#[cfg(feature = "lockdep")]
pub use stack::{SIZE as STACK_SIZE, depth::used as stack_used};
pub use trap::{TrapRecord, UserRegs};
pub use vdso::vdso;

use cpu::{features, percpu, reg};

/// Makes what needs the heap and the locks.
///
/// # Safety
/// Once, on the boot CPU, after [`leave_boot_stack`], before other CPUs start.
pub unsafe fn late_init() {
    // SAFETY: as the caller says.
    unsafe { vdso::init() };
}

/// Starts the other CPUs; each runs `entry` when it is ready. Returns when all are.
///
/// # Safety
/// Once, on the boot CPU, after [`early_init`].
pub unsafe fn start_cpus(entry: fn() -> !) {
    // SAFETY: as the caller says.
    unsafe { boot::smp::start(entry) };
}

/// Goes on in `f` on the boot CPU's own kernel stack, which has a guard page; the boot stack is left for good.
///
/// # Safety
/// Once, on the boot CPU, after [`early_init`], on the boot stack.
pub unsafe fn leave_boot_stack(f: extern "C" fn() -> !) -> ! {
    let top = boot::smp::boot_cpu_stack();
    // SAFETY: a fresh stack; nothing on the old one is used any more.
    unsafe {
        set_kernel_stack(top);
        asm!("mov rsp, {}", "xor ebp, ebp", "call {}", "ud2", in(reg) top, in(reg) f, options(noreturn))
    }
}

/// Interrupts `cpu`, so that it looks at its work. Nothing happens before the APIC is on.
pub fn send_reschedule(cpu: u32) {
    RESCHEDULES_SENT.add(1);
    apic::send(cpu, irq::RESCHEDULE);
}

/// True if this CPU takes interrupts.
#[inline(always)]
pub fn interrupts_enabled() -> bool {
    reg::flags() & reg::FLAG_IF != 0
}

/// Disables interrupts on this CPU; says whether they were enabled.
#[inline(always)]
pub fn disable_interrupts() -> bool {
    let was = interrupts_enabled();
    // SAFETY: only this CPU's interrupt flag changes. A compiler barrier: no `nomem`.
    unsafe { asm!("cli", options(nostack)) };
    was
}

/// Disables interrupts on this CPU, for code that knows whether they were enabled.
#[inline(always)]
fn close_interrupts() {
    // SAFETY: as above.
    unsafe { asm!("cli", options(nostack)) };
}

/// Enables interrupts on this CPU.
#[inline(always)]
pub fn enable_interrupts() {
    // SAFETY: as above; the caller is at a point where handlers may run.
    unsafe { asm!("sti", options(nostack)) };
}

/// Stops this CPU until the next interrupt, unless `has_work`, which is asked with interrupts off, so that no wake-up
/// is lost: STI takes effect after the instruction that follows it. Returns with interrupts on.
pub fn idle_wait(has_work: impl Fn() -> bool) {
    disable_interrupts();
    if has_work() {
        enable_interrupts();
        return;
    }
    // SAFETY: waits; handlers may run.
    unsafe { halt_enabled() };
}

/// Makes this CPU translate through the kernel's own root, in which no user address is mapped.
#[inline]
pub fn load_kernel_root() {
    // SAFETY: the kernel's root maps the kernel as every root does.
    unsafe { reg::set_cr3(machine::kernel_root_value()) };
}

/// Where the registers of a user thread lie: at the top of its kernel stack.
#[inline]
pub fn user_regs(stack: &KernelStack) -> *mut UserRegs {
    (stack.top() - trap::frame::SIZE) as *mut UserRegs
}

/// How the running thread came into the kernel. Of a kernel thread it says nothing that is true.
pub fn entered_by() -> Entered {
    let at = (percpu::kernel_stack() - trap::frame::SIZE) as *const UserRegs;
    // SAFETY: the top of the running thread's stack, which is mapped; whoever changes these words meanwhile was interrupted by the caller.
    let (vector, original) =
        unsafe { ((&raw const (*at).vector).read(), (&raw const (*at).original).read()) };
    match vector {
        0..32 => Entered::Exception,
        trap::frame::VECTOR_SYSCALL.. if original != u64::MAX => Entered::Call(original as u32 as usize),
        _ => Entered::Other,
    }
}

/// Runs the current thread in user mode with the registers at the top of its kernel stack: the first entry of a new thread.
/// Pending work is done first.
///
/// # Safety
/// The current thread's kernel stack is set, `regs` lies at its top, and the thread's space is loaded.
pub unsafe fn enter_user(regs: &UserRegs) -> ! {
    let at = (percpu::kernel_stack() - trap::frame::SIZE) as *mut UserRegs;
    debug_assert!(core::ptr::eq(at, regs));
    let regs = at;
    // SAFETY: as the caller says: the frame is the current thread's own, and this code never returns to whoever lent it.
    unsafe {
        trap::finish(&mut *regs);
        trap::return_to_user(regs)
    }
}

/// Stops all other CPUs by a non-maskable interrupt (panic).
pub fn stop_other_cpus() {
    if percpu::online() > 1 {
        apic::send_nmi_to_others();
    }
}

/// Interrupts `cpu` though it may have interrupts off, so that it says where it is.
pub fn interrupt_unmasked(cpu: u32) {
    apic::send_nmi(cpu);
}

/// True once this CPU's area is in place (before that nothing per-CPU may be used).
pub fn percpu_ready() -> bool {
    percpu::ready()
}

/// CPUs that have started.
pub fn online_cpus() -> u32 {
    percpu::online()
}

/// The frame pointer of the caller.
#[inline(always)]
pub fn frame_pointer() -> usize {
    let value;
    // SAFETY: reads a register.
    unsafe { asm!("mov {}, rbp", out(reg) value, options(nomem, nostack, preserves_flags)) };
    value
}

/// The stack frame at `frame`: the caller's frame pointer and the return address. `None` if that is no mapped kernel
/// address. Safe at any value: a page that is not mapped is found by the fixup of a user copy's instruction.
pub fn frame_at(frame: usize) -> Option<(usize, usize)> {
    if frame < memory::DIRECT_MAP || !frame.is_multiple_of(8) {
        return None;
    }
    user::peek_kernel(frame).zip(user::peek_kernel(frame + 8))
}

/// The frame of a program's stack at `frame`, as [`frame_at`]. In an interrupt handler; `None` if the page is not in memory just now.
pub fn user_frame_at(frame: usize) -> Option<(usize, usize)> {
    let mut words = [0; 16];
    if !frame.is_multiple_of(8) || frame == 0 || interrupts_enabled() {
        return None;
    }
    user::copy_from_user(&mut words, frame).ok()?;
    let (next, address) = words.split_at(8);
    let word = |bytes: &[u8]| bytes.try_into().map_or(0, usize::from_le_bytes);
    Some((word(next), word(address))).filter(|(_, address)| *address < super::USER_END)
}

/// Where the running user thread was in its program when it came into the kernel: program counter and frame pointer. Of a kernel thread it says nothing
/// that is true.
pub fn left_program_at() -> Option<(usize, usize)> {
    let at = (percpu::kernel_stack() - trap::frame::SIZE) as *const UserRegs;
    // SAFETY: as in `entered_by`.
    let (pc, frame) = unsafe { ((&raw const (*at).rip).read(), (&raw const (*at).rbp).read()) };
    Some((pc as usize, frame as usize)).filter(|(pc, _)| *pc != 0 && *pc < super::USER_END)
}

/// Enables interrupts and waits for one, with nothing between the two. An idle CPU's program counter is in here.
#[unsafe(naked)]
unsafe extern "C" fn halt_enabled() {
    naked_asm!("sti", "hlt", "ret");
}

/// True if `pc` is where an idle CPU waits: after the STI and the HLT of `halt_enabled`.
pub fn is_idle_at(pc: usize) -> bool {
    pc.wrapping_sub(halt_enabled as *const () as usize) <= 2
}

/// Routes ISA interrupt line `line` to this kernel (`device::interrupt`); false if the machine cannot.
pub fn route_isa_line(line: u8) -> bool {
    apic::io::route(line)
}

/// Routes the interrupt line of global number `interrupt` to this kernel (`device::line`), on the boot CPU; false if the machine cannot.
pub fn route_device_line(interrupt: u32) -> bool {
    apic::io::route_device(interrupt)
}

/// What a device writes, and where, so that `cpu` is told (`device::message`). `None`: no message reaches it.
pub fn device_message(cpu: u32) -> Option<virtio::pci::Message> {
    apic::message(cpu, irq::DEVICE_MESSAGE)
}

/// The same for a device whose configuration changes (`device::changed`).
pub fn device_change_message(cpu: u32) -> Option<virtio::pci::Message> {
    apic::message(cpu, irq::DEVICE_CHANGED)
}

/// A random number from the processor (SDM vol. 1, 7.3.17), where it has such a source.
pub fn hardware_random() -> Option<u64> {
    if !features::get().rdrand {
        return None;
    }
    // Ten tries, as the manual recommends.
    for _ in 0..10 {
        let (value, good): (u64, u8);
        // SAFETY: the processor has the instruction.
        unsafe { asm!("rdrand {}", "setc {}", out(reg) value, out(reg_byte) good, options(nomem, nostack)) };
        if good != 0 {
            return Some(value);
        }
    }
    None
}

/// The least that a signal stack must hold, for AT_MINSIGSTKSZ.
pub fn min_signal_stack() -> usize {
    signal_frame::max_size()
}

/// AT_HWCAP: the feature word of CPUID leaf 1, as on Linux.
pub fn hwcap() -> usize {
    features::get().leaf_1_edx as usize
}

/// The `si_code` of SIGFPE for a floating-point trap of the current thread, whose registers are live: which exceptions are
/// raised and not masked (SDM vol. 1, 8.5 and 11.5.2).
pub fn float_code(trap: Trap) -> u32 {
    use linux_raw_sys::general::{FPE_FLTDIV, FPE_FLTINV, FPE_FLTOVF, FPE_FLTRES, FPE_FLTUND};
    let raised = if trap == Trap::SimdFloatingPoint {
        let mut mxcsr = 0u32;
        // SAFETY: stores a register.
        unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags)) };
        mxcsr & !(mxcsr >> 7)
    } else {
        let (mut status, mut control) = (0u16, 0u16);
        // SAFETY: stores two registers.
        unsafe {
            asm!("fnstsw [{}]", "fnstcw [{}]", in(reg) &raw mut status, in(reg) &raw mut control,
                 options(nostack, preserves_flags));
        }
        u32::from(status & !control)
    };
    match raised {
        r if r & 1 != 0 => FPE_FLTINV,
        r if r & 4 != 0 => FPE_FLTDIV,
        r if r & 8 != 0 => FPE_FLTOVF,
        r if r & 0x12 != 0 => FPE_FLTUND,
        _ => FPE_FLTRES,
    }
}
