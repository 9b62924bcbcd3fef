//! The system calls as data: `CALLS`, made from the rows by which the kernel dispatches (kernel/src/syscall/rows.rs).
//!
//! * `rows`  the calls: number, name, kinds of the arguments, and whether the kernel has them
//! * `sets`  the flags and commands that arguments take, and what Darter makes of each
//! * `structs` the structures that pointers lead to
//!
//! ```
//! use darter_table::{CALLS, Kind, call};
//!
//! let open = call("openat").unwrap();
//! assert_eq!((open.number, open.there), (257, true));
//! let Kind::Options(set) = &open.arguments[2].kind else { panic!() };
//! assert!(set.flags.iter().any(|option| option.name == "O_CREAT" && option.value == 0o100));
//! // What a program could make: a descriptor of each sort, by each call that gives one.
//! assert!(CALLS.iter().any(|call| call.makes == Some(darter_table::Sort::EpollFile)));
//! ```
#![forbid(unsafe_code)]

pub mod cases;
pub mod claims;
pub mod page;
pub mod record;
pub mod sets;
pub mod structs;

/// A system call.
#[derive(Debug)]
pub struct Call {
    pub number: usize,
    pub name: &'static str,
    /// The kernel has a handler; without one the call is ENOSYS.
    pub there: bool,
    /// Empty as well where nothing is written about a call that is not there.
    pub arguments: &'static [Argument],
    /// A new descriptor (or mapping) of this sort is what it returns.
    pub makes: Option<Sort>,
    /// What is missing of it that is no flag or command; an error alone: each use is refused with it.
    pub lacks: Option<&'static str>,
}

#[derive(Debug)]
pub struct Argument {
    pub name: &'static str,
    pub kind: Kind,
}

/// What an argument, or a field of a structure, means. Numbers of arguments count from zero.
#[derive(Debug)]
pub enum Kind {
    /// A descriptor.
    Fd(Sort),
    /// A descriptor of a directory, or AT_FDCWD.
    DirFd,
    /// A string: a path.
    Path,
    /// A string that is no path.
    Text,
    /// An array of strings that ends with a null pointer.
    Texts,
    /// A buffer that is read; the argument with this number has its length in bytes.
    InBytes(usize),
    /// A buffer that is written.
    OutBytes(usize),
    /// An array of `struct iovec` with buffers that are read; the argument with this number counts them.
    InVector(usize),
    /// The same with buffers that are written.
    OutVector(usize),
    /// A structure that is read.
    In(&'static Struct),
    Out(&'static Struct),
    InOut(&'static Struct),
    /// An array of structures that is read; the argument with this number counts them.
    InMany(&'static Struct, usize),
    OutMany(&'static Struct, usize),
    InOutMany(&'static Struct, usize),
    /// The length or count of a buffer or array that another argument has.
    Size,
    /// A number of bytes of memory or file that belongs to no buffer.
    Len,
    /// A position in a file, signed.
    Offset,
    /// An address in the program's memory that is not read or written as a structure.
    Addr,
    /// A command, or flags, or both in one word.
    Options(&'static Set),
    /// Its kind is what the chosen option of the call says: the n-th of `Opt::takes`. Without one it is not looked at.
    Extra(usize),
    /// Permission bits.
    Mode,
    /// A device number.
    Device,
    /// A process, thread, group or session; zero and negative numbers have meanings of their own.
    Pid,
    Uid,
    Gid,
    Signal,
    /// A timer of timer_create.
    Timer,
    /// A number; these are worth a try.
    Int(&'static [i64]),
    /// It is not looked at.
    Unused,
}

/// What a descriptor refers to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sort {
    Any,
    Regular,
    Directory,
    Pipe,
    EpollFile,
    EventFile,
    TimerFile,
    SignalFile,
    InotifyFile,
    MemoryFile,
    PidFile,
    Socket,
    Terminal,
    /// A file system that is being set up.
    ContextFile,
    /// A tree of mounts.
    TreeFile,
    /// No descriptor: the address of a mapping.
    Memory,
}

/// A structure of memory.
#[derive(Debug)]
pub struct Struct {
    pub name: &'static str,
    pub size: usize,
    pub fields: &'static [Field],
}

#[derive(Debug)]
pub struct Field {
    pub name: &'static str,
    pub offset: usize,
    /// 2, 4 or 8.
    pub size: usize,
    pub kind: Kind,
}

/// The options of an argument: at most one choice, and any of the flags.
#[derive(Debug)]
pub struct Set {
    pub name: &'static str,
    /// One of these; none of them where the list is empty.
    pub choices: &'static [Opt],
    pub flags: &'static [Opt],
}

/// A flag or a command.
#[derive(Debug)]
pub struct Opt {
    pub name: &'static str,
    pub value: u64,
    pub state: State,
    /// The kinds of the arguments that are `Kind::Extra`.
    pub takes: &'static [Kind],
}

/// What Darter makes of an option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// What Linux does.
    Done,
    /// A hint, accepted as on Linux: that nothing follows from it no program sees.
    Hint,
    /// Done but for this.
    Partly(&'static str),
    /// Refused with this error, where Linux would do it.
    Refused(&'static str),
}

impl Set {
    /// The options that `value` is made of: the choice, if it is one of them, and the flags.
    pub fn parts(&self, value: u64) -> impl Iterator<Item = &'static Opt> {
        let flags = self.flags.iter().fold(0, |all, flag| all | flag.value);
        let choices = self.choices.iter().fold(0, |all, choice| all | choice.value);
        let value = value & self.mask();
        let whole = self.choices.iter().find(|o| value != 0 && o.value & self.mask() == value);
        let rest = if whole.is_some() { 0 } else { value };
        let choice = if flags == 0 { rest } else { rest & choices & !flags };
        let chosen = whole.or(self.choices.iter().find(|o| o.value & self.mask() == choice));
        chosen.into_iter().chain(self.flags.iter().filter(move |flag| rest & flag.value == flag.value))
    }

    /// The bits of a word that count: 32, but for a set that has higher ones.
    pub fn mask(&self) -> u64 {
        let all = self.flags.iter().fold(0, |all, flag| all | flag.value);
        if all >> 32 == 0 { u64::from(u32::MAX) } else { u64::MAX }
    }
}

/// The call of that name.
pub fn call(name: &str) -> Option<&'static Call> {
    CALLS.iter().find(|call| call.name == name)
}

/// An optional part of a row.
const fn first<T: Copy>(part: &[T]) -> Option<T> {
    match part {
        [] => None,
        [part, ..] => Some(*part),
    }
}

macro_rules! calls {
    ($(
        $number:literal $name:ident $(($($argument:ident: $kind:expr),*))? $(-> $makes:ident)? $(lacks $lacks:literal)?
        $(= $handler:path)? $(=> regs $special:path)?;
    )*) => {
        use crate::sets::*;
        use crate::structs::*;
        #[allow(clippy::enum_glob_use, reason = "the rows are read by people")]
        use crate::{Argument, Call, Kind::*, Sort, Sort::*, first};

        /// All calls, by number.
        pub static CALLS: &[Call] = &[$(Call {
            number: $number,
            name: stringify!($name),
            there: first::<&str>(&[$(stringify!($handler),)? $(stringify!($special),)?]).is_some(),
            arguments: &[$($(Argument { name: stringify!($argument), kind: $kind }),*)?],
            makes: first(&[$(Sort::$makes)?]),
            lacks: first(&[$($lacks)?]),
        }),*];
    };
}

#[path = "../../../kernel/src/syscall/rows.rs"]
mod rows;
pub use rows::CALLS;

#[cfg(test)]
mod tests;
