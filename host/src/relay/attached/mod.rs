//! The owner's side of who attaches to a machine (`crate::attach`): connections, and what the guest's init is told of them.
//!
//! Nobody waits here for a watcher: what it has not taken is kept, up to [`KEPT`], and the guest's init sends no further look before the last one has been
//! taken. One watches at a time. A watcher that goes has the guest told so, and until the guest has answered nobody else begins: so what comes from the guest
//! is always that watcher's to whom it goes.
#![forbid(unsafe_code)]

mod peer;

use std::io::ErrorKind;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::Result;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::protocol::ToGuest;
use crate::attach::place::Socket;
use crate::attach::wire::{self, About, Frames, Over};
use peer::{Peer, Stage};

/// Connections at once; one more takes the place of the oldest that has not asked for anything.
const MOST: usize = 16;
/// Bytes that a watcher has not taken: more than all files of a look have. Beyond it the watcher is let go.
const KEPT: usize = 32 << 20;
/// A watcher may take so long to take the last it gets.
const FAREWELL: Duration = Duration::from_secs(1);

/// The watching, as the guest sees it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Guest {
    /// It has not started the program.
    Starts,
    Idle,
    /// It sends to this peer. A look that is complete has not been acknowledged: `look`.
    Sends {
        to: u64,
        look: bool,
    },
    /// It was told to stop, and has not answered. What comes is the peer's, if that is there.
    Stops {
        to: u64,
    },
    /// The program has ended.
    Ended,
}

/// Everybody who attaches.
pub struct Attached {
    door: Socket,
    about: About,
    /// Whose processes are let in.
    user: u32,
    /// The owner watches the machine itself.
    own: bool,
    guest: Guest,
    peers: Vec<Peer>,
    next: u64,
    /// Nobody can be let in any more.
    deaf: bool,
}

impl Attached {
    /// Opens the machine's socket. `own`: who owns it watches it, and nobody else does.
    ///
    /// # Errors
    /// There is no place for it, or a path that is no text.
    pub fn open(mut about: About, own: bool) -> Result<Self> {
        about.watcher = own.then_some(about.pid);
        wire::put_json(wire::HELLO, &about, &mut Vec::new())?;
        let user = rustix::process::geteuid().as_raw();
        let (guest, peers) = (Guest::Starts, Vec::new());
        Ok(Self { door: Socket::listen()?, about, user, own, guest, peers, next: 0, deaf: false })
    }

    /// What is to be waited for.
    pub fn fds(&self) -> impl Iterator<Item = (BorrowedFd<'_>, PollFlags)> {
        let peers = self.peers.iter().map(|peer| {
            let out = if peer.pending.is_empty() { PollFlags::empty() } else { PollFlags::OUT };
            (peer.socket.as_fd(), PollFlags::IN | out)
        });
        let door = (!self.deaf).then(|| (self.door.listener.as_fd(), PollFlags::IN));
        door.into_iter().chain(peers)
    }

    /// Serves all connections; what the guest is to be told of it is appended.
    pub fn serve(&mut self, to_guest: &mut Vec<u8>) {
        self.accept();
        for peer in &mut self.peers {
            if !peer.serve() {
                peer.stage = Stage::Leaves;
                peer.pending.clear();
            }
        }
        self.go_on(to_guest);
    }

    /// The guest has started its program.
    pub fn ready(&mut self, to_guest: &mut Vec<u8>) {
        self.guest = Guest::Idle;
        self.go_on(to_guest);
    }

    /// The guest's program has ended: it takes no more requests.
    pub fn ended(&mut self) {
        self.guest = Guest::Ended;
    }

    /// A piece of a watched file.
    pub fn take_piece(&mut self, data: &[u8]) {
        if let Some(peer) = self.guest_peer() {
            if peer.pending.len() > KEPT {
                peer.pending.clear();
                peer.stage = Stage::Leaves;
            } else {
                wire::put(wire::PIECE, data, &mut peer.pending);
            }
        }
    }

    /// All watched files have come once.
    pub fn take_look(&mut self, to_guest: &mut Vec<u8>) {
        if let Guest::Sends { look, .. } = &mut self.guest {
            *look = true;
        }
        self.flush(to_guest);
    }

    /// The guest watches nothing any more; why, if that was not asked for.
    pub fn take_end(&mut self, why: &str, to_guest: &mut Vec<u8>) {
        if let Some(peer) = self.guest_peer() {
            wire::put(wire::NO_MORE, why.as_bytes(), &mut peer.pending);
            peer.stage = Stage::Leaves;
        }
        self.guest = Guest::Idle;
        self.flush(to_guest);
    }

    /// The machine has ended: tells who watches or waits, and closes all.
    pub fn finish(mut self, over: &Over) {
        let until = Instant::now() + FAREWELL;
        for peer in &mut self.peers {
            if matches!(peer.stage, Stage::Watches | Stage::Asks(_))
                && wire::put_json(wire::OVER, over, &mut peer.pending).is_err()
            {
                peer.pending.clear();
            }
            while !peer.pending.is_empty() && peer.write() && !peer.pending.is_empty() {
                let left = until.saturating_duration_since(Instant::now());
                let timeout =
                    Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
                let mut wait = [PollFd::new(&peer.socket, PollFlags::OUT)];
                if left.is_zero() || poll(&mut wait, Some(&timeout)).is_err() {
                    break;
                }
            }
        }
    }

    fn flush(&mut self, to_guest: &mut Vec<u8>) {
        for peer in &mut self.peers {
            if !peer.write() {
                peer.stage = Stage::Leaves;
                peer.pending.clear();
            }
        }
        self.go_on(to_guest);
    }

    /// To whom goes what the guest sends.
    fn guest_peer(&mut self) -> Option<&mut Peer> {
        let (Guest::Sends { to, .. } | Guest::Stops { to }) = self.guest else { return None };
        self.peers.iter_mut().find(|peer| peer.number == to && peer.stage == Stage::Watches)
    }

    fn accept(&mut self) {
        loop {
            let socket = match self.door.listener.accept() {
                Ok((socket, _)) => socket,
                // Too many files are open, say: it would be ready for ever.
                Err(error) => {
                    self.deaf |= !matches!(
                        error.kind(),
                        ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::ConnectionAborted
                    );
                    return;
                }
            };
            let Ok(who) = rustix::net::sockopt::socket_peercred(&socket) else { continue };
            if who.uid.as_raw() != self.user || socket.set_nonblocking(true).is_err() {
                continue;
            }
            if self.peers.len() >= MOST {
                match self.peers.iter().position(|peer| peer.stage == Stage::Greeted) {
                    Some(oldest) => drop(self.peers.remove(oldest)),
                    None => continue,
                }
            }
            let about = About { watcher: self.watcher(), ..self.about.clone() };
            let mut pending = Vec::new();
            if wire::put_json(wire::HELLO, &about, &mut pending).is_err() {
                continue;
            }
            let pid = who.pid.as_raw_nonzero().get().unsigned_abs();
            let frames = Frames::of_watcher();
            let (number, stage) = (self.next, Stage::Greeted);
            self.peers.push(Peer { number, pid, socket, frames, pending, stage, goes: false });
            self.next += 1;
        }
    }

    /// Who watches the machine.
    fn watcher(&mut self) -> Option<u32> {
        let own = self.own.then_some(self.about.pid);
        own.or_else(|| self.guest_peer().map(|peer| peer.pid))
    }

    /// Lets go who has gone, tells the guest what follows from that, and lets in who asks.
    fn go_on(&mut self, to_guest: &mut Vec<u8>) {
        self.peers.retain(|peer| peer.stage != Stage::Leaves || !peer.pending.is_empty());
        if let Guest::Sends { to, look } = self.guest {
            let (stays, is_taken) =
                self.guest_peer().map_or((false, false), |peer| (!peer.goes, peer.pending.is_empty()));
            if !stays {
                ToGuest::Watch(&[]).encode(to_guest);
                self.guest = Guest::Stops { to };
            } else if look && is_taken {
                ToGuest::Look.encode(to_guest);
                self.guest = Guest::Sends { to, look: false };
            }
        }
        let mut at = 0;
        while at < self.peers.len() {
            self.answer(at, to_guest);
            at += 1;
        }
    }

    /// Answers a request, unless it has to wait.
    fn answer(&mut self, at: usize, to_guest: &mut Vec<u8>) {
        let watcher = self.watcher();
        let Some(peer) = self.peers.get_mut(at) else { return };
        let Stage::Asks(words) = &peer.stage else { return };
        let refused = match (watcher, self.guest) {
            _ if words.is_empty() => Some(String::new()),
            (Some(watcher), Guest::Sends { .. } | Guest::Idle | Guest::Starts) => {
                Some(format!("it is being watched by process {watcher}"))
            }
            (None, Guest::Idle) => None,
            _ => return,
        };
        match refused {
            Some(why) => {
                wire::put(wire::NO_MORE, why.as_bytes(), &mut peer.pending);
                peer.stage = Stage::Leaves;
                if !peer.write() {
                    peer.pending.clear();
                }
            }
            None => {
                ToGuest::Watch(words).encode(to_guest);
                self.guest = Guest::Sends { to: peer.number, look: false };
                peer.stage = Stage::Watches;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::path::Path;

    use super::*;
    use crate::machine::kernel::Kernel;
    use crate::root::Root;

    const WORDS: &[u8] = b"watch\0/a\0every\x0010\0";

    fn about() -> About {
        About {
            version: wire::VERSION,
            pid: 7,
            kernel: Kernel::Darter.name(),
            image: "/kernel".into(),
            image_written: None,
            cpus: 1,
            root: Root::Busybox,
            add: Vec::new(),
            same_addresses: false,
            tree: "/".into(),
            command: "true".into(),
            watcher: None,
        }
    }

    /// An owner, and a watcher that is connected.
    struct Scene {
        owner: Attached,
        folder: tempfile::TempDir,
        to_guest: Vec<u8>,
    }

    impl Scene {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let door = Socket::listen_in(&folder.path().join("darter"), 7).unwrap();
            let user = rustix::process::geteuid().as_raw();
            let (about, guest) = (about(), Guest::Idle);
            let owner =
                Attached { door, about, user, own: false, guest, peers: Vec::new(), next: 0, deaf: false };
            Self { owner, folder, to_guest: Vec::new() }
        }

        fn connect(&self) -> Watcher {
            let socket = UnixStream::connect(self.folder.path().join("darter/7")).unwrap();
            socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            Watcher { socket, frames: Frames::of_owner() }
        }

        /// What the guest is told.
        fn serve(&mut self) -> Vec<u8> {
            self.owner.serve(&mut self.to_guest);
            std::mem::take(&mut self.to_guest)
        }

        /// Greets a watcher, and lets it ask.
        fn watcher(&mut self) -> (Watcher, Vec<u8>) {
            let mut watcher = self.connect();
            self.serve();
            assert_eq!(watcher.next().0, wire::HELLO);
            watcher.say(WORDS);
            let told = self.serve();
            (watcher, told)
        }
    }

    struct Watcher {
        socket: UnixStream,
        frames: Frames,
    }

    impl Watcher {
        fn say(&mut self, words: &[u8]) {
            let mut frame = Vec::new();
            wire::put(wire::WANTED, words, &mut frame);
            self.socket.write_all(&frame).unwrap();
        }

        fn next(&mut self) -> (u8, Vec<u8>) {
            let mut buffer = [0u8; 4096];
            loop {
                if let Some(frame) = self.frames.next().unwrap() {
                    return frame;
                }
                match self.socket.read(&mut buffer).unwrap() {
                    0 => return (0, Vec::new()),
                    n => self.frames.take(&buffer[..n]),
                }
            }
        }
    }

    fn encoded(frame: &ToGuest<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        frame.encode(&mut bytes);
        bytes
    }

    #[test]
    fn one_watches_at_a_time_and_the_next_when_the_guest_has_let_go() {
        let mut scene = Scene::new();
        let (mut first, told) = scene.watcher();
        assert_eq!(told, encoded(&ToGuest::Watch(WORDS)));
        let (mut second, told) = scene.watcher();
        assert_eq!(told, b"");
        let (kind, why) = second.next();
        assert_eq!(kind, wire::NO_MORE);
        let text = String::from_utf8(why).unwrap();
        assert_eq!(text, format!("it is being watched by process {}", std::process::id()));
        scene.owner.take_piece(b"\0text");
        scene.serve();
        assert_eq!(first.next(), (wire::PIECE, b"\0text".to_vec()));
        // It is killed: the guest is told, and what it still sends goes to nobody.
        drop(first);
        assert_eq!(scene.serve(), encoded(&ToGuest::Watch(&[])));
        let (mut third, told) = scene.watcher();
        assert_eq!(told, b"");
        scene.owner.take_piece(b"\0old");
        let mut told = Vec::new();
        scene.owner.take_end("", &mut told);
        assert_eq!(told, encoded(&ToGuest::Watch(WORDS)));
        scene.owner.take_piece(b"\0new");
        scene.serve();
        assert_eq!(third.next(), (wire::PIECE, b"\0new".to_vec()));
    }

    #[test]
    fn who_goes_in_order_gets_the_last_look() {
        let mut scene = Scene::new();
        let (mut watcher, _) = scene.watcher();
        watcher.say(&[]);
        assert_eq!(scene.serve(), encoded(&ToGuest::Watch(&[])));
        scene.owner.take_piece(b"\0last");
        scene.owner.take_end("", &mut Vec::new());
        assert_eq!(watcher.next(), (wire::PIECE, b"\0last".to_vec()));
        assert_eq!(watcher.next(), (wire::NO_MORE, Vec::new()));
        assert_eq!(watcher.next().0, 0);
        assert!(scene.owner.peers.is_empty() && scene.owner.guest == Guest::Idle);
    }

    #[test]
    fn a_look_is_acknowledged_when_it_has_been_taken() {
        let mut scene = Scene::new();
        let (mut watcher, _) = scene.watcher();
        let piece = [0u8; 4096];
        (0..1000).for_each(|_| scene.owner.take_piece(&piece));
        let mut told = Vec::new();
        scene.owner.take_look(&mut told);
        assert_eq!(told, b"", "the watcher has not read it");
        let mut taken = 0;
        while told.is_empty() {
            assert_eq!(watcher.next().0, wire::PIECE);
            taken += 1;
            told = scene.serve();
        }
        assert!(taken > 100, "{taken}");
        assert_eq!(told, encoded(&ToGuest::Look));
        assert_eq!(scene.serve(), b"", "once");
    }

    #[test]
    fn a_watcher_that_takes_nothing_is_let_go() {
        let mut scene = Scene::new();
        let (_watcher, _) = scene.watcher();
        let piece = [0u8; 4096];
        (0..2 * KEPT / piece.len()).for_each(|_| scene.owner.take_piece(&piece));
        assert!(scene.owner.peers.iter().all(|peer| peer.pending.len() <= KEPT + 2 * piece.len()));
        assert_eq!(scene.serve(), encoded(&ToGuest::Watch(&[])));
    }

    #[test]
    fn another_user_hears_nothing() {
        let mut scene = Scene::new();
        scene.owner.user += 1;
        let mut watcher = scene.connect();
        scene.serve();
        assert_eq!(watcher.next().0, 0);
        assert!(scene.owner.peers.is_empty());
    }

    #[test]
    fn who_waits_for_the_program_or_watches_it_learns_of_the_end() {
        let mut scene = Scene::new();
        scene.owner.guest = Guest::Starts;
        let (mut watcher, told) = scene.watcher();
        assert_eq!(told, b"", "there is no program yet");
        scene.owner.finish(&Over { end: super::super::outcome::End::Program(7 << 8), stall: None });
        let (kind, over) = watcher.next();
        assert_eq!(kind, wire::OVER);
        assert!(String::from_utf8(over).unwrap().contains("1792"));
        assert!(!Path::new(&scene.folder.path().join("darter/7")).exists());
    }

    #[test]
    fn connections_that_ask_nothing_give_way() {
        let mut scene = Scene::new();
        let all: Vec<Watcher> = (0..3 * MOST).map(|_| scene.connect()).collect();
        let (_watcher, told) = scene.watcher();
        assert_eq!(told, encoded(&ToGuest::Watch(WORDS)));
        assert_eq!(scene.owner.peers.len(), MOST);
        drop(all);
    }
}
