//! System V IPC: what its calls have in common.
#![forbid(unsafe_code)]

mod msg;
mod sem;
mod shm;

pub use msg::{sys_msgctl, sys_msgget, sys_msgrcv, sys_msgsnd};
pub use sem::{sys_semctl, sys_semget, sys_semop, sys_semtimedop};
pub use shm::{sys_shmat, sys_shmctl, sys_shmdt, sys_shmget};

use crate::ipc::{NewOwner, Shown};
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// Commands of all three kinds.
const IPC_RMID: i32 = 0;
const IPC_SET: i32 = 1;
const IPC_STAT: i32 = 2;
const IPC_INFO: i32 = 3;

/// struct ipc64_perm.
#[derive(Clone, Copy, Default, FromBytes, IntoBytes, Immutable)]
#[repr(C)]
struct Perm {
    key: i32,
    uid: u32,
    gid: u32,
    cuid: u32,
    cgid: u32,
    mode: u32,
    sequence: u16,
    pad: [u16; 3],
    unused: [u64; 2],
}

const _: () = assert!(size_of::<Perm>() == 48);

impl From<Shown> for Perm {
    fn from(shown: Shown) -> Perm {
        let Shown { id: _, key, uid, gid, cuid, cgid, mode, sequence } = shown;
        Perm { key, uid, gid, cuid, cgid, mode, sequence, ..Perm::default() }
    }
}

impl Perm {
    fn new_owner(&self) -> NewOwner {
        NewOwner { uid: self.uid, gid: self.gid, mode: self.mode }
    }
}

/// The number that a call on the place of an object answers, or 0 where it was asked for by its number.
fn answer(at: bool, shown: Shown) -> usize {
    if at { shown.id.cast_unsigned() as usize } else { 0 }
}

/// An `int` of a structure, for what may be more.
fn int(n: u64) -> i32 {
    n as i32
}
