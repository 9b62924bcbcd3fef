//! Stack and transfer mode's side towards QEMU: what it translates is counted, and each block is told to the walker of its CPU; in transfer mode, what
//! the CPU takes from others as well.

use super::abi::*;
use super::{OPTIONS, cpus, leave, reading};
use crate::lines::directory::{MAX_CPUS, Taken};
use crate::lines::recorder::Access;
use crate::options::Mode;
use crate::stacks::flow::{Block, End, Known};
use crate::stacks::transfers::Taking;
use crate::stacks::{self, Machine, Register, Shared, Walker, transfers};
use core::ffi::{c_uint, c_void};
use core::ptr;
use std::sync::atomic::{AtomicPtr, Ordering::Relaxed};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

static BLOCKS: Known = Known::new();
static SHARED: LazyLock<Mutex<Shared>> = LazyLock::new(Mutex::default);
static WALKERS: LazyLock<[Mutex<Walker>; MAX_CPUS]> =
    LazyLock::new(|| std::array::from_fn(|_| Mutex::default()));
/// QEMU's counts of instructions; made at installation.
static BOARD: AtomicPtr<Scoreboard> = AtomicPtr::new(ptr::null_mut());
/// What init is called.
const INIT: &str = "/init";

/// Called at installation.
pub fn install() {
    // SAFETY: one of QEMU's functions, called as its interface says.
    BOARD.store(unsafe { qemu_plugin_scoreboard_new(size_of::<u64>()) }, Relaxed);
}

fn number() -> Number {
    Number { board: BOARD.load(Relaxed), offset: 0 }
}

/// Instructions that a CPU has executed.
fn executed(cpu: usize) -> u64 {
    // SAFETY: the board is QEMU's, and `cpu` is one of the machine's.
    unsafe { qemu_plugin_u64_get(number(), cpu as c_uint) }
}

fn walker(cpu: usize) -> Option<MutexGuard<'static, Walker>> {
    Some(WALKERS.get(cpu)?.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Has an instruction counted that is being translated.
pub fn counts(insn: *mut Insn) {
    // SAFETY: the handle comes from the translation under way; the board lives as long as the plugin.
    unsafe { qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, ADD, number(), 1) };
}

/// Has a block told that is being translated, whose last instruction ends before `end`.
pub fn walks(tb: *mut Tb, end: u64, last: &[u8]) {
    // SAFETY: `tb` and its instructions are valid during the callback of the translation, from which this is called. The block is leaked.
    unsafe {
        let count = qemu_plugin_tb_n_insns(tb);
        let start = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
        let block = BLOCKS.block(start, end, count as u64, End::of(last, end));
        let data = ptr::from_ref(block).cast_mut().cast();
        qemu_plugin_register_vcpu_tb_exec_cb(tb, entered, CB_READS_REGS, data);
    }
}

/// The CPU of the present callback.
struct Present;

impl Machine for Present {
    fn register(&mut self, register: Register) -> u64 {
        reading::register(register).unwrap_or(0)
    }

    fn memory(&mut self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        reading::read_guest(address, bytes)
    }
}

extern "C" fn entered(cpu: c_uint, block: *mut c_void) {
    // SAFETY: registered with a leaked `Block`, which is only ever shared.
    let block = unsafe { &*block.cast::<Block>() };
    let Some(this) = cpus::this(cpu) else { return };
    let cpu = this.recorder.cpu;
    if let Some(mut walker) = walker(cpu) {
        walker.block(block, executed(cpu), &SHARED, &mut Present);
        follow(this, &mut walker);
    }
}

/// In transfer mode: what the CPU's accesses are told by is where its walker has come to.
fn follow(this: &mut cpus::Cpu, walker: &mut Walker) {
    if counts_transfers() {
        this.shift = walker.shift(&SHARED);
    }
}

/// In transfer mode: a CPU has taken a line.
#[cold]
pub fn took(cpu: usize, access: &Access, taken: Taken) {
    if let Some(mut walker) = walker(cpu) {
        walker.transfers.took(Taking::new(access, taken));
    }
}

/// Are the lines counted that CPUs take, and not instructions?
fn counts_transfers() -> bool {
    OPTIONS.get().is_some_and(|options| options.mode == Mode::Transfers)
}

/// Init starts the program.
pub extern "C" fn begins(cpu: c_uint, _: *mut c_void) {
    if cpus::share_a_thread() {
        leave(cpus::REFUSAL);
        return;
    }
    for cpu in 0..cpus::cpus() {
        let Some(mut walker) = walker(cpu) else { continue };
        if counts_transfers() {
            walker.transfers.open();
        } else {
            walker.open(executed(cpu));
        }
    }
    if let Some(this) = cpus::this(cpu)
        && let Some(mut walker) = walker(this.recorder.cpu)
    {
        walker.is_program(&SHARED, &mut Present, INIT);
        follow(this, &mut walker);
    }
}

/// Init has seen that the program has ended.
pub extern "C" fn ends(_: c_uint, _: *mut c_void) {
    let mut walkers: Vec<_> = (0..cpus::cpus()).filter_map(|cpu| Some((cpu, walker(cpu)?))).collect();
    for (cpu, walker) in &mut walkers {
        if counts_transfers() {
            walker.transfers.close();
        } else {
            walker.close(executed(*cpu));
        }
    }
    let mut walkers: Vec<_> = walkers.into_iter().map(|(_, walker)| walker).collect();
    let document = if counts_transfers() { transfers::document } else { stacks::document };
    leave(&document(&mut walkers, &SHARED));
}
