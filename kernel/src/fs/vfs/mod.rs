//! The file-system layer that all file systems stand behind: inodes, names and their cache, path lookup, mounts, permissions.
//!
//! Nothing here names a file system. Each is a `superblock::FsType` and implementations of the traits in `operations`.
#![forbid(unsafe_code)]

pub mod access;
pub mod attributes;
pub mod cache;
pub mod clock;
pub mod context;
pub mod create;
pub mod dentry;
pub mod device_number;
pub mod directory;
pub mod inode;
pub mod locks;
pub mod lookup;
pub mod mount;
pub mod numbers;
pub mod operations;
pub mod remove;
pub mod rename;
pub mod seals;
mod site;
pub mod superblock;
mod writers;

#[cfg(test)]
mod tests;
