//! Changing a server's names and attributes. The server is asked, and where it has done it the inodes here are told, before anybody believes an answer of before (`remote::Change`).
//!
//! Where it is not known whether the server has done it (who asked was killed; an answer that is none), the inodes are asked for anew, and the VFS forgets the name.
//!
//! Lock order: directories, or the inode's lock of writes, which the VFS holds → what is known of a file. None of the latter is held while the server is asked.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::sync::atomic::Ordering::Relaxed;

use super::client::Fid;
use super::inode::{Found, Node, node_of};
use super::message::Set;
use super::remote::{By, Change};
use crate::errno::{EINTR, EINVAL, EIO, ENOENT, ENOMEM, EPERM, ESTALE, Errno, Result};
use crate::fs::vfs::attributes::Changes;
use crate::fs::vfs::inode::{Inode, Kind, NewInode, SET_GROUP_ID, SET_USER_ID};
use crate::fs::vfs::operations::Moving;

/// What is made under a name.
pub enum Made<'a> {
    File,
    Directory,
    Node,
    /// With that text.
    Link(&'a [u8]),
}

/// How many directories a directory has after a change. Each counts in its links.
#[derive(Clone, Copy)]
enum Subdirectories {
    AsMany,
    More,
    Fewer,
}

impl Subdirectories {
    fn more_if(more: bool) -> Self {
        if more { Self::More } else { Self::AsMany }
    }

    fn fewer_if(fewer: bool) -> Self {
        if fewer { Self::Fewer } else { Self::AsMany }
    }
}

/// Of an inode of the same mount.
fn other(inode: &Inode) -> Result<&Node> {
    node_of(inode).ok_or(EIO)
}

impl Node {
    /// This client has changed the directory's names.
    fn names_changed(&self, dir: &Inode, subdirectories: Subdirectories) {
        self.make_known(|| {
            self.forget_names();
            dir.touch_modified();
            match subdirectories {
                Subdirectories::More => dir.add_link(),
                Subdirectories::Fewer => dir.drop_link(),
                Subdirectories::AsMany => {}
            }
        });
    }

    /// What came of a change. Where it may have been made though that was not said, what it is about is asked for anew.
    fn said<R>(&self, others: &[&Node], said: Result<R>) -> Result<R> {
        if said.is_err() {
            for node in others.iter().chain(&[self]) {
                node.doubt();
                node.forget_names();
            }
        }
        said
    }

    /// Makes a name that is not there. May sleep.
    ///
    /// # Errors
    /// EEXIST; those of the server.
    pub fn make_name(&self, dir: &Inode, name: &[u8], new: &NewInode, made: Made<'_>) -> Result<Arc<Inode>> {
        let change = Change::begin(&[&self.remote], &[])?;
        let (client, here) = (&self.fs.client, self.remote.walked());
        let (kept, is_dir) = (change.clone(), matches!(made, Made::Directory));
        let done = match made {
            Made::File => client.create(&here, name, new, kept).map(|(fid, qid)| (Some(fid), qid)),
            Made::Directory => client.mkdir(&here, name, new, kept).map(|qid| (None, qid)),
            Made::Node => client.mknod(&here, name, new, kept).map(|qid| (None, qid)),
            Made::Link(text) => client.symlink(&here, name, new, text, kept).map(|qid| (None, qid)),
        };
        let (open, qid) = self.said(&[], done)?;
        self.names_changed(dir, Subdirectories::more_if(is_dir));
        drop(change);
        let mut found = self.fs.find(&self.remote, dir, name)?;
        if found.said.qid.path != qid.path || found.said.kind != new.kind {
            return Err(ESTALE);
        }
        self.own(&mut found, new);
        // An inode with its number is of a file that is gone.
        if let Ok(before) = self.fs.inodes.get(qid.path, || Err(ENOENT)) {
            self.fs.inodes.forget(&before);
        }
        let inode = self.fs.inode(found)?;
        if let Some(open) = open {
            other(&inode)?.remote.keep_made(open);
        }
        Ok(inode)
    }

    /// The server makes files as its own; where it may it gives them to whom the guest made them for.
    fn own(&self, found: &mut Found, new: &NewInode) {
        let said = &mut found.said;
        if said.uid == new.uid || self.fs.gives_none.load(Relaxed) {
            return;
        }
        // To give a file away takes its set-id bits.
        let mode = (new.mode & (SET_USER_ID | SET_GROUP_ID) != 0).then_some(new.mode);
        let set = Set { uid: Some(new.uid), gid: Some(new.gid), ..Set::default() };
        let given = self.give(&found.fid, &set);
        match given {
            Ok(()) => {
                (said.uid, said.gid) = (new.uid, new.gid);
                if let Some(mode) = mode {
                    let _ = self.give(&found.fid, &Set { mode: Some(mode), ..Set::default() });
                }
            }
            Err(EPERM) => self.fs.gives_none.store(true, Relaxed),
            Err(_) => {}
        }
    }

    fn give(&self, fid: &Fid, set: &Set) -> Result {
        self.fs.client.set_attributes(fid, set, Change::begin(&[], &[])?)
    }

    /// Gives the file one more name.
    pub fn add_name(&self, dir: &Inode, name: &[u8], inode: &Inode) -> Result {
        let file = other(inode)?;
        let change = Change::begin(&[&self.remote], &[&file.remote])?;
        let (here, there) = (self.remote.walked(), file.remote.walked());
        let linked = self.fs.client.link_to(&here, name, &there, change.clone());
        self.said(&[file], linked)?;
        file.make_known(|| inode.add_link());
        self.names_changed(dir, Subdirectories::AsMany);
        // Where fids are paths, that of the first name is gone with it. Without another the name is asked for when it is used.
        let by = By::try_new(self.remote.path, dir.version(), name)?;
        if let Ok((fid, qid)) = self.fs.client.walk(&here, name)
            && qid.path == file.remote.path
        {
            file.remote.adopt(fid, by);
        }
        Ok(())
    }

    /// Takes a name away.
    pub fn remove_name(&self, dir: &Inode, name: &[u8], victim: &Inode) -> Result {
        let file = other(victim)?;
        let change = Change::begin(&[&self.remote], &[&file.remote])?;
        let is_dir = victim.is_dir();
        let removed = self.fs.client.unlink(&self.remote.walked(), name, is_dir, change.clone());
        self.said(&[file], removed)?;
        file.lose_name(victim, (self, name));
        self.names_changed(dir, Subdirectories::fewer_if(is_dir));
        Ok(())
    }

    /// The inode has a name less, that of a directory.
    fn lose_name(&self, inode: &Inode, (dir, name): (&Node, &[u8])) {
        self.remote.disown(dir.remote.path, name);
        self.make_known(|| if inode.is_dir() { inode.set_links(0) } else { inode.drop_link() });
    }

    /// # Errors
    /// EINVAL: the protocol has no such rename.
    pub fn move_name(&self, moving: &Moving<'_>) -> Result {
        if moving.exchange || moving.no_replace {
            return Err(EINVAL);
        }
        let (to, moved) = (other(moving.new_dir)?, other(moving.old)?);
        let replaced = moving.target.map(other).transpose()?;
        let also = [&moved.remote, replaced.map_or(&moved.remote, |node| &node.remote)];
        let is_within = core::ptr::eq(self, to);
        let orders = [&self.remote, &to.remote];
        let orders = if is_within { orders.get(..1).unwrap_or(&[]) } else { &orders[..] };
        let change = Change::begin(orders, &also)?;
        let renamed = self.fs.client.rename(
            (&self.remote.walked(), moving.old_name),
            (&to.remote.walked(), moving.new_name),
            change.clone(),
        );
        self.said(&[to, moved, replaced.unwrap_or(moved)], renamed)?;
        moved.remote.renamed(self.remote.path, moving.old_name);
        moved.make_known(|| moving.old.touch_changed());
        if let (Some(node), Some(target)) = (replaced, moving.target) {
            node.lose_name(target, (to, moving.new_name));
        }
        let is_dir = moving.old.is_dir();
        let replaces_dir = moving.target.is_some_and(Inode::is_dir);
        let leaves = is_dir && (!is_within || replaces_dir);
        self.names_changed(moving.old_dir, Subdirectories::fewer_if(leaves));
        if !is_within {
            to.names_changed(moving.new_dir, Subdirectories::more_if(is_dir && !replaces_dir));
        }
        Ok(())
    }

    /// Changes attributes. The lock of writes is held.
    pub fn set(&self, inode: &Inode, changes: &Changes) -> Result {
        let Changes { mode, uid, gid, accessed, modified, size, drops_capabilities: _ } = *changes;
        if size.is_some() && inode.kind != Kind::Regular {
            return Err(EINVAL);
        }
        let set = Set { mode, uid, gid, size, accessed, modified };
        // No page that is on its way comes after the new size. Times are the server's when it has what was written.
        if accessed.is_some() || modified.is_some() {
            // What is lost is told to who has it open.
            if let Err(error @ (EINTR | ENOMEM)) = self.write_back(u64::MAX) {
                return Err(error);
            }
        }
        let _turn = if size.is_some() { Some(self.remote.unwritten.turn()?) } else { None };
        let change = Change::begin(&[&self.remote], &[])?;
        self.said(&[], self.ask_to_set(&set, &change))?;
        self.make_known(|| {
            inode.apply(changes);
            match size {
                Some(size) => {
                    inode.touch_modified();
                    self.resize(size)
                }
                None => Ok(()),
            }
        })
    }

    /// By a fid that writes where the size is to be changed, since a mode may refuse it to others; and by one that is open where no name leads to the file any more.
    fn ask_to_set(&self, set: &Set, change: &Arc<Change>) -> Result {
        let client = &self.fs.client;
        let open = self.remote.open_already();
        let writing = if set.size.is_some() { self.remote.writing_already() } else { None };
        let first = writing.unwrap_or_else(|| self.remote.walked());
        let is_lost = |error: Errno| error == ENOENT || error == ESTALE;
        match (client.set_attributes(&first, set, change.clone()), open) {
            (Err(error), Some(open)) if is_lost(error) => client.set_attributes(&open, set, change.clone()),
            (said, _) => said,
        }
    }
}
