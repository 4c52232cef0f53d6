//! Runs a part of a test in a process of its own, because the peer may crash.

use std::process::{Command, Output};

/// Says to a child that it is one.
const VARIABLE: &str = "ARROW_DEVICE_FOREIGN_CHILD";

/// How a child ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ran to its end.
    Well,
    /// A signal ended it.
    Crashed,
}

/// Runs `body` in another process: this test program, asked for the test of that name, which calls this again.
/// Returns `None` in the child.
///
/// # Panics
/// If the child fails otherwise than by a signal; what it wrote is shown.
pub fn run(test: &str, body: impl FnOnce()) -> Option<End> {
    if std::env::var_os(VARIABLE).is_some() {
        body();
        return None;
    }
    let program = std::env::current_exe().expect("a test has a path");
    let mut command = Command::new(program);
    command.args(["--exact", test, "--nocapture", "--test-threads=1"]).env(VARIABLE, "1");
    let output = command.output().expect("a test can be started");
    Some(end_of(test, &output))
}

/// Whether this process is a child that [`run`] started.
pub fn is_one() -> bool {
    std::env::var_os(VARIABLE).is_some()
}

fn end_of(test: &str, output: &Output) -> End {
    if output.status.success() {
        return End::Well;
    }
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(is_signal(&output.status), "{test}: {}\n{out}\n{err}", output.status);
    End::Crashed
}

#[cfg(unix)]
fn is_signal(status: &std::process::ExitStatus) -> bool {
    std::os::unix::process::ExitStatusExt::signal(status).is_some()
}

#[cfg(not(unix))]
fn is_signal(status: &std::process::ExitStatus) -> bool {
    status.code().is_some_and(|code| code != 101)
}
