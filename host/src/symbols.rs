//! Names for a kernel's addresses: Darter's from its ELF file, Linux's from the running kernel.
//!
//! Debian's System.map is empty, so Linux is booted once and asked for /proc/kallsyms; that stands in the cache beside the image.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use darter_measure::{Names, Symbols};

use crate::machine::accel::Accel;
use crate::machine::kernel::Kernel;
use crate::machine::{Machine, Model};
use crate::paths::Tree;
use crate::run::capture;

/// For both kernels, wherever something is counted or named. Linux must be told to keep its addresses, or the names are those of another boot;
/// both, to place programs alike each time (`norandmaps`), or counts do not repeat.
pub const COUNTED_APPEND: &str = "nokaslr norandmaps";

pub fn of(kernel: &Kernel, paths: &Tree) -> Result<Symbols> {
    Symbols::from_either(&content(kernel, paths)?).with_context(|| format!("kernel {}", kernel.name()))
}

/// Names for lines of memory, too.
pub fn names(kernel: &Kernel, paths: &Tree) -> Result<Names> {
    Names::new(&content(kernel, paths)?).with_context(|| format!("kernel {}", kernel.name()))
}

/// What has a kernel's names in it: its ELF file, or Linux's kallsyms.
fn content(kernel: &Kernel, paths: &Tree) -> Result<Vec<u8>> {
    let image = kernel.image(paths)?;
    match kernel {
        Kernel::Linux => linux(kernel, &image),
        Kernel::Darter | Kernel::Switched(_) | Kernel::File(_) => {
            std::fs::read(&image).with_context(|| format!("cannot read {}", image.display()))
        }
    }
}

fn linux(kernel: &Kernel, image: &Path) -> Result<Vec<u8>> {
    // Beside the file itself, not the link to it: another version has other addresses.
    let image = image.canonicalize()?;
    let cached = image.with_file_name("kallsyms");
    if let Ok(content) = std::fs::read(&cached) {
        return Ok(content);
    }
    note!("darter: asking Linux for its symbols, once");
    let machine = Machine {
        model: Model::Q35,
        cpus: 1,
        sockets: 1,
        threads: 1,
        memory: 1 << 30,
        accel: Accel::Tcg,
        cpu_model: "max".into(),
        deterministic: false,
        disks: Vec::new(),
        balloon: false,
        root: None,
        shares: Vec::new(),
        gdb: None,
        extra: Vec::new(),
    };
    let command = ["cat", "/proc/kallsyms"].map(String::from);
    let content =
        capture(&machine, kernel, &[COUNTED_APPEND.into()], &[], &command, Duration::from_secs(300))?;
    let new = image.with_file_name("kallsyms.new");
    std::fs::write(&new, &content)
        .and_then(|()| std::fs::rename(&new, &cached))
        .context("cannot keep them")?;
    Ok(content.into_bytes())
}
