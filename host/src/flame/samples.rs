//! What /proc/darter/samples says (kernel/src/procfs/darter/samples.rs has the format), and the mappings of the threads in it.
#![forbid(unsafe_code)]

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};

const VERSION: &str = "version 1";

/// Where something ran: program counters, the innermost first.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Stack {
    /// 0: a thread of the kernel's own.
    pub thread: u32,
    /// The thread's; `-`: it had ended when its name was asked for.
    pub name: String,
    pub kernel: Vec<u64>,
    pub user: Vec<u64>,
}

/// A file that is mapped to be executed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mapping {
    pub start: u64,
    pub end: u64,
    /// Of the file, at `start`.
    pub offset: u64,
    /// In the guest.
    pub file: PathBuf,
}

/// All that came.
#[derive(Default, Debug)]
pub struct Samples {
    pub stacks: BTreeMap<Stack, u64>,
    /// Samples that were replaced before they were read, since the first time.
    pub lost: u64,
    /// Until then, since boot.
    lost_before: Option<u64>,
    maps: HashMap<(u32, String), Vec<Mapping>>,
    /// The last that came of a program of this name: programs lie where they lay before (`norandmaps`). None: they do not.
    maps_by_name: Option<HashMap<String, Vec<Mapping>>>,
}

impl Samples {
    /// `same_addresses`: programs of a name lie at the same addresses each time.
    pub fn new(same_addresses: bool) -> Self {
        Self { maps_by_name: same_addresses.then(HashMap::new), ..Self::default() }
    }

    /// Takes what was read once.
    pub fn take(&mut self, text: &str) -> Result<()> {
        let mut lines = text.lines();
        let version = lines.next().unwrap_or_default();
        ensure!(version == VERSION, "its first line is '{version}' and not '{VERSION}'");
        let lost = lines.next().and_then(|line| line.rsplit(' ').next()?.parse().ok());
        let lost: u64 = lost.context("its second line does not say what was lost")?;
        self.lost = lost.saturating_sub(*self.lost_before.get_or_insert(lost));
        for line in lines {
            let stack = parse(line).with_context(|| format!("'{line}'"))?;
            *self.stacks.entry(stack).or_default() += 1;
        }
        Ok(())
    }

    /// Takes the mappings of a thread, whose number and name are the first line.
    pub fn take_maps(&mut self, text: &str) {
        let Some((head, maps)) = text.split_once('\n') else { return };
        let Some((thread, name)) = head.split_once(' ') else { return };
        let Ok(thread) = thread.parse() else { return };
        let maps: Vec<Mapping> = maps.lines().filter_map(mapping).collect();
        // One that ended just now has none.
        if !maps.is_empty() {
            if let Some(by_name) = &mut self.maps_by_name {
                by_name.insert(name.to_owned(), maps.clone());
            }
            self.maps.insert((thread, name.to_owned()), maps);
        }
    }

    /// Where an address of the stack's program lies, and the address's offset in that file.
    pub fn find(&self, stack: &Stack, address: u64) -> Option<(&Mapping, u64)> {
        let own = self.maps.get(&(stack.thread, stack.name.clone()));
        let maps = own.or_else(|| self.maps_by_name.as_ref()?.get(&stack.name))?;
        find(maps, address)
    }
}

/// Where an address lies, and its offset in that file.
pub fn find(maps: &[Mapping], address: u64) -> Option<(&Mapping, u64)> {
    let mapping = maps.iter().find(|mapping| (mapping.start..mapping.end).contains(&address))?;
    Some((mapping, address - mapping.start + mapping.offset))
}

fn parse(line: &str) -> Result<Stack> {
    let words: Vec<&str> = line.splitn(6, ' ').collect();
    let [_, _, thread, kernel, user, name] = words[..] else { anyhow::bail!("it has not six words") };
    let frames = |word: &str| match word {
        "-" => Ok(Vec::new()),
        _ => word.split(',').map(|pc| u64::from_str_radix(pc, 16)).collect(),
    };
    Ok(Stack { thread: thread.parse()?, name: name.to_owned(), kernel: frames(kernel)?, user: frames(user)? })
}

/// A line of /proc/PID/maps, of what is a file and may be executed.
fn mapping(line: &str) -> Option<Mapping> {
    let mut words = line.splitn(6, ' ').map(str::trim);
    let (start, end) = words.next()?.split_once('-')?;
    let rights = words.next()?;
    let offset = words.next()?;
    let file = words.nth(2)?;
    let number = |text| u64::from_str_radix(text, 16).ok();
    (rights.contains('x') && file.starts_with('/')).then_some(Mapping {
        start: number(start)?,
        end: number(end)?,
        offset: number(offset)?,
        file: file.into(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAPS: &str = "7 sh\n00400000-00401000 r--p 00000000 00:02 5                          /bin/busybox\n\
        00401000-00500000 r-xp 00001000 00:02 5                          /bin/busybox\n\
        7ffff000-80000000 r-xp 00000000 00:00 0                          [vdso]\n";

    #[test]
    fn equal_stacks_are_counted_together() {
        let mut samples = Samples::default();
        let head = "version 1\nsampled 100 0\n";
        samples.take(&format!("{head}0 1 7 ffff1,ffff2 401000 sh\n1 2 7 ffff1,ffff2 401000 sh\n")).unwrap();
        samples.take("version 1\nsampled 100 3\n0 3 0 ffff1 - -\n0 4 8 - 401000 a b\n").unwrap();
        assert_eq!(samples.lost, 3);
        let counts: Vec<_> =
            samples.stacks.iter().map(|(stack, n)| (&*stack.name, stack.user.len(), *n)).collect();
        assert_eq!(counts, [("-", 0, 1), ("sh", 1, 2), ("a b", 1, 1)]);
        for text in ["", "version 2\n", "version 1\n", "version 1\nsampled off 0\n0 1 2\n"] {
            assert!(samples.take(text).is_err(), "{text}");
        }
    }

    #[test]
    fn an_address_is_found_in_the_threads_file_or_in_that_of_its_namesake() {
        let mut samples = Samples::new(true);
        samples.take_maps(MAPS);
        let stack =
            |thread, name: &str| Stack { thread, name: name.into(), kernel: Vec::new(), user: Vec::new() };
        for thread in [7, 9] {
            let (mapping, offset) = samples.find(&stack(thread, "sh"), 0x401_010).unwrap();
            assert_eq!((&*mapping.file, offset), (std::path::Path::new("/bin/busybox"), 0x1010));
        }
        assert!(samples.find(&stack(7, "ls"), 0x401_010).is_none());
        assert!(samples.find(&stack(7, "sh"), 0x400_010).is_none(), "that is not executed");
        let mut samples = Samples::new(false);
        samples.take_maps(MAPS);
        assert!(samples.find(&stack(7, "sh"), 0x401_010).is_some());
        assert!(samples.find(&stack(9, "sh"), 0x401_010).is_none(), "it may lie elsewhere");
    }
}
