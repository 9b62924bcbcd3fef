//! The frames between this program and the guest's init (host/guest/init.c) on the control port.
//!
//! A frame is u8 type, u16 length (little endian), data. Input for the program is never more than [`INPUT_WINDOW`]
//! bytes ahead of what the guest has acknowledged, frame headers included: that is less than the input buffer of a
//! terminal, so a port without flow control loses nothing.
#![forbid(unsafe_code)]

/// Most bytes on their way to the guest that it has not acknowledged.
pub const INPUT_WINDOW: usize = 3072;
/// Most input in one frame.
pub const INPUT_FRAME: usize = 1024;
const HEADER: usize = 3;
/// The longest frame that a guest sends; anything longer means that the two ends have lost step.
const LONGEST: usize = 4096;

/// What the guest says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FromGuest {
    /// Init is up and about to start the program.
    Ready,
    /// This many bytes of input have been taken.
    Consumed(u32),
    Stdout(Vec<u8>),
    Stderr(Vec<u8>),
    /// A piece of a file that is watched (`watched`).
    Watched(Vec<u8>),
    /// All files that somebody who attached watches have come once.
    Look,
    /// Nobody who attached watches any more; why, if that was not asked for.
    WatchEnded(String),
    /// The program has ended; the status word of wait4.
    Ended(u32),
}

/// What the host says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToGuest<'a> {
    Stdin(&'a [u8]),
    StdinEnd,
    Signal(u8),
    WindowSize {
        rows: u16,
        cols: u16,
    },
    /// Nobody reads the program's stdout or stderr any more.
    StdoutClosed,
    StderrClosed,
    /// Somebody attaches, with these words of host/guest/watch.h; without any: has gone.
    Watch(&'a [u8]),
    /// The last look has been taken.
    Look,
}

impl ToGuest<'_> {
    /// Appends the frame's bytes.
    pub fn encode(&self, to: &mut Vec<u8>) {
        let size;
        let (kind, data): (u8, &[u8]) = match self {
            ToGuest::Stdin(data) => (b'I', data),
            ToGuest::StdinEnd => (b'E', &[]),
            ToGuest::Signal(number) => (b'S', std::slice::from_ref(number)),
            ToGuest::WindowSize { rows, cols } => {
                let ([a, b], [c, d]) = (rows.to_le_bytes(), cols.to_le_bytes());
                size = [a, b, c, d];
                (b'W', &size)
            }
            ToGuest::StdoutClosed => (b'C', b"O"),
            ToGuest::StderrClosed => (b'C', b"X"),
            ToGuest::Watch(words) => (b'V', words),
            ToGuest::Look => (b'L', &[]),
        };
        debug_assert!(data.len() <= INPUT_WINDOW - HEADER);
        to.push(kind);
        to.extend_from_slice(&(data.len() as u16).to_le_bytes());
        to.extend_from_slice(data);
    }
}

/// The two ends do not understand each other.
#[derive(Debug, PartialEq, Eq)]
pub struct Garbled(String);

impl std::fmt::Display for Garbled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the guest's control port carries nonsense ({})", self.0)
    }
}

impl std::error::Error for Garbled {}

/// Puts frames together from the pieces in which they arrive.
#[derive(Default)]
pub struct Decoder {
    pending: Vec<u8>,
}

impl Decoder {
    /// Takes bytes off the wire and appends the frames that have become whole.
    pub fn take(&mut self, bytes: &[u8], frames: &mut Vec<FromGuest>) -> Result<(), Garbled> {
        self.pending.extend_from_slice(bytes);
        let mut at = 0;
        while let [kind, low, high, rest @ ..] = &self.pending[at..] {
            let len = usize::from(u16::from_le_bytes([*low, *high]));
            if len > LONGEST {
                return Err(Garbled(format!("a frame of type {kind:#04x} with {len} bytes")));
            }
            let Some(data) = rest.get(..len) else { break };
            frames.push(decode(*kind, data)?);
            at += HEADER + len;
        }
        self.pending.drain(..at);
        Ok(())
    }
}

fn decode(kind: u8, data: &[u8]) -> Result<FromGuest, Garbled> {
    let word = || {
        <[u8; 4]>::try_from(data)
            .map(u32::from_le_bytes)
            .map_err(|_| Garbled(format!("a frame of type {kind:#04x} with {} bytes", data.len())))
    };
    Ok(match kind {
        b'R' => FromGuest::Ready,
        b'A' => FromGuest::Consumed(word()?),
        b'O' => FromGuest::Stdout(data.to_vec()),
        b'X' => FromGuest::Stderr(data.to_vec()),
        b'P' => FromGuest::Watched(data.to_vec()),
        b'L' => FromGuest::Look,
        b'V' => FromGuest::WatchEnded(String::from_utf8_lossy(data).into_owned()),
        b'Q' => FromGuest::Ended(word()?),
        other => return Err(Garbled(format!("a frame of unknown type {other:#04x}"))),
    })
}

/// Input that is on its way: counts frames whole, headers included, until all of their data is acknowledged.
#[derive(Default)]
pub struct Window {
    /// Data of each frame that is not acknowledged yet, oldest first.
    frames: std::collections::VecDeque<usize>,
    in_flight: usize,
}

impl Window {
    /// Whether one more frame of [`INPUT_FRAME`] bytes may be sent.
    pub fn has_room(&self) -> bool {
        self.in_flight + HEADER + INPUT_FRAME <= INPUT_WINDOW
    }

    pub fn sent(&mut self, data: usize) {
        self.frames.push_back(data);
        self.in_flight += HEADER + data;
    }

    pub fn acknowledged(&mut self, mut data: usize) {
        while let Some(first) = self.frames.front_mut() {
            let part = data.min(*first);
            *first -= part;
            data -= part;
            self.in_flight -= part;
            if *first > 0 {
                break;
            }
            self.frames.pop_front();
            self.in_flight -= HEADER;
        }
    }
}

/// A shell's view of a wait4 status word: the exit code, or 128 + the signal that killed the program.
pub fn exit_status(word: u32) -> u8 {
    match word & 0x7f {
        0 => (word >> 8) as u8,
        signal => 128 + signal as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_frame_is_type_length_data() {
        let mut wire = Vec::new();
        ToGuest::Stdin(b"hi").encode(&mut wire);
        ToGuest::WindowSize { rows: 24, cols: 300 }.encode(&mut wire);
        ToGuest::StdinEnd.encode(&mut wire);
        assert_eq!(wire, b"I\x02\x00hiW\x04\x00\x18\x00\x2c\x01E\x00\x00");
    }

    #[test]
    fn statuses_are_those_of_a_shell() {
        assert_eq!(exit_status(0), 0);
        assert_eq!(exit_status(7 << 8), 7);
        assert_eq!(exit_status(2), 130);
        assert_eq!(exit_status(11 | 0x80), 139); // with a core dump
    }

    #[test]
    fn nonsense_is_refused() {
        let mut frames = Vec::new();
        assert!(Decoder::default().take(b"?\0\0", &mut frames).is_err());
        assert!(Decoder::default().take(b"O\xff\xff", &mut frames).is_err());
        assert!(Decoder::default().take(b"Q\x01\x00x", &mut frames).is_err());
    }

    #[test]
    fn many_small_frames_do_not_exceed_the_window_either() {
        let mut window = Window::default();
        let mut frames = 0;
        while window.has_room() {
            window.sent(1);
            frames += 1;
        }
        assert!(frames * (1 + HEADER) <= INPUT_WINDOW && frames > 100);
        window.acknowledged(frames);
        assert!(window.frames.is_empty() && window.in_flight == 0);
        window.sent(1024);
        window.acknowledged(1000);
        window.acknowledged(1 << 20);
        assert_eq!(window.in_flight, 0);
    }

    proptest! {
        #[test]
        fn frames_survive_any_cutting(data in proptest::collection::vec(any::<u8>(), 0..4096), cut in 1usize..64) {
            let mut wire = b"R\0\0O".to_vec();
            wire.extend_from_slice(&(data.len() as u16).to_le_bytes());
            wire.extend_from_slice(&data);
            wire.extend_from_slice(b"Q\x04\x00\x00\x07\x00\x00");
            let (mut decoder, mut frames) = (Decoder::default(), Vec::new());
            for piece in wire.chunks(cut) {
                decoder.take(piece, &mut frames).unwrap();
            }
            prop_assert_eq!(frames, vec![FromGuest::Ready, FromGuest::Stdout(data), FromGuest::Ended(7 << 8)]);
        }
    }
}
