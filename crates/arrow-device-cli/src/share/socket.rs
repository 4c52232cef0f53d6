//! [`Socket`]: a place in the file system where other processes of this user connect.

use std::fs::{self, DirBuilder, Permissions};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::{io, process};

use crate::failure::{Failure, Outcome};

/// A socket, which goes with this value.
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    file: SocketFile,
}

/// The file of a socket.
#[derive(Clone, Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    /// The device and the inode, by which another file of this name is told apart.
    identity: (u64, u64),
}

impl Socket {
    /// Makes the socket, which nobody but this user can connect to at any time. What is there
    /// already stays, and is an error.
    ///
    /// The socket is made in a folder that is this user's alone, and linked to its place once it
    /// has its mode: there would be others for a moment who can connect, otherwise.
    pub(super) fn new(path: &Path) -> Outcome<Self> {
        let made = Self::make(path);
        made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => Failure::new(format!(
                "{}: there is something of that name; remove it, or name another path",
                path.display()
            )),
            _ => Failure::from(error).during(path.display()),
        })
    }

    fn make(path: &Path) -> io::Result<Self> {
        let name = format!(".arrow-device-{}", process::id());
        let folder = path.parent().unwrap_or(Path::new("")).join(name);
        DirBuilder::new().mode(0o700).create(&folder)?;
        let made = Self::make_in(&folder, path);
        let removed = fs::remove_dir(&folder);
        let made = made?;
        removed?;
        Ok(made)
    }

    fn make_in(folder: &Path, path: &Path) -> io::Result<Self> {
        let first = folder.join("s");
        let listener = UnixListener::bind(&first)?;
        let linked = fs::set_permissions(&first, Permissions::from_mode(0o600))
            .and_then(|()| fs::hard_link(&first, path))
            .and_then(|()| fs::symlink_metadata(path));
        fs::remove_file(&first)?;
        let linked = linked?;
        let identity = (linked.dev(), linked.ino());
        Ok(Self { listener, file: SocketFile { path: path.to_owned(), identity } })
    }

    pub(super) fn file(&self) -> &SocketFile {
        &self.file
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.file.remove();
    }
}

impl SocketFile {
    /// Removes the file, unless another one has its name by now.
    pub(super) fn remove(&self) {
        let is_ours = fs::symlink_metadata(&self.path)
            .is_ok_and(|found| (found.dev(), found.ino()) == self.identity);
        if is_ours {
            // There is nobody to tell if this fails.
            let _ = fs::remove_file(&self.path);
        }
    }
}
