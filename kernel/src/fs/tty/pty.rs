//! Pseudo-terminals (pty(7)): a terminal whose other end is a file, the master.
//!
//! What the master writes is received by the line discipline, and what is written to the terminal is kept for the master
//! to read; a writer waits while there is much of it. The last close of the terminal shows the master an end (EIO), and the
//! master's close hangs the terminal up. A terminal's node in devpts lasts as long as its master.
//!
//! Lock order: as in `tty`; `output` is innermost, and so is the table of terminals.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::sync::atomic::{
    AtomicBool, AtomicU32,
    Ordering::{Relaxed, SeqCst},
};

use crate::lock_order as level;
use sync::level::Held;
use sync::{SpinLock, TryVec, lock_class, try_arc, try_box};

use super::control::{TIOCEXCL, TIOCGEXCL, TIOCNXCL};
use super::devpts;
use super::input::ROOM;
use super::packets::Packets;
use super::termios::{ICANON, Termios};
use super::{Line, Tty, control};
use crate::errno::{EAGAIN, EINVAL, EIO, ENOSPC, Result};
use crate::fs::caller;
use crate::fs::file::async_io::{AsyncQueues, running_process};
use crate::fs::file::buffer::{Input, Output};
use crate::fs::file::ioctl::{FIONREAD, get_u32, put_u32};
use crate::fs::file::poll::{self, PollQueue, Poller};
use crate::fs::file::{File, FileOps, OpenFlags, Order};
use crate::fs::vfs::device_number;

lock_class! {
    static OUTPUT: LockClass = ("pty output", level::PtyOutput);
    static TABLE: LockClass = ("pty table", level::PtyTable);
}

/// Terminals at once, as on Linux.
pub const MOST: usize = 4096;
/// A writer waits while the master has this much to read.
const FULL: usize = 4096;
/// Echo that nobody reads is dropped from here on.
const LIMIT: usize = 1 << 16;
/// First major number of the terminals' devices.
pub const MAJOR: u64 = 136;

/// The terminals, by number.
static TERMINALS: SpinLock<Vec<Option<Arc<Tty>>>, level::PtyTable> = SpinLock::new(Vec::new(), &TABLE);

/// A terminal's end of the line.
pub struct Pty {
    number: u32,
    output: SpinLock<VecDeque<u8>, level::PtyOutput>,
    /// The master looks again: there is something to read, or room to write.
    changed: PollQueue,
    locked: AtomicBool,
    /// The master is gone.
    ended: AtomicBool,
    slaves: AtomicU32,
    /// Nobody has the terminal open any more.
    slave_gone: AtomicBool,
    packets: Packets,
}

impl Pty {
    pub fn device(&self) -> u64 {
        device_number::number(MAJOR + u64::from(self.number / 256), u64::from(self.number % 256))
    }

    pub fn is_full(&self) -> bool {
        self.output.lock().len() >= FULL
    }

    pub fn is_ended(&self) -> bool {
        self.ended.load(SeqCst)
    }

    /// Keeps what was written, cooked, for the master.
    #[expect(clippy::arithmetic_side_effects, reason = "both are lengths in memory")]
    pub fn put(&self, bytes: &[u8], order: &mut Held<'_, level::TtyOutput>) {
        {
            let mut output = self.output.lock_in(order);
            if output.len() + bytes.len() > LIMIT || output.try_reserve(bytes.len()).is_err() {
                return;
            }
            output.extend(bytes);
        }
        self.changed.wake_for_io();
    }

    /// Tells the master what has happened, if it wants to know.
    pub fn tell(&self, set: u8, cleared: u8) {
        if self.packets.tell(set, cleared) {
            self.changed.wake_for_io();
        }
    }

    /// The settings have changed; as `Packets::tell_settings`.
    pub fn settings_changed(&self, flow: Option<bool>, whole: bool) {
        if self.packets.tell_settings(flow, whole) {
            self.changed.wake_for_io();
        }
    }

    /// Somebody read from the terminal.
    pub fn input_taken(&self) {
        self.changed.wake();
    }

    /// The terminal is being opened.
    ///
    /// # Errors
    /// EIO: it is locked, or its master is gone.
    pub fn slave_entered(&self) -> Result {
        if self.locked.load(SeqCst) || self.is_ended() {
            return Err(EIO);
        }
        self.slaves.fetch_add(1, SeqCst);
        self.slave_gone.store(false, SeqCst);
        Ok(())
    }

    pub fn slave_left(&self) {
        if self.slaves.fetch_sub(1, SeqCst) == 1 {
            self.slave_gone.store(true, SeqCst);
            self.changed.wake();
        }
    }
}

/// Terminal `n`, if its master is there.
fn find(n: u64) -> Option<Arc<Tty>> {
    TERMINALS.lock().get(usize::try_from(n).ok()?)?.clone()
}

/// Opens the terminal with this device number: /dev/pts/N.
#[expect(clippy::arithmetic_side_effects, reason = "majors of terminals begin at MAJOR")]
pub fn open_slave(device: u64, flags: OpenFlags) -> Result<Box<dyn FileOps>> {
    let number = (device_number::major(device) - MAJOR) * 256 + device_number::minor(device);
    super::open::open(find(number).ok_or(EIO)?, flags)
}

/// How many there are.
pub fn count() -> usize {
    TERMINALS.lock().iter().flatten().count()
}

/// Opens /dev/ptmx: makes a terminal and gives its master.
pub fn open_master() -> Result<Box<dyn FileOps>> {
    let tty = {
        let mut table = TERMINALS.lock();
        let number = table.iter().position(Option::is_none).unwrap_or(table.len());
        if number >= MOST {
            return Err(ENOSPC);
        }
        let pty = Pty {
            number: number as u32,
            output: SpinLock::new(VecDeque::new(), &OUTPUT),
            changed: PollQueue::new(),
            locked: AtomicBool::new(true),
            ended: AtomicBool::new(false),
            slaves: AtomicU32::new(0),
            slave_gone: AtomicBool::new(false),
            packets: Packets::new(),
        };
        let tty = try_arc(Tty::new(Line::Pseudo(pty), Termios::PSEUDO))?;
        match table.get_mut(number) {
            Some(slot) => *slot = Some(tty.clone()),
            None => table.try_push(Some(tty.clone()))?,
        }
        tty
    };
    // From here on its drop takes the terminal out of the table.
    let master = Master { tty, closed: AtomicBool::new(false), exclusive: AtomicBool::new(false) };
    let pty = master.pty()?;
    devpts::add(pty.number, pty.device())?;
    Ok(try_box(master)?)
}

/// The other end of a terminal.
pub struct Master {
    tty: Arc<Tty>,
    closed: AtomicBool,
    /// TIOCEXCL of this end, which nobody opens a second time.
    exclusive: AtomicBool,
}

impl Master {
    fn pty(&self) -> Result<&Pty> {
        match &self.tty.line {
            Line::Pseudo(pty) => Ok(pty),
            Line::Port(_) | Line::Console(..) => Err(EIO),
        }
    }

    /// The terminal ends with its master.
    fn close(&self) {
        if self.closed.swap(true, SeqCst) {
            return;
        }
        let Ok(pty) = self.pty() else { return };
        pty.ended.store(true, SeqCst);
        self.tty.hang_up();
        pty.changed.wake();
        devpts::remove(pty.number);
        let gone = TERMINALS.lock().get_mut(pty.number as usize).and_then(Option::take);
        drop(gone);
    }

    /// Bytes that the terminal's input takes now.
    fn room(&self) -> usize {
        let canonical = self.tty.settings().local(ICANON);
        let input = self.tty.input.lock();
        // An unfinished line that is too long loses its end, as on Linux: whoever writes has to come to the end of it.
        if canonical && !input.has_line() { ROOM } else { ROOM.saturating_sub(input.pending()) }
    }
}

impl Drop for Master {
    fn drop(&mut self) {
        self.close();
    }
}

const TIOCPKT: u32 = 0x5420;
const TIOCGPKT: u32 = 0x8004_5438;
const TCFLSH: u32 = 0x540b;
const TIOCGPGRP: u32 = 0x540f;
const TIOCGSID: u32 = 0x5429;
pub(super) const TIOCGPTPEER: u32 = 0x5441;
const TIOCGPTN: u32 = 0x8004_5430;
const TIOCSPTLCK: u32 = 0x4004_5431;
const TIOCSIG: u32 = 0x4004_5436;
const TIOCGPTLCK: u32 = 0x8004_5439;

impl FileOps for Master {
    #[expect(clippy::arithmetic_side_effects, reason = "no more is read than the buffer holds")]
    fn read(&self, file: &File, _: u64, out: &mut Output<'_>, _: Order<'_>) -> Result<usize> {
        let pty = self.pty()?;
        let mut buffer = [0; 256];
        if out.left() == 0 {
            return Ok(0);
        }
        let ended = || pty.slave_gone.load(SeqCst) || pty.is_ended();
        let ready = || (pty.packets.has_news() || !pty.output.lock().is_empty() || ended()).then_some(());
        let mut kept = None;
        if ready().is_none() {
            if file.nonblocking() {
                return Err(EAGAIN);
            }
            kept = Some(file.keep_open()?);
            pty.changed.wait(None, ready)?;
        }
        if let Some(news) = pty.packets.take() {
            out.put(&[news]);
            return out.result();
        }
        let mut with_head = pty.packets.is_on();
        loop {
            let mut n = 0;
            {
                let mut output = pty.output.lock();
                if with_head && !output.is_empty() {
                    // Data, as the byte before it says.
                    with_head = false;
                    drop(output);
                    out.put(&[0]);
                    continue;
                }
                for (to, from) in buffer.iter_mut().zip(output.iter()).take(out.left()) {
                    *to = *from;
                    n += 1;
                }
                output.drain(..n);
            }
            if n == 0 || out.put(buffer.get(..n).unwrap_or(&[])) < n || out.left() == 0 {
                break;
            }
        }
        self.tty.wake_writers();
        drop(kept);
        match out.result() {
            Ok(0) => Err(EIO),
            result => result,
        }
    }

    fn write(&self, file: &File, _: u64, from: &mut Input<'_>, _: Order<'_>) -> Result<usize> {
        let pty = self.pty()?;
        let mut buffer = [0; 256];
        let mut kept = None;
        while from.left() > 0 {
            if pty.slave_gone.load(SeqCst) || pty.is_ended() {
                return if from.done() > 0 { Ok(from.done()) } else { Err(EIO) };
            }
            let room = self.room();
            if room == 0 {
                if file.nonblocking() {
                    return if from.done() > 0 { Ok(from.done()) } else { Err(EAGAIN) };
                }
                let more =
                    || (self.room() > 0 || pty.slave_gone.load(SeqCst) || pty.is_ended()).then_some(());
                if kept.is_none() {
                    kept = Some(file.keep_open()?);
                }
                if let Err(e) = pty.changed.wait(None, more) {
                    return if from.done() > 0 { Ok(from.done()) } else { Err(e) };
                }
                continue;
            }
            let most = room.min(buffer.len());
            let n = from.take(buffer.get_mut(..most).unwrap_or(&mut []));
            if n == 0 {
                break;
            }
            self.tty.receive(buffer.get(..n).unwrap_or(&[]));
            if crate::sched::give_way() {
                break;
            }
        }
        from.result()
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        let Ok(pty) = self.pty() else { return poll::ERR };
        poller.add(&pty.changed);
        let mut events = 0;
        if !pty.output.lock().is_empty() {
            events |= poll::IN | poll::RDNORM;
        }
        if pty.packets.has_news() {
            events |= poll::PRI | poll::IN | poll::RDNORM;
        }
        if pty.slave_gone.load(SeqCst) {
            events |= poll::HUP;
        }
        if self.room() > 0 {
            events |= poll::OUT | poll::WRNORM;
        }
        events
    }

    fn async_queues(&self) -> Option<AsyncQueues<'_>> {
        let input = self.pty().ok().map(|pty| &pty.changed);
        Some(AsyncQueues { input, output: None, owner: Some(running_process()) })
    }

    fn ioctl(&self, file: &File, command: u32, argument: usize) -> Result<usize> {
        let pty = self.pty()?;
        match command {
            TIOCEXCL | TIOCNXCL => {
                self.exclusive.store(command == TIOCEXCL, SeqCst);
                Ok(0)
            }
            TIOCGEXCL => put_u32(argument, u32::from(self.exclusive.load(SeqCst))),
            TIOCGPTN => put_u32(argument, pty.number),
            TIOCSPTLCK => {
                pty.locked.store(get_u32(argument)? != 0, SeqCst);
                Ok(0)
            }
            TIOCGPTLCK => put_u32(argument, u32::from(pty.locked.load(SeqCst))),
            TIOCGPTPEER => {
                let flags = OpenFlags::from_bits_retain(argument as u32);
                let (files, limit) = (caller::files(), caller::descriptor_limit());
                files.check_room(limit)?;
                let peer = devpts::open(pty.number, flags)?;
                Ok(files.install(peer, 0, limit, flags.contains(OpenFlags::CLOEXEC))? as usize)
            }
            TIOCSIG => {
                let signal = argument as u32;
                if !(1..=31).contains(&signal) {
                    return Err(EINVAL);
                }
                caller::signal_group(self.tty.told(), signal);
                Ok(0)
            }
            TIOCPKT => {
                pty.packets.switch(get_u32(argument)? != 0);
                Ok(0)
            }
            TIOCGPKT => put_u32(argument, u32::from(pty.packets.is_on())),
            // What the master has not read.
            TCFLSH => match argument {
                0 | 2 => {
                    pty.output.lock().clear();
                    self.tty.wake_writers();
                    Ok(0)
                }
                1 => Ok(0),
                _ => Err(EINVAL),
            },
            FIONREAD => {
                let n = pty.output.lock().len();
                put_u32(argument, n as u32)
            }
            TIOCGPGRP => put_u32(argument, self.tty.foreground()),
            TIOCGSID => match self.tty.session.load(Relaxed) {
                0 => Err(crate::errno::ENOTTY),
                session => put_u32(argument, session),
            },
            _ => control::ioctl(&self.tty, file, command, argument),
        }
    }

    fn release(&self, _: &File) {
        self.close();
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
