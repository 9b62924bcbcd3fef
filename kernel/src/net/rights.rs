//! Open files in messages (SCM_RIGHTS). Each counts as one more descriptor of its file while it is in flight.
//!
//! Who drops messages unread may close the last descriptor of a socket, whose own messages have files, and so on: a chain as long as a program
//! makes it. So nothing is dropped inside of a drop: what comes out is put on a [`Heap`], and one loop takes from it.
#![forbid(unsafe_code)]

use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem;

use sync::{TryVec, try_box};

use super::message::Message;
use super::{Socket, collect, of_file};
use crate::account::{Charge, Denied, Kind};
use crate::errno::{EINVAL, ENOMEM, ETOOMANYREFS, Result};
use crate::fs::caller::{self, Capability};
use crate::fs::file::File;
use sync::quota::UNLIMITED;

/// Most files of one message (SCM_MAX_FD).
pub const MOST: usize = 253;

/// The files of a message. Each is kept open.
pub struct Rights {
    files: Vec<Arc<File>>,
    /// Counted for who sent them, from then on.
    charge: Option<Charge>,
    /// Its place among those in flight that have sockets in them.
    pub(super) flight: Option<collect::Flight>,
    next: Option<Box<Rights>>,
}

impl Rights {
    /// None yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn try_new() -> Result<Box<Rights>> {
        Ok(try_box(Rights { files: Vec::new(), charge: None, flight: None, next: None })?)
    }

    /// One more, which stays open.
    ///
    /// # Errors
    /// EINVAL: too many. EBADF: it is closed by now. ENOMEM.
    pub fn add(&mut self, file: Arc<File>) -> Result {
        if self.files.len() >= MOST {
            return Err(EINVAL);
        }
        self.files.try_reserve(1).map_err(|_| ENOMEM)?;
        // `Heap::drop_all` ends it.
        mem::forget(file.keep_open()?);
        self.files.try_push(file)?;
        Ok(())
    }

    pub fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    /// Gives the files to `enter`, in their order, with what keeps each open: at most so many, and until it leaves one or says that it was the last
    /// (false). How many were entered; the others stay.
    pub fn hand_out(&mut self, most: usize, mut enter: impl FnMut(&mut Option<Arc<File>>) -> bool) -> usize {
        let mut done = 0usize;
        self.files.reverse();
        while done < most {
            let mut file = self.files.pop();
            let goes_on = file.is_some() && enter(&mut file);
            if let Some(file) = file {
                // Where it came from there is room.
                let _ = self.files.push_reserved(file);
                break;
            }
            if !goes_on {
                break;
            }
            done = done.saturating_add(1);
        }
        self.files.reverse();
        done
    }

    /// Are there sockets among them?
    fn has_sockets(&self) -> bool {
        self.files.iter().any(|file| of_file(file).is_some())
    }

    /// They are sent: counts them for the caller.
    ///
    /// # Errors
    /// ETOOMANYREFS: its user has more in flight than it may have open. ENOMEM.
    pub fn charge(&mut self) -> Result {
        let n = self.files.len() as u64;
        let privileged = caller::may_use_resources() || caller::capable(Capability::SYS_ADMIN);
        let limit =
            if privileged { UNLIMITED } else { (caller::descriptor_limit() as u64).saturating_add(n) };
        let try_charge = || Charge::try_new(caller::uid(), Kind::FilesInFlight, n, limit);
        let charged = match try_charge() {
            Err(Denied::Full) => {
                collect::collect_for_refused();
                try_charge()
            }
            charged => charged,
        };
        self.charge = Some(charged.map_err(|why| if why == Denied::Full { ETOOMANYREFS } else { ENOMEM })?);
        Ok(())
    }

    /// They are about to lie in the queue of `receiver`.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn begin_flight(&mut self, receiver: &Arc<Socket>) -> Result {
        if self.has_sockets() {
            self.flight = Some(collect::enter(&self.files, receiver)?);
        }
        Ok(())
    }

    /// They are out of the queue. False: nobody is to have them any more (`collect`).
    pub fn end_flight(&mut self) -> bool {
        self.charge = None;
        self.flight.take().is_none_or(collect::leave)
    }

    /// Another set of the same files, for who looks at a message that stays.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn copy(&self) -> Result<Box<Rights>> {
        let mut copy = Rights::try_new()?;
        let mut made = Ok(());
        collect::while_still(self.flight.as_ref(), || {
            made = self.files.iter().try_for_each(|f| copy.add(f.clone()))
        });
        match made {
            Ok(()) => Ok(copy),
            Err(error) => {
                drop_rights(copy);
                Err(error)
            }
        }
    }
}

impl Drop for Rights {
    /// What was never put on a heap: nobody received it, and no chain hangs on it.
    fn drop(&mut self) {
        if !self.files.is_empty() {
            let _ = self.end_flight();
            self.files.drain(..).for_each(|file| file.drop_open());
        }
    }
}

/// Rights of which somebody is to close the files.
pub struct Heap(Option<Box<Rights>>);

impl Heap {
    pub const fn new() -> Heap {
        Heap(None)
    }

    pub fn put(&mut self, mut rights: Box<Rights>) {
        rights.next = self.0.take();
        self.0 = Some(rights);
    }

    /// Puts all of `other` here.
    pub fn append(&mut self, mut other: Heap) {
        while let Some(rights) = other.pop() {
            self.put(rights);
        }
    }

    fn pop(&mut self) -> Option<Box<Rights>> {
        let mut rights = self.0.take()?;
        self.0 = rights.next.take();
        Some(rights)
    }

    /// Drops `message`, which was in the queue of `receiver`, but for its files.
    pub fn take(&mut self, mut message: Message, receiver: &Socket) {
        match message.from.take() {
            Some(from) => from.count_received(message.size),
            None => {
                let peer = receiver.peer_counted();
                if let Some(peer) = peer {
                    peer.count_received(message.size);
                }
            }
        }
        if let Some(rights) = message.rights.take() {
            self.put(rights);
        }
    }

    /// Closes all files. Of a socket that nobody else has open the messages are taken out first, so that its close finds none.
    fn drop_all(&mut self) {
        while let Some(mut rights) = self.pop() {
            let _ = rights.end_flight();
            while let Some(file) = rights.files.pop() {
                if file.is_open_once()
                    && let Some(socket) = of_file(&file)
                {
                    let inner = socket.close();
                    self.append(inner);
                }
                file.drop_open();
                crate::sched::schedule_if_needed();
            }
        }
    }
}

impl Drop for Heap {
    fn drop(&mut self) {
        self.drop_all();
    }
}

/// Closes the files of `heap`. May sleep.
pub fn drop_messages(heap: Heap) {
    drop(heap);
}

/// Closes the files of `rights`. May sleep.
pub fn drop_rights(rights: Box<Rights>) {
    let mut heap = Heap::new();
    heap.put(rights);
    drop(heap);
}
