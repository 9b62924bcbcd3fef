//! Options of signals, clocks and timers.
#![forbid(unsafe_code)]

use super::State;
use crate::{Opt, Set};
use linux_raw_sys::general;

sets! {
    SIG_HOW "how" choose { SIG_BLOCK, SIG_UNBLOCK, SIG_SETMASK } flags { }
    SA "sigaction flags" choose { }
    flags {
        SA_NOCLDSTOP, SA_NOCLDWAIT, SA_SIGINFO, SA_ONSTACK, SA_RESTART, SA_NODEFER, SA_RESETHAND, SA_RESTORER, SA_UNSUPPORTED,
        SA_EXPOSE_TAGBITS
    }
    SS "sigaltstack flags" choose { SS_ENABLE = 0, SS_ONSTACK, SS_DISABLE } flags { SS_AUTODISARM }
    SIGEV "how a timer tells" choose { SIGEV_SIGNAL, SIGEV_NONE, SIGEV_THREAD, SIGEV_THREAD_ID } flags { }
    ITIMER "interval timer" choose { ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF } flags { }
    TIMER_HOW "timer flags" choose { } flags { TIMER_ABSTIME }
    TIMERFD_HOW "timerfd_settime flags" choose { } flags { TFD_TIMER_ABSTIME = 1, TFD_TIMER_CANCEL_ON_SET = 2 }
    SETTABLE_CLOCKS "clock" choose { CLOCK_REALTIME } flags { }
    SLEEP_CLOCKS "clock" choose {
        CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM, CLOCK_TAI
    } flags { }
    TIMER_CLOCKS "clock" choose {
        CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM,
        CLOCK_BOOTTIME_ALARM, CLOCK_TAI
    } flags { }
    TIMERFD_CLOCKS "clock" choose { CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM } flags { }
    CLOCKS "clock" choose {
        CLOCK_REALTIME, CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID, CLOCK_THREAD_CPUTIME_ID, CLOCK_MONOTONIC_RAW, CLOCK_REALTIME_COARSE,
        CLOCK_MONOTONIC_COARSE, CLOCK_BOOTTIME, CLOCK_REALTIME_ALARM, CLOCK_BOOTTIME_ALARM, CLOCK_TAI
    } flags { }
}
