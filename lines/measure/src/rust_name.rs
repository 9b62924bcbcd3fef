//! Rust's names as a reader wants them: what tells one function or type from another, without what the compiler needs.

/// A path without traits, lifetimes and parameters: `<vm::Space<M> as Drop>::drop` is `vm::Space::drop`. Parameters of the standard
/// library's types stay, since there they say what it is about: `alloc::sync::Arc<vm::Space>::drop_slow`. The kernel's crate is `kernel`.
pub fn simple(name: &str) -> String {
    let mut out = String::new();
    let mut rest = name;
    while let Some(next) = rest.chars().next() {
        let (inner, after) = match next {
            '<' => split_group(rest),
            _ => {
                out.push(next);
                rest = &rest[next.len_utf8()..];
                continue;
            }
        };
        rest = after;
        let path_goes_on = out.ends_with("::");
        if let Some(implemented) = inner.strip_prefix("impl ").filter(|_| path_goes_on) {
            // `module::<impl Trait for Type>::function`
            out.clear();
            out.push_str(&simple(split_top(implemented, " for ").map_or(implemented, |(_, type_)| type_)));
        } else if out.is_empty() {
            // `<Type as Trait>::function`
            out.push_str(&simple(split_top(inner, " as ").map_or(inner, |(type_, _)| type_)));
        } else {
            if path_goes_on {
                out.truncate(out.len() - 2);
            }
            if is_standard(&out) {
                out.push_str(&format!("<{}>", parameters(inner)));
            }
        }
    }
    out.replace("darter_", "")
}

/// The simple name of a function of the standard library, with the parameters that its debug information says: symbols of methods say
/// `alloc::sync::Arc<T, A>::drop_slow`, debug information `drop_slow<vm::Space, Global>`. What else a function is, its own name says.
pub fn with_parameters(symbol: &str, debug: &str) -> String {
    let name = simple(symbol);
    let Some(at) = debug.find('<').filter(|_| is_standard(&name)) else { return name };
    let parameters = parameters(split_group(&debug[at..]).0);
    match name.split_once('<') {
        Some((type_, rest)) => match rest.rsplit_once(">::") {
            Some((_, method)) => format!("{type_}<{parameters}>::{method}"),
            // What the symbol says already.
            None => name,
        },
        None => format!("{name}<{parameters}>"),
    }
}

/// The last two names of a path (three where the last is a closure): enough beside a file's name.
pub fn tail(name: &str) -> String {
    let mut parts = Vec::new();
    let mut rest = name;
    while let Some((first, others)) = split_top(rest, "::") {
        parts.push(first);
        rest = others;
    }
    parts.push(rest);
    let closures = parts.iter().rev().take_while(|part| part.starts_with('{')).count();
    let from = parts.len().saturating_sub(2 + closures);
    parts.get(from..).unwrap_or(&parts).join("::")
}

/// Is this a path into the standard library?
pub fn is_standard(name: &str) -> bool {
    ["core::", "alloc::", "std::", "hashbrown::"].iter().any(|crate_| name.starts_with(crate_))
}

/// Parameters by their last names; the allocator is always the same.
fn parameters(list: &str) -> String {
    let mut names = Vec::new();
    let mut rest = list;
    loop {
        let (first, others) = split_top(rest, ", ").unwrap_or((rest, ""));
        let name = simple(first);
        if !name.ends_with("Global") && !name.starts_with('\'') {
            names.push(name.rsplit("::").next().filter(|_| !name.contains('<')).unwrap_or(&name).to_owned());
        }
        if others.is_empty() {
            return names.join(", ");
        }
        rest = others;
    }
}

/// What is between the bracket that `text` begins with and its partner, and what follows.
fn split_group(text: &str) -> (&str, &str) {
    let mut depth = 0usize;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if before != '-' => depth = depth.saturating_sub(1),
            _ => {}
        }
        before = c;
        if depth == 0 {
            return (&text[1..at], &text[at + 1..]);
        }
    }
    (&text[1..], "")
}

/// Splits at the first `separator` that is in no brackets.
fn split_top<'a>(text: &'a str, separator: &str) -> Option<(&'a str, &'a str)> {
    let mut depth = 0i32;
    let mut before = ' ';
    for (at, c) in text.char_indices() {
        if depth == 0 && text[at..].starts_with(separator) {
            return Some((&text[..at], &text[at + separator.len()..]));
        }
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' if before == '-' => {}
            '>' | ')' | ']' => depth -= 1,
            _ => {}
        }
        before = c;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_what_tells_them_apart() {
        for (full, short) in [
            ("vm::frame::alloc_zeroed", "vm::frame::alloc_zeroed"),
            ("<vm::space::Space<darter_kernel::arch::Machine>>::fault", "vm::space::Space::fault"),
            ("vm::walk::<impl vm::space::Space<M>>::copy_leaf", "vm::space::Space::copy_leaf"),
            (
                "<darter_kernel::fs::table::FileTable as core::ops::drop::Drop>::drop",
                "kernel::fs::table::FileTable::drop",
            ),
            ("<darter_kernel::a::B as core::convert::From<x::Y<Z>>>::from", "kernel::a::B::from"),
            ("sync::heap::try_arc::<darter_kernel::fs::file::File>", "sync::heap::try_arc"),
            (
                "<alloc::sync::Arc<darter_kernel::fs::dentry::Dentry>>::drop_slow",
                "alloc::sync::Arc<Dentry>::drop_slow",
            ),
            ("alloc::sync::Arc<vm::space::Space<M>, alloc::alloc::Global>", "alloc::sync::Arc<Space>"),
            (
                "core::ptr::drop_in_place::<alloc::vec::Vec<vm::Segment>>",
                "core::ptr::drop_in_place<alloc::vec::Vec<Segment>>",
            ),
            ("a::call::<fn(u8) -> bool>::{closure#0}", "a::call::{closure#0}"),
            ("syscall_entry", "syscall_entry"),
            ("broken<", "broken"),
        ] {
            assert_eq!(simple(full), short, "{full}");
        }
    }

    #[test]
    fn functions_of_the_standard_library_say_what_they_are_for() {
        let arc = with_parameters(
            "alloc::sync::Arc<T,A>::drop_slow",
            "drop_slow<darter_kernel::fs::Dentry, alloc::alloc::Global>",
        );
        assert_eq!(arc, "alloc::sync::Arc<Dentry>::drop_slow");
        let drop =
            with_parameters("core::ptr::drop_in_place<alloc::vec::Vec<vm::Segment>>", "drop_in_place<x>");
        assert_eq!(drop, "core::ptr::drop_in_place<alloc::vec::Vec<Segment>>");
        let drop = with_parameters("core::ptr::drop_in_place<a::Signals>", "drop_in_place<a::Signals>");
        assert_eq!(drop, "core::ptr::drop_in_place<Signals>");
        assert_eq!(with_parameters("core::cmp::max", "max<usize>"), "core::cmp::max<usize>");
        assert_eq!(with_parameters("vm::Space<M>::fault", "fault<x::Machine>"), "vm::Space::fault");
    }

    #[test]
    fn the_tail_is_two_names_and_a_closure() {
        assert_eq!(tail("vm::space::Space::fault"), "Space::fault");
        assert_eq!(tail("kernel::a::b::{closure#0}"), "a::b::{closure#0}");
        assert_eq!(tail("alloc::sync::Arc<a::B>::drop_slow"), "Arc<a::B>::drop_slow");
        assert_eq!(tail("main"), "main");
    }
}
