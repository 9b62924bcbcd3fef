//! Abstract names and the list of all sockets.

use super::*;
use crate::errno::{EADDRINUSE, ECONNREFUSED, EINVAL};
use crate::testing::in_process;
use std::format;
use std::string::String;

#[test]
fn a_name_belongs_to_one_kind_and_is_free_when_its_socket_is_closed() {
    in_process(|| {
        let first = End::named(Kind::Stream, "of one kind");
        assert_eq!(End::new(Kind::Stream).bind("of one kind"), Err(EADDRINUSE));
        assert_eq!(first.bind("another"), Err(EINVAL), "it has one");
        let other = End::named(Kind::Datagram, "of one kind");
        assert!(Arc::ptr_eq(&address::find(Kind::Stream, &named("of one kind")).unwrap(), &first.socket));
        assert!(Arc::ptr_eq(&address::find(Kind::Datagram, &named("of one kind")).unwrap(), &other.socket));
        first.close();
        assert_eq!(address::find(Kind::Stream, &named("of one kind")).err(), Some(ECONNREFUSED));
        let again = End::named(Kind::Stream, "of one kind");
        // An accepted socket tells the name of the one that listens, and does not take it along.
        again.socket.listen(1).unwrap();
        let client = End::new(Kind::Stream);
        client.connect("of one kind").unwrap();
        let accepted = again.accept().unwrap();
        assert_eq!(accepted.socket.name().unwrap().bytes(), b"\0of one kind");
        accepted.close();
        assert!(address::find(Kind::Stream, &named("of one kind")).is_ok());
    });
}

#[test]
fn names_that_fall_into_one_bucket_are_told_apart() {
    in_process(|| {
        let place = |name: &str| address::bucket_of(Kind::Datagram, &named(name));
        let wanted = place("a bucket");
        let names: Vec<String> =
            (0..).map(|n| format!("bucket {n}")).filter(|n| place(n) == wanted).take(100).collect();
        let mut ends: Vec<End> = names.iter().map(|name| End::named(Kind::Datagram, name)).collect();
        let find = |name: &str| address::find(Kind::Datagram, &named(name));
        for (name, end) in names.iter().zip(&ends) {
            assert!(Arc::ptr_eq(&find(name).unwrap(), &end.socket));
            assert_eq!(End::new(Kind::Datagram).bind(name), Err(EADDRINUSE));
        }
        ends.drain(..50).for_each(End::close);
        assert!(names[..50].iter().all(|name| find(name).is_err()));
        assert!(names[50..].iter().all(|name| find(name).is_ok()));
    });
}

#[test]
fn the_list_shows_each_socket_once_until_it_is_closed() {
    in_process(|| {
        let ends: Vec<End> =
            (0..300).map(|n| End::named(Kind::Datagram, &format!("listed {n:03}"))).collect();
        let shown = || {
            let mut text = Vec::new();
            list::text(&mut text).unwrap();
            let text = String::from_utf8_lossy(&text).into_owned();
            (0..300).map(|n| text.matches(&format!("@listed {n:03}\n")).count()).collect::<Vec<_>>()
        };
        assert!(shown().iter().all(|times| *times == 1));
        for (n, end) in ends.into_iter().enumerate() {
            if n % 2 == 0 {
                end.close();
            }
        }
        assert!(shown().iter().enumerate().all(|(n, times)| *times == n % 2));
    });
}
