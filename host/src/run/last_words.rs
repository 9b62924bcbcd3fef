//! What to say of a machine that failed: why, and the kernel's last words with names for its addresses.
#![forbid(unsafe_code)]

use darter_measure::Symbols;

use crate::machine::kernel::Kernel;
use crate::paths::Tree;

pub fn explain_machine(kernel: &Kernel, why: &str, last_words: &str) -> String {
    let text = format!("the machine with kernel {} failed: {why}", kernel.name());
    if last_words.is_empty() {
        format!("{text}\nits console is empty")
    } else {
        format!("{text}\nits last words:\n{}", name_addresses(kernel, last_words))
    }
}

/// As [`explain_machine`], of a machine that was ended from outside while something in it did not get on.
pub fn explain_stall(kernel: &Kernel, why: &str, words: &str) -> String {
    format!("{why}\nthe kernel's last words:\n{}", name_addresses(kernel, words))
}

/// The kernel's words with a name behind each of its code addresses, as far as its file has names. Linux prints names itself.
fn name_addresses(kernel: &Kernel, words: &str) -> String {
    if *kernel == Kernel::Linux || !words.contains(CODE) {
        return words.to_owned();
    }
    let image = kernel.image(&Tree::find()).and_then(|image| Ok(std::fs::read(image)?));
    match image.map(|content| Symbols::from_either(&content)) {
        Ok(Ok(symbols)) => name_with(&symbols, words),
        _ => words.to_owned(),
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
