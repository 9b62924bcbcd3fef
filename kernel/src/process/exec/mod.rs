//! execve: a process becomes another program.
//!
//! Up to `replace` everything happens beside the running program, and a failure leaves that as it was. From there on the old
//! program is gone, and a failure ends the process (SIGSEGV), as on Linux.
#![forbid(unsafe_code)]

mod arguments;
mod image;
mod load;
mod place;
mod privilege;
mod stack;

pub use arguments::Strings;
pub use place::{
    MMAP_BITS, configure, is_layout_legacy, randomize_va_space, set_layout_legacy, set_randomize_va_space,
};

use super::access::{self, Dumpable};
use super::personality::{MMAP_PAGE_ZERO, Persona};
use super::signal::AltStack;
use super::{Capability, Thread, exit, family, oom, ptrace};
use crate::arch::{self, UserRegs};
use crate::errno::{Errno, Result};
use crate::fs::file::told;
use crate::fs::vfs::notify;
use crate::fs::{self, Executable, File};
use crate::memory::Space;
use crate::sched;
use crate::trace;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{Ordering, fence};
use image::{HEAD, Image};
use linux_raw_sys::general as abi;
use place::Places;
use privilege::Privilege;
use sync::percpu_ref::{PerCpuArc, PerCpuOwner};
use sync::{TryVec, try_arc, try_box};
use vm::addr::{PAGE_SIZE, VirtAddr};
use vm::{Backing, MapFlags, MapRequest, Prot};

/// Work flag of the first process's thread, which has no program yet.
pub const FIRST_EXEC: u32 = sched::Work::PROCESS;
/// Scripts that are interpreters of scripts.
const SCRIPTS_MAX: usize = 5;
/// RLIMIT_STACK of a program that has more than its user, at most.
const SECURE_STACK: u64 = 8 << 20;

/// The file of a program that runs. Processes that fork hand their children this, whose count is then theirs and their children's
/// alone, instead of the file, whose count all that run the program would write.
pub struct Executed {
    pub file: Arc<File>,
}

/// Where the program's parts lie: for brk, /proc and prctl.
#[derive(Clone, Default)]
pub struct ProgramLayout {
    pub exe: Option<Arc<Executed>>,
    /// `exe` was made by this process; else it is its parent's.
    own_exe: bool,
    /// It has forked.
    forked: bool,
    pub code: (usize, usize),
    pub data: (usize, usize),
    pub brk: usize,
    pub stack: usize,
    pub arguments: (usize, usize),
    pub environment: (usize, usize),
    pub auxv: (usize, usize),
}

impl ProgramLayout {
    /// What a child begins with. A process that forks again and still has its parent's `exe` gets one of its own; the old one
    /// is returned, to be dropped without the lock that guards the layout.
    pub fn fork(&mut self) -> (Self, Option<Arc<Executed>>) {
        let mut old = None;
        if self.forked
            && !self.own_exe
            && let Some(exe) = &self.exe
            && let Ok(own) = try_arc(Executed { file: exe.file.clone() })
        {
            old = self.exe.replace(own);
            self.own_exe = true;
        }
        self.forked = true;
        (Self { own_exe: false, forked: false, ..self.clone() }, old)
    }
}

/// A program that has been found and can be loaded.
struct Program {
    file: Arc<File>,
    image: PerCpuArc<Image>,
}

/// execve(2) and execveat(2) for the running thread. On success `regs` enter the new program.
///
/// # Errors
/// As execve(2).
pub fn exec(regs: &mut UserRegs, what: Executable<'_>, mut argv: Strings, envp: &Strings) -> Result {
    check_process_limit()?;
    if argv.count == 0 {
        argv.push(b"")?;
    }
    sched::find_place_for_exec();
    let file = oom::drain_and_retry(|| fs::open_exec(what))?;
    let path = &*what.name()?;
    let unreachable = what.is_closed_by_exec();
    // Kept open until the program runs, as on Linux.
    let mut scripts = Vec::new();
    let result = find_program(file, path, unreachable, argv, &mut scripts)
        .and_then(|(program, argv)| run(regs, program, path, &argv, envp));
    // From here on the process's layout names the program.
    // The file may be closed by this, which takes locks of its own.
    let executed = super::current().executing.lock().take();
    drop(executed);
    result
}

/// A thread whose user had more processes than RLIMIT_NPROC when it took that user's id executes nothing while it is so.
///
/// # Errors
/// EAGAIN.
fn check_process_limit() -> Result {
    let credentials = super::credentials();
    let limit = super::limit_now(abi::RLIMIT_NPROC);
    if credentials.over_process_limit && super::has_as_many(credentials.uid, limit.saturating_add(1)) {
        return Err(Errno::EAGAIN);
    }
    Ok(())
}

/// The running thread is about to execute `file`, which nobody may open for writing from now on.
///
/// # Errors
/// ETXTBSY.
fn claim(file: &Arc<File>) -> Result {
    let before = super::current().executing.lock().replace(file.clone());
    drop(before);
    file.inode().check_writers()?;
    tell_read(file);
    Ok(())
}

/// The file's head is read, or was for one who executed it before: either is told to those who watch it.
fn tell_read(file: &File) {
    if notify::is_used() {
        told::on_file(file, notify::events::ACCESS);
    }
}

/// The strings of a call, within the limits for the running process.
///
/// # Errors
/// EFAULT, E2BIG, ENOMEM.
pub fn copy_strings(argv: usize, envp: usize) -> Result<(Strings, Strings)> {
    let mut budget = arguments::budget(super::limit_now(abi::RLIMIT_STACK));
    let argv = Strings::copy_from_user(argv, &mut budget)?;
    let envp = Strings::copy_from_user(envp, &mut budget)?;
    Ok((argv, envp))
}

/// Follows #! lines to an ELF program; the `scripts` on the way are open. `unreachable`: nobody who is started finds `path`.
///
/// # Errors
/// ENOENT: it would be for an interpreter to open.
fn find_program(
    mut file: Arc<File>,
    path: &[u8],
    unreachable: bool,
    mut argv: Strings,
    scripts: &mut Vec<Arc<File>>,
) -> Result<(Program, Strings)> {
    // The name of a script that is another's interpreter.
    let mut name: Option<Vec<u8>> = None;
    for _ in 0..=SCRIPTS_MAX {
        claim(&file)?;
        if let Some(image) = kept_image(&file) {
            return Ok((Program { file, image }, argv));
        }
        let mut head = [0; HEAD];
        let length = file.read_at_kernel(0, &mut head)?;
        let head = head.get(..length).unwrap_or_default();
        if !head.starts_with(b"#!") {
            let image = parse_image(&file, head)?;
            return Ok((Program { file, image }, argv));
        }
        let (interpreter, argument) = parse_script(head)?;
        if unreachable {
            return Err(Errno::ENOENT);
        }
        let script = name.as_deref().unwrap_or(path);
        match argument {
            Some(argument) => argv.prepend(&[interpreter, argument, script], 1)?,
            None => argv.prepend(&[interpreter, script], 1)?,
        }
        let opened = fs::open_exec(Executable::named(interpreter))?;
        scripts.try_push(core::mem::replace(&mut file, opened))?;
        name = Some(TryVec::try_from_slice(interpreter)?);
    }
    Err(Errno::ELOOP)
}

/// Interpreter and optional argument of a #! line.
///
/// # Errors
/// ENOEXEC: there is none, or the interpreter's name does not fit.
#[expect(clippy::arithmetic_side_effects, reason = "places in a line in memory")]
fn parse_script(head: &[u8]) -> Result<(&[u8], Option<&[u8]>)> {
    let body = head.get(2..).unwrap_or_default();
    let line_end = body.iter().position(|b| *b == b'\n');
    let line = &body[..line_end.unwrap_or(body.len())];
    let blank = |b: &u8| *b == b' ' || *b == b'\t';
    let start = line.iter().position(|b| !blank(b)).ok_or(Errno::ENOEXEC)?;
    let line = &line[start..];
    let name_end = line.iter().position(|b| blank(b) || *b == 0);
    if line_end.is_none() && name_end.is_none() && head.len() == HEAD {
        // The name may go on beyond what was read.
        return Err(Errno::ENOEXEC);
    }
    let name = &line[..name_end.unwrap_or(line.len())];
    if name.is_empty() {
        return Err(Errno::ENOEXEC);
    }
    let rest = &line[name.len()..];
    let rest = &rest[..rest.iter().position(|b| *b == 0).unwrap_or(rest.len())];
    let from = rest.iter().position(|b| !blank(b)).unwrap_or(rest.len());
    let to = rest.iter().rposition(|b| !blank(b)).map_or(from, |n| n + 1);
    let argument = &rest[from..to.max(from)];
    Ok((name, (!argument.is_empty()).then_some(argument)))
}

/// The parsed headers of a file, if it was executed before and nobody has written it since. Neither the page of its head nor a count
/// that others use is touched.
fn kept_image(file: &File) -> Option<PerCpuArc<Image>> {
    file.inode().with_exec_cache(|kept| kept.downcast_ref::<PerCpuOwner<Image>>().map(PerCpuOwner::share))
}

/// Parses the headers of a file that begins with `head`, and keeps them with the file.
fn parse_image(file: &File, head: &[u8]) -> Result<PerCpuArc<Image>> {
    if !Image::is_elf(head) {
        return Err(Errno::ENOEXEC);
    }
    let inode = file.inode();
    let version = inode.version();
    let owner = PerCpuOwner::try_new(Image::parse(file, head)?)?;
    let image = owner.share();
    inode.set_exec_cache(version, try_box(owner)?);
    Ok(image)
}

fn run(regs: &mut UserRegs, program: Program, path: &[u8], argv: &Strings, envp: &Strings) -> Result {
    let image = &program.image;
    // Its head was read before; now what says how it is loaded.
    tell_read(&program.file);
    let interpreter = match &image.interpreter {
        Some(name) => {
            let file = fs::open_exec(Executable::named(name))?;
            // Not written while it is being mapped; later it may be, as on Linux.
            file.inode().check_writers()?;
            tell_read(&file);
            tell_read(&file);
            let image = match kept_image(&file) {
                Some(image) => image,
                None => {
                    let mut head = [0; HEAD];
                    let length = file.read_at_kernel(0, &mut head)?;
                    parse_image(&file, head.get(..length).unwrap_or_default())
                        .map_err(|e| if e == Errno::ENOEXEC { Errno::ELIBBAD } else { e })?
                }
            };
            Some(Program { file, image })
        }
        None => None,
    };
    let thread = super::current();
    let privilege = Privilege::of(&thread, &program.file)?;
    let persona = thread.personality.get().after_exec(privilege.forgets_personality);
    let (program, interpreter) = (&program, interpreter.as_ref());
    let parts = Parts { program, interpreter, privilege: &privilege, path, argv, envp, persona };
    let mut space = oom::drain_and_retry(|| Ok(Space::try_new()?))?;
    let mut filled = fill(&space, &parts);
    if matches!(filled, Err(Errno::ENOMEM))
        && oom::drain_caches()
        && let Ok(fresh) = Space::try_new()
    {
        space = fresh;
        filled = fill(&space, &parts);
    }
    let (entry, layout) = match filled {
        Ok(filled) => filled,
        Err(errno) => {
            // Linux maps the parts when the old program is gone already, so there is nobody to be told of what is wrong
            // with them.
            exit::end_process_soon(&thread, abi::SIGSEGV as i32);
            return Err(errno);
        }
    };
    thread.process.signals.unshare()?;
    thread.unshare_files()?;
    if !exit::end_other_threads(&thread) {
        return Err(Errno::EAGAIN);
    }
    let is_bound_anew = || {
        !privilege.shared && privilege::shares_fs(&thread)
            || !privilege.refused && thread.has_no_new_privileges()
    };
    if privilege.forgets_personality && is_bound_anew() {
        // Another thread of it has handed root and directory on meanwhile, or filters to all (TSYNC). The old program is gone, and the new one must not run.
        exit::end_process_soon(&thread, abi::SIGSEGV as i32);
        return Err(Errno::EAGAIN);
    }
    let readable = fs::may_read(&program.file) && interpreter.as_ref().is_none_or(|i| fs::may_read(&i.file));
    let dumpable = privilege.keeps_dumpable && access::dumpable_at_exec(&thread.ids(), readable);
    // Both before and after the change, so that neither program is looked into as only the other may be.
    if !dumpable {
        thread.process.set_dumpable(Dumpable::hidden());
    }
    // Who begins to trace it sees this, or is seen here (`ptrace::attach`).
    if privilege.forgets_personality && !privilege.shared {
        fence(Ordering::SeqCst);
        if thread.has_weak_tracer() {
            exit::end_process_soon(&thread, abi::SIGSEGV as i32);
            return Err(Errno::EAGAIN);
        }
    }
    // The old program is gone from here on.
    let sp = layout.stack;
    let old = core::mem::replace(&mut *thread.process.memory.lock(), layout);
    thread.personality.set(persona);
    let tid = thread.tid();
    replace(&thread, space, path);
    if privilege.secure {
        thread.process.limits.lower(abi::RLIMIT_STACK, stack_limit(&privilege));
    }
    privilege.take(&thread);
    thread.process.set_dumpable(if dumpable { Dumpable::User } else { Dumpable::hidden() });
    drop(old);
    let call = regs.in_syscall().then(|| regs.number());
    *regs = UserRegs::new_user(entry, sp);
    if thread.is_traced() {
        // Its tracer sees which call it was.
        call.into_iter().for_each(|number| regs.stay_in_call(number));
        ptrace::note_exec(regs, &thread, tid);
    }
    Ok(())
}

/// What a new space is filled with.
struct Parts<'a> {
    program: &'a Program,
    interpreter: Option<&'a Program>,
    privilege: &'a Privilege,
    path: &'a [u8],
    argv: &'a Strings,
    envp: &'a Strings,
    /// Of the new program.
    persona: Persona,
}

/// How far the stack of the new program may grow: not as far as its user likes, if it has more than its user.
fn stack_limit(privilege: &Privilege) -> u64 {
    let limit = super::limit_now(abi::RLIMIT_STACK);
    if privilege.secure { limit.min(SECURE_STACK) } else { limit }
}

/// Maps the program, its interpreter, the vDSO and the stack. Returns where it begins, and what is remembered of it.
fn fill(space: &Space, parts: &Parts<'_>) -> Result<(usize, ProgramLayout)> {
    let Parts { program, interpreter, privilege, path, argv, envp, persona } = *parts;
    let image = &program.image;
    let stack_limit = stack_limit(privilege);
    let places = Places::draw(persona);
    space.set_placement(places.placement(stack_limit));
    space.set_limits(stack_limit as usize, super::limit_now(abi::RLIMIT_AS) as usize);

    let object = program.file.object().ok_or(Errno::EACCES)?;
    let loaded = load::load(space, image, &object, interpreter.is_some().then_some(&places))?;
    let (entry, interpreter_base) = match interpreter {
        Some(i) => {
            let object = i.file.object().ok_or(Errno::EACCES)?;
            let lib = load::load(space, &i.image, &object, None)?;
            (lib.entry, lib.base)
        }
        None => (loaded.entry, 0),
    };
    let heap = places.heap(loaded.end, image.relocatable && interpreter.is_none());
    space.set_brk(VirtAddr(heap));
    let facts = stack::Facts {
        program: &loaded,
        interpreter_base,
        headers: if image.headers == 0 { 0 } else { image.headers.wrapping_add(loaded.base) },
        header_count: image.header_count,
        ids: privilege.ids,
        random: fs::random_bytes(),
        vdso: map_vdso(space)?,
        name: path,
        secure: privilege.secure,
    };
    let layout = stack::build(space, argv, envp, &facts, &places, image.stack_exec)?;
    if persona.has(MMAP_PAGE_ZERO) {
        map_page_zero(space);
    }
    let layout = ProgramLayout {
        exe: Some(try_arc(Executed { file: program.file.clone() })?),
        own_exe: true,
        forked: false,
        code: loaded.code,
        data: loaded.data,
        brk: heap,
        stack: layout.sp,
        arguments: layout.arguments,
        environment: layout.environment,
        auxv: layout.auxv,
    };
    Ok((entry, layout))
}

/// The thread changes to its new space and loses what exec takes away.
fn replace(current: &super::Current, space: Arc<Space>, path: &[u8]) {
    let thread: &Arc<Thread> = current;
    let process = &thread.process;
    thread.clear_tid_for_exec();
    let number = thread.tid();
    thread.become_leader();
    family::rename_thread(thread, number, thread.tid());
    super::signal::robust::release(thread);
    sched::futex::pi::leave_all(current.task());
    current.space().hand_exec_gain_to(&space);
    space.refuse_large(current.space().refuses_large());
    current.replace_space(space.clone());
    let shared = process.set_space(Some(space.clone()));
    let left = sched::replace_space(space);
    drop((shared, left));
    current.files().exec();
    process.signals.reset_for_exec();
    process.timers.clear();
    *thread.altstack.lock() = AltStack::NONE;
    thread.robust_list.store(0, Ordering::Relaxed);
    thread.rseq.clear();
    crate::process::dispatch::forget();
    ptrace::breakpoints::end(thread);
    process.barriers.store(0, Ordering::Relaxed);
    let name = path.rsplit(|b| *b == b'/').next().unwrap_or(path);
    thread.set_comm(name);
    process.executed.store(true, Ordering::Relaxed);
    process.programs.store(process.programs.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    process.exit_signal.store(abi::SIGCHLD, Ordering::Relaxed);
    sched::reset_for_exec();
    trace::EVENTS.this().execs.add(1);
    exit::release_vfork(process);
}

/// MMAP_PAGE_ZERO. Who may not map there goes without, as on Linux.
fn map_page_zero(space: &Space) {
    let mut flags = MapFlags::FIXED;
    flags.set(MapFlags::LOW, super::current().capable(Capability::SYS_RAWIO));
    let _ = space.map(&MapRequest {
        hint: VirtAddr(0),
        len: PAGE_SIZE,
        prot: Prot::READ | Prot::EXEC,
        flags,
        backing: Backing::Anonymous,
    });
}

/// Maps the vDSO; 0: there is none.
#[expect(clippy::arithmetic_side_effects, reason = "a few pages in user memory")]
fn map_vdso(space: &Space) -> Result<usize> {
    let Some(vdso) = arch::vdso() else { return Ok(0) };
    let total = vdso.data_len + vdso.code_len;
    let place = space.map(&MapRequest {
        hint: VirtAddr(0),
        len: total,
        prot: Prot::empty(),
        flags: MapFlags::empty(),
        backing: Backing::Anonymous,
    })?;
    let parts = [
        (place.0, vdso.data_len, Prot::READ, &vdso.data),
        (place.0 + vdso.data_len, vdso.code_len, Prot::READ | Prot::EXEC, &vdso.code),
    ];
    for (at, len, prot, object) in parts {
        space.map(&MapRequest {
            hint: VirtAddr(at),
            len,
            prot,
            flags: MapFlags::FIXED,
            backing: Backing::Object { object: object.share(), offset: 0 },
        })?;
    }
    Ok(place.0 + vdso.data_len)
}

/// The first process executes its first program.
pub fn first(regs: &mut UserRegs) {
    sched::current().work.clear(FIRST_EXEC);
    super::start::exec_first(regs, arch::command_line());
}

/// execve for the kernel itself: `path` is the only argument, with the environment Linux gives to init.
///
/// # Errors
/// As execve(2).
pub fn exec_kernel(regs: &mut UserRegs, path: &[u8]) -> Result {
    let mut argv = Strings::new();
    argv.push(path)?;
    let mut envp = Strings::new();
    envp.push(b"HOME=/")?;
    envp.push(b"TERM=linux")?;
    exec(regs, Executable::named(path), argv, &envp)
}

#[cfg(test)]
mod tests;
