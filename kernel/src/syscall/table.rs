//! Dispatch: the rows (rows.rs) as functions. A row with a handler is a call that is there. A row without one has only its name, for the log
//! line that says, once per number, that a program asked for it. `regs` marks handlers that need all registers. The kinds of the arguments are
//! for tools of the host.
#![forbid(unsafe_code)]

macro_rules! calls {
    ($(
        $number:literal $name:ident $(($($arguments:tt)*))? $(-> $makes:ident)? $(lacks $lacks:literal)?
        $(= $handler:path)? $(=> regs $special:path)?;
    )*) => {
        use crate::arch::UserRegs;
        use crate::errno::Result;
        use crate::syscall::trace::{Asks, has_path};
        use crate::syscall::{
            Handler, barrier, capability, file, futex, futex2, identity, ipc, memory, missing, path, policies, poll, prctl, process,
            scheduling, signal, socket, system, time, timer, tty,
        };

        /// Makes call `number`. Each reads no more of the registers than it has arguments, and its result is written once.
        ///
        /// # Errors
        /// The call's own; ENOSYS: there is none.
        pub fn call(number: usize, regs: &mut UserRegs) -> Result<usize> {
            match number {
                $($($number => Handler::call($handler, regs.args()),)?)*
                $($($number => $special(regs),)?)*
                _ => Err(missing(number)),
            }
        }

        /// Linux's name of a number.
        pub fn name(number: usize) -> Option<&'static str> {
            match number {
                $($number => Some(stringify!($name)),)*
                _ => None,
            }
        }

        /// Does a call name a file by its path?
        pub fn names_files(number: usize) -> bool {
            match number {
                $($number => const { has_path(stringify!($($($arguments)*)?)) },)*
                _ => false,
            }
        }

        /// Which arguments of a call say what is to be done.
        pub fn asks(number: usize) -> Asks {
            match number {
                $($number => const { Asks::of(stringify!($($($arguments)*)?)) },)*
                _ => Asks::NOTHING,
            }
        }
    };
}

#[path = "rows.rs"]
mod rows;

pub use rows::{asks, call, name, names_files};
