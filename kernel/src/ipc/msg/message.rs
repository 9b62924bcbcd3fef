//! A message, and which ones somebody asks for.
#![deny(unsafe_code)]

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use intrusive_collections::{KeyAdapter, RBTreeAtomicLink, intrusive_adapter};
use sync::slab_arc;

use crate::account::{Charge, Kind};
use crate::errno::{ENOMEM, Result};
use crate::fs::caller;

/// A message. Its number is its place in a queue.
pub struct Message {
    pub kind: i64,
    pub text: Vec<u8>,
    number: AtomicU64,
    _charge: Charge,
    pub(super) in_order: RBTreeAtomicLink,
    pub(super) by_kind: RBTreeAtomicLink,
}

vm::slab_type!(Message, "ipc-message", Arc);

intrusive_adapter!(pub InOrder = Arc<Message>: Message { in_order => RBTreeAtomicLink });
intrusive_adapter!(pub ByKind = Arc<Message>: Message { by_kind => RBTreeAtomicLink });

impl<'a> KeyAdapter<'a> for InOrder {
    type Key = u64;
    fn get_key(&self, message: &'a Message) -> u64 {
        message.number()
    }
}

impl<'a> KeyAdapter<'a> for ByKind {
    type Key = (i64, u64);
    fn get_key(&self, message: &'a Message) -> (i64, u64) {
        (message.kind, message.number())
    }
}

impl Message {
    /// # Errors
    /// ENOMEM.
    pub fn try_new(kind: i64, text: Vec<u8>) -> Result<Arc<Message>> {
        let kib = 1u64.saturating_add(text.len() as u64 / 1024);
        let charge = Charge::try_new(caller::uid(), Kind::Ipc, kib, sync::quota::UNLIMITED);
        Ok(slab_arc(Message {
            kind,
            text,
            number: AtomicU64::new(0),
            _charge: charge.map_err(|_| ENOMEM)?,
            in_order: RBTreeAtomicLink::new(),
            by_kind: RBTreeAtomicLink::new(),
        })?)
    }

    pub fn number(&self) -> u64 {
        self.number.load(Relaxed)
    }

    /// Before it is put into a queue, under that's lock.
    pub(super) fn set_number(&self, to: u64) {
        self.number.store(to, Relaxed);
    }
}

/// Which message somebody asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wanted {
    Any,
    Kind(i64),
    /// Any of another kind (MSG_EXCEPT).
    Not(i64),
    /// One of the lowest kind that is not higher.
    UpTo(i64),
    /// The one in that place of the queue, from 0 on (MSG_COPY).
    Place(i64),
}

impl Wanted {
    pub fn is(self, kind: i64) -> bool {
        match self {
            Wanted::Any | Wanted::Place(_) => true,
            Wanted::Kind(wanted) => kind == wanted,
            Wanted::Not(other) => kind != other,
            Wanted::UpTo(most) => kind <= most,
        }
    }
}
