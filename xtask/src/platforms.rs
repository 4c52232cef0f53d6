//! `cargo xtask platforms`: the library on targets that are not the machine's own.
//!
//! Programs of other processors run under qemu, those of Windows under Wine, WebAssembly in node;
//! for targets that nothing here runs the library is checked by the compiler. What finds most for
//! its time is run by every `--all`; `cargo xtask platforms rest` runs the rest. A platform whose
//! tools are missing is skipped, and the tier of [`tiers`](crate::tiers) has said so by then.

use crate::setup::{self, Tool};
use crate::shell;

/// Targets that the library, the software device, the testkit and the C face are checked for.
const CHECKED: &[&str] = &[
    "aarch64-apple-darwin",
    "aarch64-linux-android",
    "x86_64-pc-windows-msvc",
    "x86_64-unknown-freebsd",
];

/// Targets that the library and the software device are checked for. One has an operating system of
/// a kind, and neither threads nor processes.
const CHECKED_SMALL: &[&str] = &["wasm32-wasip1"];

/// Which part of the platforms.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum PlatformPart {
    /// What `--all` runs.
    Short,
    /// What `--everything` runs besides.
    Rest,
}

/// A target whose tests are run here.
struct Platform {
    target: &'static str,
    part: PlatformPart,
    needs: &'static [Tool],
    linker: &'static str,
    /// The program that runs programs of the target, with its arguments.
    runner: &'static str,
    variables: &'static shell::Variables<'static>,
    /// What `cargo test` is told to run.
    tests: &'static [&'static str],
}

/// The unit tests of the library, with all of its unsafe code.
const LIBRARY: &[&str] = &["--package=arrow-device", "--lib"];

const PLATFORMS: &[Platform] = &[
    Platform {
        target: "aarch64-unknown-linux-gnu",
        part: PlatformPart::Short,
        needs: &[setup::AARCH64_TARGET, setup::AARCH64_TOOLS, setup::QEMU],
        linker: "aarch64-linux-gnu-gcc",
        runner: "qemu-aarch64",
        variables: &[
            ("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu"),
            ("CC", "aarch64-linux-gnu-gcc"),
            ("CXX", "aarch64-linux-gnu-g++"),
        ],
        // The examples of the C face, and where `char` is unsigned, its texts.
        tests: &[
            "--package=arrow-device-capi",
            "--lib",
            "--test=functions",
            "--",
            "error::",
            "they_run_with_every_compiler",
        ],
    },
    Platform {
        target: "i686-unknown-linux-gnu",
        part: PlatformPart::Short,
        needs: &[setup::I686_TARGET, setup::I686_TOOLS],
        linker: "i686-linux-gnu-gcc",
        runner: "",
        variables: &[],
        tests: LIBRARY,
    },
    Platform {
        target: "i686-unknown-linux-gnu",
        part: PlatformPart::Rest,
        needs: &[setup::I686_TARGET, setup::I686_TOOLS],
        linker: "i686-linux-gnu-gcc",
        runner: "",
        variables: &[],
        tests: &[
            "--package=arrow-device",
            "--package=arrow-device-sim",
            "--package=arrow-device-testkit",
            "--tests",
            "--",
            // Rust programs and C programs for the machine's own processor.
            "--skip=misuse_does_not_compile",
            "--skip=c_event::",
            // Names of lines, which these programs are built without.
            "--skip=reports::",
        ],
    },
    Platform {
        target: "aarch64-unknown-linux-gnu",
        part: PlatformPart::Rest,
        needs: &[setup::AARCH64_TARGET, setup::AARCH64_TOOLS, setup::QEMU],
        linker: "aarch64-linux-gnu-gcc",
        runner: "qemu-aarch64",
        variables: &[("QEMU_LD_PREFIX", "/usr/aarch64-linux-gnu")],
        tests: LIBRARY,
    },
    Platform {
        target: "armv7-unknown-linux-gnueabihf",
        part: PlatformPart::Rest,
        needs: &[setup::ARMV7_TARGET, setup::ARMV7_TOOLS, setup::QEMU],
        linker: "arm-linux-gnueabihf-gcc",
        runner: "qemu-arm",
        variables: &[("QEMU_LD_PREFIX", "/usr/arm-linux-gnueabihf")],
        tests: LIBRARY,
    },
    Platform {
        target: "s390x-unknown-linux-gnu",
        part: PlatformPart::Rest,
        needs: &[setup::S390X_TARGET, setup::S390X_TOOLS, setup::QEMU],
        linker: "s390x-linux-gnu-gcc",
        runner: "qemu-s390x",
        variables: &[("QEMU_LD_PREFIX", "/usr/s390x-linux-gnu")],
        tests: LIBRARY,
    },
    Platform {
        target: "x86_64-unknown-linux-musl",
        part: PlatformPart::Rest,
        needs: &[setup::MUSL_TARGET],
        // Rust brings its own musl. With `musl-gcc` the program gets a second one, and crashes.
        linker: "cc",
        runner: "",
        variables: &[],
        tests: LIBRARY,
    },
    Platform {
        target: "x86_64-pc-windows-gnu",
        part: PlatformPart::Rest,
        needs: &[setup::WINDOWS_TARGET, setup::MINGW, setup::WINE],
        linker: "x86_64-w64-mingw32-gcc",
        runner: "wine",
        variables: &[("WINEDEBUG", "-all")],
        tests: LIBRARY,
    },
];

/// Runs one part. The error names every platform that failed.
pub(crate) fn test(part: PlatformPart) -> Result<(), String> {
    let mut problems = Vec::new();
    if part == PlatformPart::Short {
        problems.extend(check().err());
        problems.extend(wasm().err());
    } else {
        problems.extend(wgpu_of_a_page().err());
    }
    for platform in PLATFORMS.iter().filter(|platform| platform.part == part) {
        let outcome =
            if has_all(platform.target, platform.needs) { platform.run() } else { Ok(()) };
        problems.extend(outcome.err().map(|error| format!("{}: {error}", platform.target)));
    }
    shell::none_of(&problems)
}

/// Whether the tools are there. The tier says what is skipped, and fails a strict run.
fn has_all(target: &str, tools: &[Tool]) -> bool {
    let missing = tools.iter().find(|tool| !tool.is_present());
    if let Some(tool) = missing {
        println!("skipped: {target} for want of {}", tool.name);
    }
    missing.is_none()
}

/// What all builds for other targets are told: little room matters more than names of lines.
const LEAN: &shell::Variables = &[("CARGO_PROFILE_DEV_DEBUG", "0"), ("CARGO_INCREMENTAL", "0")];

/// The compiler alone. Each target counts as one test.
fn check() -> Result<(), String> {
    const SMALL: [&str; 3] = ["arrow-device-abi", "arrow-device", "arrow-device-sim"];
    const ALL: [&str; 5] =
        [SMALL[0], SMALL[1], SMALL[2], "arrow-device-testkit", "arrow-device-capi"];
    if !has_all("checks for other targets", &[setup::CHECKED_TARGETS]) {
        return Ok(());
    }
    for (targets, packages) in [(CHECKED, &ALL[..]), (CHECKED_SMALL, &SMALL)] {
        let mut words = vec!["cargo".to_owned(), "check".to_owned()];
        words.extend(targets.iter().map(|target| format!("--target={target}")));
        words.extend(packages.iter().map(|package| format!("--package={package}")));
        shell::run(&words.iter().map(String::as_str).collect::<Vec<_>>(), LEAN)?;
        println!("test result: ok. {} passed; 0 failed; 0 ignored", targets.len());
    }
    Ok(())
}

/// The compiler alone, for devices of the crate `wgpu` in a page.
fn wgpu_of_a_page() -> Result<(), String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    if !has_all(TARGET, &[setup::WASM_TARGET]) {
        return Ok(());
    }
    let target = format!("--target={TARGET}");
    // With the backend that an application names for a page.
    let words = ["cargo", "check", "--package=arrow-device-wgpu", "--features=wgpu/webgpu"];
    shell::run(&[&words[..], &[&target]].concat(), LEAN)?;
    println!("test result: ok. 1 passed; 0 failed; 0 ignored");
    Ok(())
}

/// `testing/wasm` in node.
fn wasm() -> Result<(), String> {
    const TARGET: &str = "wasm32-unknown-unknown";
    if !has_all(TARGET, &[setup::WASM_TARGET, setup::NODE]) {
        return Ok(());
    }
    let target = format!("--target={TARGET}");
    shell::run(&["cargo", "build", "--package=wasm-checks", &target], LEAN)?;
    let folder = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    let module = format!("{folder}/{TARGET}/debug/wasm_checks.wasm");
    shell::run(&["node", "testing/wasm/run.mjs", &module], &[])
}

impl Platform {
    fn run(&self) -> Result<(), String> {
        let folder = shell::root().join("target/platforms");
        let text = |name: &str| folder.join(name).to_string_lossy().into_owned();
        let (prefix, libraries) = (text("wine"), text(""));
        let mut variables = [LEAN, self.variables].concat();
        if self.runner == "wine" {
            std::fs::create_dir_all(&folder).map_err(|error| format!("{libraries}: {error}"))?;
            // Wine 8 has not all that Rust's standard library needs.
            let (dll, source) =
                (text("bcryptprimitives.dll"), "testing/platforms/bcryptprimitives.c");
            shell::run(&[self.linker, "-shared", "-o", &dll, source, "-ladvapi32"], &[])?;
            variables.extend([("WINEPREFIX", &*prefix), ("WINEPATH", &*libraries)]);
        }
        let linker = format!("target.{}.linker='{}'", self.target, self.linker);
        let target = format!("--target={}", self.target);
        let mut words = vec!["cargo", "test", "--no-fail-fast", &target, "--config", &linker];
        let runner = format!("target.{}.runner='{}'", self.target, self.runner);
        if !self.runner.is_empty() {
            words.extend(["--config", &runner]);
            // Tests start programs of the target, which no emulator runs by itself.
            if self.runner.starts_with("qemu") {
                variables.push(("ARROW_DEVICE_RUNNER", self.runner));
            }
            // Tests that must end soon are too slow in an emulator without any optimisation.
            if self.part == PlatformPart::Rest {
                variables.push(("CARGO_PROFILE_DEV_OPT_LEVEL", "1"));
            }
        }
        words.extend(self.tests);
        shell::run(&words, &variables)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_platform_is_in_the_table_of_the_documentation() {
        let page = shell::read("docs/platforms.md").unwrap();
        let of_tests = PLATFORMS.iter().map(|platform| platform.target);
        for target in of_tests.chain(CHECKED.iter().chain(CHECKED_SMALL).copied()) {
            assert!(page.contains(&format!("`{target}`")), "{target}");
        }
    }

    #[test]
    fn every_target_that_is_checked_is_installed() {
        let mut targets = [CHECKED, CHECKED_SMALL].concat();
        targets.sort_unstable();
        assert_eq!(targets, setup::CHECKED);
    }

    #[test]
    fn a_tier_names_every_tool_of_its_platforms() {
        for (name, part) in
            [("platforms", PlatformPart::Short), ("platforms rest", PlatformPart::Rest)]
        {
            let tier = crate::tiers::TIERS.iter().find(|tier| tier.name == name).unwrap();
            for platform in PLATFORMS.iter().filter(|platform| platform.part == part) {
                for tool in platform.needs {
                    assert!(tier.uses(tool), "{name} does not name {}", tool.name);
                }
            }
        }
    }
}
