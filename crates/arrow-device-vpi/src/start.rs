//! Starts a simulator as a child process, or connects to one.
//!
//! `vvp` looks for a module by its name with `.vpi` behind, in a folder that it is told. So each
//! simulator gets a folder of its own, with a link to the module and, where the design has to be
//! compiled, with the compiled design. The child's standard input is its end of the connection:
//! nobody else can connect, and the simulator ends when this process does, or with the last child
//! of `fork` that has the descriptor of this process's end, too.

use std::ffi::OsStr;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arrow_device::{Error, ErrorKind, Result};

use crate::options::{Options, RAM_WITH_DMA, Source, TOP};

/// The variable that names the module.
const MODULE: &str = "ARROW_DEVICE_VPI_MODULE";
/// The module, as Cargo calls it.
#[cfg(target_os = "macos")]
const BUILT: &str = "libarrow_device_vpi_module.dylib";
#[cfg(not(target_os = "macos"))]
const BUILT: &str = "libarrow_device_vpi_module.so";
/// The folder of an installed module, below that of libraries.
const PRIVATE: &str = "arrow-device";
/// The name of the link to the module.
const LINKED: &str = "arrow_device";
/// How long a simulator may take to end after its connection was closed.
const FAREWELL: Duration = Duration::from_secs(5);

/// The child process of a simulator, which ends with this value.
#[derive(Debug)]
pub(crate) struct Process {
    child: Option<Child>,
    /// What the simulator is started with, until it has read that.
    folder: Option<Folder>,
}

impl Process {
    pub(crate) fn id(&self) -> u32 {
        self.child.as_ref().map_or(0, Child::id)
    }

    /// Removes what the simulator was started with. The simulator has greeted, so it has loaded the
    /// design and the module. A process that ends without a word leaves no folder behind then.
    pub(crate) fn has_started(&mut self) {
        self.folder = None;
    }

    /// Waits until the simulator has ended, whose connection is closed. Returns the reason with
    /// what is known of the end.
    pub(crate) fn end(mut self, reason: &str) -> String {
        let Some(mut child) = self.child.take() else { return reason.to_owned() };
        let deadline = Instant::now() + FAREWELL;
        while Instant::now() < deadline {
            match child.try_wait() {
                Ok(Some(status)) if status.success() => return reason.to_owned(),
                Ok(Some(status)) => return format!("{reason} ({status})"),
                Ok(None) => std::thread::sleep(Duration::from_millis(2)),
                Err(_) => break,
            }
        }
        kill(&mut child);
        format!("{reason} (the simulator did not end, and was killed)")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            kill(&mut child);
        }
    }
}

fn kill(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}

/// A folder of this process, which is removed with this value.
#[derive(Debug)]
struct Folder(PathBuf);

impl Folder {
    fn new() -> io::Result<Self> {
        Self::within(&std::env::temp_dir())
    }

    /// Makes the folder. What is there already may be anybody's, and is not used: a process that
    /// was killed leaves its folder to a later process of the same number.
    fn within(place: &Path) -> io::Result<Self> {
        const MOST_TRIES: usize = 1000;
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let mut tries = 0;
        loop {
            tries += 1;
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("arrow-device-vpi-{}-{number}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists && tries < MOST_TRIES => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Reaches the simulator of the options: the connection, and the child process if it is one.
pub(crate) fn reach(options: &Options) -> Result<(UnixStream, Option<Process>)> {
    if let Source::Socket(path) = &options.source {
        let stream = UnixStream::connect(path).map_err(|error| {
            let message = format!("no simulator listens at {}: {error}", path.display());
            Error::new(ErrorKind::DeviceMissing, message).during("open")
        })?;
        return Ok((stream, None));
    }
    if let Source::Connection(stream) = &options.source {
        let stream = stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        let stream = stream.ok_or_else(|| {
            let message = "the connection to the simulator is that of another device already";
            Error::new(ErrorKind::InvalidArgument, message).during("open")
        })?;
        return Ok((stream, None));
    }
    let module = module()?;
    let folder = Folder::new().map_err(|error| failed("a folder for the simulator", &error))?;
    let link = folder.0.join(LINKED).with_extension("vpi");
    symlink(&module, link).map_err(|error| failed("a link to the VPI module", &error))?;
    let design = match &options.source {
        Source::Compiled(design) => design.clone(),
        Source::Verilog(sources) => compile(sources, &folder.0)?,
        Source::BuiltIn | Source::Socket(_) | Source::Connection(_) => {
            compile(&write_built_in(&folder.0)?, &folder.0)?
        }
    };
    let (host, input) =
        UnixStream::pair().map_err(|error| failed("a socket for the simulator", &error))?;
    let mut command = Command::new("vvp");
    command.arg("-n").arg("-M").arg(&folder.0).arg("-m").arg(LINKED).arg(&design);
    command.args(&options.arguments).env("ARROW_DEVICE_VPI_SOCKET", "-");
    // An interruption by the keyboard is the program's, which may catch it and go on.
    command.stdin(Stdio::from(OwnedFd::from(input))).process_group(0);
    if options.is_quiet {
        command.stdout(Stdio::null()).stderr(Stdio::null());
    }
    let child = command.spawn().map_err(|error| missing("vvp", &error))?;
    Ok((host, Some(Process { child: Some(child), folder: Some(folder) })))
}

fn write_built_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let write = |(name, text)| {
        let path = folder.join(name);
        let written = std::fs::write(&path, text);
        written.map(|()| path).map_err(|error| failed("the design", &error))
    };
    [("ram_with_dma.v", RAM_WITH_DMA), ("top.v", TOP)].into_iter().map(write).collect()
}

/// Compiles a design.
fn compile(sources: &[PathBuf], folder: &Path) -> Result<PathBuf> {
    let design = folder.join("design.vvp");
    let mut command = Command::new("iverilog");
    command.arg("-g2012").arg("-o").arg(&design).args(sources).stdin(Stdio::null());
    let output = command.output().map_err(|error| missing("iverilog", &error))?;
    if output.status.success() {
        return Ok(design);
    }
    let text = String::from_utf8_lossy(&output.stderr);
    let message = format!("iverilog does not compile the design: {}", text.trim());
    Err(Error::new(ErrorKind::InvalidArgument, message).during("open"))
}

/// The name and the version of the simulator that would be started.
pub(crate) fn version() -> Result<String> {
    let run = |program| {
        let mut command = Command::new(program);
        command.arg("-V").stdin(Stdio::null());
        command.output().map_err(|error| missing(program, &error))
    };
    run("iverilog")?;
    // Some versions write to the one, some to the other.
    let output = run("vvp")?;
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    let line = text.lines().find(|line| line.contains("version")).unwrap_or_default();
    Ok(line.replace(" runtime", "").trim().to_owned())
}

fn missing(program: &str, error: &io::Error) -> Error {
    let message = match error.kind() {
        io::ErrorKind::NotFound => {
            format!("`{program}` of Icarus Verilog was not found: install it (Debian: iverilog)")
        }
        _ => format!("`{program}` of Icarus Verilog cannot be run: {error}"),
    };
    Error::new(ErrorKind::DriverMissing, message).during("open")
}

fn failed(what: &str, error: &io::Error) -> Error {
    Error::new(ErrorKind::Driver, format!("{what} cannot be made: {error}")).during("open")
}

/// Where the module is: where the variable says, or else around the program, or else around the
/// library that has this code.
pub(crate) fn module() -> Result<PathBuf> {
    if let Some(named) = std::env::var_os(MODULE).filter(|named| !named.is_empty()) {
        return check(PathBuf::from(named));
    }
    let program = std::env::current_exe().ok();
    let mut places = [program, this_library()].into_iter().flatten().flat_map(|file| places(&file));
    let found = places.find(|place| place.is_file());
    found.ok_or_else(|| {
        let message = format!(
            "the VPI module for the simulator was not found: build the crate \
             arrow-device-vpi-module, and put {BUILT} beside the program or name it in {MODULE}"
        );
        Error::new(ErrorKind::DriverMissing, message).during("open")
    })
}

/// Where the module of a program or a library may be. Cargo leaves it beside the program, or in the
/// folder `deps` there or one folder up. An installed library has it in the folder `arrow-device`
/// beside the library, and a Python package beside its module. An installed program has it beside
/// the program, or where an installed library of the same prefix has it.
fn places(file: &Path) -> Vec<PathBuf> {
    let of_processor = format!("lib/{}-linux-gnu/{PRIVATE}", std::env::consts::ARCH);
    let below =
        ["", "deps", PRIVATE, "lib", "lib/arrow-device", "lib64/arrow-device", &of_processor];
    let folders = file.ancestors().skip(1).take(2);
    folders.flat_map(|folder| below.map(|below| folder.join(below).join(BUILT))).collect()
}

fn check(module: PathBuf) -> Result<PathBuf> {
    // `vvp` resolves the link from the link's own folder.
    std::fs::canonicalize(&module).map_err(|error| {
        let message = format!("{MODULE}={}: {error}", module.display());
        Error::new(ErrorKind::DriverMissing, message).during("open")
    })
}

/// The file of the library or the program that has this code.
fn this_library() -> Option<PathBuf> {
    use std::os::unix::ffi::OsStrExt;
    let mut found = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
    let here = this_library as *const libc::c_void;
    // SAFETY: any address may be asked about, and there is room for the answer (dladdr(3)).
    let is_found = unsafe { libc::dladdr(here, found.as_mut_ptr()) } != 0;
    // SAFETY: all zeroes are a valid `Dl_info`: its members are pointers and the call fills them
    // in.
    let found = unsafe { found.assume_init() };
    if !is_found || found.dli_fname.is_null() {
        return None;
    }
    // SAFETY: the loader's name of the file, which ends with a zero and stays as long as the
    // library is loaded; this code is in the library.
    let name = unsafe { std::ffi::CStr::from_ptr(found.dli_fname) };
    std::fs::canonicalize(OsStr::from_bytes(name.to_bytes())).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_module_of_an_installed_program_is_beside_it_or_in_the_folder_of_libraries() {
        let places = places(Path::new("/usr/bin/arrow-device"));
        let of_debian = format!("/usr/lib/{}-linux-gnu/arrow-device", std::env::consts::ARCH);
        let folders = ["/usr/bin", "/usr/bin/deps", "/usr", "/usr/lib", "/usr/lib/arrow-device"];
        for folder in folders.into_iter().chain([of_debian.as_str()]) {
            assert!(places.contains(&Path::new(folder).join(BUILT)), "{folder}: {places:?}");
        }
    }

    #[test]
    fn the_module_of_an_installed_library_is_in_a_folder_beside_it() {
        for folder in ["/usr/lib", "/usr/lib/x86_64-linux-gnu", "/opt/lib64"] {
            let places = places(&Path::new(folder).join("libarrow_device.so.0"));
            let module = Path::new(folder).join("arrow-device").join(BUILT);
            assert!(places.contains(&module), "{folder}: {places:?}");
        }
    }

    #[test]
    fn a_folder_that_is_there_already_is_not_used() {
        let place = Folder::new().unwrap();
        let first = Folder::within(&place.0).unwrap();
        let name = first.0.file_name().unwrap().to_string_lossy().into_owned();
        let (before, number) = name.rsplit_once('-').unwrap();
        let number: u64 = number.parse().unwrap();
        // Other tests take numbers meanwhile.
        for number in number + 1..number + 30 {
            std::fs::create_dir(place.0.join(format!("{before}-{number}"))).unwrap();
        }
        let second = Folder::within(&place.0).unwrap();
        assert_eq!(std::fs::read_dir(&second.0).unwrap().count(), 0);
        assert_eq!(std::fs::read_dir(&place.0).unwrap().count(), 31);
    }
}
