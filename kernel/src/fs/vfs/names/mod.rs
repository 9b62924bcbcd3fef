//! Names: the tree of dentries, path lookup, and what adds, takes away and moves a name.
//!
//! * `dentry`     a name and what it stands for; `directory` the names of one directory, `order` as it lists them
//! * `cache/`     dentries found by parent and name, without a lock
//! * `lookup`     a path, step by step; `limits` how far it may lead
//! * `site`       the name that an operation is about to change; `create`, `remove` and `rename` change it
#![forbid(unsafe_code)]
pub mod cache;
pub mod create;
pub mod dentry;
pub mod directory;
mod limits;
pub mod lookup;
mod order;
pub mod remove;
pub mod rename;
mod site;
