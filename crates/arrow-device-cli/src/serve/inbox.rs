//! [`Inbox`]: the folder that flights are put into.
//!
//! A flight becomes a file when all of it has come, and no file that is there is replaced.

use std::path::{Path, PathBuf};

use arrow_device::{Batch, Schema};
use arrow_device_arrow::v60::ToArrow as _;
use tokio::sync::mpsc::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tonic::Status;

use crate::copy::Output;
use crate::failure::{Failure, Outcome};
use crate::files::{Format, Writer};

/// The longest name in bytes. The name of the partial file is longer, and most file systems take
/// 255.
const LONGEST_NAME: usize = 200;

#[derive(Debug)]
pub(super) struct Inbox {
    folder: PathBuf,
}

impl Inbox {
    pub(super) fn open(folder: &Path) -> Outcome<Self> {
        let found = std::fs::metadata(folder);
        let found = found.map_err(|error| Failure::from(error).during(folder.display()))?;
        if !found.is_dir() {
            let message = "it is no folder; name one that flights are written into";
            return Err(Failure::misuse(message).during(folder.display()));
        }
        Ok(Self { folder: folder.to_owned() })
    }

    /// Begins a file for a flight of this name.
    pub(super) fn begin(&self, name: &str, schema: &Schema) -> Result<Incoming, Status> {
        check_name(name).map_err(|why| {
            let name: String = name.chars().take(LONGEST_NAME).collect();
            Status::invalid_argument(format!("{name:?} {why}"))
        })?;
        let format = Format::of_name(Path::new(name)).map_err(|_| {
            let message =
                "the name does not say the format; end it with .parquet, .arrow or .arrows";
            Status::invalid_argument(format!("{name:?}: {message}"))
        })?;
        let path = self.folder.join(name);
        if is_there(&path) {
            return Err(taken());
        }
        let (send, receive) = mpsc::channel(1);
        let (to, schema) = (path.clone(), schema.clone());
        let task = tokio::task::spawn_blocking(move || write(&to, format, &schema, receive));
        Ok(Incoming { path, send, task })
    }
}

/// Says what is wrong with a name: it has to be that of a file in the folder, on any system.
fn check_name(name: &str) -> Result<(), &'static str> {
    if name.len() > LONGEST_NAME {
        return Err("is too long a name");
    }
    let is_odd = |letter: char| letter.is_control() || "/\\:*?\"<>|".contains(letter);
    if name.contains(is_odd) {
        return Err("has a sign that no name of a file has everywhere");
    }
    if name.is_empty() || name.starts_with('.') || name.trim() != name {
        return Err(
            "is no name for a file: it is empty, begins with a dot, or has a space at its end",
        );
    }
    let stem = name.split('.').next().unwrap_or_default().trim_end();
    if is_device_of_windows(stem) {
        return Err("is the name of a device of Windows");
    }
    Ok(())
}

/// Whether Windows takes this for a device, whatever ending follows.
fn is_device_of_windows(stem: &str) -> bool {
    let stem = stem.to_ascii_uppercase();
    if ["CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$"].contains(&stem.as_str()) {
        return true;
    }
    let number = stem.strip_prefix("COM").or_else(|| stem.strip_prefix("LPT"));
    number.is_some_and(|number| {
        let mut signs = number.chars();
        let is_number = |sign: char| sign.is_ascii_digit() || "\u{b9}\u{b2}\u{b3}".contains(sign);
        signs.next().is_some_and(is_number) && signs.next().is_none()
    })
}

/// What the writing thread is told.
enum Part {
    Batch(Batch),
    /// All of it has come. Without this the file is given up.
    End,
}

/// A flight that is coming in. Dropped before its end, it leaves nothing behind.
pub(super) struct Incoming {
    pub(super) path: PathBuf,
    send: Sender<Part>,
    task: JoinHandle<Outcome<()>>,
}

impl Incoming {
    /// Hands a batch to the writing thread. `false` where that thread has failed, which
    /// [`finish`](Self::finish) tells.
    pub(super) async fn write(&self, batch: Batch) -> bool {
        self.send.send(Part::Batch(batch)).await.is_ok()
    }

    /// Waits until the file is in its place.
    pub(super) async fn finish(self) -> Result<(), Status> {
        let _ = self.send.send(Part::End).await;
        drop(self.send);
        match self.task.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) if is_there(&self.path) => Err(taken()),
            // The path is nobody's business.
            Ok(Err(failure)) => Err(Status::internal(format!("it was not written: {failure}"))),
            Err(_) => Err(Status::internal("it was not written: the writer failed")),
        }
    }
}

fn is_there(path: &Path) -> bool {
    std::fs::symlink_metadata(path).is_ok()
}

/// What a client is told whose flight has a name that is not free.
pub(super) fn taken() -> Status {
    Status::already_exists("there is a flight or a file of that name")
}

fn write(path: &Path, format: Format, schema: &Schema, mut parts: Receiver<Part>) -> Outcome<()> {
    let Output::Place(place) = Output::look(path, false)? else {
        return Err(Failure::new("there is something of that name that is no file"));
    };
    let started = Output::Place(place).begin()?;
    let mut writer = Writer::new(started.file()?, format, schema.to_arrow()?)?;
    loop {
        match parts.blocking_recv() {
            Some(Part::Batch(batch)) => writer.write(&batch.to_arrow()?)?,
            Some(Part::End) => return started.finish(writer.finish()?),
            None => return Err(Failure::new("the sender gave up")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_name_of_a_file_in_the_folder_is_taken() {
        for name in [
            "a.arrow",
            "a b.parquet",
            "données.arrows",
            "a..b.arrow",
            "console.arrow",
            "com.arrow",
            "com10.arrow",
            "x.con.arrow",
        ] {
            assert_eq!(check_name(name), Ok(()), "{name}");
        }
        let long = "x".repeat(LONGEST_NAME + 1);
        for name in [
            "",
            ".",
            "..",
            "../x.arrow",
            "/etc/x.arrow",
            "a/b.arrow",
            "a\\b.arrow",
            "c:x.arrow",
            ".x.arrow",
            "x.arrow ",
            " x.arrow",
            "a\nb.arrow",
            "a\0.arrow",
            "CON.arrow",
            "nul.x.arrow",
            "Aux .arrow",
            "com1.arrow",
            "LPT0.parquet",
            "lpt\u{b2}.arrows",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
    }
}
