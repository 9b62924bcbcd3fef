//! The tree behind `testfs`: what a disk or a server has, whatever the kernel believes of it.

use std::collections::BTreeMap;
use std::vec::Vec;

use super::super::inode::Kind;
use crate::errno::*;

pub const ROOT: u64 = 1;

#[derive(Clone, PartialEq, Debug)]
pub struct Node {
    pub kind: Kind,
    pub mode: u32,
    pub links: u32,
    pub size: u64,
    pub rdev: u64,
    /// Of directories: number and cookie.
    pub names: BTreeMap<Vec<u8>, (u64, u64)>,
    next_cookie: u64,
    pub target: Vec<u8>,
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

/// Files and directories by their numbers.
#[derive(Clone)]
pub struct Tree {
    pub nodes: BTreeMap<u64, Node>,
    next: u64,
}

impl Tree {
    pub fn new() -> Tree {
        let mut tree = Tree { nodes: BTreeMap::new(), next: ROOT };
        tree.node(Kind::Directory, 0o755, 0, &[]);
        tree
    }

    pub fn node(&mut self, kind: Kind, mode: u32, rdev: u64, target: &[u8]) -> u64 {
        let links = if kind == Kind::Directory { 2 } else { 1 };
        let (names, xattrs) = (BTreeMap::new(), BTreeMap::new());
        let target = target.to_vec();
        let node = Node { kind, mode, links, size: 0, rdev, names, next_cookie: 2, target, xattrs };
        self.nodes.insert(self.next, node);
        self.next += 1;
        self.next - 1
    }

    pub fn at(&mut self, number: u64) -> Result<&mut Node> {
        self.nodes.get_mut(&number).ok_or(ESTALE)
    }

    pub fn find(&mut self, dir: u64, name: &[u8]) -> Result<u64> {
        Ok(self.at(dir)?.names.get(name).ok_or(ENOENT)?.0)
    }

    fn is_dir(&mut self, number: u64) -> Result<bool> {
        Ok(self.at(number)?.kind == Kind::Directory)
    }

    pub fn enter(&mut self, dir: u64, name: &[u8], number: u64) -> Result {
        let is_dir = self.is_dir(number)?;
        let above = self.at(dir)?;
        if above.names.contains_key(name) {
            return Err(EEXIST);
        }
        if above.links == 0 {
            return Err(ENOENT);
        }
        above.names.insert(name.to_vec(), (number, above.next_cookie));
        above.next_cookie += 1;
        above.links += u32::from(is_dir);
        Ok(())
    }

    pub fn leave(&mut self, dir: u64, name: &[u8]) -> Result<u64> {
        let number = self.find(dir, name)?;
        let is_dir = self.is_dir(number)?;
        let above = self.at(dir)?;
        above.names.remove(name);
        above.links -= u32::from(is_dir);
        Ok(number)
    }

    pub fn make(&mut self, dir: u64, name: &[u8], kind: Kind) -> Result<u64> {
        let number = self.node(kind, 0o644, 0, &[]);
        self.enter(dir, name, number).map(|()| number)
    }

    /// Takes a name, and all that it leads to, away.
    pub fn remove(&mut self, dir: u64, name: &[u8]) -> Result {
        let number = self.leave(dir, name)?;
        let node = self.at(number)?;
        node.links = if node.kind == Kind::Directory { 0 } else { node.links - 1 };
        Ok(())
    }

    pub fn rename(&mut self, from: (u64, &[u8]), to: (u64, &[u8]), exchange: bool) -> Result {
        if exchange {
            let (a, b) = (self.leave(from.0, from.1)?, self.leave(to.0, to.1)?);
            self.enter(from.0, from.1, b)?;
            return self.enter(to.0, to.1, a);
        }
        let number = self.find(from.0, from.1)?;
        if let Ok(replaced) = self.find(to.0, to.1) {
            if !self.at(replaced)?.names.is_empty() {
                return Err(ENOTEMPTY);
            }
            self.remove(to.0, to.1)?;
        }
        self.leave(from.0, from.1)?;
        self.enter(to.0, to.1, number)
    }
}
