//! Where the files of a program lay in its memory, from what the plugin saw: the file that was executed and those that it mapped.
#![forbid(unsafe_code)]

use std::path::{Path, PathBuf};

use darter_measure::Program;
use object::{Object, ObjectSegment, SegmentFlags, elf};

use super::samples::Mapping;
use crate::cli::MachineOptions;
use crate::paths::Tree;
use crate::root::{self, Root};

/// The program behind the names of busybox's root.
const BUSYBOX: &str = "/bin/busybox";
/// Bytes of a thread's name (prctl(2), PR_SET_NAME).
const NAME: usize = 15;
const PAGE: u64 = 4096;
/// Bytes before and behind the first instruction of a program in which its code is taken to be.
const AROUND: u64 = 1 << 30;
/// Programs that scripts may lead to, one after the other.
const SCRIPTS: usize = 4;

/// What the kernel calls a thread whose file this is (execve(2)).
pub fn name(file: &str) -> String {
    let last = file.rsplit('/').next().unwrap_or_default();
    let mut end = last.len().min(NAME);
    while !last.is_char_boundary(end) {
        end -= 1;
    }
    last.get(..end).unwrap_or_default().to_owned()
}

/// Where the files lay in a program's memory: its own, its interpreter's, and those that it mapped.
pub fn mappings(
    Program(file, entry, base, mapped): &Program,
    paths: &Tree,
    machine: &MachineOptions,
) -> Vec<Mapping> {
    let mut mappings: Vec<Mapping> = mapped
        .iter()
        .map(|(start, bytes, offset, file)| Mapping {
            start: *start,
            end: start.saturating_add(*bytes),
            offset: *offset,
            file: file.into(),
        })
        .collect();
    let find = |place: &Path| root::source_of(paths, &machine.root, &machine.add, place);
    let mut place = PathBuf::from(file);
    for _ in 0..SCRIPTS {
        if find(&place).is_none() && machine.root == Root::Busybox {
            place = BUSYBOX.into();
        }
        let Some(source) = find(&place) else { break };
        let Ok(content) = std::fs::read(&source) else { break };
        if let Some(interpreter) = script(&content) {
            place = interpreter;
            continue;
        }
        let Ok(program) = object::File::parse(&*content) else { break };
        let distance = entry.wrapping_sub(program.entry());
        // Files are loaded by pages: it was another one, as a copy that the guest has made.
        if !distance.is_multiple_of(PAGE) {
            break;
        }
        mappings.extend(code(&program, distance, &place));
        if let Some(interpreter) = root::elf::interpreter(&source).ok().flatten().filter(|_| *base != 0)
            && let Some(content) = find(&interpreter).and_then(|source| std::fs::read(source).ok())
            && let Ok(program) = object::File::parse(&*content)
        {
            mappings.extend(code(&program, *base, &interpreter));
        }
        return mappings;
    }
    // Nothing is known of the file but that its code is around the first instruction.
    let (start, end) = (entry.saturating_sub(AROUND), entry.saturating_add(AROUND));
    mappings.push(Mapping { start, end, offset: 0, file: file.into() });
    mappings
}

/// The interpreter of a script (execve(2)).
fn script(content: &[u8]) -> Option<PathBuf> {
    let line = content.strip_prefix(b"#!")?.split(|byte| *byte == b'\n').next()?;
    Some(std::str::from_utf8(line).ok()?.split_ascii_whitespace().next()?.into())
}

/// The parts of an ELF file that are executed, if it lies so far behind its own addresses.
fn code(program: &object::File<'_>, distance: u64, file: &Path) -> Vec<Mapping> {
    let executed = |flags| matches!(flags, SegmentFlags::Elf { p_flags } if p_flags & elf::PF_X != 0);
    let segments = program.segments().filter(|segment| executed(segment.flags()));
    let mapping = segments.map(|segment| {
        let start = segment.address().wrapping_add(distance);
        let (offset, _) = segment.file_range();
        Mapping { start, end: start.saturating_add(segment.size()), offset, file: file.to_owned() }
    });
    mapping.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_called_as_its_kernel_calls_it() {
        assert_eq!(name("/bin/a-name-longer-than-that"), "a-name-longer-t");
        assert_eq!(name("sh"), "sh");
        assert_eq!(name("/x/aaaaaaaaaaaaaaä"), "aaaaaaaaaaaaaa");
        assert_eq!(script(b"#!/bin/sh -e\ntrue\n"), Some("/bin/sh".into()));
        assert_eq!(script(b"\x7fELF"), None);
    }

    #[test]
    fn code_lies_where_it_was_loaded() {
        let content = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let program = object::File::parse(&*content).unwrap();
        let mappings = code(&program, 0x5555_0000_0000, Path::new("/me"));
        let entry = program.entry() + 0x5555_0000_0000;
        let found: Vec<_> =
            mappings.iter().filter(|mapping| (mapping.start..mapping.end).contains(&entry)).collect();
        assert_eq!(found.len(), 1);
        assert_eq!(found.first().map(|mapping| &*mapping.file), Some(Path::new("/me")));
    }
}
