//! Signals as something to poll: a byte in a socket for each, so that they are handled between other events.
#![forbid(unsafe_code)]

use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGWINCH};

const CAUGHT: [i32; 7] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH];

/// Catches the signals that a program in a guest may want, for the rest of this process's life.
pub struct Signals {
    arrivals: Vec<(i32, UnixStream)>,
}

impl Signals {
    pub fn catch() -> Result<Self> {
        let mut arrivals = Vec::new();
        for signal in CAUGHT {
            let (here, there) = UnixStream::pair().context("cannot make a socket pair")?;
            here.set_nonblocking(true)?;
            signal_hook::low_level::pipe::register(signal, there)
                .with_context(|| format!("cannot catch signal {signal}"))?;
            arrivals.push((signal, here));
        }
        Ok(Self { arrivals })
    }

    pub fn fds(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.arrivals.iter().map(|(_, socket)| socket.as_fd())
    }

    /// The signals that have arrived since the last call.
    pub fn take(&mut self) -> Vec<i32> {
        let mut taken = Vec::new();
        for (signal, socket) in &mut self.arrivals {
            let mut sink = [0u8; 64];
            if matches!(socket.read(&mut sink), Ok(n) if n > 0) {
                taken.push(*signal);
            }
        }
        taken
    }
}
