//! A client of one server: its session, and the fids by which it names files to it.
//!
//! **No lock is held while the server is asked**, and every wait ends at a fatal signal. The memory of a message stays with the device until that is done
//! (`device::virtio`), and so does a fid that the message is to make: a fid is never given up, nor its number used again, while the server may still be at it.
//!
//! **A fid is clunked when its last user drops it**, which may be under a spinning lock or in an RCU callback. So dropping puts its note on a list, for which there was
//! memory when it was made, and a thread of the kernel's ([`run`]) tells the server. A server that does not answer within `PATIENCE` is told of no more fids: the
//! next session, which begins with a message that ends all fids, does without.
//!
//! ```text
//!   number ──► walk under way ──► in use ──last user──► GONE ──clunked──► number
//!                    │ refused by the server: number     │ no answer: lost
//!                    └ killed, or a lie: GONE, when the device is done
//! ```
//!
//! Lock order: what drops a fid → the list of those gone; numbers are innermost.
#![forbid(unsafe_code)]

mod changing;

pub use changing::Kept;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sync::{SpinLock, TryVec, lock_class, try_arc, try_box};

use super::message::{self, Ask, Attributes, NO_FID, NO_TAG, NO_USER, Qid, Reader, Sizes, Writer};
use crate::device::virtio::Failure;
use crate::device::virtio::share::{DATA_HEAD, Exchange, Share};
use crate::errno::{EBUSY, EINTR, EIO, ENFILE, ENOMEM, EPROTONOSUPPORT, ETIMEDOUT, Errno, Result};
use crate::fs::vfs::clock;
use crate::lock_order as level;
use crate::sched::{Deadline, Sleep, WaitQueue, Woken, spawn};

lock_class! { static NUMBERS: LockClass = ("fid numbers", level::FidNumbers); }
lock_class! { static GONE_CLASS: LockClass = ("fids gone", level::FidsGone); }

const VERSION: &[u8] = b"9P2000.L";
/// Bytes of a message that are not data, as Linux counts them.
pub const OVERHEAD: u32 = 24;
/// A message has room for this at the least.
pub const MESSAGE_LEAST: u32 = 4096;
/// For how long the thread that clunks waits for one answer, ns.
const PATIENCE: u64 = 5_000_000_000;
/// For how long who mounts waits for the client before, which ends when its last fid is clunked, ns.
const TURN: u64 = 1_000_000_000;
const PAGE: usize = 4096;

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Errno {
        match failure {
            Failure::Broken => EIO,
            Failure::NoMemory => ENOMEM,
            Failure::Woken(Woken::Signal) => EINTR,
            Failure::Woken(Woken::Timeout) => ETIMEDOUT,
        }
    }
}

const LARGE: u32 = 0o100_000;

/// What a file is opened for, as the server is told.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum Opening {
    Read = LARGE,
    Write = LARGE | 1,
    ReadWrite = LARGE | 2,
    Directory = LARGE | 0o200_000,
}

/// What brings messages to a server, and its answers back.
pub trait Channel: Send + Sync {
    /// The most bytes of data in an answer.
    fn data_most(&self) -> usize;

    /// Has `fill` write the message, with a number that no other under way has (`numbered`; else none), and sends it. The answer, how many bytes of it there
    /// are, and the number. Sleeps, killably.
    fn ask(
        &self,
        exchange: Exchange,
        numbered: bool,
        deadline: Option<Deadline>,
        fill: &mut dyn FnMut(&mut [u8], u16) -> Result<usize>,
    ) -> Result<(Exchange, usize, u16)>;
}

/// A device that this client alone has.
pub struct Claimed(&'static Share);

impl Claimed {
    /// # Errors
    /// EBUSY: another client has it. EINTR.
    pub fn try_new(share: &'static Share) -> Result<Claimed> {
        let deadline = clock::since_boot().saturating_add(TURN).into();
        match share.claim(deadline) {
            Ok(()) => Ok(Claimed(share)),
            Err(Failure::Woken(Woken::Timeout)) => Err(EBUSY),
            Err(failure) => Err(failure.into()),
        }
    }
}

impl Drop for Claimed {
    fn drop(&mut self) {
        self.0.disclaim();
    }
}

impl Channel for Claimed {
    fn data_most(&self) -> usize {
        self.0.data_most()
    }

    fn ask(
        &self,
        mut exchange: Exchange,
        numbered: bool,
        deadline: Option<Deadline>,
        fill: &mut dyn FnMut(&mut [u8], u16) -> Result<usize>,
    ) -> Result<(Exchange, usize, u16)> {
        let tag = if numbered { Some(self.0.tag(deadline)?) } else { None };
        let number = tag.as_ref().map_or(NO_TAG, |tag| tag.number());
        let len = fill(exchange.message(), number)?;
        let (exchange, written) = self.0.ask(exchange, len, tag, deadline)?;
        Ok((exchange, written, number))
    }
}

/// Numbers of fids.
struct Numbers {
    /// All from this on were never used.
    next: u32,
    free: Vec<u32>,
}

pub struct Client {
    channel: Box<dyn Channel>,
    /// The longest message.
    pub message_most: u32,
    /// How many changes of files this client has asked for and the server is done with (`remote::Change`).
    pub changes: AtomicU64,
    numbers: SpinLock<Numbers, level::FidNumbers>,
    /// It did not answer in time.
    is_stuck: AtomicBool,
}

/// What is left of a fid when nobody uses it: what the server is to be told.
struct Note {
    client: Arc<Client>,
    number: u32,
    /// The server may know it.
    is_known: AtomicBool,
    next: Option<Box<Note>>,
}

/// A file as the server is asked about it.
pub struct Fid(Option<Box<Note>>);

static GONE: SpinLock<Option<Box<Note>>, level::FidsGone> = SpinLock::new(None, &GONE_CLASS);
static CAME: WaitQueue = WaitQueue::new();

impl Drop for Fid {
    fn drop(&mut self) {
        let Some(mut note) = self.0.take() else { return };
        let mut gone = GONE.lock();
        note.next = gone.take();
        *gone = Some(note);
        drop(gone);
        CAME.wake_one();
    }
}

impl Fid {
    fn number(&self) -> u32 {
        self.0.as_ref().map_or(NO_FID, |note| note.number)
    }

    /// The server has refused to make it.
    fn refuse(&self) {
        if let Some(note) = &self.0 {
            note.is_known.store(false, Relaxed);
        }
    }
}

/// The thread that tells servers of fids that nobody uses any more.
///
/// # Errors
/// ENOMEM.
pub fn start() -> Result {
    static IS_STARTED: AtomicBool = AtomicBool::new(false);
    if IS_STARTED.swap(true, Relaxed) {
        return Ok(());
    }
    spawn(None, run, 0).map(drop).inspect_err(|_| IS_STARTED.store(false, Relaxed))
}

fn run(_: usize) {
    loop {
        // No signal comes to a thread of the kernel's.
        if let Ok(note) = CAME.wait_until(Sleep::Killable, None, take_gone) {
            note.let_go();
        }
    }
}

fn take_gone() -> Option<Box<Note>> {
    let mut gone = GONE.lock();
    let mut note = gone.take()?;
    *gone = note.next.take();
    Some(note)
}

/// Does the thread's work until none is left.
#[cfg(test)]
pub fn let_go_all() {
    while let Some(note) = take_gone() {
        note.let_go();
    }
}

impl Note {
    fn let_go(&self) {
        let client = &self.client;
        if self.is_known.load(Relaxed) {
            if client.is_stuck.load(Relaxed) {
                return;
            }
            let deadline = clock::since_boot().saturating_add(PATIENCE).into();
            // A server that does not know it says so, and has it no more either.
            if client.clunk(self.number, deadline) == Err(ETIMEDOUT) {
                client.is_stuck.store(true, Relaxed);
                return;
            }
        }
        // Without memory the number is lost, of which there are many.
        let _ = client.numbers.lock().free.try_push(self.number);
    }
}

impl Client {
    /// Begins a session in which no message is longer than `message_most`, or than the server says. May sleep.
    ///
    /// # Errors
    /// EPROTONOSUPPORT: the server does not speak 9P2000.L.
    pub fn try_new(channel: Box<dyn Channel>, message_most: u32) -> Result<Arc<Client>> {
        let numbers = Numbers { next: 0, free: Vec::new() };
        let client = Client {
            channel,
            message_most,
            changes: AtomicU64::new(0),
            numbers: SpinLock::new(numbers, &NUMBERS),
            is_stuck: AtomicBool::new(false),
        };
        let (most, is_it) = client.ask_unnumbered(
            |message| {
                message.u32(message_most).text(VERSION);
            },
            |answer| message::version(answer).map(|(most, version)| (most, version == VERSION)),
        )?;
        if !is_it {
            return Err(EPROTONOSUPPORT);
        }
        if !(MESSAGE_LEAST..=message_most).contains(&most) {
            return Err(EIO);
        }
        Ok(try_arc(Client { message_most: most, ..client })?)
    }

    /// Bytes of data in an answer, a whole number of pages where there is room for one.
    pub fn data_most(&self) -> usize {
        let room = self.message_most.saturating_sub(OVERHEAD) as usize;
        let room = room.min(self.channel.data_most());
        if room < PAGE { room } else { room & !(PAGE.wrapping_sub(1)) }
    }

    fn ask_unnumbered<R>(
        &self,
        fields: impl Fn(&mut Writer<'_>),
        read: impl FnOnce(Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        let (mut exchange, written, tag) =
            self.exchange(Exchange::try_new(0)?, Ask::Version, None, &fields)?;
        read(Reader::new(exchange.head(), written, Ask::Version, tag)?)
    }

    fn exchange(
        &self,
        exchange: Exchange,
        kind: Ask,
        deadline: Option<Deadline>,
        fields: &dyn Fn(&mut Writer<'_>),
    ) -> Result<(Exchange, usize, u16)> {
        let sent = exchange.sent();
        let mut fill = |room: &mut [u8], tag: u16| {
            let mut message = Writer::new(room, kind, tag);
            fields(&mut message);
            message.more(sent);
            message.end()
        };
        self.channel.ask(exchange, kind != Ask::Version, deadline, &mut fill)
    }

    /// A question whose answer is short.
    fn ask<R>(
        &self,
        kind: Ask,
        fields: impl Fn(&mut Writer<'_>),
        read: impl FnOnce(Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        let (mut exchange, written, tag) = self.exchange(Exchange::try_new(0)?, kind, None, &fields)?;
        read(Reader::new(exchange.head(), written, kind, tag)?)
    }

    /// A question that makes `fid`.
    fn make<R>(
        &self,
        fid: &Arc<Fid>,
        kind: Ask,
        fields: impl Fn(&mut Writer<'_>),
        read: impl FnOnce(Reader<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut exchange = Exchange::try_new(0)?;
        exchange.keep(fid.clone())?;
        let (mut exchange, written, tag) = self.exchange(exchange, kind, None, &fields)?;
        let answer = Reader::new(exchange.head(), written, kind, tag);
        // EIO may be a lie.
        if answer.as_ref().is_err_and(|error| *error != EIO) {
            fid.refuse();
        }
        read(answer?)
    }

    fn new_fid(self: &Arc<Self>) -> Result<Arc<Fid>> {
        let number = {
            let mut numbers = self.numbers.lock();
            match numbers.free.pop() {
                Some(number) => number,
                None => {
                    let next = numbers.next.checked_add(1).filter(|&next| next < NO_FID).ok_or(ENFILE)?;
                    core::mem::replace(&mut numbers.next, next)
                }
            }
        };
        let is_known = AtomicBool::new(true);
        let note = try_box(Note { client: self.clone(), number, is_known, next: None })?;
        Ok(try_arc(Fid(Some(note)))?)
    }

    /// The root of the tree that the server shows as `name`.
    pub fn attach(self: &Arc<Self>, name: &[u8]) -> Result<(Arc<Fid>, Qid)> {
        let fid = self.new_fid()?;
        let number = fid.number();
        let root = self.make(
            &fid,
            Ask::Attach,
            |message| {
                message.u32(number).u32(NO_FID).text(b"root").text(name).u32(NO_USER);
            },
            message::attached,
        )?;
        Ok((fid, root))
    }

    /// What the directory has under that name.
    pub fn walk(self: &Arc<Self>, from: &Fid, name: &[u8]) -> Result<(Arc<Fid>, Qid)> {
        let fid = self.new_fid()?;
        let (old, new) = (from.number(), fid.number());
        let fields = |message: &mut Writer<'_>| {
            message.u32(old).u32(new).u16(1).text(name);
        };
        let found = self.make(&fid, Ask::Walk, fields, message::walked)?;
        Ok((fid, found))
    }

    /// One more fid of the same file.
    fn copy(self: &Arc<Self>, from: &Fid) -> Result<Arc<Fid>> {
        let fid = self.new_fid()?;
        let (old, new) = (from.number(), fid.number());
        self.make(
            &fid,
            Ask::Walk,
            |message| {
                message.u32(old).u32(new).u16(0);
            },
            message::copied,
        )?;
        Ok(fid)
    }

    /// Opens a file by a fid of its own.
    pub fn open(self: &Arc<Self>, from: &Fid, what: Opening) -> Result<(Arc<Fid>, Qid)> {
        let fid = self.copy(from)?;
        let number = fid.number();
        let opened = self.ask(
            Ask::Open,
            |message| {
                message.u32(number).u32(what as u32);
            },
            message::opened,
        )?;
        Ok((fid, opened))
    }

    /// A fid from which the file's extended attribute `name` is read, or where that is empty the list of their names; and how long it is.
    pub fn xattr(self: &Arc<Self>, from: &Fid, name: &[u8]) -> Result<(Arc<Fid>, u64)> {
        let fid = self.new_fid()?;
        let (old, new) = (from.number(), fid.number());
        let fields = |message: &mut Writer<'_>| {
            message.u32(old).u32(new).text(name);
        };
        let size = self.make(&fid, Ask::XattrWalk, fields, message::xattr_size)?;
        Ok((fid, size))
    }

    pub fn attributes(&self, fid: &Fid) -> Result<Attributes> {
        let number = fid.number();
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).u64(message::ASKED);
        };
        self.ask(Ask::Attributes, fields, message::attributes)
    }

    pub fn sizes(&self, fid: &Fid) -> Result<Sizes> {
        let number = fid.number();
        self.ask(
            Ask::Statfs,
            |message| {
                message.u32(number);
            },
            message::sizes,
        )
    }

    pub fn link(&self, fid: &Fid) -> Result<Vec<u8>> {
        let number = fid.number();
        let most = message::HEADER.saturating_add(2).saturating_add(message::LINK_MOST);
        let room = self.data_most().min(most.saturating_sub(DATA_HEAD));
        let exchange = Exchange::try_new(room)?;
        let (mut exchange, written, tag) = self.exchange(exchange, Ask::ReadLink, None, &|message| {
            message.u32(number);
        })?;
        let mut answer = Vec::new();
        exchange.copy(written, &mut answer)?;
        message::link(Reader::new(&answer, written, Ask::ReadLink, tag)?)
    }

    /// Reads up to `len` bytes, of at most `data_most`, from `at` on: the answer, and how many there are in it.
    pub fn read(&self, kind: Ask, fid: &Fid, at: u64, len: usize) -> Result<(Exchange, usize)> {
        let number = fid.number();
        let len = len.min(self.data_most());
        let asked = u32::try_from(len).map_err(|_| EIO)?;
        let fields = |message: &mut Writer<'_>| {
            message.u32(number).u64(at).u32(asked);
        };
        let (mut exchange, written, tag) = self.exchange(Exchange::try_new(len)?, kind, None, &fields)?;
        let count = message::data(Reader::new(exchange.head(), written, kind, tag)?, written, len)?;
        Ok((exchange, count))
    }

    fn clunk(&self, number: u32, deadline: Deadline) -> Result {
        let exchange = Exchange::try_new(0)?;
        let (mut exchange, written, tag) =
            self.exchange(exchange, Ask::Clunk, Some(deadline), &|message| {
                message.u32(number);
            })?;
        Reader::new(exchange.head(), written, Ask::Clunk, tag)?.end()
    }
}
