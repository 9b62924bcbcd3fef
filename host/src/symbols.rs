//! Names for a kernel's addresses: Darter's from its ELF file, Linux's from the running kernel.
//!
//! Debian's System.map is empty, so Linux is booted once and asked for /proc/kallsyms; that stands in the cache beside the image.
#![forbid(unsafe_code)]

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result};
use darter_measure::{Names, Symbols};

use crate::accel::Accel;
use crate::capture::capture;
use crate::kernel_image::Kernel;
use crate::machine::Machine;
use crate::paths::Tree;

/// Linux must be told to keep its addresses, or the names are those of another boot.
pub const LINUX_APPEND: &str = "nokaslr";

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
        Kernel::Darter | Kernel::File(_) => {
            std::fs::read(&image).with_context(|| format!("cannot read {}", image.display()))
        }
    }
}

/// The kernel's words with a name behind each of its code addresses, as far as its file has names. Linux prints names itself.
pub fn name_addresses(kernel: &Kernel, words: &str) -> String {
    if *kernel == Kernel::Linux || !words.contains(CODE) {
        return words.to_owned();
    }
    match of(kernel, &Tree::find()) {
        Ok(symbols) => name_with(&symbols, words),
        Err(_) => words.to_owned(),
    }
}

/// How addresses of kernel code begin: Darter's image lies in the last 2 GiB.
const CODE: &str = "0xffffffff8";

fn name_with(symbols: &Symbols, words: &str) -> String {
    let mut named = String::new();
    for line in words.lines() {
        named.push_str(line);
        for word in line.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| word.starts_with(CODE)) {
            if let Ok(address) = u64::from_str_radix(&word[2..], 16)
                && let Some((name, offset)) = symbols.find(address)
            {
                named.push_str(&format!("  {name}+{offset:#x}"));
            }
        }
        named.push('\n');
    }
    named.truncate(named.trim_end().len());
    named
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
        cpus: 1,
        sockets: 1,
        memory: 1 << 30,
        accel: Accel::Tcg,
        cpu_model: "max".into(),
        deterministic: false,
        extra: Vec::new(),
    };
    let command = ["cat", "/proc/kallsyms"].map(String::from);
    let content = capture(&machine, kernel, &[LINUX_APPEND.into()], &[], &command, Duration::from_secs(300))?;
    let new = image.with_file_name("kallsyms.new");
    std::fs::write(&new, &content)
        .and_then(|()| std::fs::rename(&new, &cached))
        .context("cannot keep them")?;
    Ok(content.into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_kernel_code_gets_its_name() {
        let symbols =
            Symbols::from_system_map("ffffffff80200000 T start\nffffffff80200100 T fault\n").unwrap();
        let words = "kernel panic on CPU 0: asked for\n  0xffffffff80200104\nCPU 1 was at 0xffffffff80200010, stack 0xffffd000";
        assert_eq!(
            name_with(&symbols, words),
            "kernel panic on CPU 0: asked for\n  0xffffffff80200104  fault+0x4\n\
             CPU 1 was at 0xffffffff80200010, stack 0xffffd000  start+0x10"
        );
    }
}
