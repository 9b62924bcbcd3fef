use super::clock::{CpuClock, Kind};
use super::posix::{Asked, Clock, Notify};
use crate::errno::Errno;
use crate::process;
use crate::sched::TimerSetting;
use crate::testing::in_process;
use linux_raw_sys::general as abi;

#[test]
fn a_timer_that_another_thread_has_deleted_is_not_set_any_more() {
    in_process(|| {
        let process = process::current_process();
        let clock = Clock::Cpu(CpuClock::of_process(&process, Kind::Whole));
        let notify = Notify::Signal { signal: abi::SIGUSR1, value: None, thread: None };
        let id = process.timers.next_id();
        let asked = Asked { way: 0, signal: abi::SIGUSR1 as i32, value: 0, clock: 1 };
        process.timers.create(&process, id, clock, notify, asked).unwrap();
        let timer = process.timers.find(id).unwrap();
        process.timers.delete(id).unwrap();
        let set = timer.set(TimerSetting { interval: 1, value: 1 }, false);
        assert_eq!(set.err(), Some(Errno::EINVAL));
        assert!(!process.timers.check(&process), "it is in the tree of timers of processor time");
    });
}
