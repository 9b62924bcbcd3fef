use super::flow::Known;
use super::*;

const KERNEL: u64 = 0xffff_ffff_8000_0000;
/// Tops of two of the kernel's stacks.
const STACK: u64 = 0xffff_d000_0001_0000;
const OTHER: u64 = 0xffff_d000_0002_0000;
const USER_STACK: u64 = 0x7fff_0000_1000;

#[derive(Default)]
struct Guest {
    registers: [u64; NAMES.len()],
    memory: HashMap<u64, Vec<u8>>,
}

impl Machine for Guest {
    fn register(&mut self, register: Register) -> u64 {
        self.registers[register as usize]
    }

    fn memory(&mut self, address: u64, bytes: usize) -> Option<Vec<u8>> {
        let page = self.memory.get(&(address >> 12))?;
        page.get((address & 0xfff) as usize..)?.get(..bytes).map(<[u8]>::to_vec)
    }
}

/// One CPU that executes what it is told.
struct Run {
    walker: Walker,
    shared: Mutex<Shared>,
    guest: Guest,
    blocks: Known,
    now: u64,
}

impl Run {
    fn new() -> Run {
        let (walker, shared) = (Walker::default(), Mutex::default());
        let mut run = Run { walker, shared, guest: Guest::default(), blocks: Known::new(), now: 100 };
        run.walker.open(run.now);
        run
    }

    /// A block of 4 instructions and 16 bytes at `start`, with the stack pointer at `sp`.
    fn block(&mut self, start: u64, ends: End, sp: u64) {
        self.block_at(start, start, ends, sp, 4);
    }

    /// QEMU has translated it for `known`; so many instructions are executed.
    fn block_at(&mut self, known: u64, start: u64, ends: End, sp: u64, executed: u64) {
        let block = self.blocks.block(known, known + 16, 4, ends);
        self.guest.registers[Register::Rsp as usize] = sp;
        self.guest.registers[Register::Rip as usize] = start;
        self.walker.block(block, self.now, &self.shared, &mut self.guest);
        self.now += executed;
    }

    /// Counts by way, the outermost first.
    fn counted(&mut self) -> Vec<(Vec<u64>, u64)> {
        self.walker.close(self.now);
        let all = self.now - 100;
        assert_eq!([self.walker.all, self.walker.counts.values().sum::<u64>()], [all; 2]);
        let fields = lock(&self.shared).tree.fields();
        let nodes: Vec<(usize, u64)> = fields
            .rsplit_once("\"nodes\":[")
            .unwrap()
            .1
            .split("],[")
            .map(|node| {
                let (parent, place) = node.trim_matches(['[', ']']).split_once(',').unwrap();
                (parent.parse().unwrap(), place.parse().unwrap())
            })
            .collect();
        let mut ways: Vec<(Vec<u64>, u64)> = Vec::new();
        for (&(node, place), &count) in &self.walker.counts {
            let (mut way, mut node) = (vec![place], node as usize);
            while node != 0 {
                way.push(nodes[node].1);
                node = nodes[node].0;
            }
            way.reverse();
            ways.push((way, count));
        }
        ways.sort();
        ways
    }
}

#[test]
fn calls_nest_and_returns_go_back() {
    let mut run = Run::new();
    run.block(0x1000, End::Call(Some(0x2000)), USER_STACK);
    run.block(0x2000, End::Call(None), USER_STACK - 8);
    run.block(0x3000, End::Jump(0x3000), USER_STACK - 64);
    run.block(0x3000, End::Return, USER_STACK - 64);
    run.block(0x2010, End::Return, USER_STACK - 56);
    run.block(0x1010, End::Plain, USER_STACK);
    let way = |places: &[u64], count| ([&[1], places].concat(), count);
    let ways = [
        way(&[0x1000], 4),
        way(&[0x1010], 4),
        way(&[0x1010, 0x2000], 4),
        way(&[0x1010, 0x2010], 4),
        way(&[0x1010, 0x2010, 0x3000], 8),
    ];
    assert_eq!(run.counted(), ways);
}

#[test]
fn a_call_is_none_if_its_block_was_left_before() {
    let mut run = Run::new();
    run.block_at(0x1000, 0x1000, End::Call(Some(0x2000)), USER_STACK, 2);
    run.block(KERNEL, End::Leave, STACK - 40);
    run.block(0x1008, End::Call(Some(0x2000)), USER_STACK);
    run.block(0x2000, End::Plain, USER_STACK - 8);
    let ways = run.counted();
    let deepest = ways.iter().map(|(way, _)| way.len()).max();
    assert_eq!(deepest, Some(3), "{ways:x?}");
    assert!(ways.contains(&(vec![1, 0x1000, KERNEL], 4)), "{ways:x?}");
}

#[test]
fn an_interrupt_between_a_call_and_its_function_hides_neither() {
    for base in [0x1000, KERNEL] {
        let mut run = Run::new();
        let sp = if base == KERNEL { STACK - 256 } else { USER_STACK };
        run.block(KERNEL + 0x9000, End::Plain, STACK - 8);
        // The way there is known from now on.
        run.block(KERNEL + 0x5000, End::Leave, STACK - 512);
        run.block(base, End::Call(None), sp);
        run.block(KERNEL + 0x5000, End::Leave, if base == KERNEL { sp - 64 } else { STACK - 40 });
        run.block(base + 0x800, End::Return, sp - 8);
        run.block(base + 16, End::Plain, sp);
        let ways = run.counted();
        assert!(ways.iter().any(|(way, _)| way.ends_with(&[base + 16, base + 0x800])), "{ways:x?}");
        assert!(ways.iter().any(|(way, _)| way.len() == 2 && way[1] == base + 16), "{ways:x?}");
    }
}

#[test]
fn a_thread_that_comes_back_has_its_calls() {
    let mut run = Run::new();
    // Two threads; each calls the switch at KERNEL + 0x100.
    run.block(0x1000, End::Syscall, USER_STACK);
    run.block(KERNEL, End::Call(Some(KERNEL + 0x100)), USER_STACK);
    run.block(KERNEL + 0x100, End::Return, STACK - 80);
    // A new one begins.
    run.block(KERNEL + 0x200, End::Call(Some(KERNEL + 0x100)), OTHER);
    run.block(KERNEL + 0x100, End::Return, OTHER - 80);
    run.block(KERNEL + 16, End::Leave, STACK - 72);
    run.block(0x1010, End::Plain, USER_STACK);
    let ways = run.counted();
    let other = vec![0, KERNEL + 0x210, KERNEL + 0x100];
    assert!(ways.contains(&(other, 4)), "{ways:x?}");
    assert!(ways.contains(&(vec![1, 0x1000, KERNEL + 16], 4)), "{ways:x?}");
    assert!(ways.contains(&(vec![1, 0x1010], 4)), "{ways:x?}");
}

#[test]
fn a_block_is_counted_where_it_is_executed() {
    let mut run = Run::new();
    run.block_at(0x1000, 0x8000, End::Call(Some(0x1800)), USER_STACK, 4);
    run.block_at(0x1800, 0x8800, End::Jump(0x1850), USER_STACK - 8, 4);
    run.block_at(0x1850, 0x8850, End::Plain, USER_STACK - 8, 4);
    let ways = run.counted();
    assert_eq!(ways, [(vec![1, 0x8000], 4), (vec![1, 0x8010, 0x8800], 4), (vec![1, 0x8010, 0x8850], 4)]);
}

/// Arguments as execve(2) leaves them, of a program whose name is at the page's end.
fn arguments(run: &mut Run, entry: u64) {
    let words = [1, USER_STACK + 0xff0, 0, USER_STACK + 0xff0, 0, 9, entry, 31, USER_STACK + 0xff0, 0, 0];
    let mut page: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    page.resize(0xff0, 0);
    page.extend(b"/bin/new\0\0\0\0\0\0\0\0");
    run.guest.memory.insert(USER_STACK >> 12, page);
}

#[test]
fn a_program_is_known_by_what_it_was_executed_from_and_what_it_maps() {
    let mut run = Run::new();
    arguments(&mut run, 0x4000);
    run.block(0x1000, End::Syscall, USER_STACK - 512);
    run.block(KERNEL, End::Leave, USER_STACK - 512);
    run.block(0x4000, End::Syscall, USER_STACK);
    // openat(AT_FDCWD, "/bin/new"), then mmap of what it returned.
    run.guest.registers[Register::Rax as usize] = 257;
    run.guest.registers[Register::Rsi as usize] = USER_STACK + 0xff0;
    run.block(KERNEL, End::Leave, USER_STACK);
    run.guest.registers[Register::Rax as usize] = 3;
    run.block(0x4010, End::Syscall, USER_STACK);
    run.guest.registers[Register::Rax as usize] = 9;
    for (register, value) in
        [(Register::Rsi, 0x2000), (Register::Rdx, 5), (Register::R8, 3), (Register::R9, 0x1000)]
    {
        run.guest.registers[register as usize] = value;
    }
    run.block(KERNEL, End::Leave, USER_STACK);
    run.guest.registers[Register::Rax as usize] = 0x7000_0000;
    run.block(0x4020, End::Plain, USER_STACK);
    let fields = lock(&run.shared).tree.fields();
    assert!(fields.contains("[\"/bin/new\",16384,0,[[1879048192,8192,4096,\"/bin/new\"]]]"), "{fields}");
    assert!(run.counted().contains(&(vec![2, 0x4020], 4)));
}

#[test]
fn the_child_of_a_fork_has_its_parents_calls() {
    let mut run = Run::new();
    run.block(0x1000, End::Call(Some(0x2000)), USER_STACK);
    run.guest.registers[Register::Rax as usize] = 57;
    run.block(0x2000, End::Syscall, USER_STACK - 8);
    run.block(KERNEL, End::Call(Some(KERNEL + 0x100)), USER_STACK - 8);
    run.block(KERNEL + 0x100, End::Return, STACK - 80);
    // The child, on a stack of its own, with another page table.
    run.guest.registers[Register::Cr3 as usize] = 0x9000;
    run.block(KERNEL + 0x300, End::Leave, OTHER);
    run.block(0x2010, End::Return, USER_STACK - 8);
    run.block(0x1010, End::Plain, USER_STACK);
    let ways = run.counted();
    assert!(ways.contains(&(vec![1, 0x1010, 0x2010], 4)), "{ways:x?}");
    assert!(ways.contains(&(vec![1, 0x1010], 4)), "{ways:x?}");
}

#[test]
fn a_child_that_begins_late_is_of_its_own_parent() {
    let mut run = Run::new();
    // Two programs with the same code at the same place, called from elsewhere and with other registers.
    let registers = [0x111, 0x222];
    for (parent, rbx) in [0x1000, 0x5000].into_iter().zip(registers) {
        run.walker.thread = Thread::default();
        run.walker.last = None;
        run.guest.registers[Register::Cr3 as usize] = parent << 12;
        run.guest.registers[Register::Rbx as usize] = rbx;
        run.block(parent, End::Call(Some(0x2000)), USER_STACK);
        run.guest.registers[Register::Rax as usize] = 57;
        run.block(0x2000, End::Syscall, USER_STACK - 8);
        run.block(KERNEL, End::Call(Some(KERNEL + 0x100)), USER_STACK - 8);
    }
    // The first one's child runs only now.
    run.walker.thread = Thread::default();
    run.guest.registers[Register::Cr3 as usize] = 0x9000;
    run.guest.registers[Register::Rbx as usize] = registers[0];
    run.block(KERNEL + 0x300, End::Leave, OTHER);
    run.block(0x2010, End::Plain, USER_STACK - 8);
    let ways = run.counted();
    assert!(ways.contains(&(vec![1, 0x1010, 0x2010], 4)), "{ways:x?}");
}

#[test]
fn a_new_thread_on_the_stack_of_a_dead_one_is_another() {
    let mut run = Run::new();
    let first = STACK - 184;
    run.block(0x1000, End::Call(Some(0x2000)), USER_STACK);
    run.block(0x2000, End::Syscall, USER_STACK - 8);
    run.block(KERNEL, End::Call(Some(KERNEL + 0x400)), USER_STACK - 8);
    run.block(KERNEL + 0x400, End::Call(Some(KERNEL + 0x100)), first);
    run.block(KERNEL + 0x100, End::Return, first - 80);
    // It never comes back; others run, then one that begins on its stack, as high as the dead one's outermost call.
    run.block(KERNEL + 0x200, End::Call(Some(KERNEL + 0x100)), OTHER);
    run.block(KERNEL + 0x100, End::Return, OTHER - 80);
    run.guest.registers[Register::Cr3 as usize] = 0x9000;
    run.block(KERNEL + 0x300, End::Leave, first);
    run.block(0x7000, End::Plain, USER_STACK - 512);
    let ways = run.counted();
    assert!(ways.contains(&(vec![1, 0x7000], 4)), "{ways:x?}");
}

#[test]
fn an_exception_with_a_stack_of_its_own_takes_nothing_from_a_thread() {
    // Above and below the threads' stacks.
    for own in [0xffff_8000_0001_0000, 0xffff_e000_0001_0000] {
        let mut run = Run::new();
        run.block(0x1000, End::Call(Some(0x2000)), USER_STACK);
        run.block(0x2000, End::Plain, USER_STACK - 8);
        // It comes into the program, then into the kernel between a call and its function.
        run.block(KERNEL + 0x9000, End::Call(Some(KERNEL + 0x9100)), own);
        run.block(KERNEL + 0x9100, End::Return, own - 8);
        run.block(KERNEL + 0x9010, End::Leave, own);
        run.block(0x2010, End::Syscall, USER_STACK - 8);
        run.block(KERNEL, End::Call(Some(KERNEL + 0x400)), USER_STACK - 8);
        run.block(KERNEL + 0x400, End::Call(Some(KERNEL + 0x500)), STACK - 184);
        run.block(KERNEL + 0x9000, End::Call(Some(KERNEL + 0x9100)), own);
        run.block(KERNEL + 0x9100, End::Return, own - 8);
        run.block(KERNEL + 0x9010, End::Leave, own);
        run.block(KERNEL + 0x500, End::Return, STACK - 200);
        run.block(KERNEL + 0x410, End::Return, STACK - 192);
        run.block(KERNEL + 16, End::Leave, STACK - 176);
        run.block(0x2020, End::Plain, USER_STACK - 8);
        let ways = run.counted();
        let program = vec![1, 0x1010, 0x2020];
        assert!(ways.contains(&(program, 4)), "{ways:x?}");
        let kernel = vec![1, 0x1010, 0x2010, KERNEL + 16, KERNEL + 0x410, KERNEL + 0x500];
        assert!(ways.contains(&(kernel, 4)), "{ways:x?}");
    }
}

#[test]
fn counting_that_begins_within_a_block_does_not_hide_its_call() {
    let mut run = Run::new();
    run.walker = Walker::default();
    run.now = 98;
    run.block(0x1000, End::Call(Some(0x2000)), USER_STACK);
    // After two of four instructions.
    run.walker.open(100);
    run.block(0x2000, End::Plain, USER_STACK - 8);
    let ways = run.counted();
    assert_eq!(ways, [(vec![1, 0x1000], 2), (vec![1, 0x1010, 0x2000], 4)]);
}

#[test]
fn nothing_counts_before_it_begins_and_after_its_end() {
    let mut run = Run::new();
    run.walker = Walker::default();
    run.block(0x1000, End::Plain, USER_STACK);
    run.walker.open(run.now);
    run.block(0x1010, End::Plain, USER_STACK);
    run.walker.close(run.now);
    run.block(0x1020, End::Plain, USER_STACK);
    run.walker.close(run.now);
    assert_eq!(run.walker.all, 4);
    let document = document(&mut [&mut run.walker], &run.shared);
    assert!(document.contains("\"instructions\":4,"), "{document}");
    assert!(document.ends_with("\"counts\":[[1,4112,4]]}\n"), "{document}");
}
