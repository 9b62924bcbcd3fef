//! The plugin's side towards QEMU: installation, translation, and the callbacks of each mode.
//!
//! Until a block with a marker is translated, nothing is counted and the guest runs at full speed. Then the plugin
//! resets itself, which makes QEMU drop every translated block before the marker executes, and from there on what is
//! translated carries callbacks. `Marker::Rest` takes that back in the same way, until the next marker is translated.
//!
//! Trap: until that happens another CPU may execute the block. So the first marker is one that the first process executes while it
//! is alone, long before any window opens (`Marker::Watch`).
//!
//! Trap: with one host thread for several CPUs QEMU 10 bakes the *translating* CPU's number into each block
//! (`gen_cpu_index` takes "not parallel" for "one CPU"), so callbacks name the wrong CPU. Both modes therefore refuse to
//! count several CPUs on one thread, and line mode knows its CPU by its thread, never by the callback's argument: blocks
//! made for a single atomic step are baked in the same way even with a thread per CPU.

use crate::abi::*;
use crate::blocks::Blocks;
use crate::cache::Cache;
use crate::code::{self, LONGEST, Marker};
use crate::directory::{Directory, LINE_BITS, MAX_CPUS};
use crate::instructions::{Counter, Site};
use crate::options::{Mode, Options};
use crate::reading::{find_registers, number, read_guest};
use crate::recorder::{Access, Record, Recorder};
use crate::sharing;
use crate::walks;
use crate::window::{self, Opened, Windows};
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = VERSION;

static OPTIONS: OnceLock<Options> = OnceLock::new();
static COUNTER: Counter = Counter::new();
static DIRECTORY: Directory = Directory::new();
/// What CPUs that have closed recorded in the present window. Taken only while `WINDOWS` is held.
static RECORDS: Mutex<Vec<Record>> = Mutex::new(Vec::new());
static WINDOWS: Windows = Windows::new();
static BLOCKS: Blocks = Blocks::new();
static ARMED: AtomicBool = AtomicBool::new(false);
/// What QEMU calls this plugin; set at installation.
static PLUGIN: OnceLock<PluginId> = OnceLock::new();
/// What is written instead of counts.
const REFUSAL: &str = "{\"format\":\"darter-lines/1\",\"error\":\"several CPUs on one host thread: QEMU names the wrong CPU\"}\n";
const NO_REGISTER: &str =
    "{\"format\":\"darter-lines/1\",\"error\":\"QEMU does not know the register with a window's number\"}\n";
/// Two CPUs were seen on one host thread.
static SHARED_THREAD: AtomicBool = AtomicBool::new(false);

/// A CPU as the one host thread that runs it knows it.
struct Cpu {
    recorder: Recorder,
    /// What QEMU said of the kinds of access met lately.
    kinds: [Kind; 64],
}

/// Size and direction of an access, which QEMU packs into a word that only its functions may open.
#[derive(Clone, Copy)]
struct Kind {
    info: MemInfo,
    bytes: u32,
    write: bool,
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
fn this(number: c_uint) -> Option<&'static mut Cpu> {
    let cpu = match SEATS.get(number as usize) {
        Some(seat) if seat.thread.load(Relaxed) == thread() => seat.cpu.load(Relaxed),
        _ => THIS.get(),
    };
    // SAFETY: null or leaked by `cpu_began` on this thread; each callback asks once, and none is called within another.
    unsafe { cpu.as_mut() }
}

/// Called once by QEMU when it loads the plugin; anything but 0 ends QEMU.
///
/// # Safety
/// QEMU passes a filled `Info` and `count` C strings that live as long as the plugin.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn qemu_plugin_install(
    id: PluginId,
    info: *const Info,
    count: c_int,
    arguments: *const *const c_char,
) -> c_int {
    let arguments = (0..usize::try_from(count).unwrap_or(0)).map(|index| {
        // SAFETY: the caller's promise: `count` valid C strings.
        let text = unsafe { CStr::from_ptr(*arguments.add(index)) };
        text.to_str().unwrap_or("(not UTF-8)")
    });
    let options = match Options::parse(arguments) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("darter-lines: {error}");
            return 1;
        }
    };
    // SAFETY: the caller's promise: `info` is valid during this call.
    let info = unsafe { &*info };
    if !info.system_emulation || usize::try_from(info.max_vcpus).is_ok_and(|n| n > MAX_CPUS) {
        eprintln!("darter-lines: a system of at most {} CPUs is needed", MAX_CPUS);
        return 1;
    }
    if options.mode == Mode::Blocks
        && let Err(error) = BLOCKS.open(&options.out)
    {
        eprintln!("darter-lines: {error}");
        return 1;
    }
    if options.mode == Mode::Stacks {
        walks::install();
    }
    if OPTIONS.set(options).is_err() || PLUGIN.set(id).is_err() {
        return 1;
    }
    // SAFETY: QEMU's functions, called as its interface says, from the installation call.
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, cpu_began);
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    }
    0
}

/// Runs on the thread that will run this CPU.
extern "C" fn cpu_began(_: PluginId, cpu: c_uint) {
    let kinds = [Kind { info: MemInfo::MAX, bytes: 0, write: false }; 64];
    let cpu = cpu as usize;
    let cache = OPTIONS.get().filter(|options| options.cache > 0).map(|options| {
        let node = cpu.checked_div(options.node_cpus).unwrap_or(0);
        Cache::new(options.cache, node, options.homes.clone())
    });
    let this = Box::new(Cpu { recorder: Recorder::new(cpu, &DIRECTORY, cache), kinds });
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

/// QEMU has dropped all blocks and all callbacks of this plugin.
extern "C" fn armed(id: PluginId) {
    // SAFETY: as at installation.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
}

extern "C" fn translated(id: PluginId, tb: *mut Tb) {
    let Some(options) = OPTIONS.get() else { return };
    if options.mode == Mode::Blocks {
        note_block(tb);
        return;
    }
    let armed_already = ARMED.load(Relaxed);
    // SAFETY: `tb` and its instructions are valid during this callback.
    let count = unsafe { qemu_plugin_tb_n_insns(tb) };
    for index in 0..count {
        // SAFETY: as above, and `index` is below the count.
        let insn = unsafe { qemu_plugin_tb_get_insn(tb, index) };
        let mut bytes = [0; LONGEST];
        // SAFETY: `bytes` holds `LONGEST` bytes, and the handle is valid.
        let (length, pc) = unsafe {
            (qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), LONGEST), qemu_plugin_insn_vaddr(insn))
        };
        let bytes = bytes.get(..length).unwrap_or(&[]);
        let marker = if code::in_kernel(pc) { None } else { code::marker(bytes) };
        let marker = marker.filter(|marker| marker.is_of_init() == (options.mode == Mode::Stacks));
        if !armed_already {
            if marker.is_some_and(|marker| marker != Marker::Rest) && !ARMED.swap(true, Relaxed) {
                // SAFETY: a reset may be asked for from any callback but the installation.
                unsafe { qemu_plugin_reset(id, armed) };
                return;
            }
            continue;
        }
        if options.mode == Mode::Stacks {
            walks::counts(insn);
            if index + 1 == count {
                walks::walks(tb, pc.wrapping_add(length as u64), bytes);
            }
        }
        match marker {
            Some(Marker::Watch) => {}
            Some(Marker::Rest) => register(insn, rests, CB_NO_REGS, None),
            Some(Marker::Open) => register(insn, opened, CB_READS_REGS, None),
            Some(Marker::Close) => register(insn, closed, CB_NO_REGS, None),
            Some(Marker::Begin) => register(insn, walks::begins, CB_READS_REGS, None),
            Some(Marker::End) => register(insn, walks::ends, CB_NO_REGS, None),
            None if options.mode == Mode::Stacks => {}
            None if options.mode == Mode::Instructions => {
                let called = if code::repeats(bytes) { repeated } else { executed };
                register(insn, called, CB_NO_REGS, Some(COUNTER.site(pc, bytes)));
            }
            None => {
                let place = Place::new(pc, code::locks(bytes)).0 as *mut c_void;
                let called = if code::repeats(bytes) { iterated } else { accessed };
                // SAFETY: the handle comes from the translation under way; `place` is a number, never followed.
                unsafe { qemu_plugin_register_vcpu_mem_cb(insn, called, CB_NO_REGS, MEM_RW, place) };
            }
        }
    }
}

/// Drops the callbacks of all blocks. The block that this is called from runs to its end before.
extern "C" fn rests(_: c_uint, _: *mut c_void) {
    if let Some(&id) = PLUGIN.get()
        && ARMED.swap(false, Relaxed)
    {
        // SAFETY: a reset may be asked for from any callback but the installation.
        unsafe { qemu_plugin_reset(id, armed) };
    }
}

/// Block mode's look at a translation: the kernel's are noted, the program's searched for the marker that numbers programs.
fn note_block(tb: *mut Tb) {
    // SAFETY: `tb` and its instructions are valid during the callback of the translation, from which this is called.
    let count = unsafe { qemu_plugin_tb_n_insns(tb) };
    let (mut start, mut end) = (0, 0);
    for index in 0..count {
        let mut bytes = [0; LONGEST];
        // SAFETY: as above, `index` is below the count, and `bytes` holds `LONGEST` bytes.
        let (insn, length, pc) = unsafe {
            let insn = qemu_plugin_tb_get_insn(tb, index);
            let length = qemu_plugin_insn_data(insn, bytes.as_mut_ptr().cast(), LONGEST);
            (insn, length, qemu_plugin_insn_vaddr(insn))
        };
        if code::in_kernel(pc) {
            start = if index == 0 { pc } else { start };
            end = pc.wrapping_add(length as u64);
        } else if code::marker(bytes.get(..length).unwrap_or_default()) == Some(Marker::Open) {
            register(insn, opened, CB_READS_REGS, None);
        }
    }
    if end != 0 {
        BLOCKS.translated(start, end);
    }
}

fn register(insn: *mut Insn, callback: VcpuUdataCb, registers: c_int, site: Option<&'static Site>) {
    let data = site.map_or(ptr::null_mut(), |site| ptr::from_ref(site).cast_mut().cast::<c_void>());
    // SAFETY: the handle comes from the translation under way; `data` is what `callback` expects (`Site` or unused).
    unsafe { qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, registers, data) };
}

extern "C" fn executed(cpu: c_uint, site: *mut c_void) {
    // SAFETY: registered with a leaked `Site`, which is only ever shared.
    let site = unsafe { &*site.cast::<Site>() };
    COUNTER.executed(cpu as usize, site);
}

extern "C" fn repeated(cpu: c_uint, site: *mut c_void) {
    // SAFETY: as for `executed`.
    let site = unsafe { &*site.cast::<Site>() };
    COUNTER.repeated(cpu as usize, site);
}

/// A program counter and whether the instruction there locks, in one word: bit 62 of a canonical address equals bit 63, and is
/// turned over for a locked instruction.
#[derive(Clone, Copy)]
struct Place(u64);

impl Place {
    fn new(pc: u64, locked: bool) -> Place {
        Place(pc ^ (u64::from(locked) << 62))
    }

    fn locked(self) -> bool {
        (self.0 ^ (self.0 << 1)) >> 63 != 0
    }

    fn pc(self) -> u64 {
        ((self.0 & !(1 << 62)) as i64 | (self.0 as i64 >> 1 & 1 << 62)) as u64
    }
}

impl Cpu {
    #[inline]
    fn kind(&mut self, info: MemInfo) -> Kind {
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

extern "C" fn accessed(cpu: c_uint, info: MemInfo, vaddr: u64, place: *mut c_void) {
    let Some(this) = this(cpu) else { return };
    let kind = this.kind(info);
    if let Some(access) = note(&mut this.recorder, kind, vaddr, Place(place as u64)) {
        this.recorder.no_streak();
        if access.bytes < kind.bytes {
            crosses(&mut this.recorder, &access, kind.bytes - access.bytes);
        }
    }
}

/// The same for an instruction that repeats: apart, because its iterations are many and most need nothing of the rest.
extern "C" fn iterated(cpu: c_uint, info: MemInfo, vaddr: u64, place: *mut c_void) {
    let Some(this) = this(cpu) else { return };
    let kind = this.kind(info);
    let place = Place(place as u64);
    if !this.recorder.goes_on(place.pc(), vaddr, kind.bytes, kind.write) {
        begins(&mut this.recorder, kind, vaddr, place);
    }
}

/// A repeated instruction comes to a line.
#[cold]
fn begins(this: &mut Recorder, kind: Kind, vaddr: u64, place: Place) {
    if let Some(access) = note(this, kind, vaddr, place) {
        this.streak(&access);
        if access.bytes < kind.bytes {
            crosses(this, &access, kind.bytes - access.bytes);
        }
    }
}

/// Notes the part of an access that lies in its first line; None: it is not memory, but a device's.
#[inline(always)]
fn note(this: &mut Recorder, kind: Kind, vaddr: u64, place: Place) -> Option<Access> {
    let line = match this.same(vaddr) {
        Some(line) => line,
        None => {
            // SAFETY: the word is that of the access under way; QEMU's answer holds until the callback ends.
            let line = unsafe {
                let address = qemu_plugin_get_hwaddr(kind.info, vaddr);
                if address.is_null() {
                    return None;
                }
                let line = qemu_plugin_hwaddr_phys_addr(address) >> LINE_BITS;
                if !this.knows(line) && qemu_plugin_hwaddr_is_io(address) {
                    return None;
                }
                line
            };
            this.translates(vaddr, line);
            line
        }
    };
    let offset = (vaddr & ((1 << LINE_BITS) - 1)) as u32;
    let access = Access {
        line,
        offset,
        bytes: kind.bytes.min((1 << LINE_BITS) - offset),
        vaddr,
        pc: place.pc(),
        write: kind.write,
        locked: place.locked(),
    };
    this.note(&access);
    Some(access)
}

/// The rest of an access that crosses into the next line; on another page its address is not known.
#[cold]
fn crosses(this: &mut Recorder, access: &Access, bytes: u32) {
    let next = access.vaddr.wrapping_add(access.bytes.into());
    if next & 0xfff != 0 {
        this.note(&Access { line: access.line + 1, offset: 0, bytes, vaddr: next, ..*access });
    }
}

extern "C" fn opened(cpu: c_uint, _: *mut c_void) {
    let Some(options) = OPTIONS.get() else { return };
    if options.mode == Mode::Blocks {
        BLOCKS.begins(number().unwrap_or(0));
        return;
    }
    let mut state = WINDOWS.lock();
    if SHARED_THREAD.load(Relaxed) {
        write(options, REFUSAL);
        return;
    }
    let Some(number) = number() else {
        write(options, NO_REGISTER);
        return;
    };
    match options.mode {
        Mode::Instructions => {
            match state.opened(cpu as usize, number) {
                Opened::Late => return,
                Opened::Voids => drop(COUNTER.harvest(false)),
                Opened::Counts => {}
            }
            COUNTER.open(cpu as usize);
        }
        Mode::Lines => {
            let Some(Cpu { recorder, .. }) = this(cpu) else { return };
            match state.opened(recorder.cpu, number) {
                Opened::Late => return,
                Opened::Voids => RECORDS.lock().unwrap_or_else(PoisonError::into_inner).clear(),
                Opened::Counts => {}
            }
            recorder.open();
        }
        Mode::Blocks | Mode::Stacks => {}
    }
}

extern "C" fn closed(cpu: c_uint, _: *mut c_void) {
    let Some(options) = OPTIONS.get() else { return };
    let mut state = WINDOWS.lock();
    let mut records = RECORDS.lock().unwrap_or_else(PoisonError::into_inner);
    let cpu = match options.mode {
        Mode::Instructions => {
            COUNTER.close(cpu as usize);
            cpu as usize
        }
        Mode::Lines => {
            let Some(Cpu { recorder, .. }) = this(cpu) else { return };
            records.extend(recorder.close().filter(|_| state.is_open(recorder.cpu)));
            recorder.cpu
        }
        Mode::Blocks | Mode::Stacks => return,
    };
    if cpu >= MAX_CPUS || !state.is_open(cpu) || !state.closed(cpu, options.tasks) {
        return;
    }
    let (fields, mode) = match options.mode {
        Mode::Instructions => (COUNTER.harvest(options.profile), "instructions"),
        Mode::Lines => {
            let records = std::mem::take(&mut *records);
            (sharing::harvest(&records, options.node_cpus, &options.memory, &mut read_guest), "lines")
        }
        Mode::Blocks | Mode::Stacks => return,
    };
    state.push(&fields);
    write(options, &state.document(&format!("\"mode\":\"{mode}\",\"tasks\":{}", options.tasks)));
}

/// Which CPU this host thread runs. `number`: what QEMU calls it.
pub fn cpu(number: c_uint) -> Option<usize> {
    this(number).map(|cpu| cpu.recorder.cpu)
}

/// CPUs that have begun.
pub fn cpus() -> usize {
    SEATS.iter().take_while(|seat| !seat.cpu.load(Relaxed).is_null()).count()
}

/// Is nothing counted? The file says why.
pub fn is_refused() -> bool {
    let refused = SHARED_THREAD.load(Relaxed);
    if refused {
        leave(REFUSAL);
    }
    refused
}

/// Puts `text` in the file's place.
pub fn leave(text: &str) {
    if let Some(options) = OPTIONS.get() {
        write(options, text);
    }
}

fn write(options: &Options, text: &str) {
    if let Err(error) = window::replace(&options.out, text) {
        eprintln!("darter-lines: {}: {error}", options.out.display());
    }
}
