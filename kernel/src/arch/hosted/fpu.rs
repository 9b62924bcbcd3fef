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

    pub fn copy_registers(&mut self) {}

    pub fn set_legacy(&mut self, _legacy: &[u8; 512]) -> bool {
        false
    }

    pub fn set_whole(&mut self, _area: &[u8]) -> bool {
        false
    }

    pub fn save(&mut self) {}
    pub fn restore(&self) {}

    pub fn to_core(&self) -> Result<Vec<u8>, AllocError> {
        Ok(Vec::new())
    }
}
