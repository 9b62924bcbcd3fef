use super::*;

static DIRECTORY: Directory = Directory::new();

fn access(line: u64, offset: u32, write: bool) -> Access {
    Access { line, offset, bytes: 8, vaddr: line << 6 | 8, pc: 0x1000, write, locked: false }
}

#[test]
fn bytes_add_up_even_when_lines_push_each_other_out() {
    let mut recorder = Recorder::new(2, &DIRECTORY, None);
    recorder.open();
    for round in 0..4 {
        for line in [1, 1 + RECENT as u64] {
            recorder.note(&access(line, round * 8, round % 2 == 1));
        }
    }
    let record = recorder.close().unwrap();
    assert_eq!(record.cpu, 2);
    for line in [1, 1 + RECENT as u64] {
        let touched = record.lines[&line].touched;
        assert_eq!((touched.read, touched.written()), (0x00ff_00ff, 0xff00_ff00));
        assert_eq!((touched.plain, touched.locked), (0xff00_ff00, 0));
        assert_eq!(touched.vaddr, line << 6);
    }
    assert_eq!(record.user_accesses, 8);
}

#[test]
fn only_the_line_of_the_access_before_is_known_without_a_look() {
    let mut recorder = Recorder::new(0, &DIRECTORY, None);
    assert_eq!(recorder.same(0), None);
    recorder.translates(0x1008, 99);
    assert_eq!((recorder.same(0x1038), recorder.same(0x1040), recorder.same(0xfff)), (Some(99), None, None));
    recorder.translates(0x2000, 100);
    assert_eq!(recorder.same(0x1008), None);
}

#[test]
fn a_visit_lasts_until_another_line_is_used() {
    let mut recorder = Recorder::new(0, &DIRECTORY, None);
    recorder.open();
    for write in [false, true, true] {
        recorder.note(&access(70, 0, write));
    }
    let many = 3 * u64::from(u16::MAX);
    for _ in 0..many {
        recorder.note(&access(71, 0, true));
        recorder.note(&access(70, 0, false));
    }
    let lines = recorder.close().unwrap().lines;
    assert_eq!(lines[&70].visits, Visits { all: 1 + many, writing: 1 });
    assert_eq!(lines[&71].visits, Visits { all: many, writing: many });
}

#[test]
fn a_string_instruction_goes_on_within_its_line_alone() {
    let mut recorder = Recorder::new(0, &DIRECTORY, None);
    recorder.open();
    let first = access(10, 0, true);
    recorder.note(&first);
    recorder.streak(&first);
    let vaddr = 10 << 6;
    assert!(recorder.goes_on(first.pc, vaddr + 8, 8, true));
    assert!(!recorder.goes_on(first.pc, vaddr + 8, 8, false), "reads are a stream of their own");
    assert!(!recorder.goes_on(first.pc + 1, vaddr + 16, 8, true), "another instruction");
    assert!(!recorder.goes_on(first.pc, vaddr + 60, 8, true), "into the next line");
    assert!(!recorder.goes_on(first.pc, vaddr + 64, 8, true), "the next line");
    let source = access(10 + RECENT as u64, 0, false);
    recorder.note(&source);
    assert!(!recorder.goes_on(first.pc, vaddr + 16, 8, true), "pushed out by what it is copied from");
    recorder.note(&first);
    recorder.no_streak();
    assert!(!recorder.goes_on(first.pc, vaddr + 16, 8, true), "something else came after");
    let record = recorder.close().unwrap();
    assert_eq!((record.lines[&10].touched.written(), record.user_accesses), (0xffff, 4));
}

#[test]
fn nothing_is_recorded_outside_a_window() {
    let (mut recorder, mut other) = (Recorder::new(0, &DIRECTORY, None), Recorder::new(1, &DIRECTORY, None));
    other.note(&access(20, 0, true));
    recorder.note(&access(20, 0, true));
    assert!(recorder.close().is_none());
    recorder.open();
    let record = recorder.close().unwrap();
    assert!(record.lines.is_empty() && record.transfers.is_empty());
}

#[test]
fn a_line_is_taken_though_it_was_used_lately() {
    let (mut recorder, mut other) = (Recorder::new(0, &DIRECTORY, None), Recorder::new(1, &DIRECTORY, None));
    recorder.open();
    other.executes.program = 7;
    let mut taken = Vec::new();
    for _ in 0..2 {
        taken.extend(recorder.note(&access(30, 0, false)));
        other.note(&access(30, 0, true));
    }
    // Who follows calls is told the same, with the program.
    let write = Write { cpu: 1, program: 7, pc: 0x1000 };
    assert_eq!(taken, [Taken { from: 1, write: Some(write) }]);
    let transfers = recorder.close().unwrap().transfers;
    let taken = Transfer { line: 30, write: false, pc: 0x1000, from: 1, from_pc: 0x1000 };
    assert_eq!(transfers.into_iter().collect::<Vec<_>>(), [(taken, 1)]);
}

#[test]
fn a_window_begins_with_nothing_of_the_one_before() {
    let mut recorder = Recorder::new(0, &DIRECTORY, None);
    for line in [40, 41] {
        recorder.open();
        recorder.note(&access(line, 0, true));
        let record = recorder.close().unwrap();
        assert_eq!(record.lines.keys().collect::<Vec<_>>(), [&line]);
    }
}

#[test]
fn a_modelled_cache_loses_lines_to_other_cpus() {
    let cache = Cache::new(1 << 20, 0, Default::default());
    let mut recorder = Recorder::new(0, &DIRECTORY, Some(cache));
    let mut other = Recorder::new(1, &DIRECTORY, None);
    recorder.note(&access(60, 0, false));
    recorder.open();
    recorder.note(&access(60, 0, false));
    other.note(&access(60, 0, true));
    recorder.note(&access(60, 0, false));
    let counts = Counts { accesses: 2, local: 1, remote: 0, taken: 1 };
    assert_eq!(recorder.close().unwrap().cache, Some(counts));
}

#[test]
fn a_locked_instruction_takes_its_line_once_and_a_look_before_it_once_more() {
    let (mut one, mut other) = (Recorder::new(0, &DIRECTORY, None), Recorder::new(1, &DIRECTORY, None));
    let exchange = |recorder: &mut Recorder, line| {
        recorder.note(&Access { locked: true, ..access(line, 0, false) });
        recorder.note(&Access { locked: true, ..access(line, 0, true) });
    };
    one.open();
    (0..10).for_each(|_| {
        exchange(&mut other, 61);
        exchange(&mut one, 61);
        exchange(&mut other, 62);
        one.note(&access(62, 0, false));
        exchange(&mut one, 62);
    });
    let taken = |record: &Record, line| {
        record.transfers.iter().filter(|(from, _)| from.line == line).map(|(_, n)| n).sum::<u64>()
    };
    let record = one.close().unwrap();
    assert_eq!((taken(&record, 61), taken(&record, 62)), (10, 20));
}

#[test]
fn an_access_of_a_whole_line_touches_every_byte() {
    let mut recorder = Recorder::new(0, &DIRECTORY, None);
    recorder.open();
    recorder.note(&Access { bytes: 64, ..access(50, 0, true) });
    assert_eq!(recorder.close().unwrap().lines[&50].touched.written(), u64::MAX);
}
