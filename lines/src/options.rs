//! The arguments after the plugin's file name: `mode=`, `out=`, `tasks=`, `hist=`, `node_cpus=`, `frames=`, `read=`,
//! `cache=`, `home=`.
#![forbid(unsafe_code)]

use crate::lines::cache::Homes;
use crate::lines::guest::Wanted;
use std::path::PathBuf;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Instructions,
    Lines,
    /// The kernel's blocks that were executed.
    Blocks,
    /// Instructions by the calls that led to them.
    Stacks,
    /// Lines that CPUs take from each other, by the calls that led there.
    Transfers,
}

impl Mode {
    /// Are calls followed, while the program of the guest's init runs?
    pub fn follows_calls(self) -> bool {
        matches!(self, Mode::Stacks | Mode::Transfers)
    }
}

#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    pub mode: Mode,
    /// The JSON file, rewritten at every completed window; in block mode the file of entries, in stack and transfer mode written once.
    pub out: PathBuf,
    /// Closes that complete a window: one per benchmark task.
    pub tasks: u32,
    /// Count the kernel's instructions by program counter.
    pub profile: bool,
    /// CPUs per NUMA node, to tell transfers between nodes; 0: one node.
    pub node_cpus: usize,
    /// What to read from the guest's memory for each window.
    pub memory: Wanted,
    /// Bytes of the modelled cache of each CPU; 0: none.
    pub cache: usize,
    /// Which node each piece of physical memory belongs to.
    pub homes: Homes,
}

impl Options {
    pub fn parse<'a>(arguments: impl Iterator<Item = &'a str>) -> Result<Options, String> {
        let (mut mode, mut out) = (None, None);
        let (mut tasks, mut profile, mut node_cpus) = (1, false, 0);
        let mut memory = Wanted::default();
        let (mut cache, mut homes) = (0, Homes::default());
        for argument in arguments {
            let (key, value) = argument.split_once('=').ok_or(format!("{argument}: KEY=VALUE expected"))?;
            let number = || value.parse::<u32>().map_err(|_| format!("{argument}: not a number"));
            match (key, value) {
                ("mode", "instructions") => mode = Some(Mode::Instructions),
                ("mode", "lines") => mode = Some(Mode::Lines),
                ("mode", "blocks") => mode = Some(Mode::Blocks),
                ("mode", "stacks") => mode = Some(Mode::Stacks),
                ("mode", "transfers") => mode = Some(Mode::Transfers),
                ("out", path) if !path.is_empty() => out = Some(PathBuf::from(path)),
                ("tasks", _) => tasks = number()?.max(1),
                ("node_cpus", _) => node_cpus = number()? as usize,
                ("frames", _) => {
                    memory.frames = Some(value.parse().map_err(|_| format!("{argument}: not a number"))?);
                }
                ("read", _) => {
                    memory
                        .ranges
                        .push(Wanted::range(value).ok_or(format!("{argument}: ADDRESS:BYTES expected"))?);
                }
                ("cache", _) => cache = number()? as usize,
                ("home", _) => {
                    homes.0.push(Homes::range(value).ok_or(format!("{argument}: START:END:NODE expected"))?);
                }
                ("hist", "on" | "1" | "true") => profile = true,
                ("hist", "off" | "0" | "false") => profile = false,
                _ => return Err(format!("{argument}: unknown")),
            }
        }
        Ok(Options {
            mode: mode.ok_or("mode= is missing: instructions, lines, blocks, stacks or transfers")?,
            out: out.ok_or("out=FILE is missing")?,
            tasks,
            profile,
            node_cpus,
            memory,
            cache,
            homes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mode_and_file_are_required_and_the_rest_has_defaults() {
        let options = Options::parse(["mode=instructions", "out=/tmp/x"].into_iter()).unwrap();
        assert_eq!((options.mode, options.tasks, options.profile), (Mode::Instructions, 1, false));
        assert!(Options::parse(["mode=instructions"].into_iter()).is_err());
        assert!(Options::parse(["out=x"].into_iter()).is_err());
    }

    #[test]
    fn unknown_words_are_refused() {
        for bad in ["mode=other", "tasks=x", "hist=maybe", "out", "speed=9", "read=1", "frames=x", "home=1"] {
            assert!(Options::parse(["mode=instructions", "out=x", bad].into_iter()).is_err(), "{bad}");
        }
    }
}
