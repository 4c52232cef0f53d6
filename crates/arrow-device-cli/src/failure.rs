//! [`Failure`]: why something could not be done, in one line, and the exit code that says so.

use std::error::Error;
use std::fmt;
use std::io;
use std::process::ExitCode;

/// What a subcommand gives back.
pub(crate) type Outcome<T = ExitCode> = Result<T, Failure>;

/// Why it could not be done.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    exit_code: u8,
    is_broken_pipe: bool,
}

impl Failure {
    /// It could not be done.
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), exit_code: 1, is_broken_pipe: false }
    }

    /// It was asked for in a way that makes no sense.
    pub(crate) fn misuse(message: impl Into<String>) -> Self {
        Self { exit_code: 2, ..Self::new(message) }
    }

    /// Somebody pressed Ctrl-C, or asked the process to end.
    #[cfg(feature = "files")]
    pub(crate) fn interrupted(message: impl Into<String>) -> Self {
        Self { exit_code: 130, ..Self::new(message) }
    }

    /// What the parser of the arguments says, whose first paragraph is the reason.
    pub(crate) fn usage(refused: &clap::Error) -> Self {
        let text = refused.to_string();
        let reason = text.split("\n\n").next().unwrap_or_default();
        let reason = reason.strip_prefix("error: ").unwrap_or(reason);
        Self::misuse(format!("{reason}; `--help` lists what there is"))
    }

    /// The same, with what was being done before it.
    pub(crate) fn during(self, what: impl fmt::Display) -> Self {
        Self { message: format!("{what}: {}", self.message), ..self }
    }

    /// This failure as one of the other side of a connection. A broken pipe of that side counts as
    /// a failure; one of this command's output means that its reader has seen enough.
    #[cfg(feature = "files")]
    pub(crate) fn of_peer(self) -> Self {
        Self { is_broken_pipe: false, ..self }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(self.exit_code)
    }

    pub(crate) fn is_broken_pipe(&self) -> bool {
        self.is_broken_pipe
    }
}

/// One line: every error with its causes.
impl<E: Error + 'static> From<E> for Failure {
    fn from(error: E) -> Self {
        let mut message = error.to_string();
        let (mut is_broken_pipe, mut is_full) = (false, false);
        let mut next: Option<&(dyn Error + 'static)> = Some(&error);
        while let Some(error) = next {
            let text = error.to_string();
            // Many errors repeat their cause's text.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
            is_broken_pipe |= kind == Some(io::ErrorKind::BrokenPipe);
            is_full |= kind.is_some_and(is_lack_of_room);
            next = error.source();
        }
        if is_full {
            message =
                format!("there is no room left; free some, or name another place ({message})");
        }
        Self { is_broken_pipe, ..Self::new(message) }
    }
}

/// Whether a file system says that it takes no more.
fn is_lack_of_room(kind: io::ErrorKind) -> bool {
    use io::ErrorKind::{FileTooLarge, QuotaExceeded, StorageFull};
    matches!(kind, StorageFull | QuotaExceeded | FileTooLarge)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let words = self.message.split(|letter: char| letter.is_control() || letter == ' ');
        let mut words = words.filter(|word| !word.is_empty());
        f.write_str(words.next().unwrap_or("it failed"))?;
        words.try_for_each(|word| write!(f, " {word}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_one_line_with_its_causes() {
        let cause = arrow_device::Error::other("the disk\nis full");
        let failure = Failure::from(io::Error::other(cause)).during("out.arrow");
        let text = failure.to_string();
        assert!(text.starts_with("out.arrow: ") && text.contains("the disk is full"), "{text}");
        assert_eq!(text.lines().count(), 1);
    }

    #[cfg(feature = "files")]
    #[test]
    fn a_pipe_that_broke_at_a_peer_is_a_failure() {
        let broken = || Failure::from(io::Error::from(io::ErrorKind::BrokenPipe)).during("out");
        assert!(broken().is_broken_pipe() && !broken().of_peer().is_broken_pipe());
    }
}
