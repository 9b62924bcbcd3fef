//! Samples: where each CPU is, so many times a second, with the way there. /proc/darter/samples switches them on and tells them.
//!
//! The tick takes them (`sched::timer_interrupt`): while they are on, a busy CPU ticks as often as samples are wanted, and an idle one is left alone. Kernel code
//! takes interrupts nearly everywhere, so a tick finds it where it is; code that has them off is found where it turns them on. A CPU that wakes for
//! less than the time between two samples, and then idles for longer, may be missed.
//!
//! A sample is walked by frame pointers: those of the kernel, which is built with them, then those of the program as far as it has any and their
//! pages are in memory. It lies in one of [`SAMPLES`] places of its CPU, where the newest replaces the oldest; each place is written and read by a
//! sequence (`sync::protocol::sequence`). So a CPU writes its own places alone, nobody waits, and a reader who is too slow sees by the numbers
//! what he has missed.
#![forbid(unsafe_code)]

use alloc::vec::Vec;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

use once_cell::race::OnceBox;
use sync::percpu::Padded;
use sync::protocol::sequence::{Sequence, Word};
use sync::{AllocError, Count, CpuId, TryVec, per_cpu, try_box};

use crate::arch;
use crate::arch::interrupts::Interrupted;

/// Samples that a CPU keeps.
const SAMPLES: u64 = 128;
/// Program counters of one sample: of the kernel, of the program.
const KERNEL_FRAMES: usize = 32;
const USER_FRAMES: usize = 24;
/// Number, time, thread, how many of either.
const HEAD: usize = 4;
const WORDS: usize = HEAD + KERNEL_FRAMES + USER_FRAMES;
/// Most samples a second.
pub const FASTEST: u64 = 10_000;

struct Place {
    sequence: Sequence,
    words: [Word; WORDS],
}

/// One CPU's samples.
#[repr(align(64))]
struct Samples {
    /// When the last one was taken, ns.
    taken_at: Count,
    /// How many there have been.
    taken: Count,
    /// None: they were never switched on.
    places: OnceBox<Vec<Place>>,
}

per_cpu! {
    static SAMPLE: Samples = Samples { taken_at: Count::new(), taken: Count::new(), places: OnceBox::new() };
}

/// Nanoseconds between two samples; 0: there are none.
static PERIOD: Padded<AtomicU64> = Padded(AtomicU64::new(0));

/// Are samples taken? For the tick.
#[inline(always)]
pub fn is_on() -> bool {
    PERIOD.load(Relaxed) != 0
}

/// Nanoseconds between two samples; None: they are off.
pub fn period() -> Option<u64> {
    Some(PERIOD.load(Relaxed)).filter(|ns| *ns != 0)
}

/// Has samples taken every so many nanoseconds. The caller has CPUs tick so often.
///
/// # Errors
/// [`AllocError`]: there is no memory to keep them in.
pub fn switch_on(period: u64) -> Result<(), AllocError> {
    for samples in SAMPLE.iter() {
        if samples.places.get().is_some() {
            continue;
        }
        let mut places = Vec::new();
        for _ in 0..SAMPLES {
            places.try_push(Place { sequence: Sequence::new(), words: [const { Word::new() }; WORDS] })?;
        }
        // Somebody else may have made them meanwhile.
        let _ = samples.places.set(try_box(places)?);
    }
    PERIOD.store(period, Relaxed);
    Ok(())
}

/// Takes no more. Those that were taken stay.
pub fn switch_off() {
    PERIOD.store(0, Relaxed);
}

/// A tick, in the interrupt handler, while they are on; `thread`: who runs, 0 for one of the kernel's own.
pub fn take(interrupted: Interrupted, thread: u32, period: u64) {
    let samples = SAMPLE.this();
    let Some(places) = samples.places.get() else { return };
    let now = arch::time::now();
    // Ticks come a little early or late, and others come between.
    if now.wrapping_sub(samples.taken_at.get()) < period - period / 4 {
        return;
    }
    if let Interrupted::Kernel { pc, .. } = interrupted
        && arch::is_idle_at(pc)
    {
        return;
    }
    samples.taken_at.set(now);
    let number = samples.taken.get();
    let Some(place) = places.get((number % SAMPLES) as usize) else { return };
    place.sequence.write(|| place.write(number, now, interrupted, thread));
    samples.taken.add(1);
}

impl Place {
    fn write(&self, number: u64, now: u64, interrupted: Interrupted, thread: u32) {
        let mut kernel = 0;
        if let Interrupted::Kernel { pc, frame } = interrupted {
            kernel = self.put_all(HEAD, KERNEL_FRAMES, pc, frame, arch::frame_at);
        }
        let mut user = 0;
        if thread != 0
            && let Some((pc, frame)) = arch::left_program_at()
        {
            user = self.put_all(HEAD + kernel, USER_FRAMES, pc, frame, arch::user_frame_at);
        }
        let counts = (kernel | user << 32) as u64;
        for (word, value) in self.words.iter().zip([number, now, thread.into(), counts]) {
            word.store(value);
        }
    }

    /// Puts a program counter and those of the callers, from word `at` on, `most` at most; how many they are.
    fn put_all(
        &self,
        at: usize,
        most: usize,
        pc: usize,
        frame: usize,
        caller: impl Fn(usize) -> Option<(usize, usize)>,
    ) -> usize {
        let (mut pc, mut frame, mut n) = (pc, frame, 0);
        for word in self.words.iter().skip(at).take(most) {
            word.store(pc as u64);
            n += 1;
            // Stacks grow down, so callers' frames lie above.
            match caller(frame) {
                Some((next, address)) if address != 0 && next > frame => (frame, pc) = (next, address),
                Some((0, address)) if address != 0 => (frame, pc) = (0, address),
                _ => break,
            }
        }
        n
    }
}

/// A sample.
pub struct Sample {
    pub ns: u64,
    /// 0: the kernel's own.
    pub thread: u32,
    frames: [u64; WORDS],
    kernel: usize,
    user: usize,
}

impl Sample {
    /// Program counters of the kernel, the innermost first; none where the program itself ran.
    pub fn kernel(&self) -> &[u64] {
        self.frames.get(HEAD..HEAD.saturating_add(self.kernel)).unwrap_or(&[])
    }

    /// The same of the program.
    pub fn user(&self) -> &[u64] {
        let start = HEAD.saturating_add(self.kernel);
        self.frames.get(start..start.saturating_add(self.user)).unwrap_or(&[])
    }
}

/// How many samples `cpu` has taken.
pub fn taken(cpu: CpuId) -> u64 {
    SAMPLE.of(cpu).taken.get()
}

/// The oldest number that `cpu` may have yet.
pub fn oldest(cpu: CpuId) -> u64 {
    taken(cpu).saturating_sub(SAMPLES)
}

/// Sample `number` of `cpu`; None: another has replaced it, or is about to.
pub fn of(cpu: CpuId, number: u64) -> Option<Sample> {
    let place = SAMPLE.of(cpu).places.get()?.get((number % SAMPLES) as usize)?;
    let frames = place.sequence.read(|| {
        let mut frames = [0; WORDS];
        frames.iter_mut().zip(&place.words).for_each(|(to, word)| *to = word.load());
        frames
    })?;
    let [found, ns, thread, counts, ..] = frames;
    let (kernel, user) = (counts as u32 as usize, (counts >> 32) as usize);
    (found == number).then_some(Sample { ns, thread: thread as u32, frames, kernel, user })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames at 16, 32 and 48, each called from a hundred times its place.
    fn stack(frame: usize) -> Option<(usize, usize)> {
        [(16, (32, 1600)), (32, (48, 3200)), (48, (0, 4800))]
            .into_iter()
            .find(|(at, _)| *at == frame)
            .map(|(_, f)| f)
    }

    #[test]
    fn a_stack_is_walked_to_its_end_and_no_further_than_there_is_room() {
        let place = Place { sequence: Sequence::new(), words: [const { Word::new() }; WORDS] };
        let words = |n: usize| place.words[HEAD..HEAD + n].iter().map(Word::load).collect::<Vec<_>>();
        assert_eq!(place.put_all(HEAD, KERNEL_FRAMES, 7, 16, stack), 4);
        assert_eq!(words(4), [7, 1600, 3200, 4800]);
        assert_eq!(place.put_all(HEAD, 2, 7, 16, stack), 2);
        assert_eq!(place.put_all(HEAD, 8, 7, 64, stack), 1, "there is no such frame");
        assert_eq!(
            place.put_all(HEAD, 8, 7, 16, |frame| Some((frame, 9))),
            1,
            "a frame that leads to itself"
        );
    }
}
