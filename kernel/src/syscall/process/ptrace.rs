//! ptrace(2).
#![forbid(unsafe_code)]

use crate::arch;
use crate::errno::{Errno, Result};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::dispatch::Config;
use crate::process::ptrace::{self, CallStop, Going, Subject};
use crate::process::signal::Info;
use crate::process::signal_pending;
use crate::sched::give_way;
use alloc::vec::Vec;
use linux_raw_sys::ptrace as requests;
use sync::TryVec;

/// Words of struct user_regs_struct.
const WORDS: usize = arch::CORE_REGISTERS;
/// Bytes of struct user, and where its debug registers lie.
const USER: usize = 928;
const DEBUG: usize = 848;
const DEBUG_END: usize = 912;
/// Bytes of siginfo_t.
const INFO: usize = 128;
/// Bytes that FXSAVE stores.
const LEGACY: usize = 512;
const MACHINE: u32 = 0xc000_003e;

const NT_PRSTATUS: usize = 1;
const NT_PRFPREG: usize = 2;
const NT_X86_XSTATE: usize = 0x202;

/// ptrace(2).
pub fn sys_ptrace(request: u32, pid: u32, address: usize, data: usize) -> Result<usize> {
    match request {
        requests::PTRACE_TRACEME => return ptrace::trace_me().map(|()| 0),
        requests::PTRACE_ATTACH => return ptrace::attach(pid, None).map(|()| 0),
        requests::PTRACE_SEIZE if address != 0 => {
            return Err(ptrace::subject(pid).err().unwrap_or(Errno::EIO));
        }
        requests::PTRACE_SEIZE => return ptrace::attach(pid, Some(data)).map(|()| 0),
        _ => {}
    }
    let subject = ptrace::subject(pid)?;
    if request == requests::PTRACE_KILL {
        return subject.kill().map(|()| 0);
    }
    if request == requests::PTRACE_INTERRUPT {
        return subject.interrupt().map(|()| 0);
    }
    subject.check()?;
    match request {
        requests::PTRACE_CONT => subject.resume(Going::On, data),
        requests::PTRACE_SYSCALL => subject.resume(Going::ToCall, data),
        requests::PTRACE_SINGLESTEP => subject.resume(Going::Step, data),
        requests::PTRACE_SYSEMU => subject.resume(Going::Emulated, data),
        requests::PTRACE_SYSEMU_SINGLESTEP => subject.resume(Going::EmulatedStep, data),
        requests::PTRACE_LISTEN => subject.listen(),
        requests::PTRACE_DETACH => subject.detach(data),
        requests::PTRACE_PEEKTEXT | requests::PTRACE_PEEKDATA => {
            UserPtr::new(data).write(&subject.peek(address)?)
        }
        requests::PTRACE_POKETEXT | requests::PTRACE_POKEDATA => subject.poke(address, data),
        requests::PTRACE_PEEKUSR => UserPtr::new(data).write(&peek_user(&subject, address)?),
        requests::PTRACE_POKEUSR => poke_user(&subject, address, data as u64),
        requests::PTRACE_GETREGS => write_words(data, &subject.registers()?),
        requests::PTRACE_SETREGS => set_registers(&subject, data, WORDS),
        requests::PTRACE_GETFPREGS => write_legacy(&subject, data, LEGACY),
        requests::PTRACE_SETFPREGS => set_legacy(&subject, data, LEGACY),
        requests::PTRACE_GETREGSET => get_set(&subject, address, data),
        requests::PTRACE_SETREGSET => set_set(&subject, address, data),
        requests::PTRACE_GETSIGINFO => UserSlice::new(data, INFO).write(&subject.info()?.to_bytes()),
        requests::PTRACE_SETSIGINFO => {
            let mut bytes = [0; INFO];
            UserSlice::new(data, INFO).read(&mut bytes)?;
            subject.set_info(Info::from_bytes(&bytes))
        }
        requests::PTRACE_PEEKSIGINFO => return waiting_infos(&subject, address, data),
        requests::PTRACE_GETSIGMASK | requests::PTRACE_SETSIGMASK if address != 8 => Err(Errno::EINVAL),
        requests::PTRACE_GETSIGMASK => UserPtr::new(data).write(&subject.mask()?),
        requests::PTRACE_SETSIGMASK => subject.set_mask(UserPtr::new(data).read()?),
        requests::PTRACE_SETOPTIONS | requests::PTRACE_OLDSETOPTIONS => subject.set_options(data),
        requests::PTRACE_GETEVENTMSG => UserPtr::new(data).write(&subject.message()?),
        requests::PTRACE_GET_SYSCALL_INFO => return call_info(&subject, address, data),
        requests::PTRACE_SET_SYSCALL_USER_DISPATCH_CONFIG => set_dispatch(&subject, address, data),
        requests::PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG => get_dispatch(&subject, address, data),
        requests::PTRACE_GET_RSEQ_CONFIGURATION => return rseq(&subject, address, data),
        _ => Err(Errno::EIO),
    }
    .map(|()| 0)
}

/// Bytes of struct ptrace_sud_config: mode, place of the byte, begin and length of the range.
const DISPATCH: usize = 32;

fn set_dispatch(subject: &Subject, len: usize, from: usize) -> Result {
    if len != DISPATCH {
        return Err(Errno::EINVAL);
    }
    let [mode, selector, offset, len] = UserPtr::<[u64; 4]>::new(from).read()?;
    let arguments = [offset, len, selector].map(|word| word as usize);
    subject.with_thread(|thread| super::prctl::set_dispatch(thread, mode as usize, arguments))
}

fn get_dispatch(subject: &Subject, len: usize, to: usize) -> Result {
    if len != DISPATCH {
        return Err(Errno::EINVAL);
    }
    let config = subject.with_thread(|thread| Ok(thread.dispatch.config()))?;
    let Config { offset, len, selector } = config.unwrap_or_default();
    UserPtr::<[u64; 4]>::new(to).write(&[u64::from(config.is_some()), selector, offset, len])
}

/// PTRACE_PEEKSIGINFO: so many of the signals that wait, as struct ptrace_peeksiginfo_args says. Says how many it has shown. A signal ends it.
fn waiting_infos(subject: &Subject, arguments: usize, to: usize) -> Result<usize> {
    let [from, how] = UserPtr::<[u64; 2]>::new(arguments).read()?;
    let (flags, count) = (how as u32, (how >> 32) as i32);
    if flags & !requests::PTRACE_PEEKSIGINFO_SHARED != 0 {
        return Err(Errno::EINVAL);
    }
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    let mut shown = 0usize;
    while shown < count
        && let Some(info) = subject.waiting_info(flags != 0, (from as usize).wrapping_add(shown))
    {
        let place = to.wrapping_add(shown.wrapping_mul(INFO));
        if let Err(errno) = UserSlice::new(place, INFO).write(&info.to_bytes()) {
            return if shown == 0 { Err(errno) } else { Ok(shown) };
        }
        shown = shown.saturating_add(1);
        if signal_pending() || give_way() {
            break;
        }
    }
    Ok(shown)
}

/// What lies at a place in struct user.
fn peek_user(subject: &Subject, at: usize) -> Result<u64> {
    if !at.is_multiple_of(8) || at >= USER {
        return Err(Errno::EIO);
    }
    if let Some(word) = subject.registers()?.get(at / 8) {
        return Ok(*word);
    }
    debug_register(at).map_or(Ok(0), |n| subject.debug_register(n))
}

fn poke_user(subject: &Subject, at: usize, value: u64) -> Result {
    if at.is_multiple_of(8) && at / 8 < WORDS {
        return subject.set_registers(at / 8, &[value]);
    }
    let n = debug_register(at).filter(|_| at.is_multiple_of(8)).ok_or(Errno::EIO)?;
    subject.set_debug_register(n, value)
}

/// Which of the debug registers lies at a place in struct user.
fn debug_register(at: usize) -> Option<usize> {
    (DEBUG..DEBUG_END).contains(&at).then(|| at.wrapping_sub(DEBUG) / 8)
}

fn write_words(to: usize, words: &[u64]) -> Result {
    let mut bytes = [0; WORDS.wrapping_mul(8)];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    let len = words.len().wrapping_mul(8).min(bytes.len());
    UserSlice::new(to, len).write(bytes.get(..len).unwrap_or(&[]))
}

/// Sets the first `count` words.
fn set_registers(subject: &Subject, from: usize, count: usize) -> Result {
    let mut words = [0u64; WORDS];
    let words = words.get_mut(..count).ok_or(Errno::EINVAL)?;
    for (n, word) in words.iter_mut().enumerate() {
        *word = UserPtr::<u64>::new(from.wrapping_add(n.wrapping_mul(8))).read()?;
    }
    subject.set_registers(0, words)
}

fn write_legacy(subject: &Subject, to: usize, len: usize) -> Result {
    let vectors = subject.vectors()?;
    let mut legacy = [0; LEGACY];
    legacy.copy_from_slice(vectors.get(..LEGACY).ok_or(Errno::EIO)?);
    UserSlice::new(to, len).write(legacy.get(..len).unwrap_or(&[]))
}

fn set_legacy(subject: &Subject, from: usize, len: usize) -> Result {
    if len != LEGACY {
        return Err(Errno::EINVAL);
    }
    let mut legacy = [0; LEGACY];
    UserSlice::new(from, LEGACY).read(&mut legacy)?;
    subject.set_legacy_vectors(&legacy)
}

/// How many bytes of a set of registers are meant. Sets come in whole words.
fn extent(subject: &Subject, kind: usize, len: usize) -> Result<usize> {
    if !len.is_multiple_of(8) {
        return Err(Errno::EINVAL);
    }
    let size = match kind {
        NT_PRSTATUS => WORDS.wrapping_mul(8),
        NT_PRFPREG => LEGACY,
        NT_X86_XSTATE => match subject.vectors()?.len() {
            // Without XSAVE.
            LEGACY => return Err(Errno::ENODEV),
            size => size,
        },
        _ => return Err(Errno::EINVAL),
    };
    Ok(len.min(size))
}

/// struct iovec.
fn segment(at: usize) -> Result<(usize, usize)> {
    let [base, len] = UserPtr::<[usize; 2]>::new(at).read()?;
    Ok((base, len))
}

fn set_len(at: usize, len: usize) -> Result {
    UserPtr::<usize>::new(at.wrapping_add(8)).write(&len)
}

/// The bits of a kind of registers that Linux looks at.
const KIND: usize = u32::MAX as usize;

/// PTRACE_GETREGSET.
fn get_set(subject: &Subject, kind: usize, at: usize) -> Result {
    let (kind, (base, len)) = (kind & KIND, segment(at)?);
    let len = extent(subject, kind, len)?;
    match kind {
        NT_PRSTATUS => {
            let words = subject.registers()?;
            write_words(base, words.get(..len / 8).unwrap_or(&[]))?;
        }
        NT_PRFPREG => write_legacy(subject, base, len)?,
        _ => {
            let vectors = subject.vectors()?;
            UserSlice::new(base, len).write(vectors.get(..len).unwrap_or(&[]))?;
        }
    }
    set_len(at, len)
}

/// PTRACE_SETREGSET.
fn set_set(subject: &Subject, kind: usize, at: usize) -> Result {
    let (kind, (base, len)) = (kind & KIND, segment(at)?);
    let len = extent(subject, kind, len)?;
    match kind {
        NT_PRSTATUS => set_registers(subject, base, len / 8)?,
        NT_PRFPREG => set_legacy(subject, base, len)?,
        _ => {
            let size = subject.vectors()?.len();
            if len != size {
                return Err(Errno::EFAULT);
            }
            let mut area = Vec::new();
            area.try_resize(size, 0)?;
            UserSlice::new(base, size).read(&mut area)?;
            subject.set_vectors(&area)?;
        }
    }
    set_len(at, len)
}

/// Writes as much of a structure as there is room for, and tells how large it is.
fn write_part(to: usize, room: usize, bytes: &[u8]) -> Result<usize> {
    let len = bytes.len().min(room);
    UserSlice::new(to, len).write(bytes.get(..len).unwrap_or(&[]))?;
    Ok(bytes.len())
}

/// PTRACE_GET_SYSCALL_INFO: struct ptrace_syscall_info.
fn call_info(subject: &Subject, room: usize, to: usize) -> Result<usize> {
    let (stop, registers) = subject.call()?;
    let mut info = [0u64; 11];
    let kind: u64 = match stop {
        CallStop::Elsewhere => 0,
        CallStop::Begins { .. } => 1,
        CallStop::Ends(_) => 2,
        CallStop::Filtered { .. } => 3,
    };
    info[0] = kind | u64::from(MACHINE) << 32;
    info[1] = registers.get(arch::place::RIP).copied().unwrap_or(0);
    info[2] = registers.get(arch::place::RSP).copied().unwrap_or(0);
    let len = match stop {
        CallStop::Elsewhere => 24,
        CallStop::Begins { number, arguments } | CallStop::Filtered { number, arguments, .. } => {
            info[3] = number;
            for (to, argument) in info.iter_mut().skip(4).zip(arguments) {
                *to = argument;
            }
            if let CallStop::Filtered { data, .. } = stop {
                info[10] = data.into();
                84
            } else {
                80
            }
        }
        CallStop::Ends(result) => {
            info[3] = result.cast_unsigned();
            info[4] = u64::from((-4095..0).contains(&result));
            33
        }
    };
    let mut bytes = [0; 88];
    for (to, word) in bytes.chunks_exact_mut(8).zip(info) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    write_part(to, room, bytes.get(..len).unwrap_or(&[]))
}

/// PTRACE_GET_RSEQ_CONFIGURATION: struct ptrace_rseq_configuration.
fn rseq(subject: &Subject, room: usize, to: usize) -> Result<usize> {
    let (address, len, signature) = subject.rseq()?;
    let words = [address, u64::from(len) | u64::from(signature) << 32, 0];
    let mut bytes = [0; 24];
    for (to, word) in bytes.chunks_exact_mut(8).zip(words) {
        to.copy_from_slice(&word.to_ne_bytes());
    }
    write_part(to, room, &bytes)
}
