//! `cargo xtask bench`: what exchanges and copies cost, beside other implementations; with
//! `--gate`, whether they cost more than before.
//!
//! The measuring is done by programs of the crate `benchmarks`. This gets the peers, builds, and
//! says where results go.

#[cfg(test)]
mod pages;

use std::fs;

use crate::{peers, setup, shell};

/// Where whole results go, which are kept, and where those of a part go, which are not.
const KEPT: &str = "benchmarks/results";
const PASSING: &str = "target/bench";
/// Pages with results in them.
const PAGES: &[&str] = &["docs/performance.md"];
/// What was counted before.
const COUNTS: &str = "benchmarks/counts.json";
/// Times what only Python does, and prints lines of JSON.
const IN_PYTHON: &str = "benchmarks/python/times.py";

/// What `cargo xtask bench` was asked for.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wish {
    pub(crate) gate: bool,
    pub(crate) quick: bool,
    pub(crate) only: Option<String>,
}

impl Wish {
    pub(crate) fn parse(options: &[&str]) -> Result<Self, String> {
        let mut wish = Self::default();
        let mut options = options.iter();
        while let Some(option) = options.next() {
            match *option {
                "--gate" => wish.gate = true,
                "--quick" => wish.quick = true,
                "--only" => {
                    let name = options.next().ok_or("--only needs the name of a workload")?;
                    wish.only = Some((*name).to_owned());
                }
                other => return Err(format!("`cargo xtask bench` has no option `{other}`")),
            }
        }
        if wish.gate && wish != (Self { gate: true, ..Self::default() }) {
            return Err("--gate counts everything, and takes no other option".to_owned());
        }
        Ok(wish)
    }

    /// The words to repeat it with.
    fn command(&self) -> String {
        let mut words = String::from("cargo xtask bench");
        if self.quick {
            words += " --quick";
        }
        if let Some(only) = &self.only {
            words += &format!(" --only '{only}'");
        }
        words
    }
}

/// Does what was asked for.
pub(crate) fn bench(wish: &Wish) -> Result<(), String> {
    if wish.gate { gate() } else { times(wish) }
}

const PACKAGE: &str = "--package=benchmarks";
/// Counts have a profile of their own in the workspace's manifest, which says why.
const PROFILE: &str = "--profile=counts";

/// Prints the line by which tests are counted.
fn gate() -> Result<(), String> {
    let counts = ["cargo", "run", "--quiet", PROFILE, PACKAGE, "--bin=arrow-device-counts"];
    shell::run(&[&counts[..], &["--", "--gate", COUNTS]].concat(), &[])
}

fn times(wish: &Wish) -> Result<(), String> {
    let tools = [
        setup::C_COMPILER,
        setup::CPP_COMPILER,
        setup::PYTHON,
        setup::PEER_WHEELS,
        setup::PEER_SOURCES,
    ];
    setup::install(&tools);
    let folder = if wish.quick || wish.only.is_some() { PASSING } else { KEPT };
    let program = ["--release", PACKAGE, "--features=peers", "--bin=arrow-device-times"];
    shell::run(&[&["cargo", "build"], &program[..]].concat(), &[])?;
    let command = wish.command();
    let mut options = vec!["--command", &command, "--into", folder];
    if wish.quick {
        options.push("--quick");
    }
    if let Some(only) = &wish.only {
        options.extend(["--only", only]);
    }
    let in_python = times_in_python(wish)?;
    if let Some(file) = &in_python {
        options.extend(["--also", file]);
    }
    if folder == KEPT {
        options.extend(PAGES.iter().flat_map(|page| ["--page", page]));
    }
    shell::run(&[&["cargo", "run", "--quiet"], &program[..], &["--"], &options].concat(), &[])?;
    println!("\nwritten: {folder}/results.md");
    Ok(())
}

/// The file with the times of what only Python does; `None` where it is not asked for or cannot be.
fn times_in_python(wish: &Wish) -> Result<Option<String>, String> {
    let python = shell::root().join("target/python/env/bin/python");
    if !shell::root().join(IN_PYTHON).is_file() {
        return Ok(None);
    }
    if !python.is_file()
        || !peers::are_installed(&shell::root().join("target/python/env"), PACKAGES)
    {
        println!(
            "skipped: what only Python does, for want of its environment (`cargo xtask test --only python --setup` makes it)"
        );
        return Ok(None);
    }
    let python = python.display().to_string();
    let mut words = vec![python.as_str(), IN_PYTHON];
    if wish.quick {
        words.extend(["--rounds", "5", "--turn", "1"]);
    }
    match wish.only.as_deref().map(|only| only.strip_prefix("python, ")) {
        None => {}
        Some(Some(only)) => words.push(only),
        Some(None) => return Ok(None),
    }
    let mut lines = String::new();
    shell::run_seeing_lines(&words, &[], |line| {
        // What is no line of JSON is for whoever watches.
        if line.starts_with('{') {
            lines += line;
        }
    })?;
    let file = shell::root().join(PASSING).join("python.jsonl");
    let said = |error: std::io::Error| format!("{}: {error}", file.display());
    fs::create_dir_all(shell::root().join(PASSING)).map_err(said)?;
    fs::write(&file, lines).map_err(said)?;
    Ok(Some(file.display().to_string()))
}

/// The libraries that Python needs for it.
const PACKAGES: &str = "python/tests/requirements.txt";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_bench_are_understood_in_any_order() {
        let wish = Wish::parse(&["--quick", "--only", "export with schema"]).unwrap();
        assert!(wish.quick && !wish.gate);
        assert_eq!(wish.command(), "cargo xtask bench --quick --only 'export with schema'");
        assert_eq!(Wish::parse(&["--only", "export with schema", "--quick"]), Ok(wish));
        assert_eq!(Wish::default().command(), "cargo xtask bench");
        for options in [&["--gates"][..], &["--only"], &["--gate", "--quick"], &["export"]] {
            assert!(Wish::parse(options).is_err(), "{options:?}");
        }
    }
}
