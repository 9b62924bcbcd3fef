//! References to hot things. The same two types as `sync::hot`, counted the plain way until that lands.
#![forbid(unsafe_code)]

use alloc::sync::Arc;
use core::ops::Deref;

use sync::AllocError;

/// The one owning handle.
pub struct Owner<T>(Arc<T>);

/// A counted reference.
pub struct HotRef<T>(Arc<T>);

impl<T> Owner<T> {
    pub fn try_new(value: T) -> Result<Self, AllocError> {
        Ok(Owner(sync::try_arc(value)?))
    }

    pub fn get(&self) -> HotRef<T> {
        HotRef(self.0.clone())
    }

    pub fn try_get(&self) -> Option<HotRef<T>> {
        Some(self.get())
    }
}

impl<T> Clone for HotRef<T> {
    fn clone(&self) -> Self {
        HotRef(self.0.clone())
    }
}

impl<T> Deref for Owner<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Deref for HotRef<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}
