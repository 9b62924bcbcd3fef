//! Reads what the plugin in `lines/` counted and turns it into figures per operation, with names for addresses.
//!
//! The plugin itself is GPL and lives inside QEMU; this crate knows only the files that it leaves.
#![forbid(unsafe_code)]

mod code;
mod instructions;
mod kernel;
mod lines;
mod map;
mod name;
mod names;
mod place;
mod report;
mod rust_name;
mod stacks;
mod symbols;
mod types;

pub use instructions::{FunctionCost, PerOp, Window, parse_instructions, per_op, profile_per_op};
pub use lines::{Class, Line, LineWindow, Memory, Pair, User, parse_lines};
pub use name::{CodeName, LineName, Part};
pub use names::Names;
pub use report::{NamedLine, NamedPair, NamedUser};
pub use stacks::{Counted, Instructions, Mapped, Program, Stacks, Transfers, parse_stacks};
pub use symbols::Symbols;

use std::ffi::OsString;
use std::fmt;
use std::path::Path;

/// What Linux must be told on its command line for an exact run: addresses as in System.map, no mitigations, no self-tests
/// in the background.
pub const LINUX_APPEND: &str = "nokaslr mitigations=off quiet cryptomgr.notests=1";

#[derive(Debug, PartialEq)]
pub enum Error {
    /// The file is not what the plugin writes; the text says where.
    Format(String),
    /// The plugin itself said why its counts are worth nothing.
    Refused(String),
    /// Two windows whose difference gives no figure: as many operations in both, or less counted for more.
    Windows(&'static str),
    /// No symbols in what was given as a kernel image or a System.map.
    Symbols(String),
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Format(text) => write!(f, "not a count of the lines plugin: {text}"),
            Error::Refused(text) => write!(f, "the lines plugin refused to count: {text}"),
            Error::Windows(text) => write!(f, "no figure per operation: {text}"),
            Error::Symbols(text) => write!(f, "no symbols: {text}"),
        }
    }
}

/// Did the plugin write why its counts are worth nothing, instead of counts?
fn refused(json: &str) -> Result<(), Error> {
    #[derive(serde::Deserialize)]
    struct Refusal {
        error: String,
    }
    match serde_json::from_str::<Refusal>(json) {
        Ok(refusal) => Err(Error::Refused(refusal.error)),
        Err(_) => Ok(()),
    }
}

/// The value of QEMU's `-plugin` for exact instruction counts. They are the same in every run only if everything else is: one
/// CPU, one task, icount with a fixed clock and seed (`--deterministic` of the darter command), and an initramfs that is the
/// same byte for byte, file times and inode numbers included.
pub fn instructions_plugin(plugin: &Path, out: &Path, profile: bool) -> OsString {
    let profile = if profile { "on" } else { "off" };
    plugin_value(plugin, out, &format!("mode=instructions,hist={profile}"))
}

/// The value of QEMU's `-plugin` for lines, where `tasks` CPUs run a task of the benchmark. QEMU must give each CPU a host thread
/// (`-accel tcg,thread=multi`). `node_cpus`: CPUs per NUMA node, 0 for one node. `read`: [`Names::plugin_options`] of the kernel, or
/// nothing.
pub fn lines_plugin(plugin: &Path, out: &Path, tasks: u32, node_cpus: u32, read: &str) -> OsString {
    plugin_value(plugin, out, &format!("mode=lines,tasks={tasks},node_cpus={node_cpus}{read}"))
}

/// The value of QEMU's `-plugin` for instructions by stack. With several CPUs QEMU must give each a host thread.
pub fn stacks_plugin(plugin: &Path, out: &Path) -> OsString {
    plugin_value(plugin, out, "mode=stacks")
}

/// The same for lines that CPUs take from each other, by stack.
pub fn transfers_plugin(plugin: &Path, out: &Path) -> OsString {
    plugin_value(plugin, out, "mode=transfers")
}

fn plugin_value(plugin: &Path, out: &Path, arguments: &str) -> OsString {
    let mut value = path_value(plugin);
    value.push(format!(",{arguments},out="));
    value.push(path_value(out));
    value
}

/// A path as a value in a QEMU option: a comma is doubled.
fn path_value(path: &Path) -> OsString {
    match path.to_str() {
        Some(text) => text.replace(',', ",,").into(),
        None => path.as_os_str().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_comma_in_a_path_is_no_separator() {
        let value = instructions_plugin(Path::new("/p/lib.so"), Path::new("/o/a,b.json"), true);
        assert_eq!(value, "/p/lib.so,mode=instructions,hist=on,out=/o/a,,b.json");
    }
}
