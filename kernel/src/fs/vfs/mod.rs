//! The file-system layer that all file systems stand behind: inodes, names and their cache, path lookup, mounts, permissions.
//!
//! Nothing here names a file system. Each is a `superblock::FsType` and implementations of `inode::InodeOps`.
#![forbid(unsafe_code)]

pub mod access;
pub mod clock;
pub mod context;
pub mod create;
pub mod dentry;
pub mod device_number;
pub mod directory;
pub mod inode;
pub mod lookup;
pub mod mount;
pub mod numbers;
pub mod rename;
pub mod superblock;
mod writers;
