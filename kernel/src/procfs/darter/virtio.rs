//! /proc/darter/virtio: a line for each queue of each device, with the requests that it was given. The first line says the version of the format, the second
//! names the columns.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::fmt::Write;

use sync::heap::Text;

use crate::device::virtio::bus;
use crate::errno::{ENOMEM, Result};

macro_rules! put {
    ($out:expr, $($arg:tt)*) => { write!(Text($out), $($arg)*).map_err(|_| ENOMEM)? };
}

pub fn queues(out: &mut Vec<u8>) -> Result {
    put!(out, "version 1\ndevice driver queue in-flight requests\n");
    for (n, member) in bus::members().iter().enumerate() {
        let driver = member.driver().unwrap_or("-");
        for (queue, (in_flight, requests)) in member.queues().enumerate() {
            put!(out, "virtio{n} {driver} {queue} {in_flight} {requests}\n");
        }
    }
    Ok(())
}
