//! What is known of one kernel: its symbols, where its memory is, its debug information.

use crate::code::Source;
use crate::map::{DarterMap, LinuxMap};
use crate::types::Types;
use crate::{Error, Symbols};
use std::sync::OnceLock;

pub struct Kernel {
    pub image: Vec<u8>,
    pub symbols: Symbols,
    pub map: Map,
    /// Read when first asked for: that takes a second.
    debug: OnceLock<Debug>,
}

/// Where memory is, and how it says what it is.
pub enum Map {
    Darter(DarterMap),
    Linux(LinuxMap),
}

#[derive(Default)]
struct Debug {
    types: Types,
    source: Option<Source>,
}

impl Kernel {
    /// From its ELF file, or Linux's /proc/kallsyms.
    pub fn new(image: &[u8]) -> Result<Kernel, Error> {
        let symbols = Symbols::from_either(image)?;
        let darter = if image.starts_with(b"\x7fELF") { DarterMap::read(image)? } else { None };
        let map = match darter {
            Some(map) => Map::Darter(map),
            None => Map::Linux(LinuxMap::new(&String::from_utf8_lossy(image), &symbols)),
        };
        Ok(Kernel::with(image.to_vec(), symbols, map))
    }

    pub fn with(image: Vec<u8>, symbols: Symbols, map: Map) -> Kernel {
        Kernel { image, symbols, map, debug: OnceLock::new() }
    }

    fn debug(&self) -> &Debug {
        self.debug.get_or_init(|| {
            // Damaged debug information costs types and lines, not the names.
            let types = Types::read(&self.image).unwrap_or_default();
            let source = Source::read(&self.image, types.folders());
            Debug { types, source }
        })
    }

    pub fn types(&self) -> &Types {
        &self.debug().types
    }

    pub fn source(&self) -> Option<&Source> {
        self.debug().source.as_ref()
    }
}
