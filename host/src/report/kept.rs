//! What was measured, by whatever command: read from what --json wrote, and brought together.
#![forbid(unsafe_code)]

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::bench::exact::Counts;
use crate::bench::results::Results;
use crate::lines::grid::Grids;
use crate::lines::report::Counted;

/// The content of `bench --report --json`, too.
#[derive(Serialize, Deserialize, Clone, Default)]
pub struct Kept {
    pub rates: Option<Results>,
    pub instructions: Option<Counts>,
    pub lines: Option<Counted>,
    pub grid: Option<Grids>,
}

impl Kept {
    /// A file of --json of `bench`, `bench --instructions`, `lines`, `lines --grid` or `bench --report`.
    ///
    /// # Errors
    /// It cannot be read, or is something else.
    pub fn read(file: &Path) -> Result<Kept> {
        let name = file.display();
        let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {name}"))?;
        let value: Value = serde_json::from_str(&text).with_context(|| format!("{name} is no JSON"))?;
        Self::of(value).with_context(|| name.to_string())
    }

    fn of(value: Value) -> Result<Kept> {
        let has = |key: &str| value.get(key).is_some();
        let mut kept = Kept::default();
        if has("samples") {
            kept.rates = Some(parse(value)?);
        } else if has("counts") {
            kept.instructions = Some(parse(value)?);
        } else if has("figures") {
            kept.lines = Some(parse(value)?);
        } else if has("grids") {
            kept.grid = Some(parse(value)?);
        } else if ["rates", "instructions", "lines", "grid"].into_iter().any(has) {
            kept = parse(value)?;
        } else {
            bail!(
                "no figures that --json of bench, lines or lines --grid writes (an earlier darter wrote lines and grids as bare lists, which say no versions)"
            );
        }
        Ok(kept)
    }

    /// Takes what the other has, in place of one's own.
    pub fn add(&mut self, other: Kept) {
        self.rates = other.rates.or(self.rates.take());
        self.instructions = other.instructions.or(self.instructions.take());
        self.lines = other.lines.or(self.lines.take());
        self.grid = other.grid.or(self.grid.take());
    }
}

fn parse<T: DeserializeOwned>(value: Value) -> Result<T> {
    serde_json::from_value(value).context("not as this darter writes it")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn what_json_wrote_is_read_back() {
        let kept = sample::kept();
        let back = |value: Value| serde_json::to_value(Kept::of(value).unwrap()).unwrap();
        let whole = serde_json::to_value(&kept).unwrap();
        assert_eq!(back(whole.clone()), whole);
        for part in ["rates", "instructions", "lines", "grid"] {
            assert_eq!(back(whole[part].clone())[part], whole[part], "{part}");
        }
        assert!(Kept::of(serde_json::json!({ "runs": [] })).is_err());
        assert!(Kept::of(serde_json::json!({ "samples": 1 })).is_err());
    }

    #[test]
    fn the_later_file_wins_and_the_rest_stays() {
        let mut kept = sample::kept();
        kept.add(Kept::default());
        assert!(kept.rates.is_some() && kept.grid.is_some());
        let mut rates = sample::kept().rates.unwrap();
        rates.runs = 77;
        kept.add(Kept { rates: Some(rates), ..Kept::default() });
        assert_eq!(kept.rates.unwrap().runs, 77);
    }
}
