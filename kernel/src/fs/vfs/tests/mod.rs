//! Tests of the VFS over a file system of their own (`testfs`), which is slow, fails, and changes behind the kernel's back.

mod cache;
mod model;
mod operations;
mod overlay;
mod pages;
mod races;
mod sharing;
mod testfs;
mod tree;
mod wide;

use std::string::String;
use std::sync::Arc;
use std::vec::Vec;

use self::testfs::TestFs;
use super::access::Cred;
use super::cache::{Cache, NameCache};
use super::create::{self, Making};
use super::inode::Kind;
use super::lookup::{self, Start};
use super::mount::{self, Path, namespace};
use super::superblock::SuperBlock;
use super::{remove, rename};
use crate::errno::Result;
use crate::fs::caller;
use crate::fs::file::{File, OpenFlags, open};
use crate::testing::{Joining, thread};

/// A mounted file system, which is the test's root.
#[derive(Clone)]
struct World {
    fs: Arc<TestFs>,
    superblock: Arc<SuperBlock>,
    root: Path,
}

/// The test's process gets `superblock` for a root.
fn enter(superblock: &Arc<SuperBlock>) -> Path {
    let mount = mount::world(superblock.clone()).unwrap();
    let root = Path { dentry: mount.root.clone(), mount };
    let context = caller::context();
    context.set_root(root.clone()).unwrap();
    context.set_cwd(root.clone()).unwrap();
    root
}

impl World {
    fn new(cache: Cache) -> World {
        let (fs, superblock) = TestFs::mount(cache);
        let root = enter(&superblock);
        World { fs, superblock, root }
    }

    fn names(&self) -> &NameCache {
        self.superblock.names.as_deref().unwrap()
    }

    /// A thread of the test's, in the same world.
    fn spawn<R: Send + 'static>(&self, f: impl FnOnce(World) -> R + Send + 'static) -> Joining<R> {
        let world = self.clone();
        thread(move || f(world))
    }
}

/// Finds what has the path; links are followed.
fn find(path: &str) -> Result<Path> {
    lookup::resolve(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes(), true)
}

/// The inode's number.
fn number(path: &str) -> Result<u64> {
    lookup::resolve(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes(), false)
        .map(|p| p.dentry.inode.number)
}

fn make(path: &str, kind: Kind, target: &str) -> Result {
    let making = Making { kind, mode: 0o644, rdev: 0, target: target.as_bytes() };
    create::make_at(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes(), &making)
}

fn create(path: &str) -> Result {
    make(path, Kind::Regular, "")
}

fn mkdir(path: &str) -> Result {
    make(path, Kind::Directory, "")
}

fn link(old: &str, new: &str) -> Result {
    let old = lookup::resolve(&caller::context(), &Cred::root(), Start::Cwd, old.as_bytes(), false)?;
    create::link_at(&caller::context(), &Cred::root(), &old, Start::Cwd, new.as_bytes())
}

fn unlink(path: &str) -> Result {
    remove::unlink_at(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes())
}

fn rmdir(path: &str) -> Result {
    remove::rmdir_at(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes())
}

fn mv(from: &str, to: &str, flags: u32) -> Result {
    let cred = Cred::root();
    let parent = |path: &str| lookup::resolve_parent(&caller::context(), &cred, Start::Cwd, path.as_bytes());
    rename::check_flags(flags)?;
    rename::rename(&cred, &parent(from)?, &parent(to)?, flags, namespace::first())
}

fn open(path: &str, flags: OpenFlags) -> Result<Arc<File>> {
    open::open(&caller::context(), &Cred::root(), Start::Cwd, path.as_bytes(), flags, 0o644)
}

/// All names of a directory, but for `.` and `..`, in the order of their positions.
fn list(path: &str) -> Result<Vec<String>> {
    let dir = open(path, OpenFlags::DIRECTORY)?;
    let mut names = Vec::new();
    dir.read_dir(&mut |entry| {
        if entry.name != b"." && entry.name != b".." {
            names.push(String::from_utf8(entry.name.to_vec()).unwrap());
        }
        true
    })?;
    Ok(names)
}
