//! Names of sockets: a path, or an abstract name, which no file system holds and which begins with a zero byte.
//!
//! An abstract name belongs to sockets of one kind and is free again when its socket is closed. They lie in a table of buckets, each with a lock
//! on a line of its own and a red-black tree by name: programs choose how many names fall into one bucket, and a look there stays short. A name that is
//! a path hangs on its inode: who connects finds the socket there, while it is open.
//!
//! Lock order: a socket's `binding` → what making a name takes; a bucket → nothing.
#![deny(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use core::cmp;

use intrusive_collections::rbtree::Entry;
use intrusive_collections::{KeyAdapter, RBTree, RBTreeLink, intrusive_adapter};
use sync::percpu::Padded;
use sync::rcu::RcuArc;
use sync::{SpinLock, TryVec, lock_class, try_arc, try_box};

use super::{Kind, Phase, Socket};
use crate::errno::*;
use crate::fs::caller;
use crate::fs::vfs::access::{self, Cred, WRITE};
use crate::fs::vfs::create::{self, Making};
use crate::fs::vfs::inode::{Inode, Kind as FileKind};
use crate::fs::vfs::lookup::{self, Start};
use crate::fs::vfs::mount::Path;
use crate::fs::vfs::remove;
use crate::lock_order as level;

lock_class! { static BUCKET: LockClass = ("socket names", level::SocketNames); }

/// AF_UNIX, as `sun_family`.
pub const FAMILY: u16 = 1;
/// `struct sockaddr_un`, and where its path begins.
pub const MOST: usize = 110;
pub const BEFORE: usize = 2;

/// A name as a program gave it, or as it is told: what stands in `sun_path`. A path has a zero byte at its end, which `len` counts, too.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Address {
    bytes: [u8; MOST],
    len: u8,
}

impl Address {
    /// Of the bytes of a `struct sockaddr_un`, its family included.
    ///
    /// # Errors
    /// EINVAL: too short or too long, or another family.
    pub fn parse(given: &[u8]) -> Result<Address> {
        let path =
            given.get(BEFORE..).filter(|path| !path.is_empty() && given.len() <= MOST).ok_or(EINVAL)?;
        if family(given) != Some(FAMILY) {
            return Err(EINVAL);
        }
        // A path ends at its first zero byte, or where the structure does.
        let path = match path.first() {
            Some(0) => path,
            _ => path.split(|byte| *byte == 0).next().unwrap_or(path),
        };
        Ok(Address::of(path))
    }

    fn of(path: &[u8]) -> Address {
        let mut bytes = [0; MOST];
        bytes.iter_mut().zip(path).for_each(|(to, from)| *to = *from);
        let ending = usize::from(path.first() != Some(&0));
        Address { bytes, len: path.len().saturating_add(ending).min(MOST) as u8 }
    }

    /// What stands in `sun_path`.
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.len)).unwrap_or(&[])
    }

    pub fn is_abstract(&self) -> bool {
        self.bytes.first() == Some(&0)
    }

    /// A path without its zero byte.
    fn path(&self) -> &[u8] {
        self.bytes().strip_suffix(&[0]).unwrap_or(self.bytes())
    }

    /// As /proc/net/unix shows it: `@` for zero bytes of an abstract name.
    pub fn tell(&self, out: &mut Vec<u8>) -> Result {
        if !self.is_abstract() {
            out.try_extend_from_slice(self.path())?;
            return Ok(());
        }
        for byte in self.bytes() {
            out.try_push(if *byte == 0 { b'@' } else { *byte })?;
        }
        Ok(())
    }
}

/// The family of an address.
pub fn family(given: &[u8]) -> Option<u16> {
    Some(u16::from_ne_bytes(given.get(..BEFORE)?.try_into().ok()?))
}

/// An abstract name, and of which kind of sockets it is.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Key {
    kind: Kind,
    name: Address,
}

impl Ord for Key {
    fn cmp(&self, other: &Key) -> cmp::Ordering {
        (self.kind as u8, self.name.bytes()).cmp(&(other.kind as u8, other.name.bytes()))
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Key) -> Option<cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// A socket with an abstract name.
struct Named {
    key: Key,
    socket: Arc<Socket>,
    link: RBTreeLink,
}

intrusive_adapter!(ByName = Box<Named>: Named { link => RBTreeLink });

impl<'a> KeyAdapter<'a> for ByName {
    type Key = &'a Key;
    fn get_key(&self, named: &'a Named) -> &'a Key {
        &named.key
    }
}

const BUCKETS: usize = 1024;

type Bucket = Padded<SpinLock<RBTree<ByName>, level::SocketNames>>;

static ABSTRACT: [Bucket; BUCKETS] =
    [const { Padded(SpinLock::new(RBTree::new(ByName::NEW), &BUCKET)) }; BUCKETS];

/// FNV-1a, with the kind, so that names of different kinds are apart.
fn bucket(key: &Key) -> Result<&'static Bucket> {
    let first = 0xcbf2_9ce4_8422_2325_u64 ^ key.kind as u64;
    let hash = key
        .name
        .bytes()
        .iter()
        .fold(first, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3));
    ABSTRACT.get((hash ^ hash >> 32) as usize % BUCKETS).ok_or(EINVAL)
}

#[cfg(test)]
pub fn bucket_of(kind: Kind, name: &Address) -> Option<usize> {
    let bucket = bucket(&Key { kind, name: *name }).ok()?;
    Some(core::ptr::from_ref(bucket).addr())
}

/// The socket of `kind` with an abstract name.
fn find_abstract(kind: Kind, name: &Address) -> Result<Arc<Socket>> {
    let key = Key { kind, name: *name };
    let names = bucket(&key)?.0.lock();
    names.find(&key).get().map(|named| named.socket.clone()).ok_or(ECONNREFUSED)
}

/// What an inode knows of the socket that is bound there.
struct Bound(RcuArc<Socket>);

/// The socket of `kind` that a name belongs to, looked for by the running thread.
///
/// # Errors
/// ECONNREFUSED: there is none. EPROTOTYPE: it is of another kind. EACCES, and those of the path.
pub fn find(kind: Kind, name: &Address) -> Result<Arc<Socket>> {
    if name.is_abstract() {
        return find_abstract(kind, name);
    }
    let (context, cred) = (caller::context(), Cred::current());
    let path = lookup::resolve(&context, &cred, Start::Cwd, name.path(), true)?;
    let inode = &path.dentry.inode;
    inode.refresh()?;
    access::check_on(&path.mount, inode, &cred, WRITE)?;
    if inode.kind != FileKind::Socket {
        return Err(ECONNREFUSED);
    }
    let read = sync::rcu::read();
    let bound = inode.look_attached(&read, |bound: &Bound| bound.0.get(&read)).flatten();
    let socket = bound.ok_or(ECONNREFUSED)?;
    if socket.kind != kind { Err(EPROTOTYPE) } else { Ok(socket) }
}

impl Socket {
    /// bind(2) to the bytes of an address.
    ///
    /// # Errors
    /// EINVAL: no good address, or it has a name; EADDRINUSE; those of making a file.
    pub fn bind(self: &Arc<Socket>, given: &[u8]) -> Result {
        if given.len() == BEFORE && family(given) == Some(FAMILY) {
            return self.bind_to_any();
        }
        let name = Address::parse(given)?;
        if name.is_abstract() {
            let _binding = self.binding.lock();
            if self.name().is_some() {
                return Err(EINVAL);
            }
            return self.enter_abstract(name);
        }
        self.bind_to_path(name)
    }

    /// Gives it an abstract name that nobody has, of five digits, unless it has one.
    ///
    /// # Errors
    /// ENOSPC: all are taken. ENOMEM.
    pub fn bind_to_any(self: &Arc<Socket>) -> Result {
        const NAMES: u64 = 0x10_0000;
        let _binding = self.binding.lock();
        if self.name().is_some() {
            return Ok(());
        }
        let first = crate::arch::time::now() ^ self.number().wrapping_mul(0x9e37_79b9);
        for n in 0..NAMES {
            let mut text = [0; 6];
            let mut rest = first.wrapping_add(n) % NAMES;
            for digit in text.iter_mut().skip(1).rev() {
                *digit = *b"0123456789abcdef".get((rest % 16) as usize).unwrap_or(&b'0');
                rest /= 16;
            }
            match self.enter_abstract(Address::of(&text)) {
                Err(EADDRINUSE) => {}
                result => return result,
            }
            if crate::sched::give_way() {
                return Err(EINTR);
            }
        }
        Err(ENOSPC)
    }

    fn enter_abstract(self: &Arc<Socket>, name: Address) -> Result {
        let key = Key { kind: self.kind, name };
        let (bucket, name) = (bucket(&key)?, try_arc(name)?);
        let named = try_box(Named { key, socket: self.clone(), link: RBTreeLink::new() })?;
        let mut names = bucket.0.lock();
        match names.entry(&key) {
            Entry::Occupied(_) => {
                drop(names);
                Err(EADDRINUSE)
            }
            Entry::Vacant(place) => {
                place.insert(named);
                let mut state = self.state.lock();
                state.name = Some(name);
                state.is_in_table = true;
                Ok(())
            }
        }
    }

    fn bind_to_path(self: &Arc<Socket>, name: Address) -> Result {
        let (context, cred) = (caller::context(), Cred::current());
        let in_use = |error| if error == EEXIST { EADDRINUSE } else { error };
        let parent = lookup::resolve_parent(&context, &cred, Start::Cwd, name.path())?;
        let last = parent.name(EADDRINUSE)?;
        let mode = self.inode_mode().unwrap_or(0o777);
        // The umask counts in a directory with a default list too.
        let mode = mode & !context.umask();
        let making = Making { kind: FileKind::Socket, mode, rdev: 0, target: &[] };
        if parent.slash {
            // Only a directory can have a name that ends so; whether something is there is told first.
            create::make_at(&context, &cred, Start::Cwd, name.path(), &making).map_err(in_use)?;
            return Err(ENOENT);
        }
        let made = create::make(&parent.dir, last, &cred, &making, context.umask()).map_err(in_use)?;
        let path = Path { mount: parent.dir.mount.clone(), dentry: made };
        let entered = self.enter_path(&path, &name);
        if entered.is_err() {
            // It is a name that nobody has bound.
            let _ = remove::unlink_at(&context, &cred, Start::Cwd, name.path());
        }
        entered
    }

    fn enter_path(self: &Arc<Socket>, path: &Path, name: &Address) -> Result {
        let name = try_arc(*name)?;
        let _binding = self.binding.lock();
        if self.name().is_some() {
            return Err(EINVAL);
        }
        let inode: &Inode = &path.dentry.inode;
        inode.attached(|| Ok(Bound(RcuArc::empty())), |bound: &Bound| bound.0.swap(Some(self.clone())))?;
        let mut state = self.state.lock();
        state.name = Some(name);
        state.path = Some(path.clone());
        Ok(())
    }

    /// It is being closed: its path, or its name in the table, leads nowhere. A file stays.
    pub(super) fn forget_name(self: &Arc<Socket>, name: Option<Arc<Address>>, path: Option<Path>) {
        if let Some(path) = path {
            let read = sync::rcu::read();
            path.dentry.inode.look_attached(&read, |bound: &Bound| {
                if bound.0.load(&read).is_some_and(|socket| core::ptr::eq(socket, &**self)) {
                    bound.0.swap(None);
                }
            });
            drop(read);
            return;
        }
        let Some(name) = name else { return };
        let key = Key { kind: self.kind, name: *name };
        let Ok(bucket) = bucket(&key) else { return };
        let mut names = bucket.0.lock();
        let mut found = names.find_mut(&key);
        let is_own = found.get().is_some_and(|named| Arc::ptr_eq(&named.socket, self));
        let gone = if is_own { found.remove() } else { None };
        drop(names);
        drop(gone);
    }

    /// The permissions that fchmod has given it.
    fn inode_mode(&self) -> Option<u32> {
        let file = Weak::upgrade(&self.state.lock().file)?;
        Some(file.inode().mode())
    }

    /// Has it listened, so that others may connect to it?
    pub(super) fn is_listening(&self) -> bool {
        self.phase() == Phase::Listening
    }
}
