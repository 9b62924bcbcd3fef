//! What programs call, on the console: for those who look for a fault (boot option `strace`), and for the page of calls (`strace=shown`).
//!
//! `strace=shown` tells each call once for each program: what was asked for (commands and flags, and the first words of structures that hold
//! some) and whether it was done. tests/table reads it. Nothing here runs unless the kernel's command line has one of these words.
#![forbid(unsafe_code)]

use super::table;
use crate::errno::{EINTR, ERESTARTSYS, Result};
use crate::memory::user::UserPtr;
use crate::process as proc;
use crate::sched;
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::fmt;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use once_cell::race::OnceBox;
use sync::{TryVec, try_box};

/// `strace` is.
static LOGGED: AtomicBool = AtomicBool::new(false);

/// What `strace=shown` has told, as hashes, none of them zero. What finds no place is told again.
static TOLD: OnceBox<Places> = OnceBox::new();
struct Places(Vec<AtomicU64>);
const PLACES: usize = 1 << 16;

/// Looks for the options on the kernel's command line. With one, be it one of `plant`, the running task is watched, from which all others come.
pub fn configure(command_line: &str) {
    for word in command_line.split_ascii_whitespace() {
        match word {
            "strace" => {
                LOGGED.store(true, Ordering::Relaxed);
                sched::current().watch();
            }
            "strace=shown" => {
                if let Ok(places) = places() {
                    let _ = TOLD.set(places);
                    sched::current().watch();
                }
            }
            _ if super::plant::configure(word) => sched::current().watch(),
            _ => {}
        }
    }
}

fn places() -> Result<Box<Places>> {
    let mut places = Vec::new();
    for _ in 0..PLACES {
        places.try_push(AtomicU64::new(0))?;
    }
    Ok(try_box(Places(places))?)
}

/// A call that has ended.
#[cold]
pub fn trace(number: usize, args: [usize; 6], result: &Result<usize>) {
    match TOLD.get() {
        Some(Places(told)) => show(told, number, args, result),
        None if LOGGED.load(Ordering::Relaxed) => log(number, args, result),
        None => {}
    }
}

fn log(number: usize, args: [usize; 6], result: &Result<usize>) {
    let name = table::name(number).unwrap_or("?");
    let tid = proc::current().tid();
    match result {
        Ok(value) => crate::log::tell(crate::log::INFO, format_args!("{tid} {name}({args:x?}) = {value:#x}")),
        Err(errno) => crate::log::tell(crate::log::INFO, format_args!("{tid} {name}({args:x?}) = {errno:?}")),
    }
}

/// Which arguments of a call say what is to be done; a bit for each.
#[derive(Clone, Copy)]
pub struct Asks {
    /// Those that are commands and flags, or depend on a command.
    words: u8,
    /// Those that lead to structures with flags among their first words.
    structures: u8,
}

impl Asks {
    pub const NOTHING: Asks = Asks { words: 0, structures: 0 };

    /// Of a row's arguments, as they are written there.
    #[expect(clippy::arithmetic_side_effects, reason = "evaluated when the kernel is built")]
    pub const fn of(arguments: &str) -> Asks {
        const WORDS: [&str; 2] = ["Options", "Extra"];
        const STRUCTURES: [&str; 12] = [
            "SIGACTION",
            "EPOLL_EVENT",
            "CLONE_ARGS",
            "SIGEVENT",
            "SCHED_ATTR",
            "STACK",
            "POLLFD",
            "Extra(0)",
            "CAP_HEADER",
            "TIMEX",
            "SEMBUF",
            "MOUNT_ATTR",
        ];
        let mut asks = Asks::NOTHING;
        let text = arguments.as_bytes();
        let (mut at, mut depth, mut bit) = (0, 0, 1u8);
        while at < text.len() {
            match text[at] {
                b'(' => depth += 1,
                b')' => depth -= 1,
                b',' if depth == 0 => bit <<= 1,
                _ => {}
            }
            if any(text, at, &WORDS) {
                asks.words |= bit;
            }
            if any(text, at, &STRUCTURES) {
                asks.structures |= bit;
            }
            at += 1;
        }
        asks
    }
}

/// Is one of a row's arguments a path, or may it have one within: a socket's address, a message's, an option of a file system?
#[expect(clippy::arithmetic_side_effects, reason = "evaluated when the kernel is built")]
pub const fn has_path(arguments: &str) -> bool {
    const WORDS: [&str; 4] = ["Path", "SOCKADDR", "MSGHDR", "FSCONFIG"];
    let mut at = 0;
    while at < arguments.len() {
        if any(arguments.as_bytes(), at, &WORDS) {
            return true;
        }
        at += 1;
    }
    false
}

/// Does one of the words stand at `at`?
#[expect(clippy::arithmetic_side_effects, reason = "evaluated when the kernel is built")]
const fn any(text: &[u8], at: usize, words: &[&str]) -> bool {
    let mut n = 0;
    while n < words.len() {
        let word = words[n].as_bytes();
        let mut same = 0;
        while same < word.len() && at + same < text.len() && text[at + same] == word[same] {
            same += 1;
        }
        if same == word.len() {
            return true;
        }
        n += 1;
    }
    false
}

/// One line of the record: `shown: PROGRAM CALL ARGUMENTS RESULT`. An argument is `-` (not told), a number, or after `@` the two first words
/// that it leads to.
struct Line {
    program: [u8; 16],
    number: usize,
    arguments: [Told; 6],
    error: i32,
}

#[derive(Clone, Copy)]
enum Told {
    Nothing,
    Word(usize),
    Structure(usize, [u64; 2]),
}

fn show(told: &[AtomicU64], number: usize, args: [usize; 6], result: &Result<usize>) {
    let error = match result {
        Ok(_) => 0,
        // A signal came; the program sees this unless the call is made again.
        Err(errno) if errno.0 >= ERESTARTSYS.0 => EINTR.0,
        Err(errno) => errno.0,
    };
    let asks = table::asks(number);
    let mut line =
        Line { program: proc::current().comm_padded(), number, arguments: [Told::Nothing; 6], error };
    for (n, (told, value)) in line.arguments.iter_mut().zip(args).enumerate() {
        let structure = asks.structures >> n & 1 != 0;
        if let Some(words) = structure.then(|| UserPtr::<[u64; 2]>::new(value).read().ok()).flatten() {
            *told = Told::Structure(value, words);
        } else if asks.words >> n & 1 != 0 {
            *told = Told::Word(value);
        }
    }
    if line.is_new(told) {
        // Also while a program has turned the console off.
        crate::log::tell(0, format_args!("shown: {line}"));
    }
}

impl Line {
    fn hash(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29);
        for byte in self.program {
            mix(u64::from(byte));
        }
        mix(self.number as u64);
        mix(u64::from(self.error.cast_unsigned()));
        for (n, told) in self.arguments.iter().enumerate() {
            match told {
                Told::Nothing => {}
                Told::Word(value) => mix(*value as u64 ^ (n as u64) << 60),
                Told::Structure(_, words) => words.iter().for_each(|word| mix(*word)),
            }
        }
        hash.max(1)
    }

    fn is_new(&self, told: &[AtomicU64]) -> bool {
        let hash = self.hash();
        let start = hash as usize;
        for n in 0..16 {
            let Some(place) = told.get(start.wrapping_add(n) % PLACES) else { return true };
            match place.compare_exchange(0, hash, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(other) if other == hash => return false,
                Err(_) => {}
            }
        }
        true
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.program.iter().take_while(|byte| **byte != 0) {
            let byte = if byte.is_ascii_graphic() { *byte } else { b'?' };
            write!(f, "{}", char::from(byte))?;
        }
        write!(f, " {}", self.number)?;
        for told in &self.arguments {
            match told {
                Told::Nothing => f.write_str(" -")?,
                Told::Word(value) => write!(f, " {value:x}")?,
                Told::Structure(value, [a, b]) => write!(f, " {value:x}@{a:x}:{b:x}")?,
            }
        }
        write!(f, " {}", self.error)
    }
}

#[cfg(test)]
mod tests {
    use super::Asks;

    #[test]
    fn what_a_call_is_asked_for_is_read_off_its_row() {
        let asks = Asks::of("fd: Fd(Any), command: Options(&FCNTL), argument: Extra(0)");
        assert_eq!((asks.words, asks.structures), (0b110, 0b100));
        let asks =
            Asks::of("signal : Signal, new : In(& SIGACTION), old : Out(& SIGACTION), size : Int(& EIGHT)");
        assert_eq!((asks.words, asks.structures), (0, 0b110));
        let asks = Asks::of("fds: InOutMany(&POLLFD, 1), count: Size");
        assert_eq!((asks.words, asks.structures), (0, 0b1));
    }
}
