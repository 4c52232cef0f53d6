//! Counting each workload in a process of its own, once as it is and once under callgrind.
//!
//! A process of its own has pools that nobody else has filled, and callgrind's counts begin at
//! nothing.

use std::collections::BTreeMap;
use std::num::NonZero;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::{Counts, Finding, Record, compare};
use crate::meter::{ALLOCATIONS, Counted, INSTRUCTIONS};

/// Counts all workloads by calling this program again, and compares with the file. Prints what it
/// found, and the line by which `cargo xtask test` counts. Says whether nothing failed.
///
/// # Errors
/// Where the file cannot be read or written.
pub fn gate(workloads: &[Counted], file: &Path) -> Result<bool, String> {
    let callgrind = has_callgrind();
    if !callgrind {
        println!("skipped: instructions are not counted for want of valgrind");
    }
    let Measured { record: now, broken, left_out } = measure_all(workloads, callgrind);
    let said = |error: std::io::Error| format!("{}: {error}", file.display());
    if std::env::var_os("ARROW_DEVICE_BLESS").is_some_and(|value| value == "1") {
        if !callgrind {
            return Err("blessing needs valgrind: the file has instructions".to_owned());
        }
        if !broken.is_empty() || !left_out.is_empty() {
            return Err([broken, left_out].concat().join("\n"));
        }
        std::fs::write(file, now.text()).map_err(said)?;
        println!("written: {}", file.display());
    }
    let kept = std::fs::read_to_string(file).map_err(said)?;
    let mut kept = Record::parse(&kept).map_err(|error| format!("{}: {error}", file.display()))?;
    kept.workloads.retain(|name, _| !left_out.contains(name));
    if kept.toolchain != now.toolchain {
        println!("instructions are held to the promises alone:");
        println!("  the file's are of {}\n  this is {}", kept.toolchain, now.toolchain);
    }
    let promises: BTreeMap<String, Counts> =
        workloads.iter().map(|workload| (workload.name.to_owned(), promised(workload))).collect();
    let findings = compare(&kept, &now, &promises, callgrind);
    left_out.iter().for_each(|name| println!("skipped: {name}, for want of its device"));
    let skipped = left_out.len() + usize::from(!callgrind);
    Ok(told(&now, &findings, &broken, skipped))
}

/// The compiler and the C library, on which instructions depend.
pub fn toolchain() -> String {
    let compiler = output(Command::new("rustc").arg("--version")).unwrap_or_default();
    let library = output(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
    format!("{}, {}, {}", compiler.trim(), library.trim(), std::env::consts::ARCH)
}

fn promised(workload: &Counted) -> Counts {
    workload.promised.iter().map(|&(count, most)| (count.to_owned(), most)).collect()
}

/// Prints each workload with its counts or its faults, and the closing line.
fn told(now: &Record, findings: &[Finding], broken: &[String], skipped: usize) -> bool {
    let mut failed = broken.len();
    for (name, counts) in &now.workloads {
        let of_this = || findings.iter().filter(|finding| &finding.workload == name);
        let is_bad = of_this().any(Finding::is_failure);
        failed += usize::from(is_bad);
        let counts: Vec<String> =
            counts.iter().map(|(count, value)| format!("{value} {count}")).collect();
        println!("{} {name}: {}", if is_bad { "FAILED" } else { "ok" }, counts.join(", "));
        of_this().for_each(|finding| println!("    {finding}"));
    }
    let passed = now.workloads.len() + broken.len() - failed;
    for finding in findings.iter().filter(|f| !now.workloads.contains_key(&f.workload)) {
        failed += 1;
        println!("FAILED {finding}");
    }
    broken.iter().for_each(|problem| println!("FAILED {problem}"));
    let word = if failed == 0 { "ok" } else { "FAILED" };
    println!("test result: {word}. {passed} passed; {failed} failed; {skipped} ignored");
    failed == 0
}

/// What became of all workloads.
struct Measured {
    record: Record,
    /// What went wrong.
    broken: Vec<String>,
    /// Those whose device is not there.
    left_out: Vec<String>,
}

/// Measures with as many threads as there are processors.
fn measure_all(workloads: &[Counted], callgrind: bool) -> Measured {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(workload) = workloads.get(next.fetch_add(1, Ordering::Relaxed)) {
            let counts = measure(workload.name, callgrind);
            done.lock().unwrap().push((workload.name, counts));
        }
    };
    let threads = thread::available_parallelism().map_or(1, NonZero::get);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    let mut record = Record { toolchain: toolchain(), ..Record::default() };
    let (mut broken, mut left_out) = (Vec::new(), Vec::new());
    for (name, counts) in done.into_inner().unwrap() {
        match counts {
            Ok(counts) if counts.is_empty() => left_out.push(name.to_owned()),
            Ok(counts) => drop(record.workloads.insert(name.to_owned(), counts)),
            Err(problem) => broken.push(format!("{name}: {problem}")),
        }
    }
    Measured { record, broken, left_out }
}

/// No counts where the workload's device is not there and need not be.
fn measure(name: &str, callgrind: bool) -> Result<Counts, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut counts = parsed(&output(Command::new(&this).arg(name))?)?;
    // Where allocations say nothing, because a driver makes its own, instructions would say nothing
    // either.
    if callgrind && counts.contains_key(ALLOCATIONS) {
        let file = format!("arrow-device-callgrind-{}-{}", std::process::id(), file_name(name));
        let file = std::env::temp_dir().join(file);
        let mut valgrind = Command::new("valgrind");
        valgrind
            .args(["--tool=callgrind", "--toggle-collect=arrow_device_measured"])
            .arg(format!("--callgrind-out-file={}", file.display()))
            // Which `memcpy` is taken is up to the processor, so that of the oldest is.
            .env("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-AVX,-AVX2,-AVX2_Usable,-ERMS,-FSRM")
            .arg(&this)
            .arg(name);
        let run = output(&mut valgrind);
        let profile = std::fs::read_to_string(&file).map_err(|error| error.to_string());
        // Whatever became of it, it is not needed any more.
        drop(std::fs::remove_file(&file));
        let instructions = total(&run.and(profile)?).ok_or("callgrind's file has no total")?;
        // What several threads do is not collected.
        if instructions > 0 {
            counts.insert(INSTRUCTIONS.to_owned(), instructions);
        }
    }
    Ok(counts)
}

fn file_name(workload: &str) -> String {
    workload.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Lines such as `allocations: 3`.
fn parsed(text: &str) -> Result<Counts, String> {
    let line = |line: &str| {
        let (name, count) = line.rsplit_once(": ")?;
        Some((name.to_owned(), count.parse().ok()?))
    };
    let counts: Option<Counts> = text.lines().map(line).collect();
    counts.ok_or_else(|| format!("it did not print counts:\n{text}"))
}

/// The instructions in callgrind's file.
fn total(profile: &str) -> Option<u64> {
    let of = |line: &str| line.strip_prefix("totals: ")?.trim().parse().ok();
    profile.lines().find_map(of)
}

fn has_callgrind() -> bool {
    output(Command::new("valgrind").arg("--version")).is_ok()
}

/// The standard output of a program that succeeds.
fn output(command: &mut Command) -> Result<String, String> {
    let output = command.stdin(Stdio::null()).output();
    let output = output.map_err(|error| format!("{command:?}: {error}"))?;
    if !output.status.success() {
        let words = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{command:?}: {}\n{words}", output.status));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_as_the_program_prints_them() {
        let counts = parsed("allocations: 3\nbytes allocated: 120\n").unwrap();
        assert_eq!(
            counts,
            Counts::from([("allocations".into(), 3), ("bytes allocated".into(), 120)])
        );
        assert_eq!(parsed(""), Ok(Counts::new()));
        assert!(parsed("allocations: many\n").is_err());
    }

    #[test]
    fn the_total_of_a_profile_is_found() {
        assert_eq!(total("events: Ir\nfn=(1)\n0 12\n\ntotals: 1234\n"), Some(1234));
        assert_eq!(total("events: Ir\n"), None);
    }

    #[test]
    fn a_program_that_cannot_start_or_fails_is_an_error() {
        assert!(output(&mut Command::new("/no/such/program")).is_err());
        assert!(output(&mut Command::new("false")).is_err());
    }
}
