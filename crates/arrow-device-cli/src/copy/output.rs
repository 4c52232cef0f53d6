//! A file that is there completely or not at all.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};

use crate::failure::{Failure, Outcome};

/// A file beside the one that it will become. Dropped before that, it is removed.
pub(super) struct Partial {
    path: PathBuf,
    target: PathBuf,
    file: File,
}

impl Partial {
    /// Creates it in the folder of its target, so that moving it there copies nothing.
    pub(super) fn beside(target: &Path) -> Outcome<Self> {
        let failed = |failure: Failure| failure.during(target.display());
        let name = target.file_name().ok_or_else(|| failed(Failure::misuse("it names no file")))?;
        if target.is_dir() {
            return Err(failed(Failure::misuse("it is a folder; name a file in it")));
        }
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.partial", std::process::id()));
        let path = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&path);
        let file = file.map_err(|error| failed(error.into()))?;
        Ok(Self { path, target: target.to_owned(), file })
    }

    /// The file, to be written.
    pub(super) fn file(&self) -> Outcome<File> {
        Ok(self.file.try_clone()?)
    }

    /// It is complete: the target is from now on this file.
    pub(super) fn put_in_place(self, written: File) -> Outcome<()> {
        written.sync_all()?;
        fs::rename(&self.path, &self.target)?;
        Ok(())
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After `put_in_place` nothing is there any more. Nothing is left to do if this fails.
        let _ = fs::remove_file(&self.path);
    }
}
