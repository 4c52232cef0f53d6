//! Makes a shared library of a design with Verilator, and runs the design on a thread.

use std::ffi::{c_char, c_int};
use std::os::fd::IntoRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::ptr;
use std::thread::JoinHandle;

use libloading::Library;

type Failure = Box<dyn std::error::Error>;
type Run = unsafe extern "C" fn(c_int, *const c_char) -> c_int;

/// Why designs cannot be verilated here.
pub(crate) fn is_available() -> Result<(), String> {
    for (program, package) in [("verilator", "verilator"), ("make", "make"), ("g++", "g++")] {
        let mut command = Command::new(program);
        command.arg("--version").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if !command.status().is_ok_and(|status| status.success()) {
            return Err(format!("`{program}` was not found: install it (Debian: {package})"));
        }
    }
    arrow_device_vpi::module().map(drop).map_err(|error| error.to_string())
}

/// A library with a design.
pub(crate) struct Design(Library);

impl Design {
    /// Makes the library of sources of this crate in a folder, where nothing is made anew that is
    /// there already.
    pub(crate) fn build(sources: &[&str], folder: &Path, more: &[&str]) -> Result<Self, Failure> {
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let headers = here.with_file_name("arrow-device-vpi-module").join("include");
        let module = arrow_device_vpi::module()?;
        let beside = module.parent().unwrap_or(Path::new(".")).display();
        let mut command = Command::new("verilator");
        // What a testbench reads and writes by the VPI has to be public. The design's `#5` needs
        // `--timing`.
        command.args(["--cc", "--vpi", "--public-flat-rw", "--timing", "-Wno-WIDTH"]);
        command.args(["--top-module", "arrow_device_top", "--prefix", "Vdesign"]);
        command.args(["--exe", "--build", "-o", "libdesign.so", "--Mdir"]).arg(folder);
        command.args(["-CFLAGS", &format!("-fPIC -I{}", headers.display())]);
        let link = format!("-shared -L{beside} -Wl,-rpath,{beside} -larrow_device_vpi_module");
        command.args(["-LDFLAGS", &link]).args(more);
        command.args(sources.iter().map(|source| here.join(source)));
        command.arg(here.join("examples/verilated/model.cpp"));
        let output = command.stdin(Stdio::null()).output()?;
        if !output.status.success() {
            let text = [output.stdout, output.stderr].concat();
            return Err(String::from_utf8_lossy(&text).into());
        }
        // SAFETY: the library that was just made has what C++ programs run when they begin, and
        // nothing else.
        Ok(Self(unsafe { Library::new(folder.join("libdesign.so")) }?))
    }

    /// Runs the design on a thread. The host opens the device at the other end of the socket. The
    /// library stays as long as the thread.
    pub(crate) fn run(self) -> Result<(UnixStream, JoinHandle<c_int>), Failure> {
        let (host, model) = UnixStream::pair()?;
        let thread = std::thread::spawn(move || {
            // SAFETY: `model.cpp` has the function with this type.
            let run = unsafe { self.0.get::<Run>(b"run_design\0") };
            // SAFETY: the socket becomes the design's, and this thread alone runs the design.
            run.map_or(2, |run| unsafe { run(model.into_raw_fd(), ptr::null()) })
        });
        Ok((host, thread))
    }
}
