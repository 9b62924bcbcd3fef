//! Starting the hosted kernel, and the tests' processes.

use std::boxed::Box;
use std::collections::VecDeque;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, Once, OnceLock, PoisonError};

use super::outcome::{Outcome, PATIENCE, note_panics, outcome_of};
use super::{empty_root, task};
use crate::arch::program;
use crate::errno::Result;
use crate::fs::{self, FileTable};
use crate::process::signal::Action;
use crate::process::{self, Credentials};
use crate::sched::{self, Sleep, WaitQueue};
use linux_raw_sys::general::SIGCHLD;

/// Enough that tasks truly run at once, and that a test which computes does not hold up the others.
const CPUS: usize = 4;
/// 1 GiB, of which the host gives what is touched.
const PAGES: usize = 256 * 1024;

/// Programs that the first process shall start.
static WANTED: Mutex<VecDeque<Box<dyn FnOnce() + Send>>> = Mutex::new(VecDeque::new());
static CAME: WaitQueue = WaitQueue::new();
/// Told when the first process has begun.
static READY: OnceLock<Mutex<Sender<()>>> = OnceLock::new();

/// Boots the kernel, once.
fn start() {
    static START: Once = Once::new();
    START.call_once(|| {
        note_panics();
        vm::frame::hosted::start(PAGES, 1);
        sync::machine::set_cycles_per_ms(1_000_000);
        let (ready, is_ready) = channel();
        // Only this call sets it.
        let _ = READY.set(Mutex::new(ready));
        crate::arch::start_cpus(CPUS, run_cpu);
        is_ready.recv_timeout(PATIENCE).expect("the hosted kernel does not start");
    });
}

/// What `boot` does in the kernel.
fn run_cpu(n: usize) -> ! {
    sync::rcu::idle_exit();
    // SAFETY: each CPU comes here once, first of all, on a host thread of its own.
    unsafe { sched::init_cpu() }.expect("no idle task");
    if n == 0 {
        sched::spawn(None, finish_boot, 0).expect("no first thread");
    }
    sched::idle_main()
}

fn finish_boot(_: usize) {
    fs::init(&crate::FILE_SYSTEMS, &[]);
    process::signal::errand::start().expect("no thread that sends signals");
    fs::vfs::mount::namespace::start().expect("no thread that ends namespaces");
    fs::vfs::notify::start().expect("no thread that tells of closed files");
    let context = fs::first_context().expect("no root");
    let files = FileTable::try_new().expect("no descriptors");
    let first = process::make_first(files, context, &program::new(first_process));
    sched::start(first.expect("no first process"));
}

/// Process 1 forks the tests' processes. It ignores SIGCHLD, so they go without being waited for.
fn first_process() {
    const SIG_IGN: usize = 1;
    let ignore = Action { handler: SIG_IGN, ..Action::default() };
    process::current().process.signals.set_action(SIGCHLD, ignore).expect("SIGCHLD can be ignored");
    if let Some(ready) = READY.get() {
        // Nobody waits any more if the start took too long.
        let _ = ready.lock().unwrap_or_else(PoisonError::into_inner).send(());
    }
    loop {
        let next = || WANTED.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        if let Ok(program) = CAME.wait_until(Sleep::Killable, None, next) {
            task::start_process(program).expect("the first process cannot fork");
        }
    }
}

/// Runs `f` as the superuser in a process of its own, with an empty root; gives its result, or goes on with its panic.
pub fn in_process<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    in_process_of(Credentials::superuser(), f)
}

/// As [`in_process`], with these credentials.
pub fn in_process_of<R: Send + 'static>(
    credentials: Credentials,
    f: impl FnOnce() -> R + Send + 'static,
) -> R {
    start();
    let (sender, result): (_, Receiver<Outcome<R>>) = channel();
    let program = move || {
        let outcome = outcome_of(|| {
            settle(credentials).expect("no memory for a test's process");
            f()
        });
        // The test has given up waiting.
        let _ = sender.send(outcome);
        process::exit_group(0)
    };
    WANTED.lock().unwrap_or_else(PoisonError::into_inner).push_back(Box::new(program));
    CAME.wake_all();
    match result.recv_timeout(PATIENCE) {
        Ok(Ok(result)) => result,
        Ok(Err(said)) => panic!("{said}"),
        Err(_) => panic!("the test's process hangs, or was killed"),
    }
}

/// The running process gets what is to be its own.
fn settle(credentials: Credentials) -> Result {
    let thread = process::current();
    thread.process.signals.set_action(SIGCHLD, Action::default())?;
    process::session::create()?;
    let root = empty_root()?;
    thread.fs().set_root(root.clone())?;
    thread.fs().set_cwd(root)?;
    thread.fs().set_umask(0o022);
    thread.set_credentials(credentials.try_clone()?);
    Ok(())
}
