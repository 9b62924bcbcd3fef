//! All sockets, for /proc/net/unix: a list for each CPU, which sockets made there are on until they are closed.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::fmt::Write;
use core::sync::atomic::{AtomicU32, Ordering::Relaxed};

use sync::heap::Text;
use sync::{SpinLock, TryVec, cpu_id, lock_class, per_cpu};

use super::{Phase, Socket};
use crate::errno::{ENOMEM, Result};
use crate::lock_order as level;

lock_class! { static LIST: LockClass = ("socket list", level::SocketList); }

struct Shelf {
    sockets: Vec<Weak<Socket>>,
    free: Vec<u32>,
}

per_cpu! {
    static SHELF: SpinLock<Shelf, level::SocketList> =
        SpinLock::new(Shelf { sockets: Vec::new(), free: Vec::new() }, &LIST);
}

/// Where a socket is: a CPU, and a place on its list.
pub struct Place {
    cpu: AtomicU32,
    index: AtomicU32,
}

/// It is on no list.
const NOWHERE: u32 = u32::MAX;

impl Place {
    pub const fn new() -> Place {
        Place { cpu: AtomicU32::new(0), index: AtomicU32::new(NOWHERE) }
    }
}

/// Puts a new socket on the list of this CPU.
///
/// # Errors
/// ENOMEM.
pub fn enter(socket: &Arc<Socket>) -> Result {
    let cpu = cpu_id();
    let mut shelf = SHELF.of(cpu).lock();
    let index = match shelf.free.pop() {
        Some(index) => index,
        None => {
            let room = shelf.sockets.len().saturating_add(1);
            let free = shelf.free.len();
            // `leave` needs no memory then.
            shelf.free.try_reserve(room.saturating_sub(free)).map_err(|_| ENOMEM)?;
            shelf.sockets.try_push(Weak::new())?;
            room.saturating_sub(1) as u32
        }
    };
    if let Some(place) = shelf.sockets.get_mut(index as usize) {
        *place = Arc::downgrade(socket);
    }
    socket.place.cpu.store(cpu, Relaxed);
    socket.place.index.store(index, Relaxed);
    Ok(())
}

/// Takes it off its list.
pub fn leave(socket: &Socket) {
    let index = socket.place.index.swap(NOWHERE, Relaxed);
    if index == NOWHERE {
        return;
    }
    let mut shelf = SHELF.of(socket.place.cpu.load(Relaxed)).lock();
    let gone = shelf.sockets.get_mut(index as usize).map(core::mem::take);
    let _ = shelf.free.push_reserved(index);
    drop(shelf);
    drop(gone);
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
        let mut from = 0usize;
        loop {
            let mut some: Vec<Arc<Socket>> = Vec::new();
            some.try_reserve(TURN).map_err(|_| ENOMEM)?;
            {
                let shelf = SHELF.of(cpu).lock();
                let Some(rest) = shelf.sockets.get(from..).filter(|rest| !rest.is_empty()) else { break };
                let part = rest.iter().take(TURN);
                from = from.saturating_add(part.len());
                some.try_extend(part.filter_map(Weak::upgrade))?;
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
