//! Names for the kernel's addresses: from an ELF file (Darter's kernel) or a System.map (Linux without KASLR).

use crate::Error;
use object::{Object, ObjectSymbol, SymbolKind};

/// Symbols by address.
pub struct Symbols {
    /// Sorted by address, one name each.
    entries: Vec<(u64, String)>,
}

impl Symbols {
    /// Functions, variables and assembly labels of an ELF file, Rust names in readable form.
    pub fn from_elf(image: &[u8]) -> Result<Symbols, Error> {
        let file = object::File::parse(image).map_err(|error| Error::Symbols(error.to_string()))?;
        let entries = file
            .symbols()
            .filter(|symbol| {
                symbol.is_definition()
                    && matches!(
                        symbol.kind(),
                        SymbolKind::Text | SymbolKind::Data | SymbolKind::Label | SymbolKind::Unknown
                    )
            })
            .filter_map(|symbol| {
                Some((symbol.address(), format!("{:#}", rustc_demangle::demangle(symbol.name().ok()?))))
            })
            .filter(|(_, name)| !name.is_empty() && !name.starts_with(".L"))
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
        let entries = text
            .lines()
            .filter_map(|line| {
                let mut words = line.split_ascii_whitespace();
                let address = u64::from_str_radix(words.next()?, 16).ok()?;
                // Absolute symbols are no places in memory.
                let kind = words.next().filter(|&kind| kind != "a" && kind != "A");
                kind.and(words.next()).map(|name| (address, name.to_owned()))
            })
            .collect();
        Symbols::new(entries)
    }

    fn new(mut entries: Vec<(u64, String)>) -> Result<Symbols, Error> {
        entries.sort();
        entries.dedup_by_key(|entry| entry.0);
        if entries.is_empty() {
            return Err(Error::Symbols("none found".into()));
        }
        Ok(Symbols { entries })
    }

    /// The symbol at or below an address and the distance from it.
    pub fn find(&self, address: u64) -> Option<(&str, u64)> {
        let after = self.entries.partition_point(|entry| entry.0 <= address);
        let (start, name) = self.entries.get(after.checked_sub(1)?)?;
        Some((name, address - start))
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
