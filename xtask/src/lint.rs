//! `cargo xtask lint`: everything about the tree that is checked without running it.
//!
//! Every step runs, whatever became of those before it, so that one run shows all there is to mend.

use crate::{requirements, setup, shell, tiers};

/// A source file longer than this is not read in one sitting.
const MOST_LINES: usize = 700;

/// The kinds of file that are source.
const SOURCES: &[&str] = &["rs", "c", "cc", "cpp", "h", "hpp", "py", "pyi"];

/// What no finished source contains. Each is in two parts so that this file does not contain it either.
const UNFINISHED: &[(&str, &str)] =
    &[("todo", "!"), ("unimplemented", "!"), ("#[ig", "nore"), ("FIX", "ME"), ("TO", "DO")];

type Step = (&'static str, fn() -> Result<(), String>);

const STEPS: &[Step] = &[
    ("format", || shell::run(&["cargo", "fmt", "--all", "--check"], &[])),
    ("clippy", clippy),
    ("python package", python_package),
    ("documentation", documentation),
    ("dependencies", dependencies),
    ("requirements", requirements::check),
    ("housekeeping", housekeeping),
    ("oldest Rust", oldest_rust),
];

/// Runs all steps and says which failed.
pub(crate) fn lint() -> Result<(), String> {
    let mut failed = Vec::new();
    for (name, step) in STEPS {
        println!("\n== {name}");
        if let Err(problem) = step() {
            println!("{problem}");
            failed.push(*name);
        }
    }
    if failed.is_empty() {
        println!("\nlint: all {} steps passed", STEPS.len());
        return Ok(());
    }
    Err(format!("lint: {} of {} steps failed: {}", failed.len(), STEPS.len(), failed.join(", ")))
}

fn clippy() -> Result<(), String> {
    let what = ["cargo", "clippy", "--workspace", "--all-targets", "--all-features"];
    shell::run(&[&what[..], &["--", "--deny=warnings"]].concat(), &[])
}

/// Format and clippy of the one crate that is outside of the workspace and not built by nightly Rust.
fn python_package() -> Result<(), String> {
    let manifest = "--manifest-path=python/Cargo.toml";
    shell::run(&["cargo", "fmt", manifest, "--check"], &[])?;
    let target = ("CARGO_TARGET_DIR", "target/python/build");
    shell::run(&["cargo", "clippy", manifest, "--locked", "--", "--deny=warnings"], &[target])
}

/// The libraries only: the command `arrow-device` and the library `arrow_device` would be written to one place.
fn documentation() -> Result<(), String> {
    let words = ["cargo", "doc", "--workspace", "--lib", "--no-deps", "--all-features"];
    shell::run(&words, &[("RUSTDOCFLAGS", "-D warnings")])
}

/// Licences, sources and versions of what the project depends on, by the rules of `deny.toml`.
fn dependencies() -> Result<(), String> {
    let tool = setup::CARGO_DENY;
    if !tool.is_present() {
        let reason = format!("{} is not there ({})", tool.name, tool.advice());
        if tiers::is_strict() {
            return Err(reason);
        }
        println!("skipped: {reason}");
        return Ok(());
    }
    println!(
        "not checked: security advisories. Their database is fetched from a network that a build need not have;"
    );
    println!("`cargo deny check advisories` checks them where there is one.");
    // Offline, cargo-deny sees only what was fetched, and a build does not fetch what other systems need.
    shell::run(&["cargo", "fetch", "--locked"], &[])?;
    let words = ["cargo", "deny", "--offline", "--all-features", "check"];
    shell::run(&[&words[..], &["bans", "licenses", "sources"]].concat(), &[])
}

fn housekeeping() -> Result<(), String> {
    let mut problems = Vec::new();
    for file in shell::project_files(SOURCES)? {
        problems.extend(untidy(&file.to_string_lossy(), &shell::read(&file)?));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// What is untidy in one source file.
fn untidy(file: &str, text: &str) -> Vec<String> {
    let mut problems = Vec::new();
    let lines = text.lines().count();
    if lines > MOST_LINES {
        problems.push(format!("{file}: {lines} lines, {MOST_LINES} at most: split it"));
    }
    for (index, line) in text.lines().enumerate() {
        for (first, second) in UNFINISHED {
            let word = format!("{first}{second}");
            if line.contains(&word) {
                problems.push(format!("{file}:{}: `{word}` in a finished source", index + 1));
            }
        }
    }
    problems
}

/// The workspace manifest says which Rust is the oldest; every other place that says it must agree.
fn oldest_rust() -> Result<(), String> {
    let mut problems = Vec::new();
    for file in shell::project_files(&["toml", "md"])? {
        let (name, text) = (file.to_string_lossy(), shell::read(&file)?);
        // What has a workspace of its own is built by a toolchain of its own.
        let is_member =
            file.ends_with("Cargo.toml") && !text.lines().any(|line| line == "[workspace]");
        if is_member && !text.lines().any(|line| line.trim() == "rust-version.workspace = true") {
            problems.push(format!("{name}: lacks `rust-version.workspace = true`"));
        }
        problems.extend(other_promises(&name, &text, setup::OLDEST_RUST));
    }
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The lines that promise an oldest Rust other than this one.
fn other_promises(file: &str, text: &str, oldest: &str) -> Vec<String> {
    let promise = |line: &str| {
        let line = line.trim();
        let after = |start: &str| line.split_once(start).map(|(_, rest)| rest.to_owned());
        let in_manifest = ["rust-version = \"", "msrv = \""]
            .into_iter()
            .find(|key| line.starts_with(key))
            .and_then(after);
        let in_prose = after("Rust 1.").filter(|rest| rest.contains("or newer"));
        in_manifest.or(in_prose.map(|rest| format!("1.{rest}"))).map(|rest| {
            rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect::<String>()
        })
    };
    let mut problems = Vec::new();
    for (index, line) in text.lines().enumerate() {
        if let Some(version) = promise(line).filter(|version| version != oldest) {
            let place = format!("{file}:{}", index + 1);
            problems.push(format!("{place}: promises Rust {version}, the workspace {oldest}"));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_the_longest_length_is_tidy_and_a_longer_one_is_not() {
        assert!(untidy("a.rs", &"line\n".repeat(MOST_LINES)).is_empty());
        let problems = untidy("a.rs", &"line\n".repeat(MOST_LINES + 1));
        assert_eq!(problems, ["a.rs: 701 lines, 700 at most: split it"]);
    }

    #[test]
    fn every_word_of_unfinished_work_is_found_with_its_line() {
        for (first, second) in UNFINISHED {
            let text = format!("fn a() {{\n    {first}{second}\n}}\n");
            let problems = untidy("a.rs", &text);
            let [problem] = problems.as_slice() else { panic!("{problems:?}") };
            assert!(problem.starts_with("a.rs:2: "), "{problem}");
        }
    }

    #[test]
    fn a_different_oldest_rust_is_found_wherever_it_is_promised() {
        for line in [
            "rust-version = \"1.87\"",
            "msrv = \"1.90.0\"",
            "You need Rust 1.85 or newer.",
            "- Rust 1.188 or newer",
        ] {
            assert_eq!(other_promises("a.md", line, "1.88").len(), 1, "{line}");
        }
    }

    #[test]
    fn the_same_oldest_rust_and_other_versions_are_no_problem() {
        for line in [
            "rust-version = \"1.88\"",
            "rust-version.workspace = true",
            "msrv = \"1.88\"",
            "You need Rust 1.88 or newer.",
            "Rust 1.95 prints it differently.",
            "version = \"1.2\"",
        ] {
            assert!(other_promises("a.md", line, "1.88").is_empty(), "{line}");
        }
    }
}
