//! The functions of a kernel image: where each lies, its name and its code.

use anyhow::{Context, Result};
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};
use std::collections::BTreeMap;
use std::path::Path;

pub struct Function {
    pub start: u64,
    pub name: String,
    pub code: Vec<u8>,
}

/// All functions, by their addresses.
pub fn functions(file: &Path) -> Result<BTreeMap<u64, Function>> {
    let bytes = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let image =
        object::File::parse(&*bytes).with_context(|| format!("{} is no ELF image", file.display()))?;
    let mut found = BTreeMap::new();
    for symbol in image.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let Some(section) = symbol.section_index().and_then(|index| image.section_by_index(index).ok())
        else {
            continue;
        };
        let Ok(Some(code)) = section.data_range(symbol.address(), symbol.size()) else { continue };
        if code.is_empty() {
            continue;
        }
        let name = short(&format!("{:#}", rustc_demangle::demangle(symbol.name().unwrap_or_default())));
        found.insert(symbol.address(), Function { start: symbol.address(), name, code: code.to_vec() });
    }
    anyhow::ensure!(!found.is_empty(), "{} has no symbols", file.display());
    Ok(found)
}

/// A name without the values of type parameters, which would fill lines: `vm::op::fault::<Space>::run` is `vm::op::fault::run`, and
/// `<T as Trait>::f` stays.
fn short(name: &str) -> String {
    let mut text = String::new();
    let mut depth = 0_u32;
    let mut rest = name;
    while let Some(at) = rest.chars().next() {
        if depth == 0 && rest.starts_with("::<") {
            depth = 1;
            rest = &rest[3..];
            continue;
        }
        if depth > 0 {
            match at {
                '<' => depth += 1,
                '>' if !text.ends_with('-') => depth -= 1,
                _ => (),
            }
        } else {
            text.push(at);
        }
        rest = &rest[at.len_utf8()..];
    }
    text
}

#[cfg(test)]
mod tests {
    use super::short;

    #[test]
    fn type_parameters_go_and_traits_stay() {
        assert_eq!(short("vm::fault::<a::B<c::D>>::run"), "vm::fault::run");
        assert_eq!(
            short("<alloc::sync::Arc<T> as core::ops::Drop>::drop"),
            "<alloc::sync::Arc<T> as core::ops::Drop>::drop"
        );
    }
}
