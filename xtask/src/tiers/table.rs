//! The table of tiers. A new tier is a new row.
//!
//! A row of `--all` finds faults that a change of the library can bring in. A row of `--everything`
//! takes minutes and has found nothing for long, or repeats for every test what a row of `--all`
//! does for the tests that need it most.

use super::features;
use crate::setup::{self, Tool};
use crate::shell;

/// One way of running tests.
#[derive(Debug)]
pub(crate) struct Tier {
    pub(crate) name: &'static str,
    pub(crate) purpose: &'static str,
    pub(crate) when: When,
    /// Without one of these the tier cannot run.
    pub(super) needs: &'static [Tool],
    /// Without one of these some of its tests skip themselves.
    pub(super) gains_from: &'static [Tool],
    pub(super) variables: &'static shell::Variables<'static>,
    pub(super) command: &'static [&'static str],
    pub(super) kind: Kind,
}

#[cfg(test)]
impl Tier {
    /// Whether it names a tool.
    pub(crate) fn uses(&self, tool: &Tool) -> bool {
        self.needs.iter().chain(self.gains_from).any(|used| used.name == tool.name)
    }
}

/// How much of the tiers a run asks for, and the least of it that has a tier. Each level has the
/// tiers of those before it.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum When {
    /// Whatever is asked for.
    #[default]
    Always,
    /// With `--all`: what continuous integration runs.
    All,
    /// With `--everything`: what takes long and rarely breaks.
    Everything,
}

impl When {
    /// The option that asks for it, as the list of tiers shows it.
    pub(crate) fn option(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::All => "--all",
            Self::Everything => "--everything",
        }
    }
}

#[derive(Debug, PartialEq)]
pub(super) enum Kind {
    /// Prints `test result:` lines; at least one test must have run.
    Tests,
    /// Only succeeds or fails.
    Check,
}

pub(crate) const TIERS: &[Tier] = &[
    Tier {
        name: "unit and integration",
        purpose: "every crate's unit, integration and documentation tests",
        when: When::Always,
        needs: &[setup::C_COMPILER],
        gains_from: &[
            setup::CPP_COMPILER,
            setup::CLANG,
            setup::VALGRIND,
            setup::GOLDEN_FILES,
            setup::PYTHON,
            setup::PEER_WHEELS,
            setup::PEER_SOURCES,
            setup::OPENCL,
            setup::UCX,
            setup::VULKAN,
            setup::WEBGPU,
            setup::NPM,
            setup::DAWN,
            setup::ICARUS,
            setup::VERILATOR,
            setup::OBJECTIVE_C,
            setup::ROCM,
            setup::CUDA_HEADERS,
            setup::HIP_HEADERS,
            setup::CHROMIUM,
            setup::CMAKE,
            setup::MESON,
            setup::PKG_CONFIG,
        ],
        variables: &[],
        command: &[
            "cargo",
            "test",
            "--workspace",
            // Its peers take longer to build than all else; it has a tier of its own.
            "--exclude=benchmarks",
            // These take a minute each, for a framework that nothing else needs: see `frameworks`.
            "--exclude=example-burn",
            "--exclude=example-candle",
            "--exclude=example-views",
            // With all features it would build two releases of DataFusion.
            "--exclude=arrow-device-datafusion",
            // With all features it would build three majors of arrow-flight.
            "--exclude=arrow-device-flight",
            // It runs nightly Rust: see `public interface`.
            "--exclude=public-interface",
            features::OF_FIRST,
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "datafusion",
        purpose: "device streams as tables and plans of the newest DataFusion",
        // A clean build of DataFusion takes minutes.
        when: When::All,
        needs: &[],
        gains_from: &[setup::OPENCL],
        variables: &[],
        command: &[
            "cargo",
            "test",
            "--package=arrow-device-datafusion",
            "--features=datafusion-55,sql",
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "datafusion 54",
        purpose: "the same with the release for the arrow-rs before, built with the oldest Rust it promises",
        // It builds all of another DataFusion.
        when: When::Everything,
        needs: &[setup::OLDEST_TOOLCHAIN],
        gains_from: &[setup::OPENCL],
        variables: &[],
        command: &[
            "rustup",
            "run",
            setup::OLDEST_RUST,
            "cargo",
            "test",
            "--package=arrow-device-datafusion",
            "--features=datafusion-54,sql",
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "flight",
        purpose: "arrays over Flight on loopback, in the library and in the command, with arrow-flight and pyarrow on the \
                  other side",
        // It builds three majors of arrow-flight. The first tier reads and writes the same messages
        // with `arrow-device-ipc`, and tests what else the command does.
        when: When::Everything,
        needs: &[],
        gains_from: &[setup::PEER_WHEELS, setup::GOLDEN_FILES, setup::OPENCL, setup::OPENSSL],
        variables: &[],
        command: &[
            "cargo",
            "test",
            "--package=arrow-device-flight",
            "--package=arrow-device-cli",
            "--all-features",
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "panic abort",
        purpose: "the library needs no unwinding: it is run where a panic ends the process",
        when: When::Always,
        needs: &[],
        gains_from: &[],
        variables: &[],
        // The profile has a target folder of its own, and only a program that is not a test can
        // have it.
        command: &["cargo", "run", "--package=panic-abort", "--profile=panic-abort"],
        kind: Kind::Tests,
    },
    Tier {
        name: "python",
        purpose: "the wheel of the Python package is built, and exchanges data with the libraries that people use",
        when: When::Always,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES],
        gains_from: &[
            setup::OPENCL,
            setup::VULKAN,
            setup::WEBGPU,
            setup::ICARUS,
            setup::PEER_SOURCES,
            setup::CUDA_HEADERS,
        ],
        variables: &[],
        command: &["cargo", "xtask", "python"],
        kind: Kind::Tests,
    },
    Tier {
        name: "counts",
        purpose: "allocations, instructions, driver calls, bytes moved and waits are what they were, or less",
        when: When::All,
        needs: &[],
        gains_from: &[setup::VALGRIND],
        variables: &[],
        command: &["cargo", "xtask", "bench", "--gate"],
        kind: Kind::Tests,
    },
    Tier {
        name: "benchmarks",
        purpose: "every workload does the same with every other implementation",
        // The programs of all peers take minutes to build. `counts` runs the library's side of each
        // workload, and the first tier exchanges data with the same peers.
        when: When::Everything,
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
        name: "frameworks",
        purpose: "the examples with burn, candle, faer and ndarray run, and share or copy as they say",
        // In one call, since they have most of what takes long to build in common, which takes
        // minutes. The first tier runs the examples with what builds in seconds, and the Python
        // package exchanges tensors with numpy and JAX.
        when: When::Everything,
        needs: &[],
        gains_from: &[],
        variables: &[],
        command: &[
            "cargo",
            "test",
            "--package=example-burn",
            "--package=example-candle",
            "--package=example-views",
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "burn on a GPU",
        purpose: "columns and tensors of burn in the memory of one wgpu device, copied or not as the example says",
        // A workspace of its own, which takes minutes to build.
        when: When::Everything,
        needs: &[setup::VULKAN],
        gains_from: &[],
        variables: &[],
        command: &[
            "cargo",
            "test",
            "--manifest-path=examples/burn-wgpu/Cargo.toml",
            "--target-dir=target/burn-wgpu",
            "--locked",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "python tensors",
        purpose: "the Python package exchanges tensors with JAX and PyTorch",
        when: When::All,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES, setup::JAX],
        gains_from: &[setup::TORCH],
        variables: &[],
        command: &["cargo", "xtask", "python", "tensors"],
        kind: Kind::Tests,
    },
    Tier {
        name: "ray",
        purpose: "actors of Ray and workers of Dask pass arrays, and leave nothing behind when they are killed",
        // Each test starts a cluster. `python` tests on every change what both are made of: the
        // server by which processes fetch arrays, and pickles.
        when: When::Everything,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES, setup::RAY],
        gains_from: &[setup::OPENCL],
        variables: &[],
        command: &["cargo", "xtask", "python", "ray"],
        kind: Kind::Tests,
    },
    Tier {
        name: "killed processes",
        purpose: "processes that share arrays are killed at any moment, a thousand times on each side, and leave nothing behind",
        // Each time a process begins anew. The first tier kills each side 8 to 40 times.
        when: When::Everything,
        needs: &[],
        gains_from: &[setup::OPENCL, setup::VULKAN],
        variables: &[("ARROW_DEVICE_SHARE_KILLS", "1000")],
        command: &[
            "cargo",
            "test",
            "--package=arrow-device-share",
            "--test=share",
            "killed",
            "--no-fail-fast",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "oneapi",
        purpose: "the oneAPI devices on Intel's SYCL runtime, the table that the C++ header fills, and arrays of dpctl and dpnp",
        // The packages are three quarters of a gigabyte. The first tier runs the tests of the
        // devices on the simulated runtime.
        when: When::Everything,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES, setup::CPP_COMPILER, setup::SYCL],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "oneapi"],
        kind: Kind::Tests,
    },
    Tier {
        name: "released packages",
        purpose: "what the checker finds in released Python packages is what docs/peers.md says",
        // The packages are 1.7 GB, and each scenario starts a Python.
        when: When::Everything,
        needs: &[setup::PYTHON, setup::JAVA],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "peers"],
        kind: Kind::Check,
    },
    Tier {
        name: "book",
        purpose: "the book and the documentation of all packages are built without a warning, and load nothing from a network",
        // Its programs are tests of `unit and integration`, `datafusion` and `python`, and `cargo
        // xtask lint` checks its links. Compiling mdBook takes minutes.
        when: When::Everything,
        needs: &[setup::MDBOOK],
        gains_from: &[setup::PYTHON_PACKAGES],
        variables: &[],
        command: &["cargo", "xtask", "book"],
        kind: Kind::Check,
    },
    Tier {
        name: "gpu bundle",
        purpose: "the folder for machines with a GPU runs from wherever it was copied, on the simulated driver",
        when: When::All,
        needs: &[setup::PYTHON, setup::PYTHON_PACKAGES, setup::PEER_SOURCES],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "gpu-bundle", "test"],
        kind: Kind::Tests,
    },
    Tier {
        name: "msrv",
        purpose: "what is published builds with the oldest Rust it promises",
        when: When::All,
        needs: &[setup::OLDEST_TOOLCHAIN],
        gains_from: &[],
        variables: &[],
        // The packages in `crates`, by their names. Programs that only test are built by those who
        // test, and so are examples with other frameworks: burn asks for a newer Rust.
        command: &[
            "rustup",
            "run",
            setup::OLDEST_RUST,
            "cargo",
            "check",
            "--package=arrow-device*",
        ],
        kind: Kind::Check,
    },
    Tier {
        name: "public interface",
        purpose: "the public items of the published crates are those of the listings in docs/interface",
        // Releases of nightly Rust name the items of the standard library by different paths.
        when: When::Everything,
        // Of the toolchain with Miri only that it is a nightly one.
        needs: &[setup::MIRI],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "test", "--package=public-interface"],
        kind: Kind::Tests,
    },
    Tier {
        name: "32 bit",
        purpose: "the library and what needs no driver compile where addresses have 32 bits",
        when: When::All,
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
        name: "platforms",
        purpose: "the library on other targets: checked, in WebAssembly, with 32 bits, in C on aarch64",
        when: When::All,
        needs: &[],
        gains_from: &[
            setup::CHECKED_TARGETS,
            setup::WASM_TARGET,
            setup::NODE,
            setup::AARCH64_TARGET,
            setup::AARCH64_TOOLS,
            setup::QEMU,
            setup::I686_TARGET,
            setup::I686_TOOLS,
        ],
        variables: &[],
        command: &["cargo", "xtask", "platforms"],
        kind: Kind::Tests,
    },
    Tier {
        name: "browser",
        purpose: "the package for JavaScript, with data on a GPU of a browser, and its demonstration",
        when: When::All,
        needs: &[setup::WASM_TARGET, setup::CHROMIUM, setup::NODE, setup::NPM, setup::NPM_PACKAGES],
        gains_from: &[setup::GOLDEN_FILES, setup::PYTHON, setup::PEER_WHEELS],
        variables: &[],
        command: &["cargo", "xtask", "browser"],
        kind: Kind::Tests,
    },
    Tier {
        name: "swiftshader",
        purpose: "the Vulkan devices on a second driver, with other alignments and other kinds of semaphores",
        when: When::All,
        needs: &[setup::VULKAN, setup::SWIFTSHADER],
        gains_from: &[],
        variables: &[
            ("VK_DRIVER_FILES", "/usr/lib/chromium/vk_swiftshader_icd.json"),
            // The same for older loaders.
            ("VK_ICD_FILENAMES", "/usr/lib/chromium/vk_swiftshader_icd.json"),
        ],
        command: &[
            "cargo",
            "test",
            "--package=arrow-device-vulkan",
            "--all-features",
            "--test=device",
            "--no-fail-fast",
            "--",
            // Drivers with faults, over this one as well, are run by the first tier.
            "--skip=faulty::",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "platforms rest",
        purpose: "the library's unit tests on aarch64, armv7, s390x, musl and Windows, and more of them on i686",
        // `platforms` looks for what differs most between targets: sizes, alignments, what is not
        // there.
        when: When::Everything,
        needs: &[],
        gains_from: &[
            setup::AARCH64_TARGET,
            setup::AARCH64_TOOLS,
            setup::QEMU,
            setup::ARMV7_TARGET,
            setup::ARMV7_TOOLS,
            setup::S390X_TARGET,
            setup::S390X_TOOLS,
            setup::I686_TARGET,
            setup::I686_TOOLS,
            setup::MUSL_TARGET,
            setup::WINDOWS_TARGET,
            setup::MINGW,
            setup::WINE,
            setup::WASM_TARGET,
        ],
        variables: &[],
        command: &["cargo", "xtask", "platforms", "rest"],
        kind: Kind::Tests,
    },
    Tier {
        name: "hexagon",
        purpose: "the devices of Hexagon DSPs, whose commands an emulated DSP does",
        // The first tier has the same tests with a DSP that is a program of this machine.
        when: When::Everything,
        needs: &[setup::HEXAGON_TOOLS],
        gains_from: &[],
        variables: &[("ARROW_DEVICE_HEXAGON_DSP", "qemu")],
        command: &[
            "cargo",
            "test",
            "--package=arrow-device-hexagon",
            "--test=device",
            "--no-fail-fast",
            "--",
            // These have no commands for a DSP but such as keep it busy.
            "--skip=faulty::",
            "--skip=suite::",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "packages",
        purpose: "all that is released is packed, and used from the packages alone",
        // Each package is built anew, some of them for other processors.
        when: When::Everything,
        needs: &[
            setup::PYTHON,
            setup::C_COMPILER,
            setup::CPP_COMPILER,
            setup::PKG_CONFIG,
            // Of the toolchain with Miri only that it is a nightly one.
            setup::MIRI,
            setup::WASM_TARGET,
            setup::CHROMIUM,
            setup::NODE,
            setup::NPM,
        ],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "dist"],
        kind: Kind::Tests,
    },
    Tier {
        name: "valgrind",
        purpose: "the compiled tests of the library make no bad access and leak nothing",
        // Unit tests alone, one at a time. `miri` looks for the same faults and for leaks, `address
        // sanitizer` for bad accesses in the same tests and more, and the first tier runs programs
        // in C under valgrind.
        when: When::Everything,
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
        when: When::All,
        needs: &[setup::SANITIZED_TARGET],
        gains_from: &[],
        variables: &[
            // The sanitizers are compiled into stable Rust and only switched on by an unstable
            // flag.
            ("RUSTC_BOOTSTRAP", "1"),
            ("RUSTFLAGS", "-Zsanitizer=address"),
            ("CARGO_TARGET_DIR", "target/address-sanitizer"),
            // Wrong peers leak on purpose. The tests' own ledgers, valgrind and Miri look for
            // leaks. An allocation that cannot be is an error as elsewhere, and ends no process.
            ("ASAN_OPTIONS", "detect_leaks=0:allocator_may_return_null=1"),
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
            // Takes away the room of the process, which the sanitizer needs for its own memory.
            "--skip=a_task_that_relied_on_a_thread",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "loom",
        purpose: "no schedule of a few threads breaks the protocol of asynchronous streams, or releases memory early",
        when: When::All,
        needs: &[],
        gains_from: &[],
        variables: &[("RUSTFLAGS", "--cfg loom"), ("CARGO_TARGET_DIR", "target/loom")],
        // Not in release: the schedules are explored in half a second, and to build that well takes
        // a minute.
        command: &[
            "cargo",
            "test",
            "--package=async-protocol",
            "--package=deferred-release",
            "--tests",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "large files",
        purpose: "the command copies a file of more than 4 GB through all devices, in little memory",
        // The first tier copies a file that is larger than the memory that a copy may have.
        when: When::Everything,
        needs: &[],
        gains_from: &[setup::OPENCL],
        variables: &[("ARROW_DEVICE_LARGE", "1")],
        command: &[
            "cargo",
            "test",
            // As the first tier builds it, so that nothing is built again.
            "--workspace",
            "--exclude=benchmarks",
            "--exclude=example-burn",
            "--exclude=example-candle",
            "--exclude=example-views",
            "--exclude=arrow-device-datafusion",
            "--exclude=arrow-device-flight",
            "--exclude=public-interface",
            features::OF_FIRST,
            "--test=large",
        ],
        kind: Kind::Tests,
    },
    Tier {
        name: "miri",
        purpose: "the structs and the library break no rule of Rust's memory model",
        // Without the tests that take an interpreter longest: `miri.rs` lists them, and why they
        // can wait.
        when: When::All,
        needs: &[setup::MIRI],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "miri"],
        kind: Kind::Tests,
    },
    Tier {
        name: "miri rest",
        purpose: "nor do the tests that take an interpreter minutes, and those in documentation",
        when: When::Everything,
        needs: &[setup::MIRI],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "miri", "rest"],
        kind: Kind::Tests,
    },
    Tier {
        name: "fuzz",
        purpose: "a short run of each fuzz target, with an address sanitizer, finds nothing",
        // Fifteen seconds find little, and the build takes longer. The first tier runs the same
        // targets over the corpus and over bytes that proptest draws.
        when: When::Everything,
        // Of the toolchain with Miri only that it is a nightly one.
        needs: &[setup::MIRI, setup::CARGO_FUZZ, setup::CPP_COMPILER, setup::SANITIZED_TARGET],
        gains_from: &[],
        variables: &[],
        command: &["cargo", "xtask", "fuzz"],
        kind: Kind::Tests,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_packages_are_those_that_are_named_like_the_library() {
        let manifests = shell::project_files(&["toml"]).unwrap();
        let mut seen = 0;
        for file in manifests.iter().filter(|file| file.ends_with("Cargo.toml")) {
            let text = shell::read(file).unwrap();
            // The Python package, the fuzz targets and an example are workspaces of their own.
            if text.lines().any(|line| line == "[workspace]") {
                continue;
            }
            let name = text.lines().find_map(|line| line.strip_prefix("name = \"")).unwrap();
            let is_published = file.starts_with("crates");
            assert_eq!(name.starts_with("arrow-device"), is_published, "{}", file.display());
            seen += usize::from(is_published);
        }
        assert!(seen > 10, "{seen}");
    }
}
