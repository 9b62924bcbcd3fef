//! `darter bench`.
#![forbid(unsafe_code)]

use anyhow::{Result, bail};

use crate::cli::Bench;

pub fn bench(_options: &Bench) -> Result<u8> {
    bail!("not there yet")
}
