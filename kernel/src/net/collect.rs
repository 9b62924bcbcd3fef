//! Sockets that only messages in flight refer to, and these lie in such sockets' queues: nobody can receive them, and each keeps the
//! others open. They are found and their messages dropped.
//!
//! ```text
//!   process ──▶ A ──▶ message ──▶ B           B can be received
//!               C ──▶ message ──▶ D
//!               ▲                 │           nobody can receive C or D
//!               └──── message ◀───┘
//! ```
//!
//! Messages with sockets in them stand in one table. Few programs send such, and who sends none never comes here.
//!
//! **Why what is found is garbage.** Under the table's lock no message with sockets comes into a queue or out of one. A socket whose file has as many
//! openings as messages carry it has no other: no descriptor, and no call that keeps it open. It gets one only by being received, which
//! has to wait. So what no other socket's queue leads to stays unreachable, and is condemned; its messages are taken out afterwards.
//! Who receives just then by a descriptor that was closed under it finds them condemned, and gets none.
//!
//! **What it costs.** A round looks at each message of the table twice. It is begun by a close or a send once as many of these came as the table had
//! messages after the last round, so it costs each a bounded amount. It gives way.
//!
//! Lock order: a queue's `held` → the table (sleeping) → sockets' states.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::Relaxed};

use sync::{Mutex, TryVec, lock_class};

use super::rights::Heap;
use super::{Socket, of_file};
use crate::errno::Result;
use crate::fs::file::File;
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! { static TABLE: LockClass = ("sockets in flight", level::SocketsInFlight); }

/// No message.
const NONE: usize = usize::MAX;
/// A table that is so small is looked at each time.
const FEW: usize = 32;
/// Messages between two points at which a round gives way.
const TURN: usize = 64;

/// What a round knows of a socket. Under the table's lock.
pub struct Mark {
    /// Messages that carry it.
    carried: AtomicU32,
    /// The last of the messages in its queue.
    first: AtomicUsize,
    alive: AtomicBool,
}

impl Mark {
    pub const fn new() -> Mark {
        Mark { carried: AtomicU32::new(0), first: AtomicUsize::new(NONE), alive: AtomicBool::new(false) }
    }

    fn clear(&self) {
        self.carried.store(0, Relaxed);
        self.first.store(NONE, Relaxed);
        self.alive.store(false, Relaxed);
    }
}

/// A message with sockets in it.
struct Entry {
    files: Vec<Weak<File>>,
    receiver: Weak<Socket>,
    condemned: bool,
    /// Of one round: the next message in the same queue.
    next: usize,
}

struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Closes and sends since the last round, and messages that it left.
    events: usize,
    left: usize,
}

static IN_FLIGHT: Mutex<Table, level::SocketsInFlight> =
    Mutex::new(Table { entries: Vec::new(), free: Vec::new(), events: 0, left: 0 }, &TABLE);
/// Entries of the table: whoever closes a socket looks here and mostly sees that there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A message's place in the table.
pub struct Flight(usize);

/// `files` are about to lie in the queue of `receiver`.
///
/// # Errors
/// ENOMEM.
pub fn enter(files: &[Arc<File>], receiver: &Arc<Socket>) -> Result<Flight> {
    collect_if_needed();
    let mut sockets = Vec::new();
    for file in files.iter().filter(|file| of_file(file).is_some()) {
        sockets.try_push(Arc::downgrade(file))?;
    }
    let entry = Entry { files: sockets, receiver: Arc::downgrade(receiver), condemned: false, next: NONE };
    let mut table = IN_FLIGHT.lock();
    let place = match table.free.pop() {
        Some(place) => place,
        None => {
            let place = table.entries.len();
            table.entries.try_push(None)?;
            // `leave` needs no memory then.
            let room = table.entries.len();
            let free = table.free.len();
            table.free.try_reserve(room.saturating_sub(free)).map_err(|_| crate::errno::ENOMEM)?;
            place
        }
    };
    if let Some(slot) = table.entries.get_mut(place) {
        *slot = Some(entry);
    }
    COUNT.fetch_add(1, Relaxed);
    Ok(Flight(place))
}

/// The message is out of its queue. False: it is condemned.
pub fn leave(flight: Flight) -> bool {
    let mut table = IN_FLIGHT.lock();
    let entry = table.entries.get_mut(flight.0).and_then(Option::take);
    let _ = table.free.push_reserved(flight.0);
    COUNT.fetch_sub(1, Relaxed);
    drop(table);
    entry.is_none_or(|entry| !entry.condemned)
}

/// Runs `f` while no round does, if the message is not condemned.
pub fn while_still(flight: Option<&Flight>, f: impl FnOnce()) {
    let Some(flight) = flight else { return f() };
    let table = IN_FLIGHT.lock();
    if table.entries.get(flight.0).and_then(Option::as_ref).is_some_and(|entry| !entry.condemned) {
        f();
    }
}

fn is_condemned(flight: &Flight) -> bool {
    let table = IN_FLIGHT.lock();
    table.entries.get(flight.0).and_then(Option::as_ref).is_some_and(|entry| entry.condemned)
}

/// A socket was closed, or is sent: looks for garbage if there may be enough of it. May sleep.
#[inline]
pub fn collect_if_needed() {
    if COUNT.load(Relaxed) > 0 {
        note_event();
    }
}

#[cold]
fn note_event() {
    let due = {
        let mut table = IN_FLIGHT.lock();
        table.events = table.events.saturating_add(1);
        table.events >= table.left || COUNT.load(Relaxed) <= FEW
    };
    if due {
        collect();
    }
}

/// Drops what nobody can receive. Without memory for a round it does nothing.
pub fn collect() {
    let condemned = {
        let mut table = IN_FLIGHT.lock();
        table.events = 0;
        let found = round(&mut table);
        table.left = COUNT.load(Relaxed);
        found
    };
    for socket in condemned {
        let mut heap = Heap::new();
        {
            let mut receiver = socket.queue.receive();
            let Ok(messages) = receiver.all() else { continue };
            for message in messages.iter_mut() {
                if message.rights.as_ref().and_then(|rights| rights.flight.as_ref()).is_some_and(is_condemned)
                    && let Some(rights) = message.rights.take()
                {
                    heap.put(rights);
                }
            }
        }
        drop(heap);
        let _ = give_way();
    }
}

/// The socket by whose file `socket` can be received from: itself, or where it waits to be accepted.
fn door(socket: Arc<Socket>) -> Arc<Socket> {
    let listener = {
        let state = socket.state.lock();
        if state.file.strong_count() > 0 { None } else { state.listener.upgrade() }
    };
    listener.unwrap_or(socket)
}

/// Condemns messages, and returns the sockets in whose queues they lie.
fn round(table: &mut Table) -> Vec<Arc<Socket>> {
    let mut found = Vec::new();
    let mut stack: Vec<Arc<Socket>> = Vec::new();
    let count = COUNT.load(Relaxed);
    if stack.try_reserve(count).is_err() || found.try_reserve(count).is_err() {
        return found;
    }
    let sockets_of = |entry: &Entry, f: &mut dyn FnMut(&Arc<File>, &Arc<Socket>)| {
        for file in entry.files.iter().filter_map(Weak::upgrade) {
            if let Some(socket) = of_file(&file) {
                f(&file, socket);
            }
        }
    };
    let rest = |n: usize| {
        if n.is_multiple_of(TURN) {
            let _ = give_way();
        }
    };
    for (n, entry) in table.entries.iter().flatten().enumerate() {
        sockets_of(entry, &mut |_, socket| socket.mark.clear());
        if let Some(receiver) = entry.receiver.upgrade() {
            door(receiver).mark.clear();
        }
        rest(n);
    }
    for (n, entry) in table.entries.iter_mut().enumerate() {
        let Some(entry) = entry else { continue };
        sockets_of(entry, &mut |_, socket| {
            socket.mark.carried.fetch_add(1, Relaxed);
        });
        if let Some(receiver) = entry.receiver.upgrade() {
            let door = door(receiver);
            entry.next = door.mark.first.swap(n, Relaxed);
        }
        rest(n);
    }
    // Who is open elsewhere can be received from; and who no message carries.
    let reach = |stack: &mut Vec<Arc<Socket>>, socket: &Arc<Socket>| {
        if !socket.mark.alive.swap(true, Relaxed) && socket.mark.first.load(Relaxed) != NONE {
            let _ = stack.try_push(socket.clone());
        }
    };
    for (n, entry) in table.entries.iter().flatten().enumerate() {
        sockets_of(entry, &mut |file, socket| {
            if file.openings() > socket.mark.carried.load(Relaxed) {
                reach(&mut stack, socket);
            }
        });
        if let Some(receiver) = entry.receiver.upgrade() {
            let door = door(receiver);
            if door.mark.carried.load(Relaxed) == 0 {
                reach(&mut stack, &door);
            }
        }
        rest(n);
    }
    let mut seen = 0usize;
    while let Some(socket) = stack.pop() {
        let mut at = socket.mark.first.load(Relaxed);
        while let Some(entry) = table.entries.get(at).and_then(Option::as_ref) {
            sockets_of(entry, &mut |_, socket| reach(&mut stack, socket));
            at = entry.next;
            seen = seen.saturating_add(1);
            rest(seen);
        }
    }
    for (n, entry) in table.entries.iter_mut().flatten().enumerate() {
        if let Some(receiver) = entry.receiver.upgrade()
            && !door(receiver.clone()).mark.alive.load(Relaxed)
        {
            entry.condemned = true;
            let _ = found.try_push(receiver);
        }
        rest(n);
    }
    found
}
