//! The file-system layer that all file systems stand behind: inodes, names and their cache, path lookup, mounts, permissions.
//!
//! Nothing here names a file system. Each is a `superblock::FsType` and implementations of the traits in `operations`.
#![deny(unsafe_code)]

pub mod access;
pub mod acl;
pub mod attributes;
pub mod clock;
pub mod configuration;
pub mod context;
pub mod device_number;
pub mod handles;
pub mod inode;
pub mod locks;
pub mod mount;
pub mod names;
pub mod notify;
pub mod numbers;
pub mod operations;
pub mod parameters;
mod readers;
pub mod reading;
pub mod seals;
pub mod superblock;
mod writers;
pub mod xattr;

pub use names::{cache, create, dentry, directory, lookup, remove, rename};

#[cfg(test)]
mod tests;
