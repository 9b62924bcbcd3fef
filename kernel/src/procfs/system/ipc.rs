//! System V IPC: /proc/sysvipc, and the settings of /proc/sys/kernel.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use crate::account::limits::Setting as Limit;
use crate::errno::{EINVAL, ENOMEM, ERANGE, Result};
use crate::ipc::limits;
use crate::ipc::{msg, sem, shm};
use crate::process;
use crate::procfs::entry::{Entry, Setting, What};
use crate::procfs::knobs::kernel::{integer, line, positive, words};
use vm::addr::PAGE_SIZE;

pub static FILES: &[Entry] = &[
    Entry { name: "msg", what: What::Text(queues) },
    Entry { name: "sem", what: What::Text(sets) },
    Entry { name: "shm", what: What::Text(segments) },
];

fn segments(out: &mut Vec<u8>) -> Result {
    let mut out = Text(out);
    out.write_str(
        "       key      shmid perms                  size  cpid  lpid nattch   uid   gid  cuid  cgid      atime      dtime      \
         ctime                   rss                  swap\n",
    )
    .map_err(|_| ENOMEM)?;
    shm::for_each(|s| {
        let (perm, resident) = (s.perm, s.resident_pages.saturating_mul(PAGE_SIZE as u64));
        writeln!(
            out,
            "{:10} {:10}  {:4o} {:21} {:5} {:5}  {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10} {resident:21} {:21}",
            perm.key,
            perm.id,
            perm.mode,
            s.size,
            s.made_by,
            s.last_pid,
            s.attached,
            perm.uid,
            perm.gid,
            perm.cuid,
            perm.cgid,
            s.attach_time,
            s.detach_time,
            s.change_time,
            0,
        )
        .map_err(|_| ENOMEM)
    })
}

fn sets(out: &mut Vec<u8>) -> Result {
    let mut out = Text(out);
    out.write_str("       key      semid perms      nsems   uid   gid  cuid  cgid      otime      ctime\n")
        .map_err(|_| ENOMEM)?;
    sem::for_each(|s| {
        let perm = s.perm;
        writeln!(
            out,
            "{:10} {:10}  {:4o} {:10} {:5} {:5} {:5} {:5} {:10} {:10}",
            perm.key,
            perm.id,
            perm.mode,
            s.count,
            perm.uid,
            perm.gid,
            perm.cuid,
            perm.cgid,
            s.operation_time,
            s.change_time,
        )
        .map_err(|_| ENOMEM)
    })
}

fn queues(out: &mut Vec<u8>) -> Result {
    let mut out = Text(out);
    out.write_str(
        "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime      rtime      ctime\n",
    )
    .map_err(|_| ENOMEM)?;
    msg::for_each(|q| {
        let perm = q.perm;
        writeln!(
            out,
            "{:10} {:10}  {:4o}  {:10} {:10} {:5} {:5} {:5} {:5} {:5} {:5} {:10} {:10} {:10}",
            perm.key,
            perm.id,
            perm.mode,
            q.bytes,
            q.messages,
            q.last_sender,
            q.last_receiver,
            perm.uid,
            perm.gid,
            perm.cuid,
            perm.cgid,
            q.send_time,
            q.receive_time,
            q.change_time,
        )
        .map_err(|_| ENOMEM)
    })
}

/// A number of 31 bits, up to `most`.
fn set_int(limit: &Limit, data: &[u8], most: u64) -> Result {
    let n = u64::try_from(integer(data)?).ok().filter(|n| *n <= most).ok_or(EINVAL)?;
    limit.set(n);
    Ok(())
}

const INT: u64 = i32::MAX as u64;

pub static AUTO_MSGMNI: Setting = Setting {
    read: |out| line(out, 0),
    // It has no effect on Linux either.
    write: Some(|data| match integer(data)? {
        0 | 1 => Ok(()),
        _ => Err(EINVAL),
    }),
};
pub static MSGMAX: Setting = Setting {
    read: |out| line(out, limits::MSGMAX.get()),
    write: Some(|data| set_int(&limits::MSGMAX, data, INT)),
};
pub static MSGMNB: Setting = Setting {
    read: |out| line(out, limits::MSGMNB.get()),
    write: Some(|data| set_int(&limits::MSGMNB, data, INT)),
};
pub static MSGMNI: Setting = Setting {
    read: |out| line(out, limits::MSGMNI.get()),
    write: Some(|data| set_int(&limits::MSGMNI, data, limits::MOST)),
};
pub static SHMMNI: Setting = Setting {
    read: |out| line(out, limits::SHMMNI.get()),
    write: Some(|data| set_int(&limits::SHMMNI, data, limits::MOST)),
};
pub static SHMMAX: Setting = Setting {
    read: |out| line(out, limits::SHMMAX.get()),
    write: Some(|data| positive(data).map(|n| limits::SHMMAX.set(n))),
};
pub static SHMALL: Setting = Setting {
    read: |out| line(out, limits::SHMALL.get()),
    write: Some(|data| positive(data).map(|n| limits::SHMALL.set(n))),
};
pub static SHM_RMID_FORCED: Setting = Setting {
    read: |out| line(out, u64::from(limits::rmid_forced())),
    write: Some(|data| match integer(data)? {
        n @ (0 | 1) => {
            limits::set_rmid_forced(n == 1, &is_there);
            Ok(())
        }
        _ => Err(EINVAL),
    }),
};

/// Has the thread with number `tid` not ended that was there at `time`?
fn is_there(tid: u32, time: u64) -> bool {
    process::find_thread(tid).is_some_and(|thread| thread.process.started <= time)
}

pub static SEM: Setting = Setting { read: semaphores, write: Some(set_semaphores) };

fn semaphores(out: &mut Vec<u8>) -> Result {
    let [of_set, all, of_call, sets] = limits::semaphores();
    writeln!(Text(out), "{of_set}\t{all}\t{of_call}\t{sets}").map_err(|_| ENOMEM)
}

fn set_semaphores(data: &[u8]) -> Result {
    let (mut numbers, mut any) = (limits::semaphores(), false);
    for (place, word) in numbers.iter_mut().zip(words(data)) {
        *place = integer(word)?;
        any = true;
    }
    if !any {
        return if data.is_empty() { Ok(()) } else { Err(EINVAL) };
    }
    if u64::try_from(numbers[3]).map_or(true, |sets| sets > limits::MOST) {
        return Err(ERANGE);
    }
    limits::set_semaphores(numbers);
    Ok(())
}

macro_rules! next_ids {
    ($($name:ident $kind:literal)*) => {$(
        pub static $name: Setting = Setting {
            read: |out| {
                let [segment, set, queue] = limits::next_ids();
                writeln!(Text(out), "{}", [segment, set, queue][$kind]).map_err(|_| ENOMEM)
            },
            write: Some(|data| limits::set_next_id($kind, integer(data)?)),
        };
    )*};
}
next_ids! { SHM_NEXT_ID 0 SEM_NEXT_ID 1 MSG_NEXT_ID 2 }
