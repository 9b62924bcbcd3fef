//! /proc/sys by folders. Who adds a knob puts a row into a table here: what reading gives, which is the true value, and what
//! writing does, which is carried out. What can be neither is left out, as from a Linux that is built without it.
#![forbid(unsafe_code)]

pub mod fs;
pub mod kernel;
pub mod user;
pub mod vm;
