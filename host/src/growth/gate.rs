//! `darter growth --gate`: does a cost grow with what the call should not look at?
//!
//! tests/gate/growth.toml has a row for each operation whose cost grows: how, what each further thing may add, and why it may. Whatever is
//! not there has to be flat. `--update` writes what was measured and keeps the reasons; a new row has none, and fails until a person has
//! written one.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;

use super::judge::{Growth, each};
use super::{Row, Shown};

const HEAD: &str = "\
# Which costs may grow with N, by world and operation of bench/growth: how, how many instructions each further thing may add (growth \"n\"),
# and why. What is not here has to be flat. Read by `darter growth --gate`; `darter growth --gate --update` writes the figures, people the
# reasons.

";
/// Above what was measured when the file was written, so much is still within the bound.
const ROOM: f64 = 1.3;

#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bound {
    growth: Growth,
    /// Instructions that each further thing may add.
    #[serde(default)]
    each: f64,
    why: String,
}

/// By world and operation: "children wait-none".
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
pub struct Bounds(BTreeMap<String, Bound>);

#[derive(Debug, Default, PartialEq)]
pub struct Verdict {
    pub worse: Vec<String>,
    /// May be taken back.
    pub ask: Vec<String>,
}

pub fn file(root: &Path) -> PathBuf {
    root.join("tests/gate/growth.toml")
}

/// "300 300 310 5000".
fn said(shown: &Shown) -> String {
    shown.figures.iter().map(|(n, cost)| format!("{cost:.0} among {n}")).collect::<Vec<_>>().join(", ")
}

impl Bounds {
    /// None where the file is not there.
    pub fn read(file: &Path) -> Result<Bounds> {
        match std::fs::read_to_string(file) {
            Ok(text) => toml::from_str(&text).with_context(|| file.display().to_string()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Bounds::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    pub fn write(&self, file: &Path) -> Result<()> {
        std::fs::write(file, self.text()).with_context(|| format!("cannot write {}", file.display()))
    }

    fn text(&self) -> String {
        let mut text = HEAD.to_owned();
        for (key, Bound { growth, each, why }) in &self.0 {
            let each = if *each > 0.0 { format!("each = {each:?}, ") } else { String::new() };
            let _ = writeln!(text, "{key:?} = {{ growth = {:?}, {each}why = {why:?} }}", growth.name());
        }
        text
    }

    pub fn judge(&self, rows: &[Row], shown: &[Shown], all: &[Row]) -> Verdict {
        let mut verdict = Verdict::default();
        for (row, shown) in rows.iter().zip(shown) {
            self.judge_row(row, shown, &mut verdict);
        }
        let unknown = self.0.keys().filter(|key| !all.iter().any(|row| row.key() == **key));
        verdict.worse.extend(unknown.map(|key| format!("{key}: there is no such world and operation")));
        verdict
    }

    /// Is it worse than it may be, by what was measured?
    pub fn suspects(&self, row: &Row, shown: &Shown) -> bool {
        let mut verdict = Verdict::default();
        self.judge_row(row, shown, &mut verdict);
        shown.failed.is_none() && !verdict.worse.is_empty()
    }

    fn judge_row(&self, row: &Row, shown: &Shown, verdict: &mut Verdict) {
        let (key, adds) = (row.key(), each(&shown.figures));
        let growth = match (&shown.failed, Growth::of(&shown.figures)) {
            (Some(why), _) => {
                verdict.worse.push(format!("{key}: {why}"));
                return;
            }
            // One figure does not say anything.
            (None, None) => return,
            (None, Some(growth)) => growth,
        };
        let bound = self.0.get(&key);
        let (allowed, most, why) =
            bound.map_or((Growth::Flat, 0.0, "flat"), |bound| (bound.growth, bound.each, bound.why.trim()));
        let name = growth.name();
        if why.is_empty() {
            verdict.worse.push(format!("{key}: may grow without a reason: say why"));
        } else if growth > allowed {
            let allowed = allowed.name();
            verdict.worse.push(format!("{key}: grows as {name}, allowed is {allowed}: {}", said(shown)));
        } else if growth == Growth::Linear && adds > most {
            verdict.worse.push(format!("{key}: each adds {adds:.2}, the bound is {most}: {}", said(shown)));
        } else if growth < allowed {
            verdict.ask.push(format!("{key}: grows as {name}, the file allows {}", allowed.name()));
        }
    }

    /// Bounds from what was measured; other rows stay.
    pub fn update(&mut self, rows: &[Row], shown: &[Shown], all: &[Row]) {
        self.0.retain(|key, _| all.iter().any(|row| row.key() == *key));
        for (row, shown) in rows.iter().zip(shown).filter(|(_, shown)| shown.failed.is_none()) {
            match Growth::of(&shown.figures) {
                None => {}
                Some(Growth::Flat) => {
                    self.0.remove(&row.key());
                }
                Some(growth) => {
                    let new = Bound { growth, each: 0.0, why: String::new() };
                    let bound = self.0.entry(row.key()).or_insert(new);
                    bound.growth = growth;
                    bound.each =
                        if growth == Growth::Linear { rounded(each(&shown.figures) * ROOM) } else { 0.0 };
                }
            }
        }
    }
}

/// Up, to two digits.
fn rounded(value: f64) -> f64 {
    let unit = 10f64.powf(value.max(0.01).log10().floor() - 1.0);
    let rounded = (value / unit - 1e-9).ceil() * unit;
    format!("{rounded:.4}").parse().unwrap_or(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(names: &[&str]) -> Vec<Row> {
        let list: String = names.iter().map(|name| format!("w things 1000 {name} 1\n")).collect();
        super::super::parse(&list).unwrap()
    }

    fn shown(each: f64) -> Shown {
        let figures = [10, 100, 1000].map(|n| (n, 300.0 + each * f64::from(n))).to_vec();
        Shown { figures, ..Shown::default() }
    }

    #[test]
    fn what_grows_needs_a_row_with_a_reason_and_stays_within_it() {
        let bounds: Bounds = toml::from_str(
            "\"w list\" = { growth = \"n\", each = 5.0, why = \"it lists them\" }\n\"w mute\" = { growth = \"n\", each = 5.0, why = \"\" }\n\"w gone\" = { growth = \"n\", why = \"x\" }",
        )
        .unwrap();
        let all = rows(&["list", "mute", "get"]);
        let judge = |each: [f64; 3]| bounds.judge(&all, &each.map(shown), &all);
        let good = judge([4.0, 4.0, 0.0]);
        assert_eq!(good.worse.len(), 2, "{good:?}");
        assert!(good.worse[0].contains("say why") && good.worse[1].starts_with("w gone: there is no"));
        let bad = judge([6.0, 0.0, 1.0]);
        assert!(bad.worse[0].starts_with("w list: each adds 6.00, the bound is 5"), "{bad:?}");
        assert!(
            bad.worse.iter().any(|text| text.starts_with("w get: grows as n, allowed is flat: 310 among 10"))
        );
        assert_eq!(judge([0.0, 4.0, 0.0]).ask.len(), 1);
    }

    #[test]
    fn an_update_keeps_reasons_and_drops_what_is_flat() {
        let mut bounds: Bounds = toml::from_str(
            "\"w a\" = { growth = \"log n\", why = \"a \\\"tree\\\"\" }\n\"w b\" = { growth = \"n\", each = 9.0, why = \"x\" }",
        )
        .unwrap();
        let all = rows(&["a", "b", "c"]);
        bounds.update(&all, &[shown(2.0), shown(0.0), shown(1.0)], &all);
        let again: Bounds = toml::from_str(&bounds.text()).unwrap();
        assert_eq!(again, bounds);
        let row = |each: f64, why: &str| Bound { growth: Growth::Linear, each, why: why.into() };
        let expected = [("w a".to_owned(), row(2.6, "a \"tree\"")), ("w c".to_owned(), row(1.3, ""))];
        assert_eq!(again.0.into_iter().collect::<Vec<_>>(), expected);
    }
}
