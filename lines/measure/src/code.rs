//! Where a program counter is in the source: function, file and line, from a kernel's debug information (DWARF).

use gimli::{EndianArcSlice, LittleEndian};
use object::{Object, ObjectSection};
use std::sync::Arc;

/// The source behind addresses.
pub struct Source {
    context: addr2line::Context<EndianArcSlice<LittleEndian>>,
    /// Where the compiler ran: what paths begin with.
    folders: Vec<String>,
}

/// One place in the source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Spot {
    pub function: Option<String>,
    /// Path from the root of the repository, and line.
    pub file: Option<(String, u32)>,
}

impl Source {
    /// From an ELF file; none if it has no line tables.
    pub fn read(image: &[u8], folders: &[String]) -> Option<Source> {
        let file = object::File::parse(image).ok()?;
        file.section_by_name(".debug_line")?;
        let section = |id: gimli::SectionId| -> Result<_, gimli::Error> {
            let data = file.section_by_name(id.name()).and_then(|section| section.data().ok());
            Ok(EndianArcSlice::new(Arc::from(data.unwrap_or(&[])), LittleEndian))
        };
        let context = addr2line::Context::from_dwarf(gimli::Dwarf::load(section).ok()?).ok()?;
        Some(Source { context, folders: folders.to_vec() })
    }

    /// The functions at an address, the innermost (put into the others by the compiler) first.
    pub fn spots(&self, address: u64) -> Vec<Spot> {
        let Ok(mut frames) = self.context.find_frames(address).skip_all_loads() else { return Vec::new() };
        let mut spots = Vec::new();
        while let Ok(Some(frame)) = frames.next() {
            let name = frame.function.as_ref().and_then(|function| function.raw_name().ok());
            let function = name.map(|name| format!("{:#}", rustc_demangle::demangle(&name)));
            let file = frame.location.and_then(|place| Some((self.relative(place.file?), place.line?)));
            spots.push(Spot { function, file });
        }
        spots
    }

    /// A path without what differs from machine to machine.
    fn relative(&self, path: &str) -> String {
        relative(path, &self.folders)
    }
}

/// Is this a file of the standard library?
pub fn is_standard(path: &str) -> bool {
    path.starts_with("library/")
}

fn relative(path: &str, folders: &[String]) -> String {
    let path = path.replace("/./", "/");
    // Crates from a registry lie in a folder `name-version` of it.
    if let Some((_, rest)) = path.split_once("/registry/src/") {
        return rest.split_once('/').map_or(rest, |(_, rest)| rest).to_owned();
    }
    if let Some(at) =
        path.find("/library/").filter(|_| path.contains("/rustc/") || path.contains("/rustlib/"))
    {
        return path[at + 1..].to_owned();
    }
    let inside = |folder: &String| path.strip_prefix(folder.as_str())?.strip_prefix('/').map(str::to_owned);
    folders.iter().find_map(inside).unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_the_same_on_every_machine() {
        let folders = ["/home/me/darter".to_owned()];
        let short = |path| relative(path, &folders);
        assert_eq!(short("/home/me/darter/vm/src/fault.rs"), "vm/src/fault.rs");
        assert_eq!(short("/home/me/darter/./vm/src/fault.rs"), "vm/src/fault.rs");
        assert_eq!(
            short("/x/registry/src/index-1/hashbrown-0.15.2/src/raw.rs"),
            "hashbrown-0.15.2/src/raw.rs"
        );
        assert_eq!(short("/rustc/abc/library/core/src/cell.rs"), "library/core/src/cell.rs");
        assert!(is_standard(&short("/x/lib/rustlib/src/rust/library/core/src/cell.rs")));
        assert_eq!(short("/elsewhere/a.rs"), "/elsewhere/a.rs");
    }
}
