//! The two ends of a copy: a file or a server of Flight each, and an output that keeps nothing.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use arrow_device::{Batch, Schema};
use arrow_device_arrow::v60::ToArrow as _;
use clap::ArgMatches;

use super::output::{Output, Started};
use crate::failure::{Failure, Outcome};
use crate::files::{self, Format, OpenedFile, Writer};
use crate::flight;

/// The end of a copy from which batches are read: a file or a flight of a server.
pub(crate) enum Input {
    File(PathBuf),
    #[cfg(feature = "flight")]
    Flight(flight::Address, flight::Access),
}

impl Input {
    /// What a name stands for: a path, also with `file:` before it, or an address.
    pub(crate) fn parse(name: &Path, matches: &ArgMatches) -> Outcome<Self> {
        match NamedEnd::of(name)? {
            NamedEnd::File(path) => Ok(Self::File(path)),
            #[cfg(feature = "flight")]
            NamedEnd::Flight(address) => Ok(Self::Flight(address, flight::Access::of(matches)?)),
            #[cfg(not(feature = "flight"))]
            NamedEnd::Flight => {
                let _ = matches;
                Err(flight::left_out())
            }
        }
    }

    pub(super) fn open(&self) -> Outcome<OpenedFile> {
        match self {
            Self::File(path) => files::open(path),
            #[cfg(feature = "flight")]
            Self::Flight(address, access) => flight::open(address, access),
        }
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => path.display().fmt(f),
            #[cfg(feature = "flight")]
            Self::Flight(address, _) => address.fmt(f),
        }
    }
}

/// The end of a copy to which batches are written: a file or a flight of a server.
pub(crate) enum Target {
    File {
        path: PathBuf,
        format: Format,
        replaces: bool,
    },
    #[cfg(feature = "flight")]
    Flight(flight::Address, flight::Access),
    /// They are counted and let go.
    #[cfg(feature = "flight")]
    Nowhere,
}

impl Target {
    /// What a name stands for: a path, also with `file:` before it, or an address.
    pub(crate) fn parse(name: &Path, matches: &ArgMatches) -> Outcome<Self> {
        let named = matches.get_one::<String>("format");
        let replaces = !matches.get_flag("no-clobber");
        match NamedEnd::of(name)? {
            NamedEnd::File(path) => {
                let found =
                    Format::NAMES.iter().find(|(name, _)| named.is_some_and(|is| is == name));
                let format = match found {
                    Some((_, format)) => *format,
                    None if files::is_terminals_side(&path) => Format::ArrowStream,
                    None => Format::of_name(&path)?,
                };
                Ok(Self::File { path, format, replaces })
            }
            #[cfg(feature = "flight")]
            NamedEnd::Flight(address) => {
                if named.is_some() || !replaces {
                    return Err(Failure::misuse(format!(
                        "{address}: --format and --no-clobber are for files; a server decides itself"
                    )));
                }
                Ok(Self::Flight(address, flight::Access::of(matches)?))
            }
            #[cfg(not(feature = "flight"))]
            NamedEnd::Flight => Err(flight::left_out()),
        }
    }

    /// Looks what is there, and opens what takes bytes as they come.
    pub(super) fn find(&self) -> Outcome<FoundOutput> {
        match self {
            Self::File { path, replaces, .. } => {
                Output::find(path, *replaces).map(FoundOutput::File)
            }
            #[cfg(feature = "flight")]
            Self::Flight(..) | Self::Nowhere => Ok(FoundOutput::Other),
        }
    }

    pub(super) fn is_file(&self) -> bool {
        matches!(self, Self::File { .. })
    }

    /// What the output is after an interruption, which came before it was told that there is no
    /// more, or then.
    pub(super) fn left_behind(&self, is_stream: bool, is_at_end: bool) -> &'static str {
        let _ = is_at_end;
        match self {
            Self::File { .. } if is_stream => "has a part of it",
            Self::File { .. } => "is as it was",
            #[cfg(feature = "flight")]
            Self::Flight(..) if is_at_end => "has not answered, and may have all of it",
            #[cfg(feature = "flight")]
            Self::Flight(..) => "was told that the rest does not come",
            #[cfg(feature = "flight")]
            Self::Nowhere => "keeps nothing",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { path, .. } => path.display().fmt(f),
            #[cfg(feature = "flight")]
            Self::Flight(address, _) => address.fmt(f),
            #[cfg(feature = "flight")]
            Self::Nowhere => f.write_str("the command"),
        }
    }
}

/// Lets the authority that `--tls-ca` names be for the end that has TLS, where both ends are
/// servers and the other one has none.
#[cfg(feature = "flight")]
pub(super) fn share_access(input: &mut Input, target: &mut Target) {
    let (Input::Flight(from, reading), Target::Flight(to, writing)) = (input, target) else {
        return;
    };
    match (from.is_secure, to.is_secure) {
        (true, false) => writing.leave_authority(),
        (false, true) => reading.leave_authority(),
        _ => {}
    }
}

/// What a name stands for.
enum NamedEnd {
    File(PathBuf),
    #[cfg(feature = "flight")]
    Flight(flight::Address),
    #[cfg(not(feature = "flight"))]
    Flight,
}

impl NamedEnd {
    fn of(name: &Path) -> Outcome<Self> {
        let Some(text) = name.to_str() else { return Ok(Self::File(name.to_owned())) };
        if flight::split_address(text).is_some() {
            #[cfg(feature = "flight")]
            return flight::Address::parse(text).map(Self::Flight);
            #[cfg(not(feature = "flight"))]
            return Ok(Self::Flight);
        }
        let Some(path) = text.strip_prefix("file:") else { return Ok(Self::File(name.to_owned())) };
        // `file:///a` is the path `/a`, as in a URL.
        let path = if path.starts_with("///") { path.trim_start_matches("//") } else { path };
        if path.is_empty() || path.starts_with("//") {
            return Err(Failure::misuse(format!(
                "{text}: behind `file:` is a path, as in file:a.arrow"
            )));
        }
        Ok(Self::File(PathBuf::from(path)))
    }
}

/// An output that was looked for.
pub(super) enum FoundOutput {
    File(Output),
    #[cfg(feature = "flight")]
    Other,
}

impl FoundOutput {
    /// Whether the copy takes the place of what the command prints.
    pub(super) fn is_stdout(&self) -> bool {
        match self {
            Self::File(output) => output.is_stdout(),
            #[cfg(feature = "flight")]
            Self::Other => false,
        }
    }

    /// Whether it takes bytes as they come.
    pub(super) fn is_stream(&self) -> bool {
        match self {
            Self::File(output) => output.is_stream(),
            #[cfg(feature = "flight")]
            Self::Other => false,
        }
    }

    /// Makes the file that is written to, where there is one.
    pub(super) fn begin(self) -> Outcome<Option<Started>> {
        match self {
            Self::File(output) => output.begin().map(Some),
            #[cfg(feature = "flight")]
            Self::Other => Ok(None),
        }
    }
}

/// An output that is being written.
pub(super) enum Sink {
    File(Box<Writer>, Started),
    #[cfg(feature = "flight")]
    Flight(flight::Sending),
    #[cfg(feature = "flight")]
    Nowhere,
}

impl Sink {
    /// Begins to write batches of this schema.
    pub(super) fn new(
        target: &Target,
        started: Option<Started>,
        schema: &Schema,
        interrupted: &Arc<AtomicBool>,
    ) -> Outcome<Self> {
        let _ = interrupted;
        match (target, started) {
            (Target::File { format, .. }, Some(started)) => {
                let writer = Writer::new(started.file()?, *format, schema.to_arrow()?)?;
                Ok(Self::File(Box::new(writer), started))
            }
            (Target::File { .. }, None) => Err(Failure::new("it was not opened")),
            #[cfg(feature = "flight")]
            (Target::Flight(address, access), _) => {
                let sending = flight::Sending::start(address, access, schema, interrupted.clone());
                sending.map(Self::Flight)
            }
            #[cfg(feature = "flight")]
            (Target::Nowhere, _) => Ok(Self::Nowhere),
        }
    }

    pub(super) fn write(&mut self, batch: &Batch) -> Outcome<()> {
        match self {
            Self::File(writer, _) => writer.write(&batch.to_arrow()?),
            #[cfg(feature = "flight")]
            Self::Flight(sending) => sending.write(batch),
            #[cfg(feature = "flight")]
            Self::Nowhere => Ok(()),
        }
    }

    /// Writes what is left. A file gets its name in [`Complete::finish`].
    pub(super) fn complete(self) -> Outcome<Complete> {
        match self {
            Self::File(writer, started) => Ok(Complete(Some((writer.finish()?, started)))),
            #[cfg(feature = "flight")]
            Self::Flight(sending) => sending.finish().map(|()| Complete(None)),
            #[cfg(feature = "flight")]
            Self::Nowhere => Ok(Complete(None)),
        }
    }
}

/// An output whose content is complete.
pub(super) struct Complete(Option<(std::fs::File, Started)>);

impl Complete {
    /// Gives a file the name of the output.
    pub(super) fn finish(self) -> Outcome<()> {
        match self.0 {
            Some((file, started)) => started.finish(file),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_a_path_unless_it_is_an_address() {
        let path = |name: &str| match NamedEnd::of(Path::new(name)) {
            Ok(NamedEnd::File(path)) => path,
            _ => panic!("{name}"),
        };
        for (name, expected) in [
            ("a.arrow", "a.arrow"),
            ("-", "-"),
            ("file:a.arrow", "a.arrow"),
            ("file:/a", "/a"),
            ("file:///a", "/a"),
            ("./file:a", "./file:a"),
            ("./flight://host:1/x", "./flight://host:1/x"),
            ("s3://bucket/x", "s3://bucket/x"),
        ] {
            assert_eq!(path(name), Path::new(expected), "{name}");
        }
        assert!(!matches!(NamedEnd::of(Path::new("flight://host:1/x")), Ok(NamedEnd::File(_))));
        for name in ["file:", "file://host/a"] {
            assert!(NamedEnd::of(Path::new(name)).is_err(), "{name}");
        }
    }
}
