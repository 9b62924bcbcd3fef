//! tests/stack/stack.toml: what is allowed, and what machine code does not tell.

use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::Path;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// By the name of the folder that the image is in.
    pub image: Vec<Image>,
    /// Functions that end the machine, by parts of their names.
    pub ends: Vec<String>,
    /// Functions that run on another stack than a task's, by parts of their names.
    pub elsewhere: Vec<String>,
    #[serde(default)]
    pub calls: Vec<Calls>,
    #[serde(default)]
    pub never: Vec<Never>,
    #[serde(default)]
    pub recursion: Vec<Recursion>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Image {
    pub profile: String,
    /// Bytes that one function may take.
    pub frame: u64,
    /// Bytes of the deepest path.
    pub path: u64,
}

/// Whom the calls through registers and memory in functions of this name mean.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calls {
    pub from: String,
    pub to: Vec<String>,
}

/// A call that is in the code but does not happen where it would matter: what lies below it is measured by itself.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Never {
    pub from: Vec<String>,
    pub to: Vec<String>,
    pub why: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recursion {
    /// A part of the name of each of its functions.
    pub functions: Vec<String>,
    /// How often it goes round at most.
    pub rounds: u64,
    pub why: String,
}

impl Rules {
    pub fn read(file: &Path) -> Result<Rules> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        toml::from_str(&text).with_context(|| format!("{} is wrong", file.display()))
    }

    pub fn ends(&self, name: &str) -> bool {
        self.ends.iter().any(|part| name.contains(&**part))
    }

    /// Whom the indirect calls of `name` mean; nobody: it is not said.
    pub fn meant(&self, name: &str) -> Vec<String> {
        self.calls.iter().filter(|rule| name.contains(&*rule.from)).flat_map(|rule| rule.to.clone()).collect()
    }

    pub fn never(&self, from: &str, to: &str) -> bool {
        let any = |parts: &[String], name: &str| parts.iter().any(|part| name.contains(&**part));
        self.never.iter().any(|rule| any(&rule.from, from) && any(&rule.to, to))
    }

    pub fn recursion_of(&self, name: &str) -> Option<usize> {
        self.recursion.iter().position(|rule| rule.functions.iter().any(|part| name.contains(&**part)))
    }
}
