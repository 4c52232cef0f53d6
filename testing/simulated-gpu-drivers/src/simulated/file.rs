//! The library's file: where it was built, and copies of it, each a library of its own to the
//! loader.
//!
//! A function that a driver is not to have loses its name in the copy: the table of names has
//! another one there.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// The variable that names the built library, where it is not beside the test.
const VARIABLE: &str = "ARROW_DEVICE_SIMULATED_DRIVER";

const BUILT: &str = "libsimulated_gpu_drivers.so";

/// A copy in a folder of its own. Both go when it is dropped, by whoever made the copy; who has
/// loaded it keeps it.
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
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir()
            .join(format!("simulated-gpu-drivers-{}-{number}", std::process::id()));
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
