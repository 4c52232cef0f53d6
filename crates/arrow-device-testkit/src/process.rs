//! Runs tests in processes of their own: because a process has one driver and one list of pending
//! releases, because its environment decides what is found, or because a peer may crash.
//!
//! The other process is the same test program, started for one test. So a test that calls [`alone`]
//! runs twice: in the test program it starts the child, and in the child it runs the body.
//!
//! ```no_run
//! # fn open_the_only_driver() {}
//! #[test]
//! fn the_first_call_fails() {
//!     arrow_device_testkit::process::alone(|| open_the_only_driver());
//! }
//! ```

use std::ffi::OsStr;
use std::process::{Command, ExitStatus};

/// The environment variable that tells a child which test it runs.
const VARIABLE: &str = "ARROW_DEVICE_TEST_CHILD";

/// The line that a child prints when the body of its test has run to the end.
const BODY_ENDED: &str = "the body of this test has run to its end";

/// Runs `body` in a process of its own, and prints the reasons for what the test left out there.
///
/// Miri starts no processes, and runs tests one after the other, so under Miri the body runs in the
/// same process.
///
/// # Panics
/// Panics if the body panics, ends the process or does not run. The message has all that the child
/// wrote.
#[track_caller]
pub fn alone(body: impl FnOnce()) {
    if cfg!(miri) {
        return body();
    }
    if is_child() {
        body();
        println!("{BODY_ENDED}");
        return;
    }
    let child = Child::of_this_test().run().expect_success();
    let has_ended = child.stdout.lines().any(|line| line.ends_with(BODY_ENDED));
    assert!(has_ended, "the body did not run to its end: {}", child.report());
    for line in child.stdout.lines().filter(|line| line.starts_with("skipped: ")) {
        println!("{line}");
    }
}

/// How long a child of `fork` may take before it counts as hanging.
#[cfg(unix)]
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);

/// Runs `body` in a child of `fork`. The child has this thread and none of the others. It ends at
/// once when `body` has returned: nothing is dropped there, and no handler of the end of the
/// process is called.
///
/// Call this inside of [`alone`], where no other test runs: a lock that a thread of the test
/// program holds at the fork is never given back in the child.
///
/// # Panics
/// Panics if `body` returns an error, panics, crashes, or does not return within a minute.
#[cfg(unix)]
#[track_caller]
pub fn forked(body: impl FnOnce() -> Result<(), String>) {
    // SAFETY: a call without arguments. What the child calls is the test's to answer for.
    let child = unsafe { libc::fork() };
    assert!(child >= 0, "no process to be had: {}", std::io::Error::last_os_error());
    if child == 0 {
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body));
        let code = match outcome {
            Ok(Ok(())) => 0,
            Ok(Err(message)) => {
                eprintln!("in the child of fork: {message}");
                1
            }
            Err(_) => 2,
        };
        // SAFETY: ends the child at once, without the handlers of the parent's.
        unsafe { libc::_exit(code) }
    }
    let begun = std::time::Instant::now();
    loop {
        let mut status = 0;
        // SAFETY: the child was made above, and nobody else waits for it.
        let ended = unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) };
        if ended == child {
            assert_eq!(status, 0, "the child of fork failed, or ended by a signal");
            return;
        }
        if begun.elapsed() > PATIENCE {
            // SAFETY: the child is ours and has not been waited for.
            let _ = unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: the child was made by this thread, and nobody else waits for it.
            let _ = unsafe { libc::waitpid(child, &raw mut status, 0) };
            panic!("the child of fork hangs");
        }
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}

/// How many descriptors this process has open. Call this inside of [`alone`]: other tests open
/// descriptors too.
///
/// # Panics
/// Panics where the system has no `/proc`.
#[cfg(target_os = "linux")]
pub fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("Linux lists descriptors").count()
}

/// Runs `body` while `threads` threads call `work` again and again, each at least once before. A
/// fork in `body` then happens in the middle of some of these calls.
///
/// # Panics
/// Panics if `body` or `work` panics.
pub fn while_threads_work(threads: usize, work: impl Fn() + Sync, body: impl FnOnce()) {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

    /// Ends the threads even if `body` panics.
    struct StopOnDrop<'a>(&'a AtomicBool);

    impl Drop for StopOnDrop<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Relaxed);
        }
    }

    let (begun, stop) = (AtomicUsize::new(0), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let _stop = StopOnDrop(&stop);
        for _ in 0..threads {
            scope.spawn(|| {
                work();
                begun.fetch_add(1, Ordering::Relaxed);
                while !stop.load(Ordering::Relaxed) {
                    work();
                }
            });
        }
        while begun.load(Ordering::Relaxed) < threads {
            std::thread::yield_now();
        }
        body();
    });
}

/// How a process ended that was allowed to crash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The process ran to its end.
    Well,
    /// A signal ended it.
    Crashed,
}

/// Runs `body`, which may crash, in a process of its own. Returns `None` in the child.
///
/// # Panics
/// Panics if the child fails in another way than by a signal. The message has all that it wrote.
#[track_caller]
pub fn end_of(body: impl FnOnce()) -> Option<End> {
    if is_child() {
        body();
        return None;
    }
    let child = Child::of_this_test().run();
    if child.has_crashed() {
        return Some(End::Crashed);
    }
    child.expect_success();
    Some(End::Well)
}

/// Whether this process is a child that the calling test has started.
pub fn is_child() -> bool {
    std::env::var(VARIABLE).is_ok_and(|test| test == this_test())
}

/// The name of the calling test, which is the name of the thread it runs on.
fn this_test() -> String {
    let thread = std::thread::current();
    thread.name().expect("a test runs on a thread that has its name").to_owned()
}

/// The environment variable that names the emulator which runs programs of the target, with its
/// arguments. A child of an emulated program is not emulated by itself.
pub const RUNNER: &str = "ARROW_DEVICE_RUNNER";

/// Returns a command that runs a program of the target, with the emulator that [`RUNNER`] names, if
/// any.
pub fn runner(program: impl AsRef<OsStr>) -> Command {
    let words = std::env::var(RUNNER).unwrap_or_default();
    let mut words = words.split_whitespace();
    let Some(emulator) = words.next() else { return Command::new(program) };
    let mut command = Command::new(emulator);
    command.args(words).arg(program);
    command
}

/// A process to be started: this test program, for one test.
#[derive(Debug)]
pub struct Child {
    test: String,
    command: Command,
}

impl Child {
    /// Runs the calling test, in which [`is_child`] is then true.
    pub fn of_this_test() -> Self {
        Self::of(&this_test())
    }

    /// Runs the test of this name, which includes its modules.
    ///
    /// # Panics
    /// Panics if this program has no path.
    pub fn of(test: &str) -> Self {
        let program = std::env::current_exe().expect("a test program has a path");
        let mut command = runner(&program);
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(VARIABLE, test);
        Self { test: test.to_owned(), command }
    }

    /// Sets an environment variable of the process.
    #[must_use]
    pub fn env(mut self, name: impl AsRef<OsStr>, value: impl AsRef<OsStr>) -> Self {
        self.command.env(name, value);
        self
    }

    /// Removes an environment variable of the process.
    #[must_use]
    pub fn env_remove(mut self, name: impl AsRef<OsStr>) -> Self {
        self.command.env_remove(name);
        self
    }

    /// Starts the process, and waits for its end.
    ///
    /// # Panics
    /// Panics if the process cannot be started, or has no test of this name.
    #[track_caller]
    pub fn run(mut self) -> Ended {
        let output = self.command.output().expect("a test program can be started");
        let [stdout, stderr] = [output.stdout, output.stderr]
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
        let ended = Ended { test: self.test, status: output.status, stdout, stderr };
        let has_run = ended.stdout.lines().any(|line| line == "running 1 test");
        assert!(has_run, "it ran no test: {}", ended.report());
        ended
    }
}

/// A process that has ended after a test began in it.
#[derive(Debug)]
pub struct Ended {
    test: String,
    /// How the process ended.
    pub status: ExitStatus,
    /// The text that the process wrote to its output.
    pub stdout: String,
    /// The text that the process wrote to its error output.
    pub stderr: String,
}

impl Ended {
    /// Checks that the test has passed.
    ///
    /// # Panics
    /// Panics if the test has not passed. The message has all that it wrote.
    #[track_caller]
    pub fn expect_success(self) -> Self {
        assert!(self.status.success(), "{}", self.report());
        self
    }

    /// Whether a signal ended the process.
    #[cfg(unix)]
    pub fn has_crashed(&self) -> bool {
        std::os::unix::process::ExitStatusExt::signal(&self.status).is_some()
    }

    /// Whether something other than a failing test ended the process.
    #[cfg(not(unix))]
    pub fn has_crashed(&self) -> bool {
        !matches!(self.status.code(), Some(0 | 101))
    }

    fn report(&self) -> String {
        let Self { test, status, stdout, stderr } = self;
        format!("the process of {test}: {status}\n{stdout}\n{stderr}")
    }
}
