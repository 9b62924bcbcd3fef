//! The two files of the gate: the table, which a program writes, and the allow-list, which people write.
//!
//! tests/gate/table.toml holds for each benchmark what it costs today; a change may lower it. tests/gate/allowed.toml holds the
//! lines that may be shared for good, each with its reason, and the targets of transfers.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use crate::lines;

const HEAD: &str = "\
# What each benchmark costs on Darter; read by `darter lines --gate`, written by `darter lines --gate --update`.
#
# instructions: the kernel's per operation, exact, one CPU. expensive: those of them that cost more than others, by kind, and the bytes that
# repeated string instructions move (lines/src/instructions/expensive.rs). transfers: bound of the lines taken from another CPU per operation,
# by number of CPUs, where the target in allowed.toml is missed or there is none. inherited: the same of lines that no other CPU used in
# the window. lines: what CPUs share, by object and field, and should not; what they may share is in allowed.toml.
";

/// What one benchmark may cost.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Row {
    #[serde(default)]
    pub instructions: Option<f64>,
    /// Of them, by kind; what is not here is nothing.
    #[serde(default)]
    pub expensive: BTreeMap<String, f64>,
    /// By number of CPUs.
    #[serde(default)]
    pub transfers: BTreeMap<String, f64>,
    #[serde(default)]
    pub inherited: BTreeMap<String, f64>,
    #[serde(default)]
    pub lines: BTreeSet<String>,
}

/// What exact counts depend on beside the kernel.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    pub qemu: String,
    /// Fingerprint of the guest's files: programs built by another compiler cost the kernel other work.
    pub guest: String,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Table {
    #[serde(default)]
    pub made: Made,
    #[serde(flatten)]
    pub rows: BTreeMap<String, Row>,
}

#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Allowed {
    #[serde(default)]
    line: Vec<Allowance>,
    /// Transfers per operation, by benchmark.
    #[serde(default)]
    targets: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Allowance {
    /// A name, or with a `*` at its end the beginning of one.
    name: String,
    /// Only in these; in all if there are none.
    #[serde(default)]
    benchmarks: Vec<String>,
    why: String,
}

pub fn table_file(root: &Path) -> PathBuf {
    root.join("tests/gate/table.toml")
}

pub fn allowed_file(root: &Path) -> PathBuf {
    root.join("tests/gate/allowed.toml")
}

impl Table {
    /// An empty one if the file is not there.
    pub fn read(file: &Path) -> Result<Table> {
        lines::read(file)
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        lines::write(file, &self.text())
    }

    fn text(&self) -> String {
        let mut text =
            format!("{HEAD}\n[made]\nqemu = {:?}\nguest = {:?}\n", self.made.qemu, self.made.guest);
        for (name, row) in &self.rows {
            let _ = write!(text, "\n[{name}]\n");
            if let Some(instructions) = row.instructions {
                let _ = writeln!(text, "instructions = {instructions:?}");
            }
            let maps =
                [("expensive", &row.expensive), ("transfers", &row.transfers), ("inherited", &row.inherited)];
            for (what, bounds) in maps {
                let bounds: Vec<_> = bounds.iter().map(|(key, bound)| format!("{key} = {bound:?}")).collect();
                if !bounds.is_empty() {
                    let _ = writeln!(text, "{what} = {{ {} }}", bounds.join(", "));
                }
            }
            let lines: String = row.lines.iter().map(|line| format!("    {line:?},\n")).collect();
            let _ = match row.lines.is_empty() {
                true => writeln!(text, "lines = []"),
                false => writeln!(text, "lines = [\n{lines}]"),
            };
        }
        text
    }
}

impl Allowed {
    pub fn read(file: &Path) -> Result<Allowed> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Allowed::parse(&text).with_context(|| file.display().to_string())
    }

    pub fn parse(text: &str) -> Result<Allowed> {
        let allowed: Allowed = toml::from_str(text)?;
        for line in &allowed.line {
            if line.why.trim().is_empty() {
                bail!("{:?} is allowed without a reason: say why", line.name);
            }
            if line.name.trim_end_matches('*').is_empty() {
                bail!("a name that allows every line is no name");
            }
        }
        Ok(allowed)
    }

    /// The transfers per operation that this benchmark is to have at most, where somebody said so.
    pub fn target(&self, benchmark: &str) -> Option<f64> {
        self.targets.get(benchmark).copied()
    }

    /// Why this benchmark may share this line, if it may.
    pub fn why(&self, benchmark: &str, name: &str) -> Option<&str> {
        let fits = |line: &&Allowance| {
            let named = match line.name.strip_suffix('*') {
                Some(start) => name.starts_with(start),
                None => name == line.name,
            };
            named && (line.benchmarks.is_empty() || line.benchmarks.iter().any(|known| known == benchmark))
        };
        self.line.iter().find(fits).map(|line| line.why.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_read_as_it_was_written() {
        let row = Row {
            instructions: Some(608.031),
            expensive: [("locked".into(), 1.5)].into(),
            transfers: [("2".into(), 0.01), ("4".into(), 2.0)].into(),
            inherited: [("4".into(), 64.0)].into(),
            lines: ["vm::A.b \"quoted\"".into(), "user page".into()].into(),
        };
        let table = Table {
            made: Made { qemu: "10.0.2".into(), guest: "ab".into() },
            rows: [("faultzf".into(), row), ("new-one".into(), Row::default())].into(),
        };
        assert_eq!(toml::from_str::<Table>(&table.text()).unwrap(), table);
    }

    #[test]
    fn a_line_is_allowed_for_a_reason_alone() {
        let text = "[[line]]\nname = \"a::B*\"\nbenchmarks = [\"tmpfs\"]\nwhy = \"one list\"\n[[line]]\nname = \"c\"\nwhy = \"x\"";
        let allowed = Allowed::parse(text).unwrap();
        assert_eq!(allowed.why("tmpfs", "a::B.len"), Some("one list"));
        assert_eq!(allowed.why("pipe", "a::B.len"), None);
        assert_eq!(allowed.why("pipe", "c"), Some("x"));
        assert_eq!(allowed.why("pipe", "c.d"), None);
        for wrong in [
            "[[line]]\nname = \"a\"",
            "[[line]]\nname = \"a\"\nwhy = \" \"",
            "[[line]]\nname = \"*\"\nwhy = \"x\"",
        ] {
            assert!(Allowed::parse(wrong).is_err(), "{wrong}");
        }
    }
}
