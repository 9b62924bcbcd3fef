//! futex(2): decodes and calls `sched::futex`.

use crate::errno::{ERESTARTNOINTR, Errno, Result};
use crate::process::{self, ids};
use crate::sched::futex::{self, ANY, Key, pi};
use crate::sched::{Deadline, TimeClock};
use crate::syscall::time::{read_timespec, sleep_on_clock};
use alloc::sync::Arc;
use linux_raw_sys::general as abi;

/// The deadline of a wait. FUTEX_WAIT counts from now, FUTEX_WAIT_BITSET names a moment.
fn deadline(timeout: Option<u64>, relative: bool, realtime: bool) -> Option<Deadline> {
    let clock = if realtime { TimeClock::Realtime } else { TimeClock::Monotonic };
    timeout.map(|time| sleep_on_clock(clock, time, relative))
}

/// Is `extra` the address of a time? It is looked at before all else, also for commands that are not there.
fn has_timeout(command: u32) -> bool {
    matches!(
        command,
        abi::FUTEX_WAIT
            | abi::FUTEX_LOCK_PI
            | abi::FUTEX_LOCK_PI2
            | abi::FUTEX_WAIT_BITSET
            | abi::FUTEX_WAIT_REQUEUE_PI
    )
}

/// Does the command go by the clock that FUTEX_CLOCK_REALTIME names?
fn has_two_clocks(command: u32) -> bool {
    matches!(command, abi::FUTEX_WAIT_BITSET | abi::FUTEX_WAIT_REQUEUE_PI | abi::FUTEX_LOCK_PI2)
}

/// futex(2). `extra` is the timeout or the second count.
#[expect(clippy::arithmetic_side_effects, reason = "counts of tasks")]
pub fn sys_futex(word: usize, op: u32, value: u32, extra: usize, word2: usize, value3: u32) -> Result<usize> {
    let private = op & abi::FUTEX_PRIVATE_FLAG != 0;
    let realtime = op & abi::FUTEX_CLOCK_REALTIME != 0;
    let command = op & !(abi::FUTEX_PRIVATE_FLAG | abi::FUTEX_CLOCK_REALTIME);
    let timeout = if extra != 0 && has_timeout(command) { Some(read_timespec(extra)?) } else { None };
    if realtime && !has_two_clocks(command) {
        return Err(Errno::ENOSYS);
    }
    let current = process::current();
    let key = |word| Key::of(current.space(), word, private);
    match command {
        abi::FUTEX_WAIT | abi::FUTEX_WAIT_BITSET => {
            let relative = command == abi::FUTEX_WAIT;
            let bits = if relative { ANY } else { value3 };
            if bits == 0 {
                return Err(Errno::EINVAL);
            }
            let deadline = deadline(timeout, relative, realtime);
            let result = futex::wait(key(word)?, word, value, bits, deadline);
            match result {
                // Without a timeout the call is as good when it is made again.
                Err(Errno::EINTR) if deadline.is_none() => Err(crate::errno::ERESTARTSYS),
                other => other.map(|()| 0),
            }
        }
        abi::FUTEX_WAKE | abi::FUTEX_WAKE_BITSET => {
            let bits = if command == abi::FUTEX_WAKE { ANY } else { value3 };
            if bits == 0 {
                return Err(Errno::EINVAL);
            }
            // Linux wakes one waiter even when asked for none, or for less.
            Ok(futex::wake(key(word)?, (value as i32).max(1).cast_unsigned(), bits)? as usize)
        }
        abi::FUTEX_REQUEUE | abi::FUTEX_CMP_REQUEUE => {
            let moved = extra as u32;
            if (value as i32) < 0 || (moved as i32) < 0 {
                return Err(Errno::EINVAL);
            }
            let expected = (command == abi::FUTEX_CMP_REQUEUE).then_some(value3);
            let (from, to) = (key(word)?, key(word2)?);
            let (woken, moved) = futex::requeue(from, to, value, moved, word, expected)?;
            // Linux counts those who were moved for both commands.
            Ok(woken as usize + moved as usize)
        }
        abi::FUTEX_WAKE_OP => wake_op(&key, word, (value, extra as u32), word2, value3),
        abi::FUTEX_LOCK_PI | abi::FUTEX_LOCK_PI2 | abi::FUTEX_TRYLOCK_PI => {
            let deadline = deadline(timeout, false, realtime || command == abi::FUTEX_LOCK_PI);
            let tries = command == abi::FUTEX_TRYLOCK_PI;
            let result = pi::lock(key(word)?, word, current.tid(), deadline, tries, &find);
            result.map(|()| 0).map_err(|errno| if errno == Errno::EINTR { ERESTARTNOINTR } else { errno })
        }
        abi::FUTEX_UNLOCK_PI => pi::unlock(|| key(word), word, current.tid()).map(|()| 0),
        abi::FUTEX_WAIT_REQUEUE_PI => {
            if word == word2 {
                return Err(Errno::EINVAL);
            }
            let deadline = deadline(timeout, false, realtime);
            let to = (key(word2)?, word2);
            pi::wait_requeue((key(word)?, word), to, value, current.tid(), deadline).map(|()| 0)
        }
        abi::FUTEX_CMP_REQUEUE_PI => {
            let limit = extra as u32;
            if (limit as i32) < 0 || word == word2 || value != 1 {
                return Err(Errno::EINVAL);
            }
            let (from, to) = ((key(word)?, word), (key(word2)?, word2));
            pi::requeue(from, to, limit, value3, &find).map(|moved| moved as usize)
        }
        _ => Err(Errno::ENOSYS),
    }
}

/// The part that the thread `tid` has in futexes that lend priority.
fn find(tid: u32) -> Result<Option<Arc<pi::PiTask>>> {
    let part = ids::look_at_thread(tid, |thread| thread.look_at_task(|task| task.pi(tid)));
    Ok(part.flatten().transpose()?.flatten())
}

/// `code` packs an operation, a comparison and an operand for each, as futex(2) draws it; `key` says what a word is.
fn wake_op<'a>(
    key: &dyn Fn(usize) -> Result<Key<'a>>,
    word: usize,
    (count, count2): (u32, u32),
    word2: usize,
    code: u32,
) -> Result<usize> {
    let (operation, comparison) = (code >> 28, code >> 24 & 15);
    let operand = sign_extend(code >> 12 & 0xfff);
    let against = sign_extend(code & 0xfff);
    let operand =
        if operation & abi::FUTEX_OP_OPARG_SHIFT != 0 { 1u32 << (operand & 31) } else { operand as u32 };
    let operation = operation & !abi::FUTEX_OP_OPARG_SHIFT;
    if operation > abi::FUTEX_OP_XOR || comparison > abi::FUTEX_OP_CMP_GE {
        return Err(Errno::ENOSYS);
    }
    let change = |old: u32| match operation {
        abi::FUTEX_OP_SET => operand,
        abi::FUTEX_OP_ADD => old.wrapping_add(operand),
        abi::FUTEX_OP_OR => old | operand,
        abi::FUTEX_OP_ANDN => old & !operand,
        _ => old ^ operand,
    };
    let test = |old: u32| {
        let old = old as i32;
        match comparison {
            abi::FUTEX_OP_CMP_EQ => old == against,
            abi::FUTEX_OP_CMP_NE => old != against,
            abi::FUTEX_OP_CMP_LT => old < against,
            abi::FUTEX_OP_CMP_LE => old <= against,
            abi::FUTEX_OP_CMP_GT => old > against,
            _ => old >= against,
        }
    };
    let (first, second) = (key(word)?, key(word2)?);
    futex::wake_op((first, count), (second, count2), word2, change, test).map(|n| n as usize)
}

fn sign_extend(twelve_bits: u32) -> i32 {
    (twelve_bits << 20) as i32 >> 20
}
