//! The command that connects gdb to a machine.
#![forbid(unsafe_code)]

use std::fs::File;
use std::io::Read;
use std::path::Path;

/// With the kernel's names, if its file has any that gdb can read.
pub fn command(port: u16, kernel: &Path) -> String {
    let connect = format!("gdb -ex 'target remote 127.0.0.1:{port}'");
    if is_elf(kernel) {
        format!("{connect} {}", quoted(&kernel.display().to_string()))
    } else {
        format!("{connect}\n(gdb cannot read names from {})", kernel.display())
    }
}

fn is_elf(file: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(file).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && magic == *b"\x7fELF"
}

/// A word for a shell.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/._-+".contains(c);
    if word.chars().all(plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_with_names_stands_in_the_command() {
        let myself = std::env::current_exe().unwrap();
        let line = command(1234, &myself);
        assert_eq!(line, format!("gdb -ex 'target remote 127.0.0.1:1234' {}", myself.display()));
        assert!(command(1, Path::new("Cargo.toml")).contains("cannot read names from Cargo.toml"));
        assert_eq!(quoted("/a b/it's"), r"'/a b/it'\''s'");
    }
}
