//! The token, which comes from a file or the environment: everybody on a machine can read the
//! arguments of a process.

use std::path::PathBuf;

use clap::ArgMatches;

use crate::failure::{Failure, Outcome};

/// The variable that has the token where no file is named.
const VARIABLE: &str = "ARROW_DEVICE_FLIGHT_TOKEN";

/// The token that was given, if one was. The line end behind the token does not belong to it.
pub(crate) fn token(matches: &ArgMatches) -> Outcome<Option<String>> {
    let (text, place) = match matches.get_one::<PathBuf>("token-file") {
        Some(path) => {
            let text = std::fs::read_to_string(path);
            let text = text.map_err(|error| Failure::from(error).during(path.display()))?;
            (text, path.display().to_string())
        }
        None => match std::env::var(VARIABLE) {
            Ok(text) => (text, VARIABLE.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(std::env::VarError::NotUnicode(_)) => (String::new(), VARIABLE.to_owned()),
        },
    };
    checked(&text).map(Some).ok_or_else(|| {
        // The token itself is not shown.
        let message = "a token is one line of letters, digits and signs of ASCII, without spaces";
        Failure::misuse(message).during(place)
    })
}

fn checked(text: &str) -> Option<String> {
    let token = text.strip_suffix('\n').unwrap_or(text);
    let token = token.strip_suffix('\r').unwrap_or(token);
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    is_token.then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_one_line_that_a_header_can_have() {
        for text in ["s3cr+t/==", "s3cr+t/==\n", "s3cr+t/==\r\n"] {
            assert_eq!(checked(text).as_deref(), Some("s3cr+t/=="));
        }
        for text in ["", "\n", "a b", "a\nb", "é", "a\u{0}"] {
            assert_eq!(checked(text), None, "{text:?}");
        }
    }
}
