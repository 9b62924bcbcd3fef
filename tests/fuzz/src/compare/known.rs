//! Differences that have been looked at and stay: tests/fuzz/known-differences.
#![forbid(unsafe_code)]

use std::path::Path;

use anyhow::{Context, Result};

use super::Difference;

/// A row of tests/fuzz/known-differences: CALL, what Linux and Darter return (`*`: anything), the reason; between tabs.
pub struct Known {
    pub call: String,
    pub linux: String,
    pub darter: String,
    pub reason: String,
}

impl Known {
    pub fn fits(&self, difference: &Difference) -> bool {
        let same = |pattern: &str, text: &str| pattern == "*" || text.starts_with(pattern);
        (self.call == difference.call || difference.call.split(' ').next() == Some(&self.call))
            && same(&self.linux, &difference.linux)
            && same(&self.darter, &difference.darter)
    }
}

pub fn known(root: &Path) -> Result<Vec<Known>> {
    let text = std::fs::read_to_string(root.join("tests/fuzz/known-differences"))
        .context("tests/fuzz/known-differences")?;
    let mut all = Vec::new();
    for row in text.lines().filter(|row| !row.is_empty() && !row.starts_with('#')) {
        let fields: Vec<&str> = row.split('\t').collect();
        let [call, linux, darter, reason] = fields.as_slice() else {
            anyhow::bail!("known-differences: not a row: {row}")
        };
        let own = |text: &&str| (*text).to_owned();
        all.push(Known { call: own(call), linux: own(linux), darter: own(darter), reason: own(reason) });
    }
    Ok(all)
}
