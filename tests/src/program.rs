//! The programs there are: those built from tests/abi, and its shell scripts.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;
use std::path::{Path, PathBuf};

#[derive(Clone)]
pub struct Program {
    /// Its name in the guest and in reports.
    pub name: String,
    pub file: PathBuf,
    /// Of the file's contents.
    pub hash: u64,
}

pub fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// All programs, in order. Those that misbehave come last, so that a kernel they bring down has shown the rest.
pub fn find(root: &Path) -> Result<Vec<Program>, String> {
    let mut programs = Vec::new();
    for (folder, suffix) in
        [("target/tests/abi", ""), ("tests/abi/applets", "sh"), ("target/tests/abi/misbehave", "")]
    {
        let mut here = Vec::new();
        let entries = std::fs::read_dir(root.join(folder)).map_err(|error| format!("{folder}: {error}"))?;
        for entry in entries {
            let file = entry.map_err(|error| format!("{folder}: {error}"))?.path();
            let extension = file.extension().and_then(|text| text.to_str()).unwrap_or_default();
            if !file.is_file() || extension != suffix {
                continue;
            }
            let bytes = std::fs::read(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            let name = file.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            here.push(Program { name, file, hash: hash(&bytes) });
        }
        here.sort_by(|a, b| a.name.cmp(&b.name));
        programs.extend(here);
    }
    Ok(programs)
}
