//! Files of the guest that come again and again while its program runs (host/guest/watch.h), and keys for who shows them.
#![forbid(unsafe_code)]

/// Takes a file of those that are watched, by its number among them, each time that it has come whole.
pub type Watcher<'a> = Box<dyn FnMut(usize, &[u8]) + 'a>;
/// Takes what was typed; true: the machine is to end.
pub type Keys<'a> = Box<dyn FnMut(&[u8]) -> bool + 'a>;

/// Puts the files together from their pieces.
pub struct Watched<'a> {
    watcher: Option<Watcher<'a>>,
    /// What has come of each.
    texts: Vec<Vec<u8>>,
}

impl<'a> Watched<'a> {
    pub fn new(watcher: Option<Watcher<'a>>) -> Self {
        Self { watcher, texts: Vec::new() }
    }

    /// A frame: the file's number and a piece of it; without one, it is whole.
    pub fn take(&mut self, frame: &[u8]) {
        let (Some(watcher), [number, piece @ ..]) = (&mut self.watcher, frame) else { return };
        let number = usize::from(*number);
        if self.texts.len() <= number {
            self.texts.resize_with(number + 1, Vec::new);
        }
        let text = &mut self.texts[number];
        text.extend_from_slice(piece);
        if piece.is_empty() {
            watcher(number, text);
            text.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_comes_when_it_is_whole() {
        let mut came = Vec::new();
        let mut watched = Watched::new(Some(Box::new(|number, text| came.push((number, text.to_owned())))));
        for frame in [&b"\x01ab"[..], b"\x00x", b"\x01c", b"\x01", b"", b"\x01d", b"\x01", b"\x00y"] {
            watched.take(frame);
        }
        drop(watched);
        assert_eq!(came, [(1, b"abc".to_vec()), (1, b"d".to_vec())]);
    }
}
