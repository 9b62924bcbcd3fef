//! Devices that lie: rings, capabilities and registers as no honest device would have them.

mod device;
mod functions;
mod liars;
mod rings;
