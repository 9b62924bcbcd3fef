//! The options of the calls, by area, and what Darter makes of each. Whoever adds an option to the kernel, or takes one away, says it here.
//!
//! An option is `NAME`, with `= value` where Linux's headers for Rust do not have it, in parentheses the kinds of the arguments that it
//! takes (`Kind::Extra`), and what Darter makes of it: nothing written is `State::Done`; `hint`, `partly "but for this"`, `refused "EINVAL"`.
#![forbid(unsafe_code)]

use crate::State;

macro_rules! sets {
    (@value $name:ident) => { general::$name as i64 };
    (@value $name:ident $value:literal) => {{
        let value: i64 = $value;
        value
    }};
    (@state) => { State::Done };
    (@state hint) => { State::Hint };
    (@state partly $what:literal) => { State::Partly($what) };
    (@state refused $errno:literal) => { State::Refused($errno) };
    (@options $($name:ident $(= $value:literal)? $(($($takes:expr),*))? $($state:ident $($text:literal)?)?),*) => {
        &[$(Opt {
            name: stringify!($name),
            value: (sets!(@value $name $($value)?)) as u64,
            state: sets!(@state $($state $($text)?)?),
            takes: &[$($($takes),*)?],
        }),*]
    };
    ($($(#[$doc:meta])* $set:ident $text:literal choose { $($choices:tt)* } flags { $($flags:tt)* })*) => {$(
        $(#[$doc])*
        pub static $set: Set = Set {
            name: $text,
            choices: sets!(@options $($choices)*),
            flags: sets!(@options $($flags)*),
        };
    )*};
}

mod control;
mod files;
mod ipc;
mod memory;
mod numbers;
mod process;
mod signals;
mod sockets;

pub use control::*;
pub use files::*;
pub use ipc::*;
pub use memory::*;
pub use numbers::*;
pub use process::*;
pub use signals::*;
pub use sockets::*;
