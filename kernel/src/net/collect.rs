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
//! A socket that waits to be accepted is received from by way of the one that listens, and from accept on by itself. A round notes what it took to be the
//! way; if an accept has changed it meanwhile, what hangs on the socket was looked for in the wrong place, and the round condemns nothing.
//!
//! **What it costs.** A round looks at each message of the table, and at each socket in it, four times, and gives way. It is begun by a close or a send once
//! there were as many of these as the last round left messages and sockets, so it costs each a bounded amount; or once four times as long has passed
//! as the last one took, so that rounds never take more than a part of the time. What became garbage between two rounds waits until the next socket
//! is closed or made, or its user is refused to send more.
//!
//! Lock order: a queue's `held` → the table (sleeping) → sockets' states.
#![forbid(unsafe_code)]

use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cell::Cell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering::*, fence};

use sync::{Mutex, TryVec, lock_class};

use super::rights::Heap;
use super::{Socket, of_file};
use crate::arch::time::now;
use crate::errno::Result;
use crate::fs::file::File;
use crate::lock_order as level;
use crate::sched::give_way;

lock_class! { static TABLE: LockClass = ("sockets in flight", level::SocketsInFlight); }

/// No message.
const NONE: usize = usize::MAX;
/// A table with so few messages and sockets is looked at each time.
const FEW: usize = 64;
/// Messages and sockets between two points at which a round gives way.
const TURN: usize = 256;
/// So many times as long as the last round took passes before the next, unless there were enough events: for closes and new sockets, and for who is
/// refused to send.
const REST: u64 = 4;
const REST_IF_REFUSED: u64 = 1;

/// What a round knows of a socket. Under the table's lock.
pub struct Mark {
    /// Messages that carry it.
    carried: AtomicU32,
    /// The last of the messages in its queue.
    first: AtomicUsize,
    alive: AtomicBool,
    /// It is among those whose messages are taken out.
    gathered: AtomicBool,
}

impl Mark {
    pub const fn new() -> Mark {
        Mark {
            carried: AtomicU32::new(0),
            first: AtomicUsize::new(NONE),
            alive: AtomicBool::new(false),
            gathered: AtomicBool::new(false),
        }
    }

    fn clear(&self) {
        self.carried.store(0, Relaxed);
        self.first.store(NONE, Relaxed);
        self.alive.store(false, Relaxed);
        self.gathered.store(false, Relaxed);
    }
}

/// A message with sockets in it.
struct Entry {
    files: Vec<Weak<File>>,
    receiver: Weak<Socket>,
    condemned: bool,
    /// Of one round: by which socket it can be received, and the next message that can be by the same.
    door: usize,
    next: usize,
}

impl Entry {
    /// The message, and the sockets in it.
    fn weight(&self) -> usize {
        self.files.len().saturating_add(1)
    }
}

struct Table {
    entries: Vec<Option<Entry>>,
    free: Vec<usize>,
    /// Messages and the sockets in them.
    weight: usize,
    /// Closes and sends since the last round, and what it left.
    events: usize,
    left: usize,
    /// When the last round ended, and how long it took, in nanoseconds.
    ended: u64,
    took: u64,
}

static IN_FLIGHT: Mutex<Table, level::SocketsInFlight> = Mutex::new(
    Table { entries: Vec::new(), free: Vec::new(), weight: 0, events: 0, left: 0, ended: 0, took: 0 },
    &TABLE,
);
/// Entries of the table: whoever closes a socket looks here and mostly sees that there are none.
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// A message's place in the table.
pub struct Flight(usize);

/// `files` are about to lie in the queue of `receiver`.
///
/// # Errors
/// ENOMEM.
pub fn enter(files: &[Arc<File>], receiver: &Arc<Socket>) -> Result<Flight> {
    let mut sockets = Vec::new();
    for file in files.iter().filter(|file| of_file(file).is_some()) {
        sockets.try_push(Arc::downgrade(file))?;
    }
    let entry =
        Entry { files: sockets, receiver: Arc::downgrade(receiver), condemned: false, door: 0, next: NONE };
    let weight = entry.weight();
    if COUNT.load(Relaxed) > 0 {
        note_events(weight, REST);
    }
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
    table.weight = table.weight.saturating_add(weight);
    COUNT.fetch_add(1, Relaxed);
    Ok(Flight(place))
}

/// The message is out of its queue. False: it is condemned.
pub fn leave(flight: Flight) -> bool {
    let mut table = IN_FLIGHT.lock();
    let entry = table.entries.get_mut(flight.0).and_then(Option::take);
    let _ = table.free.push_reserved(flight.0);
    table.weight = table.weight.saturating_sub(entry.as_ref().map_or(0, Entry::weight));
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

/// A socket was closed: looks for garbage if there may be enough of it. May sleep.
#[inline]
pub fn collect_if_needed() {
    if COUNT.load(Relaxed) > 0 {
        note_events(1, REST);
    }
}

/// A socket is made: looks for garbage that the last closes left, if a round is due by time. May sleep.
#[inline]
pub fn collect_what_is_left() {
    if COUNT.load(Relaxed) > 0 {
        note_events(0, REST);
    }
}

/// Files are refused since their sender has too many under way, which may be garbage. As `collect_what_is_left`.
pub fn collect_for_refused() {
    note_events(0, REST_IF_REFUSED);
}

#[cold]
fn note_events(n: usize, rest: u64) {
    let due = {
        let mut table = IN_FLIGHT.lock();
        table.events = table.events.saturating_add(n);
        let rested = || now().saturating_sub(table.ended) >= table.took.saturating_mul(rest);
        table.events > 0 && (table.events >= table.left || table.weight <= FEW || rested())
    };
    if due {
        collect_in_turn();
    }
}

/// Somebody collects because of events. Who comes meanwhile, or closes sockets by collecting, leaves it to him.
static COLLECTING: AtomicBool = AtomicBool::new(false);

fn collect_in_turn() {
    /// Others may close sockets all the time.
    const ROUNDS: usize = 4;
    for _ in 0..ROUNDS {
        if COLLECTING.swap(true, AcqRel) {
            return;
        }
        collect();
        COLLECTING.store(false, Release);
        if IN_FLIGHT.lock().events == 0 {
            return;
        }
    }
}

/// Drops what nobody can receive. Without memory for a round it does nothing. May sleep; gives way, and is not ended by a signal.
pub fn collect() {
    let condemned = {
        let mut table = IN_FLIGHT.lock();
        let began = now();
        table.events = 0;
        let found = round(&mut table);
        table.left = table.weight;
        table.ended = now();
        table.took = table.ended.saturating_sub(began);
        found
    };
    for socket in condemned {
        let mut heap = Heap::new();
        socket.queue.receive().for_each(|message| {
            if message.rights.as_ref().and_then(|rights| rights.flight.as_ref()).is_some_and(is_condemned)
                && let Some(rights) = message.rights.take()
            {
                heap.put(rights);
            }
        });
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

/// A socket as a number by which it is compared; to the audit of memory it is no address.
fn id(socket: &Arc<Socket>) -> usize {
    Arc::as_ptr(socket).addr() >> 3
}

/// Condemns messages, and returns the sockets in whose queues they lie.
fn round(table: &mut Table) -> Vec<Arc<Socket>> {
    let mut found = Vec::new();
    let mut stack: Vec<Arc<Socket>> = Vec::new();
    let count = COUNT.load(Relaxed);
    // On the stack come sockets in whose queues messages lie, each once.
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
    let steps = Cell::new(0usize);
    let rest = |entry: Option<&Entry>| {
        steps.set(steps.get().saturating_add(entry.map_or(1, Entry::weight)));
        if steps.get() >= TURN {
            steps.set(0);
            let _ = give_way();
        }
    };
    for entry in &table.entries {
        rest(entry.as_ref());
        let Some(entry) = entry else { continue };
        sockets_of(entry, &mut |_, socket| socket.mark.clear());
        if let Some(receiver) = entry.receiver.upgrade() {
            receiver.mark.clear();
            door(receiver).mark.clear();
        }
    }
    for (n, entry) in table.entries.iter_mut().enumerate() {
        rest(entry.as_ref());
        let Some(entry) = entry else { continue };
        sockets_of(entry, &mut |_, socket| {
            socket.mark.carried.fetch_add(1, Relaxed);
        });
        if let Some(receiver) = entry.receiver.upgrade() {
            let door = door(receiver);
            entry.door = id(&door);
            entry.next = door.mark.first.swap(n, Relaxed);
        }
    }
    // Who is open elsewhere can be received from; and who no message carries.
    let reach = |stack: &mut Vec<Arc<Socket>>, socket: &Arc<Socket>| {
        if !socket.mark.alive.swap(true, Relaxed) && socket.mark.first.load(Relaxed) != NONE {
            let _ = stack.try_push(socket.clone());
        }
    };
    for entry in &table.entries {
        rest(entry.as_ref());
        let Some(entry) = entry else { continue };
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
    }
    // Who has accepted a socket and then closed the one that listens is seen here to have accepted.
    fence(Acquire);
    for entry in &table.entries {
        rest(entry.as_ref());
        let Some(entry) = entry else { continue };
        if entry.receiver.upgrade().is_some_and(|receiver| id(&door(receiver)) != entry.door) {
            return Vec::new();
        }
    }
    while let Some(socket) = stack.pop() {
        let mut at = socket.mark.first.load(Relaxed);
        while let Some(entry) = table.entries.get(at).and_then(Option::as_ref) {
            rest(Some(entry));
            sockets_of(entry, &mut |_, socket| reach(&mut stack, socket));
            at = entry.next;
        }
    }
    for entry in &mut table.entries {
        rest(entry.as_ref());
        let Some(entry) = entry else { continue };
        if let Some(receiver) = entry.receiver.upgrade()
            && !door(receiver.clone()).mark.alive.load(Relaxed)
        {
            entry.condemned = true;
            if !receiver.mark.gathered.swap(true, Relaxed) {
                let _ = found.try_push(receiver);
            }
        }
    }
    found
}
