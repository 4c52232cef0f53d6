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
        let mut cause = error.source();
        while let Some(next) = cause {
            let text = next.to_string();
            // Many errors repeat their cause's text.
            if !message.contains(&text) {
                message = format!("{message}: {text}");
            }
            cause = next.source();
        }
        let error: &(dyn Error + 'static) = &error;
        let error = error.downcast_ref::<io::Error>();
        let is_broken_pipe = error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
        Self { is_broken_pipe, ..Self::new(message) }
    }
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
}
