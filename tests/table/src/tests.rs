//! That the table is one: numbers ascend, arguments name arguments that are there, fields lie in their structures.

use crate::{Argument, CALLS, Kind, Set, Struct, call};

fn each_set(seen: &mut Vec<&'static str>, kind: &'static Kind, check: &mut dyn FnMut(&'static Set)) {
    match kind {
        Kind::Options(set) => {
            if seen.contains(&set.name) {
                return;
            }
            seen.push(set.name);
            check(set);
            for option in set.choices.iter().chain(set.flags) {
                for kind in option.takes {
                    each_set(seen, kind, check);
                }
            }
        }
        Kind::In(s)
        | Kind::Out(s)
        | Kind::InOut(s)
        | Kind::InMany(s, _)
        | Kind::OutMany(s, _)
        | Kind::InOutMany(s, _) => {
            for field in s.fields {
                assert!(field.offset + field.size <= s.size, "{}.{}", s.name, field.name);
                each_set(seen, &field.kind, check);
            }
        }
        _ => {}
    }
}

fn arguments() -> impl Iterator<Item = (&'static str, &'static Argument)> {
    CALLS.iter().flat_map(|call| call.arguments.iter().map(|argument| (call.name, argument)))
}

#[test]
fn numbers_ascend_and_names_are_said_once() {
    assert!(CALLS.is_sorted_by(|a, b| a.number < b.number));
    for one in CALLS {
        assert!(std::ptr::eq(one, call(one.name).unwrap()), "{}", one.name);
        assert!(one.arguments.len() <= 6, "{}", one.name);
    }
}

#[test]
fn a_buffer_names_the_argument_that_has_its_length() {
    let size = |call: &str, n: usize| {
        let call = crate::call(call).unwrap();
        matches!(call.arguments.get(n).map(|a| &a.kind), Some(Kind::Size | Kind::Len))
    };
    for (call, argument) in arguments() {
        let ok = match argument.kind {
            Kind::InBytes(n) | Kind::OutBytes(n) | Kind::InVector(n) | Kind::OutVector(n) => size(call, n),
            Kind::InMany(_, n) | Kind::OutMany(_, n) | Kind::InOutMany(_, n) => size(call, n),
            _ => true,
        };
        assert!(ok, "{call}: {}", argument.name);
    }
}

#[test]
fn options_have_a_value_each_and_fields_lie_in_their_structures() {
    let mut sets = Vec::new();
    for (_, argument) in arguments() {
        each_set(&mut sets, &argument.kind, &mut |set| {
            for list in [set.choices, set.flags] {
                for (n, option) in list.iter().enumerate() {
                    let same = |other: &&crate::Opt| other.value == option.value || other.name == option.name;
                    assert_eq!(list.iter().position(|o| same(&o)), Some(n), "{}: {}", set.name, option.name);
                }
            }
        });
    }
    assert!(sets.len() > 50, "{}", sets.len());
}

#[test]
fn a_value_is_taken_apart() {
    let names = |call: &str, argument: usize, value: u64| {
        let Kind::Options(set) = &crate::call(call).unwrap().arguments[argument].kind else { panic!() };
        set.parts(value).map(|option| option.name).collect::<Vec<_>>()
    };
    assert_eq!(names("openat", 2, 0o2000101), ["O_WRONLY", "O_CREAT", "O_CLOEXEC"]);
    assert_eq!(names("futex", 1, 128), ["FUTEX_WAIT", "FUTEX_PRIVATE_FLAG"]);
    assert_eq!(names("mmap", 3, 0x22), ["MAP_PRIVATE", "MAP_ANONYMOUS"]);
    assert_eq!(names("getrusage", 0, u64::MAX), ["RUSAGE_CHILDREN"]);
    assert_eq!(names("fcntl", 1, 6), ["F_SETLK"]);
    assert_eq!(names("fcntl", 1, 99), [""; 0]);
}

#[test]
fn structures_are_as_large_as_linux_has_them() {
    let sizes: &[(&Struct, usize)] = &[
        (&crate::structs::STAT, size_of::<linux_raw_sys::general::stat>()),
        (&crate::structs::STATX, size_of::<linux_raw_sys::general::statx>()),
        (&crate::structs::FLOCK, size_of::<linux_raw_sys::general::flock>()),
        (&crate::structs::SIGACTION, size_of::<linux_raw_sys::general::kernel_sigaction>()),
        (&crate::structs::CLONE_ARGS, size_of::<linux_raw_sys::general::clone_args>()),
        (&crate::structs::ROBUST_LIST, size_of::<linux_raw_sys::general::robust_list_head>()),
        (&crate::structs::EPOLL_EVENT, size_of::<linux_raw_sys::general::epoll_event>()),
        (&crate::structs::SIGEVENT, size_of::<linux_raw_sys::general::sigevent>()),
        (&crate::structs::SIGINFO, size_of::<linux_raw_sys::general::siginfo_t>()),
        (&crate::structs::RUSAGE, size_of::<linux_raw_sys::general::rusage>()),
        (&crate::structs::UTSNAME, size_of::<linux_raw_sys::system::new_utsname>()),
        (&crate::structs::SYSINFO, size_of::<linux_raw_sys::system::sysinfo>()),
    ];
    for (known, size) in sizes {
        assert_eq!(known.size, *size, "{}", known.name);
    }
}
