//! What becomes of one end when the other is shut down or closed, and where messages end.

use super::*;
use crate::errno::{EAGAIN, ECONNREFUSED, ECONNRESET, EPERM, EPIPE};
use crate::fs::file::poll::{HUP, IN, RDHUP};
use crate::testing::in_process;

/// Each order of two shutdowns, with something sent before or not: what each end can do follows from the bits alone.
#[test]
fn a_shutdown_ends_what_this_side_does_and_what_the_other_need_not() {
    in_process(|| {
        let calls =
            [(0, NO_RECEIVE), (0, NO_SEND), (0, NEITHER), (1, NO_RECEIVE), (1, NO_SEND), (1, NEITHER)];
        for (kind, first, second, sent) in [Kind::Stream, Kind::SeqPacket].into_iter().flat_map(|kind| {
            let pairs = calls.into_iter().flat_map(|a| calls.map(|b| (a, b)));
            pairs.flat_map(move |(a, b)| [false, true].map(|sent| (kind, a, b, sent)))
        }) {
            let (one, other) = ends(kind);
            let both = [&one, &other];
            if sent {
                assert_eq!((one.send(b"to"), other.send(b"to")), (Ok(2), Ok(2)));
            }
            let mut bits = [0; 2];
            for (who, what) in [first, second] {
                both[who].socket.shut_down(what);
                bits[who] |= what;
                bits[1 - who] |= (what & NO_RECEIVE) << 1 | (what & NO_SEND) >> 1;
            }
            for (end, bits) in both.into_iter().zip(bits) {
                let case = (kind, first, second, sent, bits);
                assert_eq!(end.socket.shutdown_bits(), bits, "{case:?}");
                let wanted = if bits & NO_SEND != 0 { Err(EPIPE) } else { Ok(1) };
                let before = end.events();
                assert_eq!(end.send(b"x"), wanted, "{case:?}");
                assert_eq!(before & HUP != 0, bits == NEITHER, "{case:?}");
                assert_eq!(before & RDHUP != 0, bits & NO_RECEIVE != 0, "{case:?}");
            }
            for (end, bits) in both.into_iter().zip(bits) {
                let case = (kind, first, second, sent, bits);
                let nothing = if bits & NO_RECEIVE != 0 { Ok((vec![], 0)) } else { Err(EAGAIN) };
                let mut all = vec![];
                while let Ok((bytes, _)) = end.receive(10)
                    && !bytes.is_empty()
                {
                    all.extend(bytes);
                }
                assert_eq!(all.starts_with(b"to"), sent, "what was sent before is there: {case:?}");
                assert_eq!(end.receive(10), nothing, "{case:?}");
            }
            one.close();
            other.close();
        }
    });
}

#[test]
fn an_end_that_is_closed_with_something_unread_resets_the_other() {
    in_process(|| {
        for kind in [Kind::Stream, Kind::SeqPacket] {
            let (one, other) = ends(kind);
            one.send(b"unread").unwrap();
            other.close();
            assert_eq!(one.receive(10), Err(ECONNRESET));
            assert_eq!(one.receive(10), Ok((vec![], 0)), "told once");
            assert_eq!(one.send(b"x"), Err(EPIPE));
            let (one, other) = ends(kind);
            other.send(b"last").unwrap();
            other.close();
            assert_eq!(one.receive(10), Ok((b"last".to_vec(), 0)));
            assert_eq!(one.receive(10), Ok((vec![], 0)));
        }
    });
}

#[test]
fn messages_end_where_they_were_sent() {
    in_process(|| {
        for kind in [Kind::SeqPacket, Kind::Datagram] {
            let (one, other) = ends(kind);
            for bytes in [&b"first"[..], b"", b"third"] {
                assert_eq!(one.send(bytes), Ok(bytes.len()));
            }
            assert_eq!(other.peek(2), Ok((b"fi".to_vec(), 0)));
            assert_eq!(other.receive(2), Ok((b"fi".to_vec(), 0)), "the rest is lost");
            assert_eq!(other.events() & IN, IN);
            assert_eq!(other.receive(9), Ok((vec![], 0)));
            assert_eq!(other.receive(9), Ok((b"third".to_vec(), 0)));
            assert_eq!(other.receive(9), Err(EAGAIN));
            assert_eq!(one.socket.sent.load(SeqCst), 0);
            let long = vec![7; 150_000];
            assert_eq!(one.send(&long), Ok(long.len()));
            assert_eq!(other.receive(200_000), Ok((long, 0)));
        }
    });
}

#[test]
fn who_is_connected_hears_its_peer_alone() {
    in_process(|| {
        let heard = End::named(Kind::Datagram, "hears its peer");
        let (friend, stranger) = (End::named(Kind::Datagram, "friend"), End::new(Kind::Datagram));
        stranger.connect("hears its peer").unwrap();
        assert_eq!(stranger.send(b"early"), Ok(5));
        friend.connect("hears its peer").unwrap();
        heard.connect("friend").unwrap();
        assert_eq!(heard.receive(9), Ok((b"early".to_vec(), 0)), "it had no peer before, so nothing is lost");
        assert_eq!(stranger.send(b"x"), Err(EPERM));
        assert_eq!(End::new(Kind::Datagram).connect("hears its peer"), Err(EPERM));
        assert_eq!(friend.send(b"y"), Ok(1));
        assert_eq!(heard.receive(9), Ok((b"y".to_vec(), 0)));
        heard.socket.connect_datagram(None).unwrap();
        assert_eq!(stranger.send(b"z"), Ok(1));
        heard.close();
        assert_eq!(stranger.send(b"x"), Err(ECONNREFUSED));
        assert_eq!(stranger.socket.sent.load(SeqCst), 0);
    });
}

#[test]
fn who_waits_to_be_accepted_can_be_sent_to_and_is_reset_when_nobody_accepts() {
    in_process(|| {
        let listens = End::named(Kind::Stream, "accepts one");
        listens.socket.listen(2).unwrap();
        let (one, other) = (End::new(Kind::Stream), End::new(Kind::Stream));
        one.connect("accepts one").unwrap();
        other.connect("accepts one").unwrap();
        assert_eq!((one.send(b"early"), other.send(b"early")), (Ok(5), Ok(5)));
        let accepted = listens.accept().unwrap();
        assert_eq!(accepted.receive(9), Ok((b"early".to_vec(), 0)));
        listens.close();
        assert_eq!(other.receive(9), Err(ECONNRESET));
        assert_eq!(accepted.send(b"on"), Ok(2));
        assert_eq!(one.receive(9), Ok((b"on".to_vec(), 0)));
        assert_eq!(End::new(Kind::Stream).connect("accepts one"), Err(ECONNREFUSED));
    });
}
