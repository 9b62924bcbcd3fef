//! The bits of inotify(7): events, what a watch may ask for besides, and three that no program sees.
#![forbid(unsafe_code)]

pub const ACCESS: u32 = 0x1;
pub const MODIFY: u32 = 0x2;
pub const ATTRIB: u32 = 0x4;
pub const CLOSE_WRITE: u32 = 0x8;
pub const CLOSE_NOWRITE: u32 = 0x10;
pub const OPEN: u32 = 0x20;
pub const MOVED_FROM: u32 = 0x40;
pub const MOVED_TO: u32 = 0x80;
pub const CREATE: u32 = 0x100;
pub const DELETE: u32 = 0x200;
pub const DELETE_SELF: u32 = 0x400;
pub const MOVE_SELF: u32 = 0x800;
/// All that a program asks for by name.
pub const ALL: u32 = 0xfff;
/// How many these are.
pub const KINDS: usize = 12;

/// Opened to be executed. Not told, but such an event is not the same as one without it.
pub const OPEN_EXEC: u32 = 0x1000;
pub const UNMOUNT: u32 = 0x2000;
pub const Q_OVERFLOW: u32 = 0x4000;
pub const IGNORED: u32 = 0x8000;
/// Renamed within one directory: told to those alone who are told by a signal (`signals`), and wanted of no inode: MOVED_FROM is.
pub const RENAME: u32 = 0x0001_0000;
/// Told to the watches of the directory, of a name in it. Not told, as `OPEN_EXEC`.
pub const ON_CHILD: u32 = 0x0800_0000;
pub const ISDIR: u32 = 0x4000_0000;
/// What is told of an event.
pub const TOLD: u32 = ALL | UNMOUNT | Q_OVERFLOW | IGNORED | ISDIR;

/// What a directory's watches are told of the files in it, by way of their names.
pub const OF_CHILDREN: u32 = ACCESS | MODIFY | ATTRIB | CLOSE_WRITE | CLOSE_NOWRITE | OPEN;

pub const ONLYDIR: u32 = 0x0100_0000;
pub const DONT_FOLLOW: u32 = 0x0200_0000;
pub const EXCL_UNLINK: u32 = 0x0400_0000;
pub const MASK_CREATE: u32 = 0x1000_0000;
pub const MASK_ADD: u32 = 0x2000_0000;
pub const ONESHOT: u32 = 0x8000_0000;
/// What a watch keeps of what it was asked for beside the events.
pub const KEPT: u32 = EXCL_UNLINK | ONESHOT;
/// What inotify_add_watch knows.
pub const KNOWN: u32 = TOLD | ONLYDIR | DONT_FOLLOW | EXCL_UNLINK | MASK_CREATE | MASK_ADD | ONESHOT;
