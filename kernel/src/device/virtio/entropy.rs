//! Sources of entropy (Virtio 1.2, 5.4): the device fills buffers with random bytes. The first that is found is used.
#![forbid(unsafe_code)]

use once_cell::race::OnceRef;

use super::{Device, Failure, Memory};
use crate::sched::{Deadline, Sleep};

static SOURCE: OnceRef<'static, Device> = OnceRef::new();

/// Most bytes of a request.
pub const MOST: usize = 256;

/// `device` is a source.
pub(super) fn set(device: &'static Device) {
    // The first one stays.
    let _ = SOURCE.set(device);
}

/// Is there one?
pub fn is_there() -> bool {
    SOURCE.get().is_some()
}

/// Asks for `len` random bytes, of at most `MOST`, and shows those that came, one at least, to `take`. `None`: there is no source. May sleep.
///
/// # Errors
/// See [`Device::ask`].
pub fn read<R>(
    len: usize,
    how: Sleep,
    deadline: Option<Deadline>,
    take: impl FnOnce(&[u8]) -> R,
) -> Option<Result<R, Failure>> {
    let source = SOURCE.get()?;
    Some(ask(source, len.clamp(1, MOST), how, deadline, take))
}

fn ask<R>(
    source: &'static Device,
    len: usize,
    how: Sleep,
    deadline: Option<Deadline>,
    take: impl FnOnce(&[u8]) -> R,
) -> Result<R, Failure> {
    let mut memory = Memory::try_new(1)?;
    // What a device says that it wrote and did not is zeros, not what the page held before.
    memory.page(0).fill(0);
    memory.add(0, 0..len, true)?;
    let (mut memory, written) = source.ask(memory, how, deadline)?;
    let got = memory.page(0).get_mut(..(written as usize).min(len)).unwrap_or(&mut []);
    if got.is_empty() {
        return Err(Failure::Broken);
    }
    let result = take(got);
    got.fill(0);
    Ok(result)
}
