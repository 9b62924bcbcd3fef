//! The plugin's side towards QEMU: installation, translation, and the callbacks of each mode.
//!
//! Until a block with the open marker is translated, nothing is counted and the guest runs at full speed. Then the plugin
//! resets itself, which makes QEMU drop every translated block before the marker executes, and from there on what is
//! translated carries callbacks.
//!
//! Trap: with one host thread for several CPUs QEMU 10 bakes the *translating* CPU's number into each block
//! (`gen_cpu_index` takes "not parallel" for "one CPU"), so callbacks name the wrong CPU. Both modes therefore refuse to
//! count several CPUs on one thread, and line mode knows its CPU by its thread, never by the callback's argument: blocks
//! made for a single atomic step are baked in the same way even with a thread per CPU.

use crate::abi::*;
use crate::code::{self, LONGEST, Marker};
use crate::instructions::{Counter, Site};
use crate::options::{Mode, Options};
use crate::window::{self, Windows};
use core::ffi::{CStr, c_char, c_int, c_uint, c_void};
use core::ptr;
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

#[unsafe(no_mangle)]
#[allow(non_upper_case_globals)]
pub static qemu_plugin_version: c_int = VERSION;

static OPTIONS: OnceLock<Options> = OnceLock::new();
static COUNTER: Counter = Counter::new();
static WINDOWS: Windows = Windows::new();
static ARMED: AtomicBool = AtomicBool::new(false);
/// Two CPUs were seen on one host thread.
static SHARED_THREAD: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// The CPU that this host thread runs; `u32::MAX` before it is known.
    static CPU: Cell<u32> = const { Cell::new(u32::MAX) };
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
    if !info.system_emulation
        || usize::try_from(info.max_vcpus).is_ok_and(|n| n > crate::instructions::MAX_CPUS)
    {
        eprintln!("darter-lines: a system of at most {} CPUs is needed", crate::instructions::MAX_CPUS);
        return 1;
    }
    if OPTIONS.set(options).is_err() {
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
    CPU.with(|known| {
        if known.replace(cpu) != u32::MAX {
            SHARED_THREAD.store(true, Relaxed);
        }
    });
}

/// QEMU has dropped all blocks and all callbacks of this plugin.
extern "C" fn armed(id: PluginId) {
    // SAFETY: as at installation.
    unsafe { qemu_plugin_register_vcpu_tb_trans_cb(id, translated) };
}

extern "C" fn translated(id: PluginId, tb: *mut Tb) {
    let Some(options) = OPTIONS.get() else { return };
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
        if !armed_already {
            if marker == Some(Marker::Open) && !ARMED.swap(true, Relaxed) {
                // SAFETY: a reset may be asked for from any callback but the installation.
                unsafe { qemu_plugin_reset(id, armed) };
                return;
            }
            continue;
        }
        match marker {
            Some(marker) => register(insn, if marker == Marker::Open { opened } else { closed }, None),
            None if options.mode == Mode::Instructions => {
                let repeats = code::repeats(bytes);
                register(insn, if repeats { repeated } else { executed }, Some(COUNTER.site(pc, repeats)));
            }
            None => {}
        }
    }
}

fn register(insn: *mut Insn, callback: VcpuUdataCb, site: Option<&'static Site>) {
    let data = site.map_or(ptr::null_mut(), |site| ptr::from_ref(site).cast_mut().cast::<c_void>());
    // SAFETY: the handle comes from the translation under way; `data` is what `callback` expects (`Site` or unused).
    unsafe { qemu_plugin_register_vcpu_insn_exec_cb(insn, callback, CB_NO_REGS, data) };
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

extern "C" fn opened(cpu: c_uint, _: *mut c_void) {
    let mut state = WINDOWS.lock();
    if COUNTER.open(cpu as usize) {
        state.opened();
    }
}

extern "C" fn closed(cpu: c_uint, _: *mut c_void) {
    let Some(options) = OPTIONS.get() else { return };
    let mut state = WINDOWS.lock();
    if !COUNTER.close(cpu as usize) || !state.closed(options.tasks) {
        return;
    }
    let text = if SHARED_THREAD.load(Relaxed) {
        "{\"format\":\"darter-lines/1\",\"error\":\"several CPUs on one host thread: QEMU names the wrong CPU\"}\n".into()
    } else {
        state.push(&COUNTER.harvest(options.profile));
        state.document(&format!("\"mode\":\"instructions\",\"tasks\":{}", options.tasks))
    };
    if let Err(error) = window::replace(&options.out, &text) {
        eprintln!("darter-lines: {}: {error}", options.out.display());
    }
}
