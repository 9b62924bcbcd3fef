//! Names for addresses in the guest's programs, from their files as this machine has them.
#![forbid(unsafe_code)]

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use darter_measure::Symbols;
use object::{Object, ObjectSegment};

use crate::cli::MachineOptions;
use crate::paths::Tree;
use crate::root;

/// A program's or library's file.
struct Program {
    symbols: Option<Symbols>,
    /// Parts of the file in memory: where in the file, how long, at which address.
    parts: Vec<(u64, u64, u64)>,
}

impl Program {
    fn read(file: &Path) -> Option<Program> {
        let content = std::fs::read(file).ok()?;
        let elf = object::File::parse(&*content).ok()?;
        let parts = elf.segments().map(|segment| {
            let (offset, size) = segment.file_range();
            (offset, size, segment.address())
        });
        Some(Program { parts: parts.collect(), symbols: Symbols::from_elf(&content).ok() })
    }

    /// The function that what lies at `offset` belongs to.
    fn function(&self, offset: u64) -> Option<&str> {
        let (start, _, address) =
            self.parts.iter().find(|(start, size, _)| (*start..start + size).contains(&offset))?;
        let address = offset - start + address;
        let (name, begin, size) = self.symbols.as_ref()?.object(address)?;
        (address - begin < size).then_some(name)
    }
}

/// The programs that were met.
pub struct Programs<'a> {
    paths: &'a Tree,
    machine: &'a MachineOptions,
    met: HashMap<PathBuf, Option<Program>>,
}

impl<'a> Programs<'a> {
    pub fn new(paths: &'a Tree, machine: &'a MachineOptions) -> Self {
        Self { paths, machine, met: HashMap::new() }
    }

    /// The function at `offset` of the guest's file, else the file's name in brackets.
    pub fn name(&mut self, file: &Path, offset: u64) -> String {
        let (paths, machine) = (self.paths, self.machine);
        let program = self
            .met
            .entry(file.to_owned())
            .or_insert_with(|| Program::read(&root::source_of(paths, &machine.root, &machine.add, file)?));
        let function = program.as_ref().and_then(|program| program.function(offset));
        function.map_or_else(
            || format!("[{}]", file.file_name().unwrap_or_default().to_string_lossy()),
            str::to_owned,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_is_found_by_its_place_in_the_file() {
        let file = std::env::current_exe().unwrap();
        let program = Program::read(&file).unwrap();
        let symbols = program.symbols.as_ref().unwrap();
        let name = "_start";
        let address = symbols.address(name).unwrap();
        let (start, _, at) =
            program.parts.iter().find(|(_, size, at)| (*at..at + size).contains(&address)).unwrap();
        assert_eq!(program.function(address - at + start + 1), Some(name));
        assert_eq!(program.function(u64::MAX), None);
        assert!(Program::read(Path::new("Cargo.toml")).is_none());
    }
}
