//! Sockets in messages: what nobody can receive any more is found and closed, and nothing else.

use super::*;
use crate::testing::{in_process, thread, until};

/// Sockets that messages in their own queues carry, and no descriptor.
fn cycle(len: usize) -> Vec<Weak<Socket>> {
    let pairs: Vec<_> = (0..len).map(|_| ends(Kind::Datagram)).collect();
    for (n, (sends, _)) in pairs.iter().enumerate() {
        sends.send_with(b"x", &[&pairs[(n + 1) % len].1.file]).unwrap();
    }
    let weak = pairs.iter().map(|(_, carried)| Arc::downgrade(&carried.socket)).collect();
    pairs.into_iter().for_each(|(sends, carried)| {
        sends.close();
        carried.close();
    });
    weak
}

/// Others' tests collect, too, and a socket goes behind a grace period.
fn are_gone(sockets: &[Weak<Socket>]) {
    until(|| {
        collect();
        sync::rcu::synchronize();
        sync::rcu::poll();
        sockets.iter().all(|socket| socket.strong_count() == 0)
    });
}

#[test]
fn cycles_of_any_length_are_collected() {
    in_process(|| {
        for len in [1, 2, 3, 10, 200] {
            are_gone(&cycle(len));
        }
    });
}

#[test]
fn what_hangs_on_a_cycle_goes_with_it() {
    in_process(|| {
        let (sends, carried) = ends(Kind::Stream);
        let (inner, last) = ends(Kind::Stream);
        inner.send_with(b"x", &[&carried.file]).unwrap();
        sends.send_with(b"x", &[&last.file, &carried.file]).unwrap();
        let weak = [&carried, &last].map(|end| Arc::downgrade(&end.socket));
        [sends, inner, carried, last].into_iter().for_each(End::close);
        are_gone(&weak);
    });
}

#[test]
fn what_can_be_received_stays() {
    in_process(|| {
        // A cycle to which one descriptor leads.
        let (sends, first) = ends(Kind::Datagram);
        let (inner, second) = ends(Kind::Datagram);
        sends.send_with(b"inner", &[&second.file]).unwrap();
        inner.send_with(b"back", &[&first.file]).unwrap();
        inner.close();
        sends.close();
        let second_socket = Arc::downgrade(&second.socket);
        second.close();
        for _ in 0..5 {
            collect();
        }
        let (bytes, mut got) = first.receive_whole(9, false, &Wait::new(None, 0)).unwrap();
        let rights = got.rights.take().expect("the files are there");
        let file = rights.files()[0].clone();
        assert_eq!(bytes, b"inner");
        file.add_open();
        crate::net::rights::drop_rights(rights);
        let second = End { socket: of_file(&file).unwrap().clone(), file };
        for _ in 0..5 {
            collect();
        }
        assert_eq!(second.receive(9), Ok((b"back".to_vec(), 1)));
        second.close();
        first.close();
        are_gone(&[second_socket]);
    });
}

/// A listener that is carried by a message to a socket that waits to be accepted from it.
#[test]
fn who_waits_to_be_accepted_is_reached_through_who_listens() {
    in_process(|| {
        let listens = End::named(Kind::Stream, "carries itself");
        listens.socket.listen(5).unwrap();
        let client = End::new(Kind::Stream);
        client.connect("carries itself").unwrap();
        client.send_with(b"x", &[&listens.file]).unwrap();
        let weak = Arc::downgrade(&listens.socket);
        collect();
        let accepted = listens.accept().unwrap();
        assert_eq!(accepted.receive(9), Ok((b"x".to_vec(), 1)), "while it is open");
        client.send_with(b"y", &[&listens.file]).unwrap();
        let other = End::new(Kind::Stream);
        other.connect("carries itself").unwrap();
        other.send_with(b"z", &[&listens.file]).unwrap();
        [client, other, listens, accepted].into_iter().for_each(End::close);
        are_gone(&[weak]);
    });
}

#[test]
fn a_chain_is_closed_without_recursion() {
    in_process(|| {
        const LONG: usize = 5_000;
        let (first, mut holds) = ends(Kind::Datagram);
        first.close();
        let mut weak = Vec::new();
        for _ in 0..LONG {
            let (sends, next) = ends(Kind::Datagram);
            sends.send_with(b"x", &[&holds.file]).unwrap();
            weak.push(Arc::downgrade(&holds.socket));
            holds.close();
            sends.close();
            holds = next;
        }
        holds.close();
        are_gone(&weak);
    });
}

/// While one thread makes cycles, another receives what it is sent: none of that is taken for garbage.
#[test]
fn a_round_beside_senders_and_receivers_takes_nothing_from_them() {
    in_process(|| {
        let cycles = thread(|| (0..40).flat_map(|n| cycle(1 + n % 3)).collect::<Vec<_>>());
        let listens = End::named(Kind::Stream, "beside rounds");
        listens.socket.listen(5).unwrap();
        for _ in 0..200 {
            let client = End::new(Kind::Stream);
            client.connect("beside rounds").unwrap();
            let (one, other) = ends(Kind::Stream);
            other.send_with(b"inner", &[&client.file]).unwrap();
            client.send_with(b"x", &[&one.file]).unwrap();
            one.close();
            client.close();
            let accepted = listens.accept().unwrap();
            collect();
            assert_eq!(accepted.receive(9), Ok((b"x".to_vec(), 1)));
            other.close();
            accepted.close();
        }
        are_gone(&cycles.join());
    });
}

#[test]
fn a_socket_that_waits_to_be_sent_is_counted_for_its_sender_until_it_is_received() {
    in_process(|| {
        let (one, other) = ends(Kind::Datagram);
        let carried = End::new(Kind::Stream);
        one.send_with(b"x", &[&carried.file, &carried.file]).unwrap();
        assert_eq!(carried.file.openings(), 3);
        assert_eq!(other.peek(9), Ok((b"x".to_vec(), 2)));
        assert_eq!(carried.file.openings(), 3, "what a look gave is closed");
        assert_eq!(other.receive(9), Ok((b"x".to_vec(), 2)));
        assert_eq!(carried.file.openings(), 1);
        one.send_with(b"x", &[&carried.file]).unwrap();
        other.close();
        assert_eq!(carried.file.openings(), 1, "what nobody received is closed");
    });
}
