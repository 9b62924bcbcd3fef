//! The list against a simple model of it.

use super::*;
use alloc::collections::{BTreeMap, BTreeSet};

/// Of a fixed sequence.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }

    fn pages(&mut self) -> Pages {
        let start = self.below(200);
        Pages::new(start, start + 1 + self.below(30))
    }
}

/// The leaves that a visit of `pages` comes to, and how many steps it takes.
fn visit(list: &mut List<u32>, pages: Pages) -> (Vec<u32>, usize) {
    let (mut reached, mut found, mut steps) = (Reached::default(), Vec::new(), 0);
    while let Some(step) = list.next(pages, &mut reached) {
        found.extend(step.leaf);
        steps += 1;
    }
    found.sort_unstable();
    (found, steps)
}

/// Is the tree in order, each place above those that have drawn less, and does each say how far those below reach?
fn check(list: &List<u32>, at: u32, up: u32) -> u64 {
    let Some(place) = list.places.get(at as usize) else { return 0 };
    assert_eq!(place.up, up);
    for (below, is_left) in [(place.left, true), (place.right, false)] {
        if let Some(child) = list.places.get(below as usize) {
            assert!(child.draw <= place.draw);
            assert_eq!((child.pages.start, below) < (place.pages.start, at), is_left);
        }
    }
    let below = check(list, place.left, at).max(check(list, place.right, at));
    assert_eq!(place.reach, below.max(place.pages.end));
    place.reach
}

#[test]
fn a_visit_comes_to_those_who_show_its_pages_whatever_came_and_went() {
    let (mut numbers, mut list, mut known) = (Numbers(1), List::new(), BTreeMap::new());
    for name in 0..3000u32 {
        match numbers.below(8) {
            0..=2 => {
                let pages = numbers.pages();
                let at = list.add(name, pages, numbers.below(1 << 31) as u32).unwrap();
                assert!(known.insert(at, (name, pages)).is_none());
            }
            kind => {
                let Some(at) = known.keys().nth(numbers.below(known.len().max(1) as u64) as usize).copied()
                else {
                    continue;
                };
                if kind < 5 {
                    list.remove(at);
                    known.remove(&at);
                } else if kind == 5 {
                    let more = numbers.pages();
                    list.widen(at, more);
                    known.entry(at).and_modify(|(_, pages)| *pages = pages.joined(more));
                } else {
                    let cut = numbers.pages();
                    let mut expected: Vec<u32> = known
                        .values()
                        .filter(|(_, pages)| pages.overlap(cut))
                        .map(|(name, _)| *name)
                        .collect();
                    expected.sort_unstable();
                    assert_eq!(visit(&mut list, cut).0, expected);
                }
            }
        }
        check(&list, list.root, NONE);
        assert_eq!(list.is_empty(), known.is_empty());
    }
}

#[test]
fn a_second_visit_takes_no_step_for_those_who_show_other_pages() {
    let (mut numbers, mut list) = (Numbers(2), List::new());
    for name in 0..1000 {
        list.add(name, Pages::new(0, 16), numbers.below(1 << 31) as u32).unwrap();
    }
    let beside = list.add(1000, Pages::new(20, 30), 5).unwrap();
    assert_eq!(visit(&mut list, Pages::new(16, u64::MAX)), ([1000].to_vec(), 1001));
    assert_eq!(visit(&mut list, Pages::new(16, u64::MAX)), ([1000].to_vec(), 1));
    assert_eq!(visit(&mut list, Pages::new(16, 20)), (Vec::new(), 0));
    list.remove(beside);
    assert_eq!(visit(&mut list, Pages::new(16, u64::MAX)), (Vec::new(), 0));
    assert_eq!(visit(&mut list, Pages::new(15, 16)).0.len(), 1000);
}

#[test]
fn whoever_was_there_all_the_time_is_visited_though_others_come_go_and_grow() {
    for seed in 0..200 {
        let (mut numbers, mut list) = (Numbers(seed), List::new());
        let mut draw = |list: &mut List<u32>, name, pages| {
            let draw = numbers.below(1 << 31);
            (list.add(name, pages, draw as u32).unwrap(), numbers.pages(), numbers.below(4))
        };
        let cut = Pages::new(50, 150);
        let mut there = Vec::new();
        let mut next = Pages::new(60, 61);
        for name in 0..40 {
            let (at, pages, _) = draw(&mut list, name, next);
            there.push((name, at, next));
            next = pages;
            if name == 20 {
                visit(&mut list, cut);
            }
        }
        let mut wanted: BTreeSet<u32> =
            there.iter().filter(|(.., pages)| pages.overlap(cut)).map(|(name, ..)| *name).collect();
        let (mut reached, mut name) = (Reached::default(), 100);
        while let Some(step) = list.next(cut, &mut reached) {
            if let Some(name) = step.leaf {
                wanted.remove(name);
            }
            if name >= 160 {
                continue;
            }
            let (_, pages, what) = draw(&mut list, name, next);
            next = pages;
            name += 1;
            match there.get(name as usize % there.len()).copied() {
                Some((_, at, _)) if what == 0 => list.widen(at, pages),
                Some((gone, at, _)) if what == 1 => {
                    list.remove(at);
                    wanted.remove(&gone);
                    there.retain(|(name, ..)| *name != gone);
                }
                _ => {}
            }
        }
        assert!(wanted.is_empty(), "{seed}: {wanted:?}");
    }
}
