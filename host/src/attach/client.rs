//! Watching a machine of another process: asks for files, takes them as they come, and goes.
//!
//! It ends when the machine's program ends or the machine does, when its time is over, by a key or by a signal. By SIGINT it ends well, as that is how one who watches ends.
#![forbid(unsafe_code)]

use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGINT, SIGUSR1, SIGUSR2, SIGWINCH};

use super::Running;
use super::wire::{self, About, Over};
use crate::exit;
use crate::relay::outcome::{self, End};
use crate::relay::signals::Signals;
use crate::relay::watched::{Keys, Watched, Watcher};
use crate::root::Watch;
use crate::run::{Ended, explain_machine, explain_stall};

/// For the last look and the guest's answer, after we said that we go. A guest that hangs gives none.
const FAREWELL: Duration = Duration::from_secs(2);

/// Who watches what.
pub struct Attaching<'a> {
    pub watch: Watch,
    pub watcher: Watcher<'a>,
    /// Gets what is typed; true: it is to end.
    pub keys: Option<Keys<'a>>,
    /// How long; None: as long as the machine's program runs.
    pub limit: Option<Duration>,
}

struct Client<'a> {
    running: Running,
    watched: Watched<'a>,
    keys: Option<Keys<'a>>,
    /// When we go.
    until: Option<Instant>,
    /// We have said that we go: the status, and when we go without an answer.
    going: Option<(u8, Instant)>,
}

/// Watches the machine until one of them goes.
///
/// # Errors
/// The guest has no such files, or somebody else watches it.
pub fn watch(running: Running, attaching: Attaching<'_>) -> Result<Ended> {
    let Attaching { watch, watcher, keys, limit } = attaching;
    let mut signals = Signals::catch()?;
    let mut client = Client {
        running,
        watched: Watched::new(Some(watcher)),
        keys,
        until: limit.map(|limit| Instant::now() + limit),
        going: None,
    };
    client.say(&watch.encode())?;
    client.running.socket.set_nonblocking(true)?;
    loop {
        if let Some(ended) = client.take_frames()? {
            return Ok(ended);
        }
        if let Some(ended) = client.check_clock()? {
            return Ok(ended);
        }
        client.wait(&signals)?;
        for signal in signals.take() {
            match signal {
                SIGWINCH | SIGUSR1 | SIGUSR2 => {}
                SIGINT => client.go(0)?,
                signal => client.go(128u8.wrapping_add(signal as u8))?,
            }
        }
        client.take_keys()?;
        if let Some(ended) = client.receive()? {
            return Ok(ended);
        }
    }
}

impl Client<'_> {
    /// A request is short, and the socket empty: this never waits. An owner that has gone is noticed by who reads.
    fn say(&mut self, words: &[u8]) -> Result<()> {
        let mut frame = Vec::new();
        wire::put(wire::WANTED, words, &mut frame);
        match self.running.socket.write_all(&frame) {
            Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                Err(error).context("cannot ask the machine's process")
            }
            _ => Ok(()),
        }
    }

    /// Says that we go, and waits no longer than [`FAREWELL`] from here on. Said twice, we go at once.
    fn go(&mut self, status: u8) -> Result<()> {
        if let Some((_, until)) = &mut self.going {
            *until = Instant::now();
            return Ok(());
        }
        self.going = Some((status, Instant::now() + FAREWELL));
        self.say(&[])
    }

    fn check_clock(&mut self) -> Result<Option<Ended>> {
        let now = Instant::now();
        if let Some((status, until)) = self.going {
            return Ok((now >= until).then(|| gone(status)));
        }
        if self.until.is_some_and(|until| now >= until) {
            self.go(0)?;
        }
        Ok(None)
    }

    fn wait(&self, signals: &Signals) -> Result<()> {
        let mut fds = vec![PollFd::new(&self.running.socket, PollFlags::IN)];
        fds.extend(signals.fds().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        if self.keys.is_some() {
            fds.push(PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN));
        }
        let until = self.going.map(|(_, until)| until).or(self.until);
        let timeout = until.map(|until| {
            let left = until.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
            Err(e) => Err(e).context("poll"),
        }
    }

    fn take_keys(&mut self) -> Result<()> {
        let Some(keys) = &mut self.keys else { return Ok(()) };
        let mut peek = [PollFd::from_borrowed_fd(rustix::stdio::stdin(), PollFlags::IN)];
        if !matches!(poll(&mut peek, Some(&Timespec::default())), Ok(n) if n > 0) {
            return Ok(());
        }
        let mut typed = [0u8; 1024];
        // A terminal that has hung up sends SIGHUP too.
        let n = rustix::io::read(rustix::stdio::stdin().as_fd(), &mut typed).unwrap_or(0);
        if n == 0 || keys(&typed[..n]) {
            self.keys = None;
            self.go(0)?;
        }
        Ok(())
    }

    /// Reads what is there.
    fn receive(&mut self) -> Result<Option<Ended>> {
        let mut buffer = [0u8; 64 << 10];
        match self.running.socket.read(&mut buffer) {
            Ok(n) if n > 0 => {
                self.running.frames.take(&buffer[..n]);
                Ok(None)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => Ok(None),
            Ok(_) | Err(_) => Ok(Some(match self.going {
                Some((status, _)) => gone(status),
                None => Ended {
                    status: exit::MACHINE,
                    why: Some(format!("process {} ended, and its machine with it", self.running.about.pid)),
                    program: None,
                },
            })),
        }
    }

    fn take_frames(&mut self) -> Result<Option<Ended>> {
        while let Some((kind, data)) = self.running.frames.next()? {
            match kind {
                wire::PIECE => self.watched.take(&data),
                wire::NO_MORE if data.is_empty() => {
                    return Ok(Some(gone(self.going.map_or(0, |(status, _)| status))));
                }
                wire::NO_MORE => {
                    let pid = self.running.about.pid;
                    bail!("the machine of process {pid}: {}", String::from_utf8_lossy(&data));
                }
                wire::OVER => {
                    let over: Over = serde_json::from_slice(&data).context("how the machine ended")?;
                    return Ok(Some(ended(&over, &self.running.about)));
                }
                other => bail!("the machine's process sent a frame of unknown type {other:#04x}"),
            }
        }
        Ok(None)
    }
}

/// We went, and the machine goes on.
fn gone(status: u8) -> Ended {
    Ended { status, why: None, program: None }
}

fn ended(over: &Over, about: &About) -> Ended {
    let kernel = about.kernel();
    let why = match &over.end {
        End::Program(_) => None,
        End::Machine { why, last_words } => Some(explain_machine(&kernel, why, last_words)),
        End::TimeLimit => Some("the machine's time limit was reached".to_owned()),
        End::Interrupted(signal) => Some(format!("the machine was ended by signal {signal}")),
    };
    let is_stall = matches!(over.end, End::TimeLimit | End::Interrupted(_));
    let why = match (why, &over.stall) {
        (Some(why), Some(words)) if is_stall => Some(explain_stall(&kernel, &why, words)),
        (why, _) => why,
    };
    Ended { status: outcome::status_of(&over.end), why, program: None }
}
