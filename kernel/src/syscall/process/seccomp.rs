//! seccomp(2), and prctl(2) where it does the same.
//!
//! Strict mode does not forbid reading the time-stamp counter.
#![forbid(unsafe_code)]

use crate::errno::{Errno, Result};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::seccomp::{self, How, Instruction, Listener, MOST, Program};
use crate::syscall::file::install;
use alloc::vec::Vec;
use sync::TryVec;
use zerocopy::IntoBytes;

const SET_MODE_STRICT: u32 = 0;
const SET_MODE_FILTER: u32 = 1;
const GET_ACTION_AVAIL: u32 = 2;
const GET_NOTIF_SIZES: u32 = 3;

/// Bytes of struct seccomp_notif, seccomp_notif_resp and seccomp_data.
const SIZES: [u16; 3] = [80, 24, 64];

/// Modes of PR_SET_SECCOMP.
const STRICT: usize = 1;
const FILTER: usize = 2;

const TSYNC: u32 = 1;
const LOG: u32 = 2;
/// Nothing here slows speculation down, so there is nothing to allow.
const SPEC_ALLOW: u32 = 4;
const NEW_LISTENER: u32 = 8;
const TSYNC_ESRCH: u32 = 16;
const WAIT_KILLABLE_RECV: u32 = 32;

/// seccomp(2).
pub fn sys_seccomp(operation: u32, flags: u32, argument: usize) -> Result<usize> {
    match operation {
        SET_MODE_STRICT if flags == 0 && argument == 0 => seccomp::be_strict(),
        SET_MODE_FILTER => add(flags, argument),
        GET_ACTION_AVAIL if flags == 0 => {
            let action = UserPtr::<u32>::new(argument).read()?;
            if seccomp::has_action(action) { Ok(0) } else { Err(Errno::EOPNOTSUPP) }
        }
        GET_NOTIF_SIZES if flags == 0 => UserPtr::<[u16; 3]>::new(argument).write(&SIZES).map(|()| 0),
        _ => Err(Errno::EINVAL),
    }
}

/// PR_SET_SECCOMP.
pub(super) fn set_mode(mode: usize, argument: usize) -> Result<usize> {
    match mode {
        STRICT => seccomp::be_strict(),
        FILTER => add(0, argument),
        _ => Err(Errno::EINVAL),
    }
}

fn add(flags: u32, argument: usize) -> Result<usize> {
    const ALL: u32 = TSYNC | LOG | SPEC_ALLOW | NEW_LISTENER | TSYNC_ESRCH | WAIT_KILLABLE_RECV;
    let has = |flag: u32| flags & flag != 0;
    // A number cannot be both a thread's and a descriptor's.
    if flags & !ALL != 0
        || has(TSYNC) && has(NEW_LISTENER) && !has(TSYNC_ESRCH)
        || has(WAIT_KILLABLE_RECV) && !has(NEW_LISTENER)
    {
        return Err(Errno::EINVAL);
    }
    // struct sock_fprog: a length of 16 bits, and where the instructions are.
    let [len, from] = UserPtr::<[u64; 2]>::new(argument).read()?;
    let len = usize::from(len as u16);
    if len == 0 || len > MOST {
        return Err(Errno::EINVAL);
    }
    seccomp::check_rights()?;
    if from == 0 {
        return Err(Errno::EINVAL);
    }
    let mut code: Vec<Instruction> = Vec::new();
    code.try_resize(len, Instruction::default())?;
    UserSlice::new(from as usize, size_of_val(code.as_slice())).read(code.as_mut_slice().as_mut_bytes())?;
    let program = Program::try_new(code)?;
    let how = How { for_all: has(TSYNC), gives_error: has(TSYNC_ESRCH), logs: has(LOG), listener: None };
    if !has(NEW_LISTENER) {
        return seccomp::add(program, how);
    }
    let listen = || {
        let listener = Listener::try_new(has(WAIT_KILLABLE_RECV))?;
        let file = seccomp::open_listener(listener.clone())?;
        seccomp::add(program, How { listener: Some(listener), ..how })?;
        Ok(file)
    };
    install(listen, true)
}
