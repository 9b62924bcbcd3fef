//! Which CPU a callback is of, and what is kept of each.
//!
//! Trap: with one host thread for several CPUs QEMU 10 bakes the *translating* CPU's number into each block
//! (`gen_cpu_index` takes "not parallel" for "one CPU"), so callbacks name the wrong CPU. All modes that count therefore refuse to
//! count several CPUs on one thread, and all but instruction mode know their CPU by its thread, never by the callback's argument: blocks
//! made for a single atomic step are baked in the same way even with a thread per CPU.

use super::OPTIONS;
use super::abi::*;
use super::reading::find_registers;
use crate::lines::cache::Cache;
use crate::lines::directory::{Directory, MAX_CPUS};
use crate::lines::recorder::Recorder;
use core::ffi::c_uint;
use core::ptr;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};

static DIRECTORY: Directory = Directory::new();
/// Two CPUs were seen on one host thread.
static SHARED_THREAD: AtomicBool = AtomicBool::new(false);
/// What is written instead of counts where they were.
pub const REFUSAL: &str = "{\"format\":\"darter-lines/1\",\"error\":\"several CPUs on one host thread: QEMU names the wrong CPU\"}\n";

/// A CPU as the one host thread that runs it knows it.
pub struct Cpu {
    pub recorder: Recorder,
    /// In transfer mode, `Walker::shift` of the block that it executes.
    pub shift: u64,
    /// What QEMU said of the kinds of access met lately.
    kinds: [Kind; 64],
}

/// Size and direction of an access, which QEMU packs into a word that only its functions may open.
#[derive(Clone, Copy)]
pub struct Kind {
    pub info: MemInfo,
    pub bytes: u32,
    pub write: bool,
}

thread_local! {
    /// The CPU that this host thread runs, leaked; null before it began.
    // Nothing to drop, and so the value is reached without asking whether it still lives.
    static THIS: Cell<*mut Cpu> = const { Cell::new(ptr::null_mut()) };
}

/// What QEMU's number of a CPU leads to: the CPU and the thread that runs it, both once set and never changed.
struct Seat {
    thread: AtomicUsize,
    cpu: AtomicPtr<Cpu>,
}

static SEATS: [Seat; MAX_CPUS] =
    [const { Seat { thread: AtomicUsize::new(0), cpu: AtomicPtr::new(ptr::null_mut()) } }; MAX_CPUS];

/// A word that is another one for each thread, not 0, and got without a call: in a loaded library a thread-local variable costs one.
#[inline(always)]
fn thread() -> usize {
    let word;
    // SAFETY: the x86-64 ABI has the thread's own control block at FS, and its address in the first word of it.
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    unsafe {
        core::arch::asm!("mov {}, qword ptr fs:[0]", out(reg) word, options(nostack, preserves_flags, pure, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
    {
        word = THIS.with(|this| ptr::from_ref(this) as usize);
    }
    word
}

/// The CPU that this host thread runs. `number`: what QEMU calls it, which may be wrong.
#[inline(always)]
pub fn this(number: c_uint) -> Option<&'static mut Cpu> {
    let cpu = match SEATS.get(number as usize) {
        Some(seat) if seat.thread.load(Relaxed) == thread() => seat.cpu.load(Relaxed),
        _ => THIS.get(),
    };
    // SAFETY: null or leaked by `began` on this thread; each callback asks once, and none is called within another.
    unsafe { cpu.as_mut() }
}

/// Runs on the thread that will run this CPU.
pub extern "C" fn began(_: PluginId, cpu: c_uint) {
    let kinds = [Kind { info: MemInfo::MAX, bytes: 0, write: false }; 64];
    let cpu = cpu as usize;
    let cache = OPTIONS.get().filter(|options| options.cache > 0).map(|options| {
        let node = cpu.checked_div(options.node_cpus).unwrap_or(0);
        Cache::new(options.cache, node, options.homes.clone())
    });
    let this = Box::new(Cpu { recorder: Recorder::new(cpu, &DIRECTORY, cache), shift: 0, kinds });
    let this = Box::into_raw(this);
    find_registers();
    if let Some(seat) = SEATS.get(cpu) {
        seat.cpu.store(this, Relaxed);
        seat.thread.store(thread(), Relaxed);
    }
    if !THIS.replace(this).is_null() {
        SHARED_THREAD.store(true, Relaxed);
    }
}

impl Cpu {
    #[inline]
    pub fn kind(&mut self, info: MemInfo) -> Kind {
        let slot = &mut self.kinds[(info.wrapping_mul(0x9e37_79b9) >> 26) as usize];
        if slot.info != info {
            *slot = Kind::of(info);
        }
        *slot
    }
}

impl Kind {
    #[cold]
    fn of(info: MemInfo) -> Kind {
        // SAFETY: the word is that of an access under way.
        let (bytes, write) =
            unsafe { (1 << qemu_plugin_mem_size_shift(info), qemu_plugin_mem_is_store(info)) };
        Kind { info, bytes, write }
    }
}

/// CPUs that have begun.
pub fn cpus() -> usize {
    SEATS.iter().take_while(|seat| !seat.cpu.load(Relaxed).is_null()).count()
}

/// Is nothing counted, as `REFUSAL` says?
pub fn share_a_thread() -> bool {
    SHARED_THREAD.load(Relaxed)
}
