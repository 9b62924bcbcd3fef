//! Who waits for room: in a queue of datagrams, or among those who wait to be accepted.

use super::*;
use crate::errno::EAGAIN;
use crate::fs::file::poll::OUT;
use crate::testing::{in_process, is_asleep, thread, until};

/// net.unix.max_dgram_qlen, and one more.
const FULL: usize = 11;

fn full(name: &str) -> (End, End) {
    let (receiver, sender) = (End::named(Kind::Datagram, name), End::new(Kind::Datagram));
    sender.connect(name).unwrap();
    let sent = (0..).take_while(|_| sender.send(b"x").is_ok()).count();
    assert_eq!((sent, sender.send(b"x")), (FULL, Err(EAGAIN)));
    (receiver, sender)
}

fn connected(name: &str) -> End {
    let end = End::new(Kind::Datagram);
    end.connect(name).unwrap();
    end
}

fn can_send(end: &End) -> bool {
    end.events() & OUT != 0
}

#[test]
fn who_looks_at_a_full_peer_stands_there_once_and_is_told_once() {
    in_process(|| {
        let (receiver, sender) = full("looked at");
        let standing = || receiver.socket.lookers.count();
        let many: Vec<End> = (0..300).map(|_| connected("looked at")).collect();
        for _ in 0..3 {
            assert!(many.iter().all(|end| !can_send(end)));
        }
        assert_eq!(standing(), 300);
        receiver.receive(9).unwrap();
        assert_eq!(standing(), 0, "all are told");
        assert!(many.iter().all(can_send));
        assert_eq!(standing(), 0, "who finds room does not stand there");
        sender.send(b"y").unwrap();
        assert!(many.iter().all(|end| !can_send(end)));
        // Who is closed, or turns to another, stands there no more.
        let mut many = many.into_iter();
        many.by_ref().take(100).for_each(End::close);
        assert_eq!(standing(), 200);
        let (other, _) = full("looked at instead");
        let moved: Vec<End> = many.by_ref().take(50).collect();
        moved.iter().for_each(|end| end.connect("looked at instead").unwrap());
        assert_eq!(standing(), 150);
        assert!(moved.iter().all(|end| !can_send(end)));
        assert_eq!(other.socket.lookers.count(), 50);
        let rest: Vec<End> = many.collect();
        let told = receiver.socket.clone();
        receiver.close();
        assert_eq!(told.lookers.count(), 0, "a close tells them");
        assert!(rest.iter().all(can_send), "so that the next send says that nobody is there");
    });
}

#[test]
fn a_poll_that_sleeps_wakes_when_a_message_is_taken() {
    in_process(|| {
        let (receiver, _sender) = full("polled");
        let end = connected("polled");
        let file = end.file.clone();
        let poller = thread(move || {
            crate::sched::PollSet::with(|set| {
                let ready = file.poll(&mut Poller::Sleeper(set)) & OUT != 0;
                assert!(!ready);
                set.wait(crate::sched::Sleep::Killable, None)
            })
        });
        let tid = poller.tid;
        until(|| is_asleep(tid));
        receiver.receive(9).unwrap();
        assert_eq!(poller.join(), Ok(()));
        assert!(can_send(&end));
    });
}

/// Each message that is taken makes room for one sender, and who does not use it passes it on.
#[test]
fn senders_take_their_turns() {
    in_process(|| {
        let (receiver, _sender) = full("takes turns");
        let senders: Vec<_> = (0..8)
            .map(|_| {
                let end = connected("takes turns");
                thread(move || end.send_and_wait(b"waited"))
            })
            .collect();
        let tids: Vec<_> = senders.iter().map(|sender| sender.tid).collect();
        until(|| tids.iter().all(|&tid| is_asleep(tid)));
        for _ in 0..FULL + tids.len() {
            until(|| receiver.socket.queue.has_some());
            receiver.receive(9).unwrap();
        }
        assert!(senders.into_iter().all(|sender| sender.join() == Ok(6)));
        assert_eq!(receiver.receive(9), Err(EAGAIN));
    });
}

#[test]
fn who_waits_to_send_is_told_of_a_close_and_of_a_shutdown() {
    in_process(|| {
        for (name, closes) in [("is closed", true), ("is shut down", false)] {
            let (receiver, _sender) = full(name);
            let senders: Vec<_> = (0..4)
                .map(|_| {
                    let end = connected(name);
                    thread(move || end.send_and_wait(b"waited"))
                })
                .collect();
            until(|| senders.iter().all(|sender| is_asleep(sender.tid)));
            let wanted = if closes {
                receiver.close();
                crate::errno::ECONNREFUSED
            } else {
                receiver.socket.shut_down(NO_RECEIVE);
                crate::errno::EPIPE
            };
            assert!(senders.into_iter().all(|sender| sender.join() == Err(wanted)));
        }
    });
}

#[test]
fn who_connects_waits_for_a_place_and_takes_its_turn() {
    in_process(|| {
        let listens = End::named(Kind::Stream, "has few places");
        listens.socket.listen(1).unwrap();
        let first: Vec<End> = (0..2).map(|_| End::new(Kind::Stream)).collect();
        first.iter().for_each(|end| end.connect("has few places").unwrap());
        assert_eq!(End::new(Kind::Stream).connect("has few places"), Err(EAGAIN));
        let others: Vec<_> =
            (0..6).map(|_| thread(|| End::new(Kind::Stream).connect_and_wait("has few places"))).collect();
        until(|| others.iter().all(|other| is_asleep(other.tid)));
        let mut accepted = Vec::new();
        until(|| {
            accepted.extend(listens.accept());
            accepted.len() == 8
        });
        assert!(others.into_iter().all(|other| other.join() == Ok(())));
        // A close sends those who wait away.
        let more: Vec<End> = (0..2).map(|_| End::new(Kind::Stream)).collect();
        more.iter().for_each(|end| end.connect("has few places").unwrap());
        let waits = thread(|| End::new(Kind::Stream).connect_and_wait("has few places"));
        let tid = waits.tid;
        until(|| is_asleep(tid));
        listens.close();
        assert_eq!(waits.join(), Err(crate::errno::ECONNREFUSED));
    });
}
