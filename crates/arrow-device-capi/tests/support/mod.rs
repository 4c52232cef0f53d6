//! What the tests share: where things are, compilers and tools, an installed library.
#![allow(dead_code, clippy::unwrap_used, clippy::panic, clippy::indexing_slicing)]

pub(crate) mod face;
pub(crate) mod interface;
pub(crate) mod lab;
pub(crate) mod objects;
pub(crate) mod software;

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use arrow_device_testkit::required::skip;
use interface::Interface;

pub(crate) const ROOT: &str = env!("CARGO_MANIFEST_DIR");
/// What a careful program is compiled with.
pub(crate) const WARNINGS: &[&str] =
    &["-Wall", "-Wextra", "-pedantic", "-Wconversion", "-Wsign-conversion", "-Wshadow", "-Werror"];
pub(crate) const SANITIZERS: &[&str] =
    &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// The header, with the other headers of this crate in the places where they are included.
pub(crate) fn header() -> String {
    header_in(&Path::new(ROOT).join("include/arrow_device"))
}

/// The header in a folder, with the other headers of the folder in the places where they are
/// included.
pub(crate) fn header_in(folder: &Path) -> String {
    let read = |name: &str| fs::read_to_string(folder.join(name)).unwrap();
    let mut header = read("arrow_device.h");
    for name in ["vulkan.h", "oneapi.h", "driver.h", "schema.h", "share.h"] {
        let include = format!("#include \"{name}\"\n");
        // Version 0.1 has three of them.
        let is_there = folder.join(name).exists();
        assert_eq!(header.matches(&include).count(), usize::from(is_there), "{name}");
        if is_there {
            header = header.replace(&include, &read(name));
        }
    }
    header
}

/// What the Rust sources export.
pub(crate) fn exported() -> Interface {
    let mut all = Interface::default();
    let mut aliases = String::new();
    let mut sources = Vec::new();
    for file in fs::read_dir(Path::new(ROOT).join("src")).unwrap() {
        let text = fs::read_to_string(file.unwrap().path()).unwrap();
        // Types of callbacks are used across files.
        let starts = |line: &&str| line.starts_with("pub type ") || line.starts_with("type ");
        for (at, _) in text.lines().enumerate().filter(|(_, line)| starts(line)) {
            let lines: Vec<&str> = text.lines().skip(at).collect();
            let end = lines.iter().position(|line| line.ends_with(';')).unwrap();
            aliases.push_str(&lines[..=end].join("\n"));
            aliases.push('\n');
        }
        sources.push(text);
    }
    for text in sources {
        all.extend(Interface::of_rust(&format!("{aliases}{text}")));
    }
    all
}

/// The header, the libraries and the files of build systems, in a folder of their own.
pub(crate) fn installed() -> &'static Path {
    static PREFIX: OnceLock<PathBuf> = OnceLock::new();
    PREFIX.get_or_init(|| {
        let prefix = fresh_path("prefix");
        let installer = Path::new(ROOT).join("install.sh");
        // Cargo leaves the libraries beside the tests that it builds them for.
        let test = env::current_exe().unwrap();
        let mut command = Command::new("sh");
        command
            .arg(installer)
            .arg("--prefix")
            .arg(&prefix)
            .arg("--from")
            .arg(test.parent().unwrap());
        assert_success("install.sh", &run(&mut command));
        prefix
    })
}

#[derive(Debug)]
pub(crate) struct Compiler {
    pub(crate) program: OsString,
    options: &'static [&'static str],
}

pub(crate) fn c(program: impl Into<OsString>) -> Compiler {
    Compiler { program: program.into(), options: &["-std=c11"] }
}

pub(crate) fn cpp(program: impl Into<OsString>) -> Compiler {
    Compiler { program: program.into(), options: &["-x", "c++", "-std=c++17"] }
}

pub(crate) fn c_compiler() -> Compiler {
    c(env::var_os("CC").unwrap_or_else(|| "cc".into()))
}

pub(crate) fn cpp_compiler() -> Compiler {
    cpp(env::var_os("CXX").unwrap_or_else(|| "c++".into()))
}

/// The compilers of the system for C and C++, and clang where programs are built for this system.
pub(crate) fn compilers() -> Vec<Compiler> {
    let mut compilers = vec![c_compiler(), cpp_compiler()];
    if env::var_os(arrow_device_testkit::process::RUNNER).is_some() {
        return compilers;
    }
    for clang in [c("clang"), cpp("clang++")] {
        if is_installed(&clang.program) {
            compilers.push(clang);
        } else {
            skip("clang", &format!("{} not found", clang.program.display()));
        }
    }
    compilers
}

/// The compilers of C++ that are there.
pub(crate) fn cpp_compilers() -> impl Iterator<Item = Compiler> {
    compilers().into_iter().filter(Compiler::is_cpp)
}

impl Compiler {
    pub(crate) fn is_cpp(&self) -> bool {
        self.options.contains(&"c++")
    }

    /// Every warning is an error, and a conversion that may lose something is a warning.
    pub(crate) fn command_without_library(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.options);
        command.args(WARNINGS).args(["-g", "-pthread"]);
        command
    }

    /// A command of the compiler, with the headers that are installed.
    pub(crate) fn command(&self) -> Command {
        let mut command = self.command_without_library();
        command.arg("-I").arg(installed().join("include"));
        command
    }

    /// Compiles a program and links it to the shared library.
    pub(crate) fn build(&self, source: &Path, options: &[&str]) -> PathBuf {
        let path = fresh_path(&source.file_stem().unwrap().to_string_lossy());
        let lib = installed().join("lib");
        let mut command = self.command();
        command.args(options).arg("-o").arg(&path).arg(source).args(["-x", "none"]);
        command.arg("-L").arg(&lib).arg("-larrow_device");
        command.arg(format!("-Wl,-rpath,{}", lib.display()));
        assert_success(&format!("{self:?} {}", source.display()), &run(&mut command));
        path
    }

    /// Whether programs can be compiled with AddressSanitizer and start.
    pub(crate) fn can_sanitize(&self) -> bool {
        let (source, path) = (fresh_path("empty.c"), fresh_path("empty"));
        fs::write(&source, "int main(void) { return 0; }\n").unwrap();
        let mut command = Command::new(&self.program);
        command.args(self.options).args(SANITIZERS).arg("-o").arg(&path).arg(&source);
        let can =
            run(&mut command).status.success() && run(&mut Command::new(&path)).status.success();
        if !can {
            skip("asan", &format!("{} has no AddressSanitizer", self.program.display()));
        }
        can
    }
}

pub(crate) fn valgrind() -> Option<Command> {
    if !has("valgrind") {
        return None;
    }
    let mut command = Command::new("valgrind");
    // What is kept for the process in a hash table looks as if it were possibly lost.
    command.args(["--quiet", "--leak-check=full", "--show-leak-kinds=definite"]);
    command.args(["--errors-for-leak-kinds=definite", "--error-exitcode=9"]);
    Some(command)
}

/// Whether a tool is there; says so where it is not, or fails where it has to be.
pub(crate) fn has(tool: &str) -> bool {
    let is_there = is_installed(OsStr::new(tool));
    if !is_there {
        skip(tool, &format!("{tool} not found"));
    }
    is_there
}

fn is_installed(program: &OsStr) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

/// A program that finds no driver: those of others are not what is looked at here.
pub(crate) fn without_drivers(command: &mut Command) -> &mut Command {
    for variable in [
        "OCL_ICD_VENDORS",
        "VK_DRIVER_FILES",
        "VK_ICD_FILENAMES",
        "ARROW_DEVICE_CUDA_LIBRARY",
        "ARROW_DEVICE_HIP_LIBRARY",
    ] {
        command.env(variable, "/nowhere");
    }
    command
}

pub(crate) fn run(command: &mut Command) -> Output {
    command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"))
}

pub(crate) fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}\n{err}")
}

pub(crate) fn assert_success(what: &str, output: &Output) {
    assert!(output.status.success(), "{what}: {}\n{}", output.status, text(output));
}

/// A path that no other test uses.
pub(crate) fn fresh_path(name: &str) -> PathBuf {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let number = COUNT.fetch_add(1, Relaxed);
    let test = env!("CARGO_CRATE_NAME");
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}-{number}-{name}"))
}
