//! All sockets, for /proc/net/unix: a list for each CPU, which sockets made there are on until they are closed.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};

use sync::heap::Text;
use sync::{SpinLock, TryVec, cpu_id, lock_class, per_cpu};

use super::roster::{Entry, Roster};
use super::{Phase, Socket};
use crate::errno::{ENOMEM, Result};
use crate::lock_order as level;

lock_class! { static LIST: LockClass = ("socket list", level::SocketList); }

per_cpu! {
    static MADE_HERE: SpinLock<Roster, level::SocketList> = SpinLock::new(Roster::new(), &LIST);
}

/// Where a socket is: a CPU, and its number there. 0: on no list.
pub struct Place {
    cpu: AtomicU32,
    number: AtomicU64,
}

impl Place {
    pub const fn new() -> Place {
        Place { cpu: AtomicU32::new(0), number: AtomicU64::new(0) }
    }
}

/// Puts a new socket on the list of this CPU.
///
/// # Errors
/// ENOMEM.
pub fn enter(socket: &Arc<Socket>) -> Result {
    let entry = Entry::try_new(socket)?;
    let cpu = cpu_id();
    let number = MADE_HERE.of(cpu).lock().put(entry);
    socket.place.cpu.store(cpu, Relaxed);
    socket.place.number.store(number, Relaxed);
    Ok(())
}

/// Takes it off its list.
pub fn leave(socket: &Socket) {
    let number = socket.place.number.load(Relaxed);
    if number != 0 {
        let gone = MADE_HERE.of(socket.place.cpu.load(Relaxed)).lock().remove(number);
        drop(gone);
    }
}

/// Sockets of one list that are looked at between two points at which the walk gives way.
const TURN: usize = 64;

/// The text of /proc/net/unix. May sleep.
///
/// # Errors
/// ENOMEM.
pub fn text(out: &mut Vec<u8>) -> Result {
    writeln!(Text(out), "Num       RefCount Protocol Flags    Type St Inode Path").map_err(|_| ENOMEM)?;
    for cpu in 0..sync::cpus() {
        let mut last = 0;
        loop {
            let mut some: Vec<Arc<Socket>> = Vec::new();
            some.try_reserve(TURN).map_err(|_| ENOMEM)?;
            let mut seen = 0usize;
            for (number, socket) in MADE_HERE.of(cpu).lock().after(last).take(TURN) {
                some.try_extend(socket.upgrade())?;
                last = number;
                seen = seen.saturating_add(1);
            }
            if seen == 0 {
                break;
            }
            some.iter().try_for_each(|socket| line(socket, out))?;
            if crate::sched::give_way() {
                return Err(crate::errno::EINTR);
            }
        }
    }
    Ok(())
}

fn line(socket: &Arc<Socket>, out: &mut Vec<u8>) -> Result {
    let (phase, has_file) = (socket.phase(), socket.number() != 0);
    let flags = if phase == Phase::Listening { 0x1_0000 } else { 0 };
    // SS_UNCONNECTED, SS_CONNECTING, SS_CONNECTED, SS_DISCONNECTING.
    let state = match (has_file, phase == Phase::Connected) {
        (true, false) => 1,
        (false, true) => 2,
        (true, true) => 3,
        (false, false) => 4,
    };
    let references = Arc::strong_count(socket).saturating_add(1);
    let (kind, number) = (socket.kind as u8, socket.number());
    // The address is hidden, as %pK hides it.
    write!(Text(out), "{:016x}: {references:08X} {:08X} {flags:08X} {kind:04X} {state:02X} {number:5}", 0, 0)
        .map_err(|_| ENOMEM)?;
    if let Some(name) = socket.name() {
        out.try_push(b' ')?;
        name.tell(out)?;
    }
    out.try_push(b'\n')?;
    Ok(())
}
