//! The library's file: where it was built, and copies of it, each a library of its own to the
//! loader.
//!
//! A function that a driver is not to have loses its name in the copy: the table of names has
//! another one there.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Once;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The variable that names the built library, where it is not beside the test.
const VARIABLE: &str = "ARROW_DEVICE_SIMULATED_DRIVER";

const BUILT: &str = "libsimulated_gpu_drivers.so";

/// How the name of a folder with a copy begins. The number of the process follows, a line, and the
/// number of the copy.
const FOLDER: &str = "simulated-gpu-drivers-";

/// How old a copy is before it is removed. A younger copy may be one of a process that has another
/// list of processes, and has not loaded the copy yet.
const OLD: Duration = Duration::from_secs(600);

/// A copy in a folder of its own. Both go when the copy is dropped, by whoever made the copy; who
/// has loaded it keeps it. What a process leaves behind, because it was killed or because a static
/// holds the copy, is removed by the next process that makes a copy.
#[derive(Debug)]
pub(super) struct Copied {
    path: PathBuf,
    is_ours: bool,
}

impl Copied {
    pub(super) fn new(name: &str, without: &[String]) -> Result<Self, String> {
        let built = built()?;
        let said = |problem: std::io::Error| format!("{}: {problem}", built.display());
        let mut bytes = std::fs::read(&built).map_err(said)?;
        for name in without {
            hide(&mut bytes, name)?;
        }
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| remove_what_ended_processes_left(&std::env::temp_dir(), OLD));
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("{FOLDER}{}-{number}", std::process::id()));
        std::fs::create_dir_all(&folder).map_err(said)?;
        let path = folder.join(name);
        std::fs::write(&path, bytes).map_err(said)?;
        Ok(Self { path, is_ours: true })
    }

    /// The copy that another process has made.
    pub(super) fn of_another_process(path: PathBuf) -> Self {
        Self { path, is_ours: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        if !self.is_ours {
            return;
        }
        // What cannot be removed stays in the folder for temporary files.
        let _ = std::fs::remove_file(&self.path);
        if let Some(folder) = self.path.parent() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

/// Removes the folders of copies of some age whose process is no longer there: a copy has four
/// megabytes, and many tests kill the processes that hold one.
fn remove_what_ended_processes_left(temporary: &Path, age: Duration) {
    for entry in std::fs::read_dir(temporary).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let numbers = name.to_str().and_then(|name| name.strip_prefix(FOLDER));
        let process = numbers.and_then(|numbers| numbers.split('-').next());
        let Some(process) = process.and_then(|number| number.parse::<u32>().ok()) else {
            continue;
        };
        // Without `/proc` nothing can be said about other processes, and nothing is removed.
        let is_there = Path::new("/proc").join(process.to_string()).exists();
        let made = entry.metadata().and_then(|data| data.modified()).ok();
        let is_old = made.and_then(|made| made.elapsed().ok()).is_some_and(|passed| passed >= age);
        if is_old && !is_there && Path::new("/proc/self").exists() {
            // Another process may be removing the same folder.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Cargo leaves the library beside the test, or one folder up where the test is a program of its
/// own.
fn built() -> Result<PathBuf, String> {
    if let Some(named) = std::env::var_os(VARIABLE) {
        return Ok(named.into());
    }
    let test = std::env::current_exe().map_err(|problem| problem.to_string())?;
    let places = test
        .ancestors()
        .skip(1)
        .take(2)
        .flat_map(|folder| [folder.join(BUILT), folder.join("deps").join(BUILT)]);
    let mut tried = places.clone();
    places.into_iter().find(|place| place.is_file()).ok_or_else(|| {
        let first = tried.next().unwrap_or_default();
        format!("{} is not there: depend on the crate, or name it in {VARIABLE}", first.display())
    })
}

/// Gives a name in the table of exported names another first letter, which nobody asks for.
fn hide(file: &mut [u8], name: &str) -> Result<(), String> {
    let names = exported_names(file).and_then(|range| file.get_mut(range));
    let names = names.ok_or("the library is no ELF file of 64 bits")?;
    let wanted = [b"\0", name.as_bytes(), b"\0"].concat();
    let place = names.windows(wanted.len()).position(|window| *window == wanted);
    match place.and_then(|place| names.get_mut(place + 1)) {
        Some(letter) => {
            *letter = b'-';
            Ok(())
        }
        None => Err(format!("the library has no `{name}`")),
    }
}

/// Where the file has the names that loaders look up: the table of strings that is loaded with the
/// program.
fn exported_names(file: &[u8]) -> Option<Range<usize>> {
    let word = |at: usize| {
        let bytes = file.get(at..at.checked_add(8)?)?;
        Some(u64::from_le_bytes(bytes.try_into().ok()?) as usize)
    };
    let half = |at: usize| Some(word(at)? & 0xffff);
    if !file.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    // The header says where the sections are, how long each entry of theirs is, and how many there
    // are.
    let (first, size, count) = (word(0x28)?, half(0x3a)?, half(0x3c)?);
    (0..count).find_map(|number| {
        let section = number.checked_mul(size)?.checked_add(first)?;
        let (kind, flags) = (word(section + 4)? & 0xffff_ffff, word(section + 8)?);
        let (start, len) = (word(section + 24)?, word(section + 32)?);
        // A table of strings (3) that takes memory while the program runs (flag 2).
        (kind == 3 && flags & 2 != 0).then_some(start..start.checked_add(len)?)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_ended_processes_are_removed_and_no_others() {
        let temporary = std::env::temp_dir().join(format!("sweep-{}", std::process::id()));
        let mut ended = std::process::Command::new("true").spawn().unwrap();
        let gone = ended.id();
        ended.wait().unwrap();
        let ours = format!("{FOLDER}{}-0", std::process::id());
        let (theirs, other) = (format!("{FOLDER}{gone}-3"), "simulated-gpu-drivers-notes");
        for name in [ours.as_str(), &theirs, other] {
            std::fs::create_dir_all(temporary.join(name)).unwrap();
            std::fs::write(temporary.join(name).join("libcuda.so.1"), "a copy").unwrap();
        }
        let is_left = |name: &str| temporary.join(name).join("libcuda.so.1").exists();
        remove_what_ended_processes_left(&temporary, OLD);
        assert!(is_left(&theirs), "the copy is young");
        remove_what_ended_processes_left(&temporary, Duration::ZERO);
        assert!(is_left(&ours), "this process is there");
        assert!(is_left(other), "the name says no process");
        assert!(!temporary.join(&theirs).exists(), "its process has ended");
        std::fs::remove_dir_all(&temporary).unwrap();
    }

    #[test]
    fn a_name_is_hidden_and_no_other() {
        let mut file = std::fs::read(built().unwrap()).unwrap();
        let before = file.clone();
        hide(&mut file, "cuMemcpyBatchAsync").unwrap();
        let changed: Vec<usize> =
            (0..file.len()).filter(|place| file.get(*place) != before.get(*place)).collect();
        assert_eq!(changed.len(), 1, "{changed:?}");
        assert_eq!(&file[changed[0]..changed[0] + 19], b"-uMemcpyBatchAsync\0");
        assert!(hide(&mut file, "cuMemcpyBatchAsync").is_err(), "it is gone");
        assert!(hide(&mut file, "emcpyBatchAsync").is_err(), "the end of a name is none");
    }
}
