//! Names for the kernel's addresses: from an ELF file (Darter's kernel) or a System.map (Linux without KASLR).

use crate::Error;
use object::{Object, ObjectSymbol, SymbolKind};

/// Above any offset in a per-CPU area of Linux, below any address of the kernel.
const LINUX_PERCPU_END: u64 = 1 << 24;

/// Symbols by address.
pub struct Symbols {
    /// Sorted by address, one name each, with the size.
    entries: Vec<(u64, String, u64)>,
}

impl Symbols {
    /// Functions, variables and assembly labels of an ELF file, Rust names in readable form. Of one that is stripped what it offers to others.
    pub fn from_elf(image: &[u8]) -> Result<Symbols, Error> {
        let file = object::File::parse(image).map_err(|error| Error::Symbols(error.to_string()))?;
        let entries = file
            .symbols()
            .chain(file.dynamic_symbols())
            .filter(|symbol| {
                symbol.is_definition()
                    && matches!(
                        symbol.kind(),
                        SymbolKind::Text | SymbolKind::Data | SymbolKind::Label | SymbolKind::Unknown
                    )
            })
            .filter_map(|symbol| {
                let name = format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?));
                Some((symbol.address(), name, symbol.size()))
            })
            .filter(|(_, name, _)| !name.is_empty() && !name.starts_with(".L"))
            .collect();
        Symbols::new(entries)
    }

    /// An ELF file or a System.map, whichever it is.
    pub fn from_either(image: &[u8]) -> Result<Symbols, Error> {
        if image.starts_with(b"\x7fELF") {
            Symbols::from_elf(image)
        } else {
            Symbols::from_system_map(&String::from_utf8_lossy(image))
        }
    }

    /// Lines of `ADDRESS TYPE NAME`, as `nm` and Linux's build write them.
    pub fn from_system_map(text: &str) -> Result<Symbols, Error> {
        // Absolute symbols are no places in memory.
        Symbols::from_lines(text, |_, kind| kind != "a" && kind != "A")
    }

    /// The per-CPU variables of Linux's /proc/kallsyms, by their offset in an area: those below the first real address.
    pub fn linux_percpu(text: &str) -> Result<Symbols, Error> {
        Symbols::from_lines(text, |address, _| address < LINUX_PERCPU_END)
    }

    fn from_lines(text: &str, wanted: impl Fn(u64, &str) -> bool) -> Result<Symbols, Error> {
        let entries = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                words.next().filter(|kind| wanted(address, kind))?;
                words.next().map(|name| (address, name.to_owned(), 0))
            })
            .collect();
        Symbols::new(entries)
    }

    fn new(mut entries: Vec<(u64, String, u64)>) -> Result<Symbols, Error> {
        entries.sort();
        entries.dedup_by_key(|entry| entry.0);
        if entries.is_empty() {
            return Err(Error::Symbols("none found".into()));
        }
        // Where no size is said, a symbol reaches to the next.
        let mut next = u64::MAX;
        for (start, _, size) in entries.iter_mut().rev() {
            if *size == 0 {
                *size = next - *start;
            }
            next = *start;
        }
        Ok(Symbols { entries })
    }

    /// The symbol at or below an address and the distance from it.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        self.object(address).map(|(name, start, _)| (name, address - start))
    }

    /// The symbol at or below an address: name, address, and size.
    pub fn object(&self, address: u64) -> Option<(&str, u64, u64)> {
        let after = self.entries.partition_point(|entry| entry.0 <= address);
        let (start, name, size) = self.entries.get(after.checked_sub(1)?)?;
        Some((name, *start, *size))
    }

    /// The address of a symbol.
    pub fn address(&self, name: &str) -> Option<u64> {
        self.entries.iter().find(|entry| entry.1 == name).map(|entry| entry.0)
    }

    /// The last symbol's address.
    pub fn last(&self) -> u64 {
        self.entries.last().map_or(0, |entry| entry.0)
    }

    /// The symbol's name, or `?` where there is none.
    pub fn name(&self, address: u64) -> &str {
        self.find(address).map_or("?", |(name, _)| name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_belongs_to_the_symbol_below_it() {
        let map = "ffffffff81000000 T _text\nffffffff81000040 t do_fault\n0000000000000000 A fixed\n";
        let symbols = Symbols::from_system_map(map).unwrap();
        assert_eq!(symbols.find(0xffff_ffff_8100_0044), Some(("do_fault", 4)));
        assert_eq!(symbols.name(0xffff_ffff_8100_003f), "_text");
        assert_eq!(symbols.name(0x1000), "?");
    }

    #[test]
    fn this_program_knows_its_own_functions() {
        let image = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let symbols = Symbols::from_elf(&image).unwrap();
        assert!(
            symbols.entries.iter().any(|entry| entry.1.ends_with("this_program_knows_its_own_functions"))
        );
    }

    #[test]
    fn text_without_symbols_is_an_error() {
        assert!(Symbols::from_system_map("hello\n").is_err());
        assert!(Symbols::from_elf(b"hello").is_err());
    }
}
