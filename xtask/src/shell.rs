//! Runs other programs in the project's root folder, with their output passed on as it comes.
//!
//! A command is a list of words, the program first; nothing here goes through a shell.

use std::ffi::OsStr;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Variables set for a child, on top of what this process has.
pub(crate) type Variables<'a> = [(&'a str, &'a str)];

/// The project's root folder: the parent of this crate's, or the current folder when not run by
/// cargo.
pub(crate) fn root() -> PathBuf {
    std::env::var_os("CARGO_MANIFEST_DIR")
        .and_then(|folder| PathBuf::from(folder).parent().map(PathBuf::from))
        .unwrap_or_else(|| PathBuf::from("."))
}

/// Whether this runs unattended in the project's continuous integration.
pub(crate) fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true")
}

/// Runs a command, its output going straight to ours. The error says why it did not succeed.
pub(crate) fn run(words: &[&str], variables: &Variables) -> Result<(), String> {
    announce(words, variables);
    let mut command = prepare(words, variables)?;
    let status = command.status().map_err(|error| not_started(words, &error))?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", words.join(" "))) }
}

/// Runs a command like [`run`] and shows each line of its standard output to `see` as it passes.
pub(crate) fn run_seeing_lines(
    words: &[&str],
    variables: &Variables,
    mut see: impl FnMut(&str),
) -> Result<(), String> {
    announce(words, variables);
    let mut command = prepare(words, variables)?;
    let mut child =
        command.stdout(Stdio::piped()).spawn().map_err(|error| not_started(words, &error))?;
    let lost = |error: io::Error| format!("lost the output of `{}`: {error}", words.join(" "));
    if let Some(output) = child.stdout.take() {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        while output.read_until(b'\n', &mut line).map_err(lost)? > 0 {
            io::stdout().write_all(&line).map_err(lost)?;
            see(&String::from_utf8_lossy(&line));
            line.clear();
        }
    }
    let status = child.wait().map_err(lost)?;
    if status.success() { Ok(()) } else { Err(format!("`{}`: {status}", words.join(" "))) }
}

/// Runs a command and gives what it wrote to its standard error; where it fails, all that it wrote
/// is passed on.
pub(crate) fn run_showing_failures(words: &[&str]) -> Result<String, String> {
    announce(words, &[]);
    let output = prepare(words, &[])?.output().map_err(|error| not_started(words, &error))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    for written in [&output.stdout, &output.stderr] {
        io::stdout().write_all(written).map_err(|error| format!("standard output: {error}"))?;
    }
    Err(format!("`{}`: {}", words.join(" "), output.status))
}

/// Runs commands beside each other, and passes on what each wrote once all of them have ended.
pub(crate) fn run_beside_each_other(
    commands: &[Vec<&str>],
    variables: &Variables,
) -> Result<(), String> {
    let mut started = Vec::new();
    for words in commands {
        announce(words, variables);
        let mut command = prepare(words, variables)?;
        // Each has a reader, so that none waits for the one whose turn it is.
        started.push((words, std::thread::spawn(move || command.output())));
    }
    let mut problems = Vec::new();
    for (words, run) in started {
        let output = match run.join() {
            Ok(output) => output.map_err(|error| not_started(words, &error))?,
            Err(_) => return Err(format!("lost the output of `{}`", words.join(" "))),
        };
        println!("$ {}", words.join(" "));
        for written in [&output.stderr, &output.stdout] {
            io::stdout().write_all(written).map_err(|error| format!("standard output: {error}"))?;
        }
        if !output.status.success() {
            problems.push(format!("`{}`: {}", words.join(" "), output.status));
        }
    }
    none_of(&problems)
}

/// Fails with all problems, a line each, unless there is none.
pub(crate) fn none_of(problems: &[String]) -> Result<(), String> {
    if problems.is_empty() { Ok(()) } else { Err(problems.join("\n")) }
}

/// The standard output of a command that is run quietly; `None` when it cannot start or fails.
pub(crate) fn output_of(words: &[&str]) -> Option<String> {
    let output = prepare(words, &[]).ok()?.stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The project's files with one of these endings: those git tracks and the new ones it does not
/// ignore. The ending `*` is any, and none.
pub(crate) fn project_files(endings: &[&str]) -> Result<Vec<PathBuf>, String> {
    let list = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let names = output_of(&list).ok_or("`git ls-files` failed: this needs git and a checkout")?;
    let has_ending = |path: &PathBuf| {
        let ending = path.extension().and_then(OsStr::to_str);
        (endings == ["*"] && path.file_name().is_some())
            || ending.is_some_and(|ending| endings.contains(&ending))
    };
    let mut files: Vec<PathBuf> = names.split('\0').map(PathBuf::from).filter(has_ending).collect();
    // A deleted file stays listed until the deletion is staged.
    files.retain(|file| root().join(file).exists());
    files.sort();
    files.dedup();
    Ok(files)
}

/// What went wrong with a file or a folder, in words.
pub(crate) fn said(path: &std::path::Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// The text of a file named relative to the root.
pub(crate) fn read(file: impl AsRef<std::path::Path>) -> Result<String, String> {
    let file = file.as_ref();
    std::fs::read(root().join(file))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .map_err(|error| format!("{}: {error}", file.display()))
}

fn prepare(words: &[&str], variables: &Variables) -> Result<Command, String> {
    let (program, arguments) = words.split_first().ok_or("an empty command")?;
    let mut command = Command::new(program);
    command.args(arguments).current_dir(root()).stdin(Stdio::null());
    // What `cargo run` says about this crate is not true of the child, and makes cargo build things
    // again.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text == "CARGO" || text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_")
        {
            command.env_remove(&name);
        }
    }
    command.envs(variables.iter().copied());
    Ok(command)
}

fn announce(words: &[&str], variables: &Variables) {
    print!("$");
    for (name, value) in variables {
        print!(" {name}='{value}'");
    }
    println!(" {}", words.join(" "));
}

fn not_started(words: &[&str], error: &io::Error) -> String {
    format!("`{}` did not start: {error}", words.join(" "))
}
