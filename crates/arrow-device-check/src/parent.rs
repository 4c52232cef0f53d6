//! The parent's side: starts a child for each scenario, with a limit of time, and judges how the
//! child ends.

use std::fmt;
use std::fs::{DirBuilder, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::child::{NOTES, TASK, Task};
use crate::judge::{self, RUNS, Scenario};
use crate::notes::{self, Note};
use crate::patience::{Budget, PATIENCE};
use crate::peer::Subject;
use crate::report::{Report, Verdict};
use crate::shape::Shape;
use crate::under::{self, Heard};

/// How to start a child: a program that calls [`child_if_asked`](crate::child_if_asked).
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// The environment variables of the program.
    pub variables: Vec<(String, String)>,
    /// The advice to the user if the program cannot be started.
    pub remedy: &'static str,
}

impl Launcher {
    /// Returns a launcher that starts this program again.
    ///
    /// # Errors
    /// The system cannot tell the program's path.
    pub fn this_program() -> io::Result<Self> {
        let remedy = "leave it where it is until the check is over";
        let program = std::env::current_exe().map_err(|error| {
            failed(
                "this program, which is started again for each thing, is not found",
                error,
                remedy,
            )
        })?;
        Ok(Self { program, arguments: Vec::new(), variables: Vec::new(), remedy })
    }
}

/// The limits of time.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// How long one scenario may take.
    pub scenario: Duration,
    /// How long a peer with threads of its own may take for its next step.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self { scenario: Duration::from_secs(30), patience: Duration::from_secs(10) }
    }
}

/// Makes an error: what could not be done, why, and what to do about it.
fn failed(what: impl fmt::Display, error: io::Error, remedy: &str) -> io::Error {
    io::Error::new(error.kind(), format!("{what} ({error}): {remedy}"))
}

/// Returns the names of all scenarios for such a peer.
pub(crate) fn names(subject: &Subject) -> impl Iterator<Item = &'static str> {
    judge::scenarios(subject.kind, subject.side).into_iter().map(|scenario| scenario.name)
}

/// Runs all scenarios, each in a process of its own.
///
/// # Errors
/// No process can be started, or the peer is not there.
pub fn check(subject: &Subject, launcher: &Launcher, limits: Limits) -> io::Result<Report> {
    check_some(subject, launcher, limits, |_, _| Some(true))
}

/// Runs some scenarios, each in a process of its own. `wanted` is called with the report so far and
/// the name of the next scenario. It returns whether to run that scenario, or `None` to stop.
///
/// # Errors
/// Those of [`check`].
pub fn check_some(
    subject: &Subject,
    launcher: &Launcher,
    limits: Limits,
    wanted: impl Fn(&Report, &str) -> Option<bool>,
) -> io::Result<Report> {
    let mut report = Report::new(subject);
    let folder = Folder::new()?;
    let mut launcher = launcher.clone();
    let mut budget = Budget::new(limits.scenario, limits.patience);
    for scenario in judge::scenarios(subject.kind, subject.side) {
        match wanted(&report, scenario.name) {
            Some(true) => {
                let shape =
                    try_one(subject, &scenario, &launcher, &mut budget, &folder.0, &mut report)?;
                launcher.variables.extend(shape.and_then(Shape::variable));
            }
            Some(false) => {}
            None => break,
        }
    }
    Ok(report)
}

/// A folder for this run only, which only this user can enter.
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// Makes the folder. What is there already is not used, because others may write to `place`:
    /// they could have put links there, to files of this user.
    fn within(place: &Path) -> io::Result<Self> {
        const MOST_TRIES: usize = 1000;
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mut tries = 0;
        loop {
            tries += 1;
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let name = format!("arrow-device-check-{}-{number}", std::process::id());
            let folder = place.join(name);
            match for_this_user().create(&folder) {
                Ok(()) => return Ok(Self(folder)),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && tries < MOST_TRIES => {}
                Err(error) => return Err(unwritable(error, &folder)),
            }
        }
    }
}

fn for_this_user() -> DirBuilder {
    #[cfg_attr(not(unix), expect(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
}

fn unwritable(error: io::Error, path: &Path) -> io::Error {
    let what = format!("{} cannot be written", path.display());
    failed(what, error, "set TMPDIR to a folder that can")
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A failure to remove the folder cannot be mended here.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn try_one(
    subject: &Subject,
    scenario: &Scenario,
    launcher: &Launcher,
    budget: &mut Budget,
    folder: &Path,
    report: &mut Report,
) -> io::Result<Option<Shape>> {
    let (notes, said) = (folder.join("notes"), folder.join("said"));
    let heard = folder.join("heard");
    let _ = std::fs::remove_file(&notes);
    let _ = std::fs::remove_file(&heard);
    let task = Task {
        peer: subject.peer.clone(),
        kind: subject.kind,
        side: subject.side,
        scenario: scenario.name.to_owned(),
        notes: notes.clone(),
    };
    let output = File::create(&said).map_err(|error| unwritable(error, &said))?;
    let mut command = Command::new(&launcher.program);
    command
        .args(&launcher.arguments)
        .envs(launcher.variables.iter().map(|(name, value)| (name, value)))
        .env(NOTES, &notes)
        .env(TASK, task.variable())
        .env(under::HEARD, &heard)
        // The C library that knows this variable fills new and freed memory with different bytes.
        // All threads share one heap, whose books are looked at.
        .env(
            "GLIBC_TUNABLES",
            "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1",
        )
        .env(PATIENCE, budget.patience().as_secs_f64().to_string())
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(output);
    let child = command.spawn().map_err(|error| {
        let what = format!("`{}` cannot be started", launcher.program.display());
        failed(what, error, launcher.remedy)
    })?;
    let (began, limit) = (Instant::now(), budget.limit());
    let ended = wait(child, limit, &[&said, &notes, &heard])?;
    budget.spend(began.elapsed(), matches!(ended, Ended::TooLate));
    let seen = notes::read(&notes);
    may_be_judged(&seen, || {
        let how = how_it_ended(ended, limit);
        let program = launcher.program.display();
        let said = last_words(&said);
        format!("`{program}` tried nothing: {how} before that{said}: {}", launcher.remedy)
    })?;
    take(&seen, scenario.name, report);
    for Heard { id, text } in under::findings(&heard, &seen, subject) {
        report.add(id, Verdict::Fail, scenario.name, &text);
    }
    if seen.last() != Some(&Note::Done) {
        let now = seen.iter().rev().find_map(|note| match note {
            Note::Now(id, what) => Some((id.as_str(), what.as_str())),
            _ => None,
        });
        let (id, what) = now.unwrap_or((RUNS, "starting"));
        let how = how_it_ended(ended, limit);
        let said = last_words(&said);
        report.add(id, Verdict::Fail, scenario.name, &format!("{how} while {what}{said}"));
    }
    Ok(Shape::found(&seen))
}

/// Returns an error for a peer that is missing or was not started. That breaks no rule: the user
/// has to do something else first.
fn may_be_judged(seen: &[Note], nothing: impl FnOnce() -> String) -> io::Result<()> {
    let absent = seen.iter().find_map(|note| match note {
        Note::Absent(why) => Some(why.clone()),
        _ => None,
    });
    match absent {
        None if seen.is_empty() => Err(io::Error::other(nothing())),
        None => Ok(()),
        Some(why) => Err(io::Error::new(io::ErrorKind::NotFound, why)),
    }
}

fn take(seen: &[Note], scenario: &str, report: &mut Report) {
    // The peer's text about an error belongs to the next note.
    let mut words: Option<&str> = None;
    for note in seen {
        match note {
            Note::Said(text) => words = Some(text),
            Note::Now(..) => words = None,
            Note::Fail(id, text) if words.is_some() => {
                let words = words.take().unwrap_or_default();
                report.add(id, Verdict::Fail, scenario, &format!("{text}\n{words}"));
            }
            Note::Pass(id) => {
                words = None;
                report.add(id, Verdict::Pass, scenario, "");
            }
            Note::Fail(id, text) => report.add(id, Verdict::Fail, scenario, text),
            Note::Skip(id, why) => report.add(id, Verdict::NotApplicable, scenario, why),
            Note::Absent(_) | Note::Batches | Note::Heard(_) | Note::Done => {}
        }
    }
}

/// How a child ended.
#[derive(Clone, Copy)]
enum Ended {
    /// The child ended by itself, with this status.
    With(ExitStatus),
    /// The child took too long, and was stopped.
    TooLate,
    /// The child wrote more than [`MOST_WRITTEN`], and was stopped.
    TooLoud,
}

/// How many bytes a child may write, to the files that are read here and to its standard output.
pub(crate) const MOST_WRITTEN: u64 = 64 << 20;

/// Waits for a child, which writes to these files. A child that takes too long, or writes too much,
/// is stopped.
fn wait(mut child: Child, limit: Duration, files: &[&Path]) -> io::Result<Ended> {
    const BETWEEN_LOOKS: Duration = Duration::from_millis(20);
    let (began, mut looked) = (Instant::now(), Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Ended::With(status));
        }
        let is_late = began.elapsed() > limit;
        let is_loud = looked.elapsed() > BETWEEN_LOOKS && {
            looked = Instant::now();
            files
                .iter()
                .any(|file| std::fs::metadata(file).is_ok_and(|about| about.len() > MOST_WRITTEN))
        };
        if is_late || is_loud {
            child.kill()?;
            child.wait()?;
            return Ok(if is_loud { Ended::TooLoud } else { Ended::TooLate });
        }
        thread::sleep(Duration::from_millis(2));
    }
}

fn how_it_ended(ended: Ended, limit: Duration) -> String {
    let status = match ended {
        Ended::With(status) => status,
        Ended::TooLate => {
            return format!("the process was stopped after {} seconds", limit.as_secs());
        }
        Ended::TooLoud => {
            let most = MOST_WRITTEN >> 20;
            return format!("the process was stopped after it had written more than {most} MiB");
        }
    };
    #[cfg(unix)]
    if let Some(signal) = std::os::unix::process::ExitStatusExt::signal(&status) {
        let name = match signal {
            libc::SIGSEGV => " (SIGSEGV: memory that is not there)",
            libc::SIGABRT => " (SIGABRT: it gave up)",
            libc::SIGBUS => " (SIGBUS: memory that is not there)",
            libc::SIGILL => " (SIGILL)",
            libc::SIGFPE => " (SIGFPE)",
            _ => "",
        };
        return format!("signal {signal}{name} ended the process");
    }
    match status.code() {
        Some(code) => format!("the process ended with code {code}"),
        None => "the process ended".into(),
    }
}

/// Returns the last line that the child wrote.
fn last_words(said: &Path) -> String {
    let said = end_of(said).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    let last = said.lines().rev().map(str::trim).find(|line| !line.is_empty());
    last.map_or(String::new(), |line| format!("; the last that it wrote is `{line}`"))
}

/// Reads the end of a file.
fn end_of(path: &Path) -> io::Result<Vec<u8>> {
    const MOST_READ: u64 = 1 << 16;
    let mut file = File::open(path)?;
    let len = file.seek(SeekFrom::End(0))?;
    file.seek(SeekFrom::Start(len.saturating_sub(MOST_READ)))?;
    let mut read = Vec::new();
    file.take(MOST_READ).read_to_end(&mut read)?;
    Ok(read)
}

/// Reads a file that a child has written, up to [`MOST_WRITTEN`] bytes.
pub(crate) fn read_written(path: &Path) -> Vec<u8> {
    let mut read = Vec::new();
    // A file that is not there has nothing in it. What was read before an error counts.
    if let Ok(file) = File::open(path) {
        let _ = file.take(MOST_WRITTEN).read_to_end(&mut read);
    }
    read
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_folder_that_somebody_else_made_is_not_used() {
        use std::os::unix::fs::{PermissionsExt as _, symlink};

        let place = Folder::new().unwrap();
        let victim = place.0.join("victim");
        std::fs::create_dir(&victim).unwrap();
        let first = Folder::within(&place.0).unwrap();
        let name = first.0.file_name().unwrap().to_string_lossy().into_owned();
        let (before, number) = name.rsplit_once('-').unwrap();
        let number: usize = number.parse().unwrap();
        // Other tests take numbers meanwhile.
        for number in number + 1..number + 30 {
            symlink(&victim, place.0.join(format!("{before}-{number}"))).unwrap();
        }
        let second = Folder::within(&place.0).unwrap();
        assert!(!second.0.is_symlink());
        assert_eq!(second.0.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn limits_of_any_length_are_kept_to() {
        let mut program = std::env::current_exe().map(Command::new).unwrap();
        let child = program.arg("--list").stdout(Stdio::null()).spawn().unwrap();
        assert!(matches!(wait(child, Duration::MAX, &[]).unwrap(), Ended::With(_)));
    }
}
