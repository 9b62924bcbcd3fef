//! Programs here have no vector registers.

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
}
