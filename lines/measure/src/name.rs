//! Names as values and as text: of lines of memory, and of places in the code.

use crate::rust_name::tail;
use serde::Serialize;
use std::fmt::Write as _;

/// One object of which a line holds bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Part {
    /// A variable's name, or what the memory is used for.
    pub object: String,
    /// Its type, where that is known.
    #[serde(rename = "type")]
    pub type_: Option<String>,
    /// The fields that were used, from the object's beginning: `state.owner`, `[].len`; `+0x40` of a variable whose type is not known.
    pub fields: Vec<String>,
    /// The first byte's place in an object of which nothing but the size is known: for people, no part of the name.
    pub offset: Option<u64>,
}

/// A line in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LineName {
    /// In the order of their addresses; at least one.
    pub parts: Vec<Part>,
    /// The CPU whose copy of a per-CPU variable this is.
    pub cpu: Option<u32>,
    /// Where exactly, if there are many of the name: a program's address, or a physical one.
    pub address: Option<u64>,
}

/// More fields than this are counted and not listed in text.
const LISTED: usize = 3;

impl LineName {
    /// The names `object.field`, one for each field, without anything that differs from run to run.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.parts.iter().flat_map(Part::names).collect();
        names.dedup();
        names
    }

    /// The same line's name in every run and on any number of CPUs.
    pub fn stable(&self) -> String {
        let mut parts: Vec<_> = self.parts.iter().map(|part| part.text(usize::MAX)).collect();
        parts.dedup();
        parts.join(" + ")
    }

    /// For people: which CPU's copy, the type, and where.
    pub fn text(&self) -> String {
        let parts: Vec<_> = self.parts.iter().take(LISTED).map(|part| part.text(LISTED)).collect();
        let mut text = parts.join(" + ");
        if self.parts.len() > LISTED {
            let _ = write!(text, " + {} more", self.parts.len() - LISTED);
        }
        if let Some(cpu) = self.cpu {
            let _ = write!(text, " of CPU {cpu}");
        }
        if let Some(address) = self.address {
            let _ = write!(text, " at {address:#x}");
        }
        text
    }
}

impl Part {
    fn names(&self) -> Vec<String> {
        if self.fields.is_empty() {
            return vec![self.object.clone()];
        }
        self.fields.iter().map(|field| self.join(field)).collect()
    }

    /// `object.field`, or `object.{field, field}`, with at most so many fields.
    fn text(&self, most: usize) -> String {
        match self.fields.as_slice() {
            [] => {
                self.object.clone()
                    + &self
                        .offset
                        .filter(|_| most < usize::MAX)
                        .map_or(String::new(), |at| format!("+{at:#x}"))
            }
            [field] => self.join(field),
            fields => {
                let mut list = fields.iter().take(most).cloned().collect::<Vec<_>>().join(", ");
                if fields.len() > most {
                    let _ = write!(list, ", {} more", fields.len() - most);
                }
                self.join(&format!("{{{list}}}"))
            }
        }
    }

    fn join(&self, field: &str) -> String {
        let dot = if field.starts_with(['[', '+']) { "" } else { "." };
        format!("{}{dot}{field}", self.object)
    }
}

/// A place in the code in words.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
pub struct CodeName {
    /// With its modules.
    pub function: String,
    /// Path from the root of the repository, and line.
    pub file: Option<(String, u32)>,
    /// The function that the compiler put `function` into.
    pub within: Option<String>,
}

impl CodeName {
    pub fn text(&self) -> String {
        let mut text = tail(&self.function);
        if let Some((file, line)) = &self.file {
            let _ = write!(text, " {file}:{line}");
        }
        if let Some(within) = &self.within {
            let _ = write!(text, " in {}", tail(within));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(object: &str, fields: &[&str]) -> Part {
        Part {
            object: object.into(),
            type_: None,
            offset: (object == "heap").then_some(8),
            fields: fields.iter().map(|field| (*field).into()).collect(),
        }
    }

    #[test]
    fn fields_of_one_object_are_put_together_and_long_lists_cut_for_people_alone() {
        let parts = vec![part("vm::A", &["[].a", "b", "c", "d"]), part("heap", &[])];
        let name = LineName { parts, cpu: Some(3), address: Some(0x40) };
        assert_eq!(name.stable(), "vm::A.{[].a, b, c, d} + heap");
        assert_eq!(name.text(), "vm::A.{[].a, b, c, 1 more} + heap+0x8 of CPU 3 at 0x40");
        assert_eq!(name.names(), ["vm::A[].a", "vm::A.b", "vm::A.c", "vm::A.d", "heap"]);
    }

    #[test]
    fn code_is_short_but_says_where() {
        let name = CodeName {
            function: "sync::lock::SpinLock::lock".into(),
            file: Some(("sync/src/lock/spin.rs".into(), 7)),
            within: Some("vm::space::Space::fault".into()),
        };
        assert_eq!(name.text(), "SpinLock::lock sync/src/lock/spin.rs:7 in Space::fault");
    }
}
