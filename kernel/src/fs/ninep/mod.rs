//! 9P: the files of a server, of the host mostly, by 9P2000.L over a virtio device.
//!
//! * `message`   what goes to the server and comes back, as bytes
//! * `client`    a session, its fids, and what it asks for
//! * `remote`    how a file is asked about, and which answers are of before a change
//! * `inode`     files: what is known of them, and for how long
//! * `contents`  their bytes, read into pages, and written through or into them
//! * `back`      which files have pages that the server has not got, and who sends them; `unwritten` what of one, and `sending` how
//! * `directory` listing their names, which `listing` keeps
//! * `names`     changing names and attributes
//! * `xattr`     extended attributes
//! * `options`   of a mount
//!
//! **What the server says is checked, and believed for a second**: names, attributes and contents may change on its side. It may lie about its files, as whoever
//! serves them may: then programs see that, and the kernel takes no harm. What cannot be is EIO.
//!
//! Everything that asks the server sleeps, killably, and holds no lock but those that the VFS holds (`vfs::operations`).
#![forbid(unsafe_code)]

mod back;
mod client;
mod contents;
mod directory;
mod inode;
mod listing;
mod message;
mod names;
mod options;
mod remote;
mod sending;
#[cfg(test)]
mod tests;
mod unwritten;
mod xattr;

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;

use sync::{try_arc, try_box};
use vm::PAGE_SHIFT;

use self::back::Back;
pub use self::back::dirty_pages;
use self::client::{Claimed, Client, Fid, OVERHEAD};
use self::options::Options;
use self::remote::When;
use crate::device::virtio::share;
use crate::errno::{EINVAL, EIO, ENOENT, ENOTDIR, Errno, Result};
use crate::fs::vfs::cache::Cache;
use crate::fs::vfs::cache::inodes::InodeTable;
use crate::fs::vfs::inode::Kind;
use crate::fs::vfs::operations::SuperOps;
use crate::fs::vfs::parameters::Parameters;
use crate::fs::vfs::superblock::{FsType, Mounting, StatFs, SuperBlock, new_device};

pub static NINEP: FsType =
    FsType { name: "9p", magic: 0x0102_1997, nodev: true, mount, parameters: Parameters::Text };

/// One mounted tree.
pub struct Fs {
    client: Arc<Client>,
    device: u64,
    inodes: Arc<InodeTable>,
    /// Nanoseconds for which what the server says is believed.
    lifetime: u64,
    options: Options,
    /// Where what is written goes into pages, and to the server later.
    back: Option<Arc<Back>>,
    /// The server may not give files to others.
    gives_none: AtomicBool,
}

fn mount(kind: &'static FsType, asked: &Mounting<'_>) -> Result<Arc<SuperBlock>> {
    let options = Options::parse(asked.options)?;
    // Linux has no device name then.
    let tag = asked.source.filter(|source| !source.is_empty()).ok_or(EINVAL)?;
    let share = share::find(tag).ok_or(ENOENT)?;
    client::start()?;
    if options.writes_back() {
        back::start()?;
    }
    make(kind, options, try_box(Claimed::try_new(share)?)?)
}

fn make(
    kind: &'static FsType,
    options: Options,
    channel: Box<dyn client::Channel>,
) -> Result<Arc<SuperBlock>> {
    let most = u32::try_from(channel.data_most()).unwrap_or(u32::MAX).saturating_add(OVERHEAD);
    let message = options.message.map_or(most, |asked| asked.min(most));
    let client = Client::try_new(channel, message)?;
    let when = When::now(&client);
    let (fid, qid) = client.attach(&options.tree)?;
    let said = client.attributes(&fid)?;
    if said.qid.path != qid.path {
        return Err(EIO);
    }
    if said.kind != Kind::Directory {
        return Err(ENOTDIR);
    }
    let root_fid = fid.clone();
    let (device, inodes, lifetime) = (new_device(), InodeTable::try_new()?, options.lifetime());
    let gives_none = AtomicBool::new(false);
    let back = if options.writes_back() { Some(Back::try_new(&inodes)?) } else { None };
    let fs = try_arc(Fs { client, device, inodes: inodes.clone(), lifetime, options, back, gives_none })?;
    let root = fs.root(&fid, &said, when)?;
    let whole = try_box(Whole { fs, root: root_fid })?;
    SuperBlock::try_cached(kind, Cache::Revalidated, device, inodes, root, whole)
}

/// The operations of the whole.
struct Whole {
    fs: Arc<Fs>,
    root: Arc<Fid>,
}

impl SuperOps for Whole {
    fn statfs(&self, _: &SuperBlock) -> Result<StatFs> {
        let sizes = self.fs.client.sizes(&self.root)?;
        let pages = |blocks: u64| {
            let bytes = u128::from(blocks).saturating_mul(u128::from(sizes.block));
            u64::try_from(bytes >> PAGE_SHIFT).unwrap_or(u64::MAX)
        };
        let free = pages(sizes.free);
        Ok(StatFs {
            blocks: pages(sizes.blocks),
            free,
            reserved: free.saturating_sub(pages(sizes.available)),
            files: sizes.files,
            files_free: sizes.files_free,
        })
    }

    fn remount(
        &self,
        _: &SuperBlock,
        asked: &Mounting<'_>,
    ) -> core::result::Result<(), (Errno, &'static str)> {
        let is_so = self.fs.options.are(asked.options, self.fs.client.message_most);
        if is_so.map_err(|error| (error, ""))? { Ok(()) } else { Err((EINVAL, "")) }
    }

    fn show_options(&self, _: &SuperBlock, out: &mut Vec<u8>) -> Result {
        self.fs.options.show(self.fs.client.message_most, out)
    }

    /// What is dirty goes to the server, which then puts it on its disk.
    fn sync(&self, _: &SuperBlock, wait: bool) -> Result {
        match &self.fs.back {
            Some(back) if wait => back.send_all(|node| node.sync_on_server(false)),
            _ => Ok(()),
        }
    }
}

impl Drop for Whole {
    fn drop(&mut self) {
        if let Some(back) = &self.fs.back {
            back.end();
        }
    }
}
