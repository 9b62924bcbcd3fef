//! The plugin's side towards QEMU: installation and translation. What QEMU calls back for lies beside: `cpus`, `windows` (instruction and line mode),
//! `accesses` (line and transfer mode), `walks` (stack and transfer mode).
//!
//! Until a block with a marker is translated, nothing is counted and the guest runs at full speed. Then the plugin
//! resets itself, which makes QEMU drop every translated block before the marker executes, and from there on what is
//! translated carries callbacks. `Marker::Rest` takes that back in the same way, until the next marker is translated.
//!
//! Trap: until that happens another CPU may execute the block. So the first marker is one that the first process executes while it
//! is alone, long before any window opens (`Marker::Watch`).

mod abi;
mod accesses;
mod cpus;
mod reading;
mod walks;
mod windows;

use crate::blocks::Blocks;
use crate::code::{self, LONGEST, Marker};
use crate::instructions::Site;
use crate::lines::directory::MAX_CPUS;
use crate::options::{Mode, Options};
use crate::window;
use abi::*;
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = VERSION;

static OPTIONS: OnceLock<Options> = OnceLock::new();
static BLOCKS: Blocks = Blocks::new();
static ARMED: AtomicBool = AtomicBool::new(false);
/// What QEMU calls this plugin; set at installation.
static PLUGIN: OnceLock<PluginId> = OnceLock::new();

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
    if options.mode.follows_calls() {
        walks::install();
    }
    if OPTIONS.set(options).is_err() || PLUGIN.set(id).is_err() {
        return 1;
    }
    // SAFETY: QEMU's functions, called as its interface says, from the installation call.
    unsafe {
        qemu_plugin_register_vcpu_init_cb(id, cpus::began);
        qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    }
    0
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
        let marker = marker.filter(|marker| marker.is_of_init() == options.mode.follows_calls());
        if !armed_already {
            if marker.is_some_and(|marker| marker != Marker::Rest) && !ARMED.swap(true, Relaxed) {
                // SAFETY: a reset may be asked for from any callback but the installation.
                unsafe { qemu_plugin_reset(id, armed) };
                return;
            }
            continue;
        }
        if options.mode.follows_calls() {
            walks::counts(insn);
            if index + 1 == count {
                walks::walks(tb, pc.wrapping_add(length as u64), bytes);
            }
        }
        match marker {
            Some(Marker::Watch) => {}
            Some(Marker::Rest) => register(insn, rests, CB_NO_REGS, None),
            Some(Marker::Open) => register(insn, windows::opened, CB_READS_REGS, None),
            Some(Marker::Close) => register(insn, windows::closed, CB_NO_REGS, None),
            Some(Marker::Begin) => register(insn, walks::begins, CB_READS_REGS, None),
            Some(Marker::End) => register(insn, walks::ends, CB_NO_REGS, None),
            None if options.mode == Mode::Stacks => {}
            None if options.mode == Mode::Instructions => {
                let called = if code::repeats(bytes) { windows::repeated } else { windows::executed };
                register(insn, called, CB_NO_REGS, Some(windows::site(pc, bytes)));
            }
            None if options.mode == Mode::Transfers => accesses::watch::<true>(insn, pc, bytes),
            None => accesses::watch::<false>(insn, pc, bytes),
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
            register(insn, windows::opened, CB_READS_REGS, None);
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

/// Puts `text` in the file's place.
fn leave(text: &str) {
    if let Some(options) = OPTIONS.get() {
        write(options, text);
    }
}

fn write(options: &Options, text: &str) {
    if let Err(error) = window::replace(&options.out, text) {
        eprintln!("darter-lines: {}: {error}", options.out.display());
    }
}
