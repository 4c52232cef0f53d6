//! Files of Arrow data: Parquet, and the file and the stream format of Arrow IPC, read and written
//! batch by batch.
//!
//! Reading and writing is arrow-rs's; here its batches become ours. Only a build with the feature
//! `files` has it.

#[cfg(feature = "files")]
mod careful;
#[cfg(feature = "files")]
mod parquet;
#[cfg(feature = "files")]
mod position;
#[cfg(feature = "files")]
mod read;
#[cfg(feature = "files")]
mod write;

#[cfg(feature = "files")]
pub(crate) use position::Position;
#[cfg(feature = "files")]
pub(crate) use read::{OpenedFile, open};
#[cfg(feature = "files")]
pub(crate) use write::Writer;

#[cfg(feature = "files")]
use std::fs::File;
#[cfg(feature = "files")]
use std::io;
use std::path::Path;

use crate::failure::{Failure, Outcome};

/// Whether a name is `-`, which stands for the standard input or output. A file of that name is
/// `./-`.
pub(crate) fn is_terminals_side(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Refuses `-` before it is taken for the name of a file.
pub(crate) fn has_name(path: &Path) -> Outcome<()> {
    if !is_terminals_side(path) {
        return Ok(());
    }
    Err(Failure::misuse(
        "-: a file is named here, and `-` is no name; give the path of a file (./- is a file of that name)",
    ))
}

/// The standard input as a file.
#[cfg(feature = "files")]
pub(crate) fn stdin() -> io::Result<File> {
    #[cfg(unix)]
    let handle = std::os::fd::AsFd::as_fd(&io::stdin()).try_clone_to_owned()?;
    #[cfg(windows)]
    let handle = std::os::windows::io::AsHandle::as_handle(&io::stdin()).try_clone_to_owned()?;
    Ok(File::from(handle))
}

/// The standard output as a file.
#[cfg(feature = "files")]
pub(crate) fn stdout() -> io::Result<File> {
    #[cfg(unix)]
    let handle = std::os::fd::AsFd::as_fd(&io::stdout()).try_clone_to_owned()?;
    #[cfg(windows)]
    let handle = std::os::windows::io::AsHandle::as_handle(&io::stdout()).try_clone_to_owned()?;
    Ok(File::from(handle))
}

/// What to say where files cannot be read.
#[cfg(not(feature = "files"))]
pub(crate) fn left_out() -> Failure {
    Failure::new("this build of the command reads no files: build it with `--features files`")
}

/// How a file is written.
#[cfg(feature = "files")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    Parquet,
    /// Arrow IPC with a table of its batches at the end.
    ArrowFile,
    /// Arrow IPC that can be read while it is written.
    ArrowStream,
}

#[cfg(feature = "files")]
impl Format {
    /// As a user names it.
    pub(crate) const NAMES: [(&'static str, Self); 3] =
        [("parquet", Self::Parquet), ("arrow", Self::ArrowFile), ("arrows", Self::ArrowStream)];

    /// What the name of a file to be written says.
    pub(crate) fn of_name(path: &Path) -> Outcome<Self> {
        let extension =
            path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        match extension.as_deref() {
            Some("parquet" | "pq") => Ok(Self::Parquet),
            Some("arrow" | "feather" | "ipc") => Ok(Self::ArrowFile),
            Some("arrows" | "stream") => Ok(Self::ArrowStream),
            _ => Err(Failure::misuse(format!(
                "{}: the name does not say the format; end it with .parquet, .arrow (file) or .arrows (stream), or name one \
                 with --format",
                path.display()
            ))),
        }
    }

    /// What the first bytes of a file say. A stream has no mark of its own.
    pub(crate) fn of_content(start: &[u8]) -> Self {
        if start.starts_with(b"PAR1") {
            Self::Parquet
        } else if start.starts_with(b"ARROW1") {
            Self::ArrowFile
        } else {
            Self::ArrowStream
        }
    }
}
