//! Drawing: curves with a point for each run, and pictures made of squares, as SVG text (crate plotters).
//!
//! What always holds, by tests over `layout`: no words leave their picture, no two overlap, ticks are round (1, 2 or 5 times a power of
//! ten, or counted CPUs), and a curve's name stands at its end.
#![forbid(unsafe_code)]

mod chart;
mod labels;
#[cfg(test)]
pub mod layout;
mod panels;
mod sheet;
mod ticks;

pub use chart::{Chart, Curve};
pub use labels::cut;
pub use panels::panels;
pub use sheet::{Anchor, Sheet, Words, picture};

/// Colours as plotters has them. report/page.css knows them too, for a dark screen: a test holds the two together.
pub const INK: &str = "#222222";
pub const FAINT: &str = "#DDDDDD";
pub const PAPER: &str = "#FFFFFF";
/// Of the kernels, in the order in which they are measured.
pub const KERNELS: [&str; 3] = ["#1F5FA8", "#C6403A", "#2E7D4F"];
