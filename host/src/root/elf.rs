//! What a dynamic program needs beside itself, read from its ELF file and never by running it or its loader.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use object::elf;
use object::read::ReadCache;
use object::read::elf::{Dyn, ElfFile64, ProgramHeader};
use object::{Endianness, ReadRef};

/// Where a loader looks when neither the program nor /etc/ld.so.conf says otherwise.
const DEFAULT: [&str; 6] =
    ["/lib/x86_64-linux-gnu", "/usr/lib/x86_64-linux-gnu", "/lib64", "/usr/lib64", "/lib", "/usr/lib"];

#[derive(Default, Debug)]
struct Linking {
    interpreter: Option<PathBuf>,
    needed: Vec<String>,
    /// DT_RUNPATH, or DT_RPATH where that is missing, with $ORIGIN filled in.
    search: Vec<PathBuf>,
}

/// Names in the guest, each with the file of this machine that goes there.
pub type Libraries = BTreeMap<PathBuf, PathBuf>;

/// The program's interpreter, if it is a dynamic ELF program for this architecture.
pub fn interpreter(program: &Path) -> Result<Option<PathBuf>> {
    Ok(read(program)?.and_then(|linking| linking.interpreter))
}

/// A program's interpreter, and all libraries that it or a library needs, found as the loader would find them. One that is nowhere
/// is left out: the loader in the guest names it, as it would here.
pub fn dependencies(program: &Path) -> Result<Libraries> {
    let mut found = Libraries::new();
    let Some(linking) = read(program)? else { return Ok(found) };
    if let Some(interpreter) = &linking.interpreter {
        found.insert(interpreter.clone(), real(interpreter)?);
    }
    let configured = configured_folders(Path::new("/etc/ld.so.conf"), 0);
    let mut todo = vec![linking];
    while let Some(object) = todo.pop() {
        for name in &object.needed {
            if found.keys().any(|path| path.file_name().is_some_and(|file| file == name.as_str())) {
                continue;
            }
            let own = object.search.iter().map(|folder| (folder.clone(), true));
            let ours = configured.iter().map(|folder| (folder.clone(), false));
            let usual = DEFAULT.iter().map(|folder| (PathBuf::from(folder), true));
            let at = own.chain(ours).chain(usual).find(|(folder, _)| folder.join(name).is_file());
            let Some((folder, stays)) = at else { continue };
            let file = folder.join(name);
            // The guest has no ld.so.cache, so what only /etc/ld.so.conf knows goes where every loader looks.
            let usual = DEFAULT.iter().any(|usual| Path::new(usual) == folder);
            let there = if stays || usual { file.clone() } else { Path::new(DEFAULT[0]).join(name) };
            if let Some(next) = read(&file)? {
                todo.push(next);
            }
            found.insert(there, real(&file)?);
        }
    }
    Ok(found)
}

fn real(path: &Path) -> Result<PathBuf> {
    path.canonicalize().with_context(|| format!("cannot find {}", path.display()))
}

/// None for what is no 64-bit x86 ELF file.
fn read(path: &Path) -> Result<Option<Linking>> {
    let file = File::open(path).with_context(|| format!("cannot read {}", path.display()))?;
    let cache = ReadCache::new(file);
    let Ok(elf) = ElfFile64::<Endianness, _>::parse(&cache) else { return Ok(None) };
    let endian = elf.endian();
    let mut linking = Linking::default();
    for header in elf.elf_program_headers() {
        if let Ok(Some(name)) = header.interpreter(endian, &cache) {
            linking.interpreter = Some(text(name).into());
        }
    }
    let (mut strings, mut length) = (0, 0);
    let (mut needed, mut rpath, mut runpath) = (Vec::new(), None, None);
    for header in elf.elf_program_headers() {
        let Ok(Some(entries)) = header.dynamic(endian, &cache) else { continue };
        for entry in entries {
            let value = entry.d_val(endian);
            match u32::try_from(entry.d_tag(endian)).unwrap_or(elf::DT_NULL) {
                elf::DT_STRTAB => strings = value,
                elf::DT_STRSZ => length = value,
                elf::DT_NEEDED => needed.push(value),
                elf::DT_RPATH => rpath = Some(value),
                elf::DT_RUNPATH => runpath = Some(value),
                _ => {}
            }
        }
    }
    // DT_STRTAB is an address; the segment that holds it says where it lies in the file.
    let table = elf.elf_program_headers().iter().find_map(|header| {
        let start = header.p_vaddr(endian);
        (header.p_type(endian) == elf::PT_LOAD && (start..start + header.p_filesz(endian)).contains(&strings))
            .then(|| header.p_offset(endian) + (strings - start))
    });
    let table = table.and_then(|offset| (&cache).read_bytes_at(offset, length).ok()).unwrap_or_default();
    let name = |offset: u64| {
        let bytes = table.get(usize::try_from(offset).unwrap_or(usize::MAX)..).unwrap_or_default();
        text(bytes.split(|byte| *byte == 0).next().unwrap_or_default())
    };
    linking.needed = needed.into_iter().map(name).filter(|name| !name.is_empty()).collect();
    let origin = real(path)?.parent().map(|at| at.display().to_string()).unwrap_or_default();
    if let Some(folders) = runpath.or(rpath) {
        let folders = name(folders).replace("${ORIGIN}", &origin).replace("$ORIGIN", &origin);
        linking.search = folders.split(':').filter(|folder| !folder.is_empty()).map(PathBuf::from).collect();
    }
    Ok(Some(linking))
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The folders that /etc/ld.so.conf names, its includes followed.
fn configured_folders(file: &Path, depth: u32) -> Vec<PathBuf> {
    let Ok(lines) = std::fs::read_to_string(file) else { return Vec::new() };
    let mut folders = Vec::new();
    for line in lines.lines().map(|line| line.split('#').next().unwrap_or_default().trim()) {
        if let Some(pattern) = line.strip_prefix("include ") {
            // As in Debian: one folder, all *.conf in it, in their order.
            let pattern = Path::new(pattern.trim());
            let folder = file.parent().unwrap_or(Path::new("/")).join(pattern);
            let Some(folder) = folder.parent().filter(|_| depth < 4) else { continue };
            let Ok(entries) = std::fs::read_dir(folder) else { continue };
            let mut files: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
            files.retain(|path| path.extension().is_some_and(|end| end == "conf"));
            files.sort();
            folders.extend(files.iter().flat_map(|file| configured_folders(file, depth + 1)));
        } else if line.starts_with('/') {
            folders.push(line.into());
        }
    }
    folders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_brings_its_c_library_and_loader() {
        let myself = std::env::current_exe().unwrap();
        let found = dependencies(&myself).unwrap();
        let has = |start: &str| {
            found.keys().any(|path| path.file_name().unwrap().to_string_lossy().starts_with(start))
        };
        assert!(has("libc.so") && has("ld-linux"), "{found:?}");
        assert!(found.values().all(|path| path.is_file()));
    }

    #[test]
    fn a_library_brings_what_it_needs() {
        let myself = std::env::current_exe().unwrap();
        let library = |found: &Libraries, start: &str| {
            let is = |path: &&PathBuf| path.file_name().unwrap().to_string_lossy().starts_with(start);
            found.iter().find(|(path, _)| is(path)).map(|(_, file)| file.clone())
        };
        let support = library(&dependencies(&myself).unwrap(), "libgcc_s.so").unwrap();
        assert!(library(&dependencies(&support).unwrap(), "libc.so").is_some());
    }

    #[test]
    fn what_is_no_program_needs_nothing() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml");
        assert!(dependencies(&file).unwrap().is_empty());
        assert_eq!(interpreter(&file).unwrap(), None);
    }
}
