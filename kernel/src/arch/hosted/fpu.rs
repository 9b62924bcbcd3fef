//! Programs here have no vector registers.

use alloc::vec::Vec;
use sync::AllocError;

pub fn vector_components() -> impl Iterator<Item = [u32; 4]> {
    core::iter::empty()
}

/// Nothing to save.
pub struct FpuState;

impl FpuState {
    pub fn try_new() -> Option<FpuState> {
        Some(FpuState)
    }

    pub fn try_clone(&self) -> Option<FpuState> {
        Some(FpuState)
    }

    pub fn reset(&mut self) {}
    pub fn save(&mut self) {}
    pub fn save_whole(&mut self) {}
    pub fn restore(&self) {}

    pub fn to_core(&self) -> Result<Vec<u8>, AllocError> {
        Ok(Vec::new())
    }
}
