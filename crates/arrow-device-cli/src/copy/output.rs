//! Where a copy goes: a file that is there completely or not at all, or something that takes bytes
//! as they come, such as a pipe, a device or the standard output.

use std::ffi::OsString;
use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::failure::{Failure, Outcome};
use crate::files;

/// What the name of an output stands for.
pub(crate) enum Output {
    /// Takes bytes as they come.
    Stream { file: File, is_stdout: bool },
    /// A file, which may be there already.
    Place(Box<Place>),
}

/// Where a file will be.
pub(crate) struct Place {
    /// The file itself, behind all links.
    target: PathBuf,
    /// The file that is there.
    older: Option<Metadata>,
    /// Whether an older file may be replaced.
    replaces: bool,
}

impl Output {
    /// Looks what a name stands for, and opens what takes bytes as they come. A pipe is waited for
    /// until somebody reads.
    pub(crate) fn find(path: &Path, replaces: bool) -> Outcome<Self> {
        Self::look(path, replaces).map_err(|failure| failure.during(path.display()))
    }

    /// Does what [`find`](Self::find) does, with failures that do not tell the path.
    pub(crate) fn look(path: &Path, replaces: bool) -> Outcome<Self> {
        if files::is_terminals_side(path) {
            return Ok(Self::Stream { file: files::stdout()?, is_stdout: true });
        }
        if path.file_name().is_none() {
            return Err(Failure::misuse("it names no file"));
        }
        let older = match fs::metadata(path) {
            Ok(metadata) => Some(metadata),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        };
        let Some(older) = older else {
            let target = end_of_links(path)?;
            return Ok(Self::Place(Box::new(Place { target, older: None, replaces })));
        };
        if older.is_dir() {
            return Err(Failure::misuse("it is a folder; name a file in it"));
        }
        let is_stdout = is_stdout(&older);
        if older.is_file() && !is_stdout {
            if !replaces {
                return Err(is_there());
            }
            // What may not be written is not replaced, either.
            OpenOptions::new().write(true).open(path)?;
            let target = fs::canonicalize(path)?;
            return Ok(Self::Place(Box::new(Place { target, older: Some(older), replaces })));
        }
        let file =
            if is_stdout { files::stdout()? } else { OpenOptions::new().write(true).open(path)? };
        Ok(Self::Stream { file, is_stdout })
    }

    /// Whether the copy takes the place of what the command prints.
    pub(super) fn is_stdout(&self) -> bool {
        matches!(self, Self::Stream { is_stdout: true, .. })
    }

    /// Whether it takes bytes as they come.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream { .. })
    }

    /// Makes the file that is written to: a partial one, which takes the output's name at the end,
    /// where the output is a file.
    pub(crate) fn begin(self) -> Outcome<Started> {
        Ok(match self {
            Self::Stream { file, .. } => Started { file, partial: None },
            Self::Place(place) => {
                let (partial, file) = Partial::beside(place)?;
                Started { file, partial: Some(partial) }
            }
        })
    }
}

/// An output that is being written. A file that is dropped before its end is removed.
pub(crate) struct Started {
    file: File,
    partial: Option<Partial>,
}

impl Started {
    /// The file, to be written.
    pub(crate) fn file(&self) -> Outcome<File> {
        Ok(self.file.try_clone()?)
    }

    /// Gives a partial file, whose content is complete, the name of the output.
    pub(crate) fn finish(self, written: File) -> Outcome<()> {
        match self.partial {
            Some(partial) => partial.put_in_place(&written),
            None => Ok(()),
        }
    }
}

/// A file beside the one that it will become. Dropped before that, it is removed.
struct Partial {
    path: PathBuf,
    place: Box<Place>,
}

impl Partial {
    /// Creates it in the folder of its target, so that moving it there copies nothing. Who may read
    /// the older file may read this one, and nobody else.
    fn beside(place: Box<Place>) -> Outcome<(Self, File)> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if place.older.is_some() {
            use std::os::unix::fs::OpenOptionsExt as _;
            options.mode(0o600);
        }
        let mut attempts = 1..MOST_ATTEMPTS;
        let (path, file) = loop {
            let path = hidden_beside(&place.target);
            match options.open(&path) {
                Ok(file) => break (path, file),
                Err(error)
                    if error.kind() == io::ErrorKind::AlreadyExists
                        && attempts.next().is_some() => {}
                Err(error) => return Err(error.into()),
            }
        };
        let partial = Self { path, place };
        if let Some(older) = &partial.place.older {
            #[cfg(unix)]
            {
                use std::os::unix::fs::{MetadataExt as _, fchown};
                // Only root may give a file away. Who cannot, keeps it.
                let _ = fchown(&file, Some(older.uid()), Some(older.gid()));
            }
            file.set_permissions(older.permissions())?;
        }
        Ok((partial, file))
    }

    /// The target is from now on this file.
    fn put_in_place(self, written: &File) -> Outcome<()> {
        written.sync_all()?;
        let target = &self.place.target;
        if self.place.replaces {
            fs::rename(&self.path, target)?;
            return Ok(());
        }
        // A second name is refused where there is a file, by whomever and whenever it was made.
        match fs::hard_link(&self.path, target) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(is_there()),
            // A file system without second names.
            Err(_) if fs::symlink_metadata(target).is_err() => Ok(fs::rename(&self.path, target)?),
            Err(_) => Err(is_there()),
        }
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        // After `put_in_place` nothing is there any more, or the file has a second name. Nothing is
        // left to do if this fails.
        let _ = fs::remove_file(&self.path);
    }
}

/// How many names of partial files are tried, where files of killed processes have the first ones.
const MOST_ATTEMPTS: u32 = 1000;

/// A name for a partial file that this process gives once. A process that was killed can have had
/// the same number, as the first one in a container always has.
fn hidden_beside(target: &Path) -> PathBuf {
    static GIVEN: AtomicU32 = AtomicU32::new(0);
    let mut hidden = OsString::from(".");
    hidden.push(target.file_name().unwrap_or_default());
    let given = GIVEN.fetch_add(1, Ordering::Relaxed);
    hidden.push(format!(".{}.{given}.partial", std::process::id()));
    target.with_file_name(hidden)
}

fn is_there() -> Failure {
    Failure::new("it is there already, and `--no-clobber` keeps it; name another file")
}

/// How many symbolic links are followed from the name of an output: as many as by most systems.
const MOST_LINKS: usize = 40;

/// Where a file is created that is not there: behind links that lead nowhere yet.
fn end_of_links(path: &Path) -> Outcome<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(Failure::new("its links lead in a circle; name another file"))
}

/// Whether this is what the standard output is.
#[cfg(unix)]
fn is_stdout(found: &Metadata) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let stdout = files::stdout().ok().and_then(|stdout| stdout.metadata().ok());
    stdout.is_some_and(|stdout| (stdout.dev(), stdout.ino()) == (found.dev(), found.ino()))
}

/// No name stands for the standard output.
#[cfg(not(unix))]
fn is_stdout(_: &Metadata) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_of_the_same_number_left_keeps_no_output_back() {
        let process = std::process::id();
        let folder = std::env::temp_dir().join(format!("arrow-device-left-{process}"));
        fs::create_dir_all(&folder).unwrap();
        let target = folder.join("x.arrow");
        let left = |number: u32| folder.join(format!(".x.arrow.{process}.{number}.partial"));
        for number in 0..500 {
            fs::write(left(number), "left").unwrap();
        }
        // Two at once, too.
        let begun = || Output::look(&target, false).unwrap().begin().unwrap();
        let (one, other) = (begun(), begun());
        let file = one.file().unwrap();
        one.finish(file).unwrap();
        let file = other.file().unwrap();
        assert!(other.finish(file).is_err());
        assert!(fs::read(left(499)).unwrap() == b"left" && target.exists());
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 501);
        fs::remove_dir_all(&folder).unwrap();
    }
}
