//! The descriptor of who listens: what it is asked by ioctl(2), and when it is ready.
#![forbid(unsafe_code)]

use super::{Answer, Gift, Listener, Outcome, Phase, Waiting};
use crate::errno::{Errno, Result};
use crate::fs::anon;
use crate::fs::file::poll::{self, Poller};
use crate::fs::file::{File, FileOps, OpenFlags};
use crate::memory::user::{UserPtr, UserSlice};
use crate::process::current;
use crate::sched::give_way;
use alloc::sync::Arc;
use core::any::Any;
use core::sync::atomic::{AtomicI64, Ordering};
use sync::{try_arc, try_box};

/// SECCOMP_IOCTL_NOTIF_…: direction and size above, `!` and a number below.
const RECV: u32 = 0xc050_2100;
const SEND: u32 = 0xc018_2101;
const ID_VALID: u32 = 0x4008_2102;
/// With the direction that the first headers gave it.
const ID_VALID_OF_OLD: u32 = 0x8008_2102;
const SET_FLAGS: u32 = 0x4008_2104;
/// Of any size.
const ADDFD: u32 = 0x4000_2103;
const SIZE: u32 = 0x3fff_0000;

/// Bytes of struct seccomp_notif and seccomp_notif_addfd.
const NOTICE: usize = 80;
const GIFT: usize = 24;
const PAGE: usize = 4096;

const CONTINUE: u32 = 1;
const SYNC_WAKE_UP: usize = 1;
/// SECCOMP_ADDFD_FLAG_…
const AT: u32 = 1;
const ANSWER: u32 = 2;
const CLOSE_ON_EXEC: u32 = 0o2_000_000;

struct ListenerFile(Arc<Listener>);

/// The descriptor's open file.
///
/// # Errors
/// ENFILE, ENOMEM.
pub fn open(listener: Arc<Listener>) -> Result<Arc<File>> {
    let ops = try_box(ListenerFile(listener))?;
    File::try_anonymous(anon::nameless()?, "anon_inode:seccomp notify", ops, OpenFlags::READ_WRITE)
}

impl Listener {
    /// The next call that nobody was told of: number, thread and struct seccomp_data, as struct seccomp_notif has them. Sleeps.
    ///
    /// # Errors
    /// ERESTARTSYS: a signal came. ENOENT: the thread has gone, or no thread has the filter any more.
    fn next(&self) -> Result<[u64; NOTICE / 8]> {
        let take = || {
            let mut state = self.state.lock();
            let first = state.waiting.first_new().map(Waiting::shown);
            match first {
                Some(shown) => Some(state.waiting.set_phase(shown[0], Phase::Sent).map(|()| shown)),
                None => self.is_lonely.load(Ordering::SeqCst).then_some(Err(Errno::ENOENT)),
            }
        };
        let shown = match take() {
            Some(shown) => shown,
            None => self.changed.wait(None, take)?,
        }?;
        self.wake(shown[0]);
        // It can be answered now.
        self.changed.wake_and_give_way();
        Ok(shown)
    }

    fn wake(&self, id: u64) {
        let thread = self.state.lock().waiting.find(id).map(|waiting| waiting.thread.clone());
        if let Ok(thread) = thread {
            thread.wake_all();
        }
    }

    /// It could not be told of: somebody else may be.
    fn untell(&self, id: u64) {
        {
            let mut state = self.state.lock();
            if state.waiting.find(id).is_ok_and(|waiting| waiting.phase() == Phase::Sent) {
                // It is there.
                let _ = state.waiting.set_phase(id, Phase::New);
            }
        }
        self.changed.wake_and_give_way();
    }

    /// # Errors
    /// ENOENT: no such call waits. EINPROGRESS: nobody was told of it, or it is answered.
    fn answer(&self, id: u64, answer: Answer) -> Result {
        {
            let mut state = self.state.lock();
            if state.waiting.find(id)?.phase() != Phase::Sent {
                return Err(Errno::EINPROGRESS);
            }
            state.waiting.set_phase(id, Phase::Answered(answer))?;
        }
        self.wake(id);
        Ok(())
    }

    /// Hands a file to the thread that waits, and sleeps until that has it: the number that it has there. Who comes while another does so waits for that.
    ///
    /// # Errors
    /// ENOENT, EINPROGRESS: as `answer`. EBUSY: another gives it something, and this is to answer. ESRCH: the thread has gone. ERESTARTSYS. As dup(2) and dup2(2) in
    /// the thread.
    fn give(&self, id: u64, gift: Gift) -> Result<i32> {
        let (answers, outcome) = (gift.answers, gift.outcome.clone());
        let mut gift = Some(gift);
        let put = || {
            let mut state = self.state.lock();
            let waiting = match state.waiting.find(id) {
                Ok(waiting) => waiting,
                Err(errno) => return Some(Err(errno)),
            };
            if waiting.phase() != Phase::Sent {
                return Some(Err(Errno::EINPROGRESS));
            }
            if waiting.is_given {
                return answers.then_some(Err(Errno::EBUSY));
            }
            (waiting.is_given, waiting.gift) = (true, gift.take());
            Some(Ok(()))
        };
        self.changed.wait(None, put)??;
        self.wake(id);
        let get = || {
            let has_gone = self.state.lock().waiting.find(id).is_err();
            outcome.get().or(has_gone.then_some(Err(Errno::ESRCH)))
        };
        let given = self.changed.wait(None, get);
        let errno = match given {
            Ok(given) => return given,
            Err(errno) => errno,
        };
        // A signal: it is taken back, unless the thread is taking it just now.
        let back = self.state.lock().waiting.find(id).ok().and_then(|waiting| {
            waiting.is_given &= waiting.gift.is_none();
            waiting.gift.take()
        });
        let was_taken = back.is_none();
        drop(back);
        if was_taken {
            loop {
                if let Some(given) = get() {
                    return given;
                }
                if give_way() {
                    break;
                }
            }
        }
        self.changed.wake_and_give_way();
        Err(errno)
    }
}

impl Waiting {
    fn shown(&self) -> [u64; NOTICE / 8] {
        let super::Call { number, machine, pc, arguments: [a, b, c, d, e, f] } = self.call;
        let call = u64::from(number.cast_unsigned()) | u64::from(machine) << 32;
        [self.id, u64::from(self.tid), call, pc, a, b, c, d, e, f]
    }
}

impl ListenerFile {
    fn receive(&self, to: usize) -> Result {
        let buffer = UserPtr::<[u64; NOTICE / 8]>::new(to);
        if buffer.read()? != [0; NOTICE / 8] {
            return Err(Errno::EINVAL);
        }
        let shown = self.0.next()?;
        buffer.write(&shown).inspect_err(|_| self.0.untell(shown[0]))
    }

    fn send(&self, from: usize) -> Result {
        let [id, value, rest] = UserPtr::<[u64; 3]>::new(from).read()?;
        let (error, flags) = (rest as u32 as i32, (rest >> 32) as u32);
        if flags & !CONTINUE != 0 || flags == CONTINUE && (error != 0 || value != 0) {
            return Err(Errno::EINVAL);
        }
        let answer = match (flags, error) {
            (CONTINUE, _) => Answer::IsMade,
            (_, 0) => Answer::Returns(value as isize),
            (_, error) => Answer::Returns(error as isize),
        };
        self.0.answer(id, answer)
    }

    fn is_valid(&self, from: usize) -> Result {
        let id = UserPtr::<u64>::new(from).read()?;
        let is_sent = self.0.state.lock().waiting.find(id)?.phase() == Phase::Sent;
        if is_sent { Ok(()) } else { Err(Errno::ENOENT) }
    }

    fn give(&self, from: usize, size: usize) -> Result<usize> {
        if !(GIFT..PAGE).contains(&size) {
            return Err(Errno::EINVAL);
        }
        let [id, what, how] = UserPtr::<[u64; 3]>::new(from).read()?;
        let mut rest = UserSlice::new(from, size).skip(GIFT);
        let mut bytes = [0; 64];
        let mut left = size.saturating_sub(GIFT);
        while left > 0 {
            let n = left.min(bytes.len());
            let part = bytes.get_mut(..n).ok_or(Errno::EINVAL)?;
            rest.read(part)?;
            if part.iter().any(|byte| *byte != 0) {
                return Err(Errno::E2BIG);
            }
            rest = rest.skip(n);
            left = left.saturating_sub(n);
        }
        let (flags, source) = (what as u32, (what >> 32) as i32);
        let (target, fd_flags) = (how as u32 as i32, (how >> 32) as u32);
        if fd_flags & !CLOSE_ON_EXEC != 0 || flags & !(AT | ANSWER) != 0 || target != 0 && flags & AT == 0 {
            return Err(Errno::EINVAL);
        }
        let file = current().files().get(source)?;
        let at = (flags & AT != 0).then_some(target);
        let outcome = try_arc(Outcome(AtomicI64::new(Outcome::NONE)))?;
        let gift = Gift { file, at, close_on_exec: fd_flags != 0, answers: flags & ANSWER != 0, outcome };
        self.0.give(id, gift).map(|fd| fd as usize)
    }
}

impl FileOps for ListenerFile {
    fn ioctl(&self, _: &File, command: u32, argument: usize) -> Result<usize> {
        match command {
            RECV => self.receive(argument),
            SEND => self.send(argument),
            ID_VALID | ID_VALID_OF_OLD => self.is_valid(argument),
            // Where who is woken runs is the scheduler's to say, which has it run on this CPU if that is better.
            SET_FLAGS if argument & !SYNC_WAKE_UP == 0 => Ok(()),
            _ if command & !SIZE == ADDFD => {
                return self.give(argument, ((command & SIZE) >> 16) as usize);
            }
            _ => Err(Errno::EINVAL),
        }
        .map(|()| 0)
    }

    fn poll<'a>(&'a self, _: &'a File, poller: &mut Poller<'_, 'a>) -> u32 {
        poller.add(&self.0.changed);
        let ready = {
            let waiting = &self.0.state.lock().waiting;
            let new = if waiting.has_new() { poll::IN | poll::RDNORM } else { 0 };
            new | if waiting.has_sent() { poll::OUT | poll::WRNORM } else { 0 }
        };
        if self.0.is_lonely.load(Ordering::SeqCst) { ready | poll::HUP } else { ready }
    }

    /// Its last descriptor is closed.
    fn release(&self, _: &File) {
        self.0.close();
    }

    fn can_read(&self) -> bool {
        false
    }

    fn can_write(&self) -> bool {
        false
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
