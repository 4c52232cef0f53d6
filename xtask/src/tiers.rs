//! `cargo xtask test`: the tiers of tests, and the count over all of them.
//!
//! The table [`TIERS`] says all there is to know about a tier; a new one is a new row. Whatever needs a tool that is
//! missing is skipped with its reason, unless the run is strict: then a tool that could be installed must be there.

use std::time::{Duration, Instant};

use crate::setup::{self, Tool};
use crate::shell;

/// One way of running tests.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    pub(crate) purpose: &'static str,
    /// Run by default, or only with `--all`.
    pub(crate) by_default: bool,
    /// Without one of these the tier cannot run.
    needs: &'static [Tool],
    /// Without one of these some of its tests skip themselves.
    gains_from: &'static [Tool],
    variables: &'static shell::Variables<'static>,
    command: &'static [&'static str],
    kind: Kind,
}

#[derive(Debug, PartialEq)]
enum Kind {
    /// Prints `test result:` lines; at least one test must have run.
    Tests,
    /// Only succeeds or fails.
    Check,
}

/// Leaks are errors under Miri without being asked for. Files may be read, and addresses must come from pointers.
const MIRI_FLAGS: &str = "-Zmiri-strict-provenance -Zmiri-disable-isolation";

pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: "unit and integration",
        purpose: "every crate's unit, integration and documentation tests",
        by_default: true,
        needs: &[setup::C_COMPILER],
        gains_from: &[
            setup::CPP_COMPILER,
            setup::VALGRIND,
            setup::GOLDEN_FILES,
            setup::PYTHON,
            setup::PEER_WHEELS,
            setup::PEER_SOURCES,
            setup::OPENCL,
            setup::VULKAN,
            setup::ROCM,
            setup::CUDA_HEADERS,
            setup::HIP_HEADERS,
            setup::CHROMIUM,
            setup::CMAKE,
            setup::PKG_CONFIG,
        ],
        variables: &[],
        command: &[
            "cargo",
            "test",
            "--workspace",
            // Its peers take longer to build than all else; it has a tier of its own.
            "--exclude=benchmarks",
            "--all-features",
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "panic abort",
        purpose: "the library needs no unwinding: it is run where a panic ends the process",
        by_default: true,
        needs: &[],
        gains_from: &[],
        variables: &[],
        // The profile has a target folder of its own, and only a program that is not a test can have it.
        command: &["cargo", "run", "--package=panic-abort", "--profile=panic-abort"],
        kind: Kind::Tests,
    },
    Tier {
        name: "python",
        purpose: "the wheel of the Python package is built, and exchanges data with the libraries that people use",
        by_default: true,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES],
        gains_from: &[setup::OPENCL, setup::VULKAN],
        variables: &[],
        command: &["cargo", "xtask", "python"],
        kind: Kind::Tests,
    },
    Tier {
        name: "counts",
        purpose: "allocations, instructions, driver calls, bytes moved and waits are what they were, or less",
        by_default: false,
        needs: &[],
        gains_from: &[setup::VALGRIND],
        variables: &[],
        command: &["cargo", "xtask", "bench", "--gate"],
        kind: Kind::Tests,
    },
    Tier {
        name: "benchmarks",
        purpose: "every workload does the same with every other implementation",
        by_default: false,
        needs: &[],
        gains_from: &[
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::PEER_WHEELS,
            setup::PEER_SOURCES,
        ],
        variables: &[],
        command: &[
            "cargo",
            "test",
            // As the tier before has built most of it.
            "--profile=counts",
            "--package=benchmarks",
            "--features=peers",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "python tensors",
        purpose: "the Python package exchanges tensors with JAX and PyTorch",
        by_default: false,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES, setup::JAX],
        gains_from: &[setup::TORCH],
        variables: &[],
        command: &["cargo", "xtask", "python", "tensors"],
        kind: Kind::Tests,
    },
    Tier {
        name: "gpu bundle",
        purpose: "the folder for machines with a GPU runs from wherever it was copied, on the simulated driver",
        by_default: false,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "gpu-bundle", "test"],
        kind: Kind::Tests,
    },
    Tier {
        name: "msrv",
        purpose: "the workspace builds with the oldest Rust it promises",
        by_default: false,
        needs: &[setup::OLDEST_TOOLCHAIN],
        gains_from: &[],
        variables: &[],
        command: &["rustup", "run", setup::OLDEST_RUST, "cargo", "check", "--workspace"],
        kind: Kind::Check,
    },
    Tier {
        name: "32 bit",
        purpose: "the library and what needs no driver compile where addresses have 32 bits",
        by_default: false,
        needs: &[setup::SMALL_TARGET],
        gains_from: &[],
        variables: &[],
        command: &[
            "rustup",
            "run",
            setup::OLDEST_RUST,
            "cargo",
            "check",
            "--target=i686-unknown-linux-gnu",
            "--package=arrow-device-abi",
            "--package=arrow-device",
            "--package=arrow-device-sim",
            "--package=arrow-device-testkit",
        ],
        kind: Kind::Check,
    },
    Tier {
        name: "valgrind",
        purpose: "the compiled tests of the library make no bad access and leak nothing",
        by_default: false,
        needs: &[setup::VALGRIND],
        gains_from: &[],
        variables: &[],
        command: &[
            "cargo",
            "test",
            "--config",
            concat!(
                "target.'cfg(unix)'.runner=['valgrind', '--quiet', '--leak-check=full', ",
                "'--show-leak-kinds=definite', '--errors-for-leak-kinds=definite', ",
                "'--error-exitcode=99']"
            ),
            "--package=arrow-device-abi",
            "--package=arrow-device",
            "--lib",
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "address sanitizer",
        purpose: "the library's tests make no bad access, on any thread",
        by_default: false,
        needs: &[setup::SANITIZED_TARGET],
        gains_from: &[],
        variables: &[
            // The sanitizers are compiled into stable Rust and only switched on by an unstable flag.
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
            ("CARGO_TARGET_DIR", "target/address-sanitizer"),
            // Wrong peers leak on purpose. The tests' own ledgers, valgrind and Miri look for leaks.
            ("ASAN_OPTIONS", "detect_leaks=0"),
        ],
        command: &[
            "cargo",
            "test",
            // With a target named, the flags are not those of build scripts and procedural macros.
            "--target=x86_64-unknown-linux-gnu",
            "--package=arrow-device",
            "--lib",
            "--tests",
            "--no-fail-fast",
            "--",
            // Compiles and runs programs of its own, which would not be sanitized.
            "--skip=misuse_does_not_compile",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "loom",
        purpose: "no schedule of a few threads breaks the protocol of asynchronous streams",
        by_default: false,
        needs: &[],
        gains_from: &[],
        variables: &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")],
        command: &["cargo", "test", "--package=async-protocol", "--release", "--tests"],
        kind: Kind::Tests,
    },
    Tier {
        name: "large files",
        purpose: "the command copies a file of more than 4 GB through all devices, in little memory",
        by_default: false,
        needs: &[],
        gains_from: &[setup::OPENCL],
        variables: &[("ARROW_DEVICE_LARGE", "1")],
        command: &[
            "cargo",
            "test",
            // As the first tier builds it, so that nothing is built again.
            "--workspace",
            "--exclude=benchmarks",
            "--all-features",
            "--test=large",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "miri",
        purpose: "the structs and the library break no rule of Rust's memory model",
        by_default: false,
        needs: &[setup::MIRI],
        gains_from: &[],
        variables: &[("MIRIFLAGS", MIRI_FLAGS)],
        command: &[
            "cargo",
            "+nightly",
            "miri",
            "test",
            "--package=arrow-device-abi",
            "--package=arrow-device",
            "--no-fail-fast",
            "--",
            // Safe code over bytes, with tests that take an interpreter minutes.
            "--skip=schema::tests",
            "--skip=metadata::tests",
            "--skip=values::tests::comparing",
            "--skip=values::tests::showing",
            "--skip=every_part_of_every_type_reads_as_that_part",
            "--skip=any_content_is_read_or_refused",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "fuzz",
        purpose: "a short run of each fuzz target, with an address sanitizer, finds nothing",
        by_default: false,
        // Of the toolchain with Miri only that it is a nightly one.
        needs: &[setup::MIRI, setup::CARGO_FUZZ, setup::CPP_COMPILER, setup::SANITIZED_TARGET],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "fuzz"],
        kind: Kind::Tests,
    },
];

/// What `cargo xtask test` was asked for.
#[derive(Debug, Default)]
pub(crate) struct Wish {
    pub(crate) setup: bool,
    pub(crate) all: bool,
    pub(crate) only: Option<String>,
}

/// Runs the tiers asked for, prints what became of each and the closing line, and writes that line down.
pub(crate) fn test(wish: &Wish) -> Result<(), String> {
    // A line of an earlier run must not be taken for this one's.
    let summary = shell::root().join("target/test-summary.txt");
    std::fs::remove_file(&summary).or_else(|error| {
        if error.kind() == std::io::ErrorKind::NotFound { Ok(()) } else { Err(said(&error)) }
    })?;

    let tiers = chosen(wish)?;
    let wants_tests = tiers.iter().any(|tier| tier.kind == Kind::Tests);
    if wish.setup {
        setup::install(&tools_for(&tiers, wish.all || shell::in_ci()));
    }
    let reports: Vec<Report> = tiers.into_iter().map(|tier| run(tier, is_strict())).collect();

    println!("\nsummary");
    let mut total = Tally::default();
    for report in &reports {
        println!("  {report}");
        total.add(report.tally);
    }
    if wants_tests && total.ran() == 0 {
        println!("  no test ran at all, which counts as a failure");
        total.failed += 1;
    }
    let closing_line =
        format!("{} passed, {} failed, {} skipped", total.passed, total.failed, total.skipped);
    if let Some(folder) = summary.parent() {
        std::fs::create_dir_all(folder).map_err(|error| said(&error))?;
    }
    std::fs::write(&summary, format!("{closing_line}\n")).map_err(|error| said(&error))?;
    println!("\n{closing_line}");
    if total.failed == 0 { Ok(()) } else { Err(String::new()) }
}

/// How many tests ended how. A tier that fails without a failing test counts as one failure; a tier or a tool that is
/// missing counts as one skip, as does an ignored test.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
struct Tally {
    passed: u64,
    failed: u64,
    skipped: u64,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }

    fn ran(&self) -> u64 {
        self.passed + self.failed
    }

    /// Reads `test result: ok. 3 passed; 0 failed; 1 ignored; ...`, the line each test program ends with.
    fn from_line(line: &str) -> Option<Self> {
        let (_, counts) = line.trim_end().strip_prefix("test result: ")?.split_once(". ")?;
        let count = |name: &str| {
            counts.split("; ").find_map(|part| part.strip_suffix(name)?.trim().parse().ok())
        };
        Some(Self {
            passed: count("passed")?,
            failed: count("failed")?,
            skipped: count("ignored")?,
        })
    }
}

/// The name of the test that this line says failed, or that it begins and never ends because its program did.
fn broken(line: &str) -> Option<&str> {
    if let Some(said) = line.strip_prefix("FAILED ") {
        // pytest puts the name first, and after it what was wrong.
        return said.split_whitespace().next();
    }
    let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ...")?;
    matches!(verdict.trim(), "FAILED" | "").then_some(name)
}

/// What became of a tier.
struct Report {
    name: &'static str,
    tally: Tally,
    problem: Option<String>,
    /// The tests that failed, by name: what they said may be thousands of lines above.
    broken: Vec<String>,
    /// Why the tier, or a part of it, did not run.
    skips: Vec<String>,
    time: Duration,
}

impl std::fmt::Display for Report {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Tally { passed, failed, skipped } = self.tally;
        write!(f, "{:<22} {passed} passed, {failed} failed, {skipped} skipped", self.name)?;
        write!(f, "  ({} s)", self.time.as_secs())?;
        for skip in &self.skips {
            write!(f, "\n    skipped: {skip}")?;
        }
        if let Some(problem) = &self.problem {
            write!(f, "\n    failed: {problem}")?;
        }
        for name in &self.broken {
            write!(f, "\n      {name}")?;
        }
        Ok(())
    }
}

fn run(tier: &'static Tier, strict: bool) -> Report {
    println!("\n== {}: {}", tier.name, tier.purpose);
    let start = Instant::now();
    let (mut tally, mut problem, mut skips) = (Tally::default(), None, Vec::new());
    let mut names = Vec::new();

    let missing = |tools: &[Tool]| -> Vec<Tool> {
        tools.iter().copied().filter(|tool| !tool.is_present()).collect()
    };
    let (needed, gained) = (missing(tier.needs), missing(tier.gains_from));
    for (tool, subject) in needed
        .iter()
        .map(|tool| (tool, "this tier"))
        .chain(gained.iter().map(|tool| (tool, "some of its tests")))
    {
        let reason = format!("{subject} for want of {} ({})", tool.name, tool.advice());
        if strict && tool.is_installable() {
            println!("failed: {reason}");
            tally.failed += 1;
            problem = Some(format!("{} must be there in a strict run", tool.name));
        } else {
            println!("skipped: {reason}");
            tally.skipped += 1;
            skips.push(reason);
        }
    }

    if needed.is_empty() {
        let mut seen = Tally::default();
        let outcome = shell::run_seeing_lines(tier.command, tier.variables, |line| {
            seen.add(Tally::from_line(line).unwrap_or_default());
            names.extend(broken(line).map(str::to_owned));
        });
        let verdict = judge(&tier.kind, seen, outcome);
        if verdict.is_err() && seen.failed == 0 {
            seen.failed = 1;
        }
        tally.add(seen);
        problem = verdict.err().or(problem);
    }
    Report { name: tier.name, tally, problem, broken: names, skips, time: start.elapsed() }
}

/// Whether a tier succeeded, from what its command printed and how it ended.
fn judge(kind: &Kind, seen: Tally, outcome: Result<(), String>) -> Result<(), String> {
    outcome?;
    if seen.failed > 0 {
        return Err("tests failed though the command succeeded".to_owned());
    }
    if *kind == Kind::Tests && seen.ran() == 0 {
        return Err("the command succeeded but ran no test".to_owned());
    }
    Ok(())
}

fn chosen(wish: &Wish) -> Result<Vec<&'static Tier>, String> {
    let Some(name) = &wish.only else {
        return Ok(TIERS.iter().filter(|tier| wish.all || tier.by_default).collect());
    };
    let tier = TIERS.iter().find(|tier| tier.name == name);
    tier.map(|tier| vec![tier]).ok_or_else(|| format!("there is no tier called `{name}`"))
}

/// All tools that the tiers can use, and those of `cargo xtask lint` when asked for.
fn tools_for(tiers: &[&Tier], with_lint: bool) -> Vec<Tool> {
    let mut tools: Vec<Tool> = tiers
        .iter()
        .flat_map(|tier| tier.needs.iter().chain(tier.gains_from))
        .copied()
        .chain(with_lint.then_some(setup::CARGO_DENY))
        .collect();
    tools.sort_by_key(|tool| tool.name);
    tools.dedup_by_key(|tool| tool.name);
    tools
}

/// Whether a missing tool is a failure where it could be installed.
pub(crate) fn is_strict() -> bool {
    let required = std::env::var("ARROW_DEVICE_REQUIRE").unwrap_or_default();
    shell::in_ci() || required.split(',').any(|word| word.trim() == "all")
}

fn said(error: &std::io::Error) -> String {
    format!("target/test-summary.txt: {error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = "test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 7 filtered out; finished in 0.00s\n";

    #[test]
    fn the_closing_line_of_a_test_program_is_counted() {
        assert_eq!(Tally::from_line(LINE), Some(Tally { passed: 3, failed: 0, skipped: 2 }));
        let failed = LINE.replace("ok. 3 passed; 0 failed", "FAILED. 2 passed; 14 failed");
        assert_eq!(Tally::from_line(&failed), Some(Tally { passed: 2, failed: 14, skipped: 2 }));
        let short = "test result: ok. 3 passed; 0 failed; 0 ignored\n";
        assert_eq!(Tally::from_line(short), Some(Tally { passed: 3, failed: 0, skipped: 0 }));
    }

    #[test]
    fn other_lines_are_not_counted() {
        for line in ["", "running 3 tests", "test a ... ok", "test result: unknown", "3 passed"] {
            assert_eq!(Tally::from_line(line), None, "{line}");
        }
        assert_eq!(Tally::from_line(&format!("  {LINE}")), None);
    }

    #[test]
    fn the_tests_that_failed_are_named() {
        assert_eq!(broken("test a::b ... FAILED\n"), Some("a::b"));
        assert_eq!(broken("test a::b - should panic ... FAILED\n"), Some("a::b - should panic"));
        assert_eq!(
            broken("test the_interpreter_stopped_here ... \n"),
            Some("the_interpreter_stopped_here")
        );
        assert_eq!(broken("FAILED tests/a.py::b - assert 1 == 2\n"), Some("tests/a.py::b"));
        for line in ["test a ... ok\n", "test a ... ignored, takes long\n", LINE, "a ... FAILED\n"]
        {
            assert_eq!(broken(line), None, "{line}");
        }
    }

    #[test]
    fn a_tier_that_runs_no_test_has_failed() {
        let none = Tally { skipped: 5, ..Tally::default() };
        assert!(judge(&Kind::Tests, none, Ok(())).is_err());
        assert!(judge(&Kind::Check, none, Ok(())).is_ok());
    }

    #[test]
    fn a_failing_test_or_command_fails_the_tier() {
        let good = Tally { passed: 1, ..Tally::default() };
        let bad = Tally { failed: 1, ..good };
        assert!(judge(&Kind::Tests, good, Ok(())).is_ok());
        assert!(judge(&Kind::Tests, bad, Ok(())).is_err());
        assert!(judge(&Kind::Tests, good, Err("exit status: 101".to_owned())).is_err());
    }

    #[test]
    fn a_missing_tool_skips_the_tier_and_fails_it_in_a_strict_run() {
        static TIER: Tier = Tier {
            name: "fixture",
            purpose: "a tier whose tool is never there",
            by_default: false,
            needs: &[setup::ABSENT],
            gains_from: &[],
            variables: &[],
            command: &["false"],
            kind: Kind::Tests,
        };
        let lenient = run(&TIER, false);
        assert_eq!(lenient.tally, Tally { skipped: 1, ..Tally::default() });
        assert!(lenient.problem.is_none());
        let strict = run(&TIER, true);
        assert_eq!(strict.tally, Tally { failed: 1, ..Tally::default() });
        assert!(strict.problem.is_some());
    }

    #[test]
    fn a_command_that_dies_without_a_result_counts_as_one_failure() {
        static TIER: Tier = Tier {
            name: "fixture",
            purpose: "a command that fails",
            by_default: false,
            needs: &[],
            gains_from: &[],
            variables: &[],
            command: &["false"],
            kind: Kind::Tests,
        };
        let report = run(&TIER, false);
        assert_eq!(report.tally, Tally { failed: 1, ..Tally::default() });
        assert!(report.to_string().contains("failed: `false`"), "{report}");
    }

    #[test]
    fn a_tier_is_chosen_by_default_by_all_or_by_name() {
        let names = |wish: &Wish| -> Vec<_> {
            chosen(wish).unwrap().iter().map(|tier| tier.name).collect()
        };
        assert_eq!(names(&Wish::default()), ["unit and integration", "panic abort", "python"]);
        assert_eq!(names(&Wish { all: true, ..Wish::default() }).len(), TIERS.len());
        let only = |name: &str| Wish { only: Some(name.to_owned()), ..Wish::default() };
        assert_eq!(names(&only("miri")), ["miri"]);
        assert!(chosen(&only("mire")).is_err());
    }
}
