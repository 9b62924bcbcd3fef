//! Memory that is or was writable does not become executable, where a program asked for that (prctl(2), PR_SET_MDWE).
#![forbid(unsafe_code)]

use core::sync::atomic::{AtomicU8, Ordering::Relaxed};

use super::Space;
use crate::machine::Machine;
use crate::node::segment::{MappingAttrs, SegFlags};
use crate::request::Prot;

bitflags::bitflags! {
    /// What a program asked for, with the numbers of PR_SET_MDWE.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct ExecGain: u8 {
        /// What is not executable does not become so, and nothing is both writable and executable.
        const REFUSED = 1;
        /// Children may again.
        const NOT_INHERITED = 2;
    }
}

pub(crate) struct Gain(AtomicU8);

impl Gain {
    pub(crate) const fn new() -> Self {
        Self(AtomicU8::new(0))
    }
}

impl<M: Machine> Space<M> {
    pub fn exec_gain(&self) -> ExecGain {
        ExecGain::from_bits_truncate(self.gain.0.load(Relaxed))
    }

    pub fn set_exec_gain(&self, gain: ExecGain) {
        self.gain.0.store(gain.bits(), Relaxed);
    }

    /// For a child, or the next program: what it has of `self`.
    pub fn hand_exec_gain_to(&self, heir: &Self) {
        let gain = self.exec_gain();
        if !gain.contains(ExecGain::NOT_INHERITED) {
            heir.set_exec_gain(gain);
        }
    }

    /// May anything be mapped with `prot`?
    pub fn allows_mapping(&self, prot: Prot) -> bool {
        !prot.contains(Prot::WRITE | Prot::EXEC) || !self.exec_gain().contains(ExecGain::REFUSED)
    }

    /// May what is mapped with `attrs` have `prot` from now on? `implied`: what may be read may be executed.
    pub(crate) fn allows_change(&self, attrs: &MappingAttrs, prot: Prot, implied: bool) -> bool {
        let implied = implied && prot.contains(Prot::READ) && !attrs.flags.contains(SegFlags::NO_EXEC);
        let exec = prot.contains(Prot::EXEC) || implied;
        !exec
            || !self.exec_gain().contains(ExecGain::REFUSED)
            || (!prot.contains(Prot::WRITE) && attrs.prot.contains(Prot::EXEC))
    }
}
