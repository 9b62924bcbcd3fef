//! Programs here have no vector registers.

use alloc::vec::Vec;
use sync::AllocError;

pub fn vector_components() -> impl Iterator<Item = [u32; 4]> {
    core::iter::empty()
}

pub fn load_initial_vectors() {}

/// Nothing to save.
pub struct FpuState;

impl FpuState {
    pub fn try_new() -> Option<FpuState> {
        Some(FpuState)
    }

    pub fn try_of_registers() -> Option<FpuState> {
        Some(FpuState)
    }

    pub fn save(&mut self) {}
    pub fn restore(&self) {}

    pub fn to_core(&self) -> Result<Vec<u8>, AllocError> {
        Ok(Vec::new())
    }
}
