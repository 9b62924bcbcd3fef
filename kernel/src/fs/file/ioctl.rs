//! Numbers of ioctls that are not one device's own, and how their arguments are copied.
#![forbid(unsafe_code)]

use crate::arch;
use crate::errno::{EFAULT, Result};

pub const FIONREAD: u32 = 0x541b;
pub const FIONBIO: u32 = 0x5421;
pub const FIONCLEX: u32 = 0x5450;
pub const FIOCLEX: u32 = 0x5451;
pub const FIOASYNC: u32 = 0x5452;

pub fn put_u32(address: usize, value: u32) -> Result<usize> {
    arch::user::copy_to_user(address, &value.to_ne_bytes()).map_err(|_| EFAULT)?;
    Ok(0)
}

pub fn put_u64(address: usize, value: u64) -> Result<usize> {
    arch::user::copy_to_user(address, &value.to_ne_bytes()).map_err(|_| EFAULT)?;
    Ok(0)
}

pub fn get_u32(address: usize) -> Result<u32> {
    let mut bytes = [0; 4];
    arch::user::copy_from_user(&mut bytes, address).map_err(|_| EFAULT)?;
    Ok(u32::from_ne_bytes(bytes))
}
