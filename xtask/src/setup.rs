//! The tools that tests and checks use: how to see whether one is there, and how to install it.
//!
//! Looking never installs anything. Installing happens only for `--setup`, says first what it will
//! do, and uses the system's package manager, rustup, cargo and, in a folder of its own, pip.

use crate::{browser, oneapi, peers, python, shell};

/// The oldest Rust the project promises to build with; the workspace manifest is the one place that
/// says it.
pub(crate) const OLDEST_RUST: &str = env!("CARGO_PKG_RUST_VERSION");

/// Something a test or a check needs and the project does not carry.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tool {
    pub(crate) name: &'static str,
    is_present: fn() -> bool,
    source: Source,
}

/// Where a tool comes from.
#[derive(Debug, Clone, Copy)]
enum Source {
    /// Packages of Debian and its relatives, with spaces between them.
    Debian(&'static str),
    /// A toolchain of rustup: its name and what belongs to it.
    Rustup(&'static [&'static str]),
    /// Standard libraries of Rust's for these targets, for the toolchain in use.
    Targets(&'static [&'static str]),
    /// A crate with a command of that name.
    Crate(&'static str),
    /// Packages of Python or npm, by this function.
    Python(fn() -> Result<(), String>),
    /// Nothing here can install it; the text says what to do.
    ByHand(&'static str),
}

pub(crate) const C_COMPILER: Tool = Tool {
    name: "a C compiler",
    is_present: || shell::output_of(&["cc", "--version"]).is_some(),
    source: Source::Debian("gcc"),
};

pub(crate) const CPP_COMPILER: Tool = Tool {
    name: "a C++ compiler",
    is_present: || shell::output_of(&["c++", "--version"]).is_some(),
    source: Source::Debian("g++"),
};

/// A second compiler of C and C++, which warns of other things, and its sanitizers.
pub(crate) const CLANG: Tool = Tool {
    name: "clang for C and C++, with its sanitizers",
    is_present: || {
        let folder = shell::output_of(&["clang", "--print-runtime-dir"]);
        let files = folder.and_then(|folder| std::fs::read_dir(folder.trim()).ok());
        let mut names = files.into_iter().flatten().flatten().map(|file| file.file_name());
        shell::output_of(&["clang++", "--version"]).is_some()
            && names.any(|name| name.to_string_lossy().starts_with("libclang_rt.asan"))
    },
    source: Source::Debian("clang libclang-rt-dev"),
};

pub(crate) const VALGRIND: Tool = Tool {
    name: "valgrind",
    is_present: || shell::output_of(&["valgrind", "--version"]).is_some(),
    source: Source::Debian("valgrind"),
};

/// For programs in C that find the installed library as others do.
pub(crate) const CMAKE: Tool = Tool {
    name: "cmake",
    is_present: || shell::output_of(&["cmake", "--version"]).is_some(),
    source: Source::Debian("cmake make"),
};

/// For the project that has this one as a subproject.
pub(crate) const MESON: Tool = Tool {
    name: "meson",
    is_present: || {
        shell::output_of(&["meson", "--version"]).is_some()
            && shell::output_of(&["ninja", "--version"]).is_some()
    },
    source: Source::Debian("meson ninja-build"),
};

pub(crate) const PKG_CONFIG: Tool = Tool {
    name: "pkg-config",
    is_present: || shell::output_of(&["pkg-config", "--version"]).is_some(),
    source: Source::Debian("pkg-config"),
};

/// The loader, and a driver for the processor.
pub(crate) const OPENCL: Tool = Tool {
    name: "an OpenCL driver",
    is_present: || {
        let has_driver =
            std::fs::read_dir("/etc/OpenCL/vendors").is_ok_and(|mut files| files.next().is_some());
        let libraries = shell::output_of(&["/sbin/ldconfig", "--print-cache"]);
        has_driver && libraries.is_some_and(|list| list.contains("libOpenCL.so.1"))
    },
    source: Source::Debian("pocl-opencl-icd ocl-icd-libopencl1"),
};

/// The library that moves messages, and its headers, which a test compares layouts with.
pub(crate) const UCX: Tool = Tool {
    name: "UCX and its headers",
    is_present: || {
        let libraries = shell::output_of(&["/sbin/ldconfig", "--print-cache"]);
        std::path::Path::new("/usr/include/ucp/api/ucp.h").is_file()
            && libraries.is_some_and(|list| list.contains("libucp.so.0"))
    },
    source: Source::Debian("libucx0 libucx-dev"),
};

/// The loader, a driver for the processor, and the layer that finds the mistakes of whoever calls
/// Vulkan.
pub(crate) const VULKAN: Tool = Tool {
    name: "a Vulkan driver and the validation layer",
    is_present: || {
        let has_driver = std::fs::read_dir("/usr/share/vulkan/icd.d")
            .is_ok_and(|mut files| files.next().is_some());
        let layers = "/usr/share/vulkan/explicit_layer.d/VkLayer_khronos_validation.json";
        let libraries = shell::output_of(&["/sbin/ldconfig", "--print-cache"]);
        has_driver
            && std::path::Path::new(layers).is_file()
            && libraries.is_some_and(|list| list.contains("libvulkan.so.1"))
    },
    source: Source::Debian("mesa-vulkan-drivers libvulkan1 vulkan-validationlayers"),
};

/// A library for WebGPU, which needs a driver of Vulkan.
pub(crate) const WEBGPU: Tool = Tool {
    name: "wgpu-native, in a wheel",
    is_present: peers::has_webgpu,
    source: Source::Python(peers::install_webgpu),
};

/// Makes certificates for servers of tests.
pub(crate) const OPENSSL: Tool = Tool {
    name: "openssl",
    is_present: || shell::output_of(&["openssl", "version"]).is_some(),
    source: Source::Debian("openssl"),
};

/// Downloads packages.
pub(crate) const NPM: Tool =
    Tool { name: "npm", is_present: peers::has_npm, source: Source::Debian("npm") };

/// Another library for WebGPU, which needs a newer driver of Vulkan, such as SwiftShader.
pub(crate) const DAWN: Tool = Tool {
    name: "Dawn, in a package of npm",
    is_present: peers::has_dawn,
    source: Source::Python(peers::install_dawn),
};

/// A Verilog simulator, whose design is a device.
pub(crate) const ICARUS: Tool = Tool {
    name: "Icarus Verilog",
    is_present: || {
        shell::output_of(&["iverilog", "-V"]).is_some()
            && shell::output_of(&["vvp", "-V"]).is_some()
    },
    source: Source::Debian("iverilog"),
};

/// Makes a library of a Verilog design, which a program runs itself.
pub(crate) const VERILATOR: Tool = Tool {
    name: "Verilator",
    is_present: || {
        shell::output_of(&["verilator", "--version"]).is_some()
            && shell::output_of(&["make", "--version"]).is_some()
    },
    source: Source::Debian("verilator make"),
};

/// The compiler of the library that stands for Metal.
pub(crate) const OBJECTIVE_C: Tool = Tool {
    name: "a compiler for Objective-C",
    is_present: || {
        shell::output_of(&["gcc", "-print-prog-name=cc1obj"])
            .is_some_and(|path| std::path::Path::new(path.trim()).is_absolute())
    },
    source: Source::Debian("gobjc"),
};

/// The vendor's library. Without a GPU it is only asked whether there is one.
pub(crate) const ROCM: Tool = Tool {
    name: "HIP's library",
    is_present: || {
        let libraries = shell::output_of(&["/sbin/ldconfig", "--print-cache"]);
        libraries.is_some_and(|list| list.contains("libamdhip64.so."))
    },
    source: Source::Debian("libamdhip64-5"),
};

/// The header that the simulated functions are held against.
pub(crate) const HIP_HEADERS: Tool = Tool {
    name: "the headers of HIP",
    is_present: || std::path::Path::new("/usr/include/hip/hip_runtime_api.h").exists(),
    source: Source::Debian("libamdhip64-dev"),
};

pub(crate) const CUDA_HEADERS: Tool = Tool {
    name: "cuda.h of two majors, in wheels",
    is_present: peers::has_headers,
    source: Source::Python(peers::install_headers),
};

/// Looks at the pages that the command draws.
pub(crate) const CHROMIUM: Tool = Tool {
    name: "the browser chromium",
    is_present: || shell::output_of(&["chromium", "--version"]).is_some(),
    source: Source::Debian("chromium"),
};

/// Runs arrow-java, which comes in a package of Python's.
pub(crate) const JAVA: Tool = Tool {
    name: "a virtual machine for Java",
    is_present: || shell::output_of(&["java", "-version"]).is_some(),
    source: Source::Debian("default-jre-headless"),
};

/// Another driver of Vulkan for the processor, which Debian has in the browser's package alone.
pub(crate) const SWIFTSHADER: Tool = Tool {
    name: "SwiftShader, in the package of chromium",
    is_present: || std::path::Path::new("/usr/lib/chromium/vk_swiftshader_icd.json").is_file(),
    source: Source::Debian("chromium"),
};

pub(crate) const MIRI: Tool = Tool {
    name: "nightly Rust with miri and rust-src",
    is_present: || {
        let list = ["rustup", "component", "list", "--installed", "--toolchain", "nightly"];
        shell::output_of(&list)
            .is_some_and(|components| ["miri", "rust-src"].iter().all(|c| components.contains(c)))
    },
    source: Source::Rustup(&[
        "nightly",
        "--profile=minimal",
        "--component=miri",
        "--component=rust-src",
    ]),
};

/// Rust's sanitizers are part of it for a few targets only, and the tests are run on the host.
pub(crate) const SANITIZED_TARGET: Tool = Tool {
    name: "Linux with glibc on x86-64",
    is_present: || cfg!(all(target_arch = "x86_64", target_os = "linux", target_env = "gnu")),
    source: Source::ByHand("run this tier there"),
};

pub(crate) const OLDEST_TOOLCHAIN: Tool = Tool {
    name: concat!("Rust ", env!("CARGO_PKG_RUST_VERSION")),
    is_present: || {
        shell::output_of(&["rustup", "run", OLDEST_RUST, "cargo", "--version"]).is_some()
    },
    source: Source::Rustup(&[OLDEST_RUST, "--profile=minimal"]),
};

/// A target whose addresses have 32 bits. Checking needs its standard library and nothing else.
pub(crate) const SMALL_TARGET: Tool = Tool {
    name: concat!("Rust ", env!("CARGO_PKG_RUST_VERSION"), " for i686-unknown-linux-gnu"),
    is_present: || {
        let list = ["rustup", "target", "list", "--installed", "--toolchain", OLDEST_RUST];
        shell::output_of(&list).is_some_and(|targets| targets.contains("i686-unknown-linux-gnu"))
    },
    source: Source::Rustup(&[OLDEST_RUST, "--profile=minimal", "--target=i686-unknown-linux-gnu"]),
};

pub(crate) const CARGO_DENY: Tool = Tool {
    name: "cargo-deny",
    is_present: || shell::output_of(&["cargo", "deny", "--version"]).is_some(),
    source: Source::Crate("cargo-deny"),
};

pub(crate) const PYTHON: Tool = Tool {
    name: "Python 3 with venv",
    is_present: peers::has_python,
    source: Source::Debian("python3-venv"),
};

pub(crate) const PEER_WHEELS: Tool = Tool {
    name: "Arrow C++, in the pyarrow wheel, and numpy",
    is_present: peers::has_wheels,
    source: Source::Python(peers::install_wheels),
};

pub(crate) const PEER_SOURCES: Tool = Tool {
    name: "the sources of nanoarrow",
    is_present: peers::has_sources,
    source: Source::Python(peers::install_sources),
};

pub(crate) const PYTHON_PACKAGES: Tool = Tool {
    name: "the libraries that the Python package is tested against",
    is_present: python::has_packages,
    source: Source::Python(python::install_packages),
};

pub(crate) const JAX: Tool =
    Tool { name: "JAX", is_present: python::has_jax, source: Source::Python(python::install_jax) };

/// In an environment of its own: Ray brings many packages.
pub(crate) const RAY: Tool = Tool {
    name: "Ray and Dask",
    is_present: python::has_ray,
    source: Source::Python(python::install_ray),
};

/// Three quarters of a gigabyte, in an environment of its own.
pub(crate) const SYCL: Tool = Tool {
    name: "dpctl, dpnp and Intel's SYCL runtime for processors",
    is_present: oneapi::has_packages,
    source: Source::Python(oneapi::install_packages),
};

/// Six gigabytes, CUDA among them: PyPI has no other for Linux on x86-64.
pub(crate) const TORCH: Tool = Tool {
    name: "PyTorch",
    is_present: python::has_torch,
    source: Source::ByHand("target/python/env/bin/pip install torch"),
};

/// Builds the book. Installing compiles mdBook, which takes minutes.
pub(crate) const MDBOOK: Tool = Tool {
    name: "mdbook",
    is_present: || shell::output_of(&["mdbook", "--version"]).is_some(),
    source: Source::Crate("mdbook"),
};

pub(crate) const CARGO_FUZZ: Tool = Tool {
    name: "cargo-fuzz",
    is_present: || shell::output_of(&["cargo", "fuzz", "--version"]).is_some(),
    source: Source::Crate("cargo-fuzz"),
};

/// What is checked by the compiler and run nowhere.
pub(crate) const CHECKED_TARGETS: Tool = Tool {
    name: "Rust for macOS, Android, Windows, FreeBSD and WASI",
    is_present: || has_targets(CHECKED),
    source: Source::Targets(CHECKED),
};

/// Their names, in order.
pub(crate) const CHECKED: &[&str] = &[
    "aarch64-apple-darwin",
    "aarch64-linux-android",
    "wasm32-wasip1",
    "x86_64-pc-windows-msvc",
    "x86_64-unknown-freebsd",
];

pub(crate) const WASM_TARGET: Tool = Tool {
    name: "Rust for WebAssembly",
    is_present: || has_targets(&["wasm32-unknown-unknown"]),
    source: Source::Targets(&["wasm32-unknown-unknown"]),
};

pub(crate) const AARCH64_TARGET: Tool = Tool {
    name: "Rust for aarch64",
    is_present: || has_targets(&["aarch64-unknown-linux-gnu"]),
    source: Source::Targets(&["aarch64-unknown-linux-gnu"]),
};

pub(crate) const ARMV7_TARGET: Tool = Tool {
    name: "Rust for armv7",
    is_present: || has_targets(&["armv7-unknown-linux-gnueabihf"]),
    source: Source::Targets(&["armv7-unknown-linux-gnueabihf"]),
};

pub(crate) const S390X_TARGET: Tool = Tool {
    name: "Rust for s390x",
    is_present: || has_targets(&["s390x-unknown-linux-gnu"]),
    source: Source::Targets(&["s390x-unknown-linux-gnu"]),
};

pub(crate) const I686_TARGET: Tool = Tool {
    name: "Rust for i686",
    is_present: || has_targets(&["i686-unknown-linux-gnu"]),
    source: Source::Targets(&["i686-unknown-linux-gnu"]),
};

pub(crate) const MUSL_TARGET: Tool = Tool {
    name: "Rust for musl",
    is_present: || has_targets(&["x86_64-unknown-linux-musl"]),
    source: Source::Targets(&["x86_64-unknown-linux-musl"]),
};

pub(crate) const WINDOWS_TARGET: Tool = Tool {
    name: "Rust for Windows",
    is_present: || has_targets(&["x86_64-pc-windows-gnu"]),
    source: Source::Targets(&["x86_64-pc-windows-gnu"]),
};

/// Whether the toolchain in use has the standard libraries of these targets.
fn has_targets(targets: &[&str]) -> bool {
    let installed = shell::output_of(&["rustup", "target", "list", "--installed"]);
    installed.is_some_and(|list| {
        targets.iter().all(|target| list.lines().any(|line| line.trim() == *target))
    })
}

pub(crate) const NODE: Tool = Tool {
    name: "node",
    is_present: || shell::output_of(&["node", "--version"]).is_some(),
    source: Source::Debian("nodejs"),
};

/// Builds the package for JavaScript, and compares what it does.
pub(crate) const NPM_PACKAGES: Tool = Tool {
    name: "apache-arrow for JavaScript and TypeScript",
    is_present: browser::has_packages,
    source: Source::Python(browser::install_packages),
};

/// Runs programs of other processors.
pub(crate) const QEMU: Tool = Tool {
    name: "qemu for programs of other processors",
    is_present: || {
        ["qemu-aarch64", "qemu-arm", "qemu-s390x"]
            .iter()
            .all(|program| shell::output_of(&[program, "--version"]).is_some())
    },
    source: Source::Debian("qemu-user"),
};

/// Compiles and runs programs for a Hexagon DSP.
pub(crate) const HEXAGON_TOOLS: Tool = Tool {
    name: "clang, lld and qemu for Hexagon DSPs",
    is_present: || {
        ["clang-14", "ld.lld-14", "qemu-hexagon"]
            .iter()
            .all(|program| shell::output_of(&[program, "--version"]).is_some())
    },
    source: Source::Debian("clang-14 lld-14 qemu-user"),
};

pub(crate) const AARCH64_TOOLS: Tool = Tool {
    name: "C and C++ compilers for aarch64",
    is_present: || {
        ["aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++"]
            .iter()
            .all(|program| shell::output_of(&[program, "--version"]).is_some())
    },
    source: Source::Debian("gcc-aarch64-linux-gnu g++-aarch64-linux-gnu libc6-dev-arm64-cross"),
};

pub(crate) const ARMV7_TOOLS: Tool = Tool {
    name: "a C compiler for armv7",
    is_present: || shell::output_of(&["arm-linux-gnueabihf-gcc", "--version"]).is_some(),
    source: Source::Debian("gcc-arm-linux-gnueabihf libc6-dev-armhf-cross"),
};

pub(crate) const S390X_TOOLS: Tool = Tool {
    name: "a C compiler for s390x",
    is_present: || shell::output_of(&["s390x-linux-gnu-gcc", "--version"]).is_some(),
    source: Source::Debian("gcc-s390x-linux-gnu libc6-dev-s390x-cross"),
};

/// Debian's compiler for two sizes of addresses excludes those for other processors, so this is one
/// for i686 alone, and what its programs load.
pub(crate) const I686_TOOLS: Tool = Tool {
    name: "a C compiler and a C library for i686",
    is_present: || {
        let has = |path| std::path::Path::new(path).exists();
        shell::output_of(&["i686-linux-gnu-gcc", "--version"]).is_some()
            && has("/lib/ld-linux.so.2")
            && has("/usr/lib32/libgcc_s.so.1")
    },
    source: Source::Debian("gcc-i686-linux-gnu libc6-dev-i386-cross libc6-i386 lib32gcc-s1"),
};

pub(crate) const MINGW: Tool = Tool {
    name: "a C compiler for Windows",
    is_present: || shell::output_of(&["x86_64-w64-mingw32-gcc", "--version"]).is_some(),
    source: Source::Debian("gcc-mingw-w64-x86-64-posix"),
};

pub(crate) const WINE: Tool = Tool {
    name: "Wine",
    is_present: || shell::output_of(&["wine", "--version"]).is_some(),
    source: Source::Debian("wine wine64"),
};

/// Streams that other Arrow implementations wrote. They belong to those projects and are not copied
/// into this one.
pub(crate) const GOLDEN_FILES: Tool = Tool {
    name: "the golden files",
    is_present: || {
        std::env::var_os("ARROW_DEVICE_GOLDEN")
            .map_or_else(|| shell::root().join("../shared/data/golden"), Into::into)
            .is_dir()
    },
    source: Source::ByHand(
        "set ARROW_DEVICE_GOLDEN to a folder with the Arrow project's `generated_*.stream` files",
    ),
};

/// A tool that is never there, and could be installed.
#[cfg(test)]
pub(crate) const ABSENT: Tool =
    Tool { name: "an absent tool", is_present: || false, source: Source::Debian("absent") };

impl Tool {
    pub(crate) fn is_present(&self) -> bool {
        (self.is_present)()
    }

    /// Whether `--setup` can install it, so that doing without is a choice.
    pub(crate) fn is_installable(&self) -> bool {
        !matches!(self.source, Source::ByHand(_))
    }

    /// How a reader gets the tool.
    pub(crate) fn advice(&self) -> String {
        match self.source {
            Source::Debian(packages) => {
                format!("install {packages} with apt-get, or pass --setup to `cargo xtask test`")
            }
            Source::Rustup(words) => format!("rustup toolchain install {}", words.join(" ")),
            Source::Targets(targets) => format!("rustup target add {}", targets.join(" ")),
            Source::Crate(name) => format!("cargo install --locked {name}"),
            Source::Python(_) => "pass --setup to `cargo xtask test`".to_owned(),
            Source::ByHand(text) => text.to_owned(),
        }
    }
}

/// The user's rustup is not ours to change: by default it replaces itself when it installs a
/// toolchain.
const RUSTUP_INSTALL: &[&str] = &["rustup", "toolchain", "install", "--no-self-update"];

/// Installs those of the tools that are missing. Each failure is printed and is no error here: what
/// needs the tool is then skipped, or fails, by the same rule as ever.
pub(crate) fn install(tools: &[Tool]) {
    let mut packages = Vec::new();
    let (mut commands, mut functions) = (Vec::new(), Vec::new());
    for tool in tools.iter().filter(|tool| tool.is_installable() && !tool.is_present()) {
        match tool.source {
            Source::Debian(names) => packages.extend(names.split(' ')),
            Source::Rustup(words) => commands.push([RUSTUP_INSTALL, words].concat()),
            Source::Targets(targets) => {
                commands.push([&["rustup", "target", "add"], targets].concat());
            }
            // Without optimization: such a program runs for seconds, and is built for minutes.
            Source::Crate(name) => {
                commands.push(vec!["cargo", "install", "--locked", "--debug", name]);
            }
            Source::Python(function) => functions.push(function),
            Source::ByHand(_) => {}
        }
        println!("setup: will install {}", tool.name);
    }
    if packages.is_empty() && commands.is_empty() && functions.is_empty() {
        println!("setup: nothing to install");
        return;
    }
    let of_packages = if packages.is_empty() { Ok(()) } else { install_packages(&packages) };
    let of_commands = commands.iter().map(|words| shell::run(words, &[]));
    let of_functions = functions.into_iter().map(|function| function());
    let all = std::iter::once(of_packages).chain(of_commands).chain(of_functions);
    for problem in all.filter_map(Result::err) {
        println!("setup: {problem}");
    }
}

/// Debian packages, as root or through sudo.
fn install_packages(packages: &[&str]) -> Result<(), String> {
    let wanted = packages.join(" ");
    if shell::output_of(&["apt-get", "--version"]).is_none() {
        return Err(format!("no apt-get here: install what your system calls {wanted}"));
    }
    let is_root = shell::output_of(&["id", "-u"]).is_some_and(|id| id.trim() == "0");
    let prefix: &[&str] = if is_root {
        &[]
    } else if shell::output_of(&["sudo", "--version"]).is_none() {
        return Err(format!("neither root nor sudo: have someone run `apt-get install {wanted}`"));
    } else if shell::in_ci() {
        &["sudo", "--non-interactive"]
    } else {
        &["sudo"]
    };
    let quiet = [("DEBIAN_FRONTEND", "noninteractive")];
    shell::run(&[prefix, &["apt-get", "update", "--quiet"]].concat(), &quiet)?;
    let install = ["apt-get", "install", "--quiet", "--yes", "--no-install-recommends"];
    shell::run(&[prefix, &install, packages].concat(), &quiet)
}
