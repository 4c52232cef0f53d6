//! The program on the DSP: compiled when it is first needed, and started.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The program's C text.
const TEXT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/dsp/dsp.c");

/// Chooses for which processor the program is compiled: `qemu` for a Hexagon DSP.
const VARIABLE: &str = "ARROW_DEVICE_HEXAGON_DSP";

/// Whether the program is one for a Hexagon DSP.
pub(crate) fn is_hexagon() -> bool {
    std::env::var(VARIABLE).is_ok_and(|chosen| chosen == "qemu")
}

/// Starts the program for a ring of this process. An error says which tool is missing.
pub(crate) fn start(ring: i32) -> Result<Child, String> {
    static BUILT: OnceLock<Result<Built, String>> = OnceLock::new();
    let built = BUILT.get_or_init(build).as_ref().map_err(Clone::clone)?;
    let mut command = match is_hexagon() {
        true => {
            let mut command = Command::new("qemu-hexagon");
            command.arg(&built.program);
            command
        }
        false => Command::new(&built.program),
    };
    command.args([std::process::id().to_string(), ring.to_string()]).stdin(Stdio::null());
    command.spawn().map_err(|problem| format!("{}: {problem}", built.program.display()))
}

/// A program in a folder of its own, which is removed when the process ends.
struct Built {
    program: PathBuf,
}

fn build() -> Result<Built, String> {
    let folder = std::env::temp_dir().join(format!("simulated-hexagon-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|problem| problem.to_string())?;
    let program = folder.join("dsp");
    match is_hexagon() {
        true => {
            let object = folder.join("dsp.o");
            let target = ["--target=hexagon-unknown-linux-musl", "-mcpu=hexagonv67"];
            let clang = ["-O2", "-ffreestanding", "-fno-builtin", "-c"];
            run("clang-14", &[&target[..], &clang[..]].concat(), Path::new(TEXT), &object)?;
            run("ld.lld-14", &["-static"], &object, &program)?;
        }
        false => run("cc", &["-O2", "-pthread"], Path::new(TEXT), &program)?,
    }
    // SAFETY: the function takes no arguments and does not unwind.
    unsafe { libc::atexit(remove) };
    Ok(Built { program })
}

/// Removes the folder at the end of the process that made it.
extern "C" fn remove() {
    let folder = std::env::temp_dir().join(format!("simulated-hexagon-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(folder);
}

fn run(tool: &str, arguments: &[&str], from: &Path, to: &Path) -> Result<(), String> {
    let mut command = Command::new(tool);
    let output = command.args(arguments).arg(from).arg("-o").arg(to).output();
    let output = output.map_err(|problem| format!("{tool}: {problem}"))?;
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{tool}: {}", String::from_utf8_lossy(&output.stderr))),
    }
}
