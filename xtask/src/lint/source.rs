//! What of a source file is code and what is comment, line by line.
//!
//! This reads the few rules by which strings, characters and comments begin and end in Rust, C, C++
//! and Python, and nothing else of these languages.

/// Whose rules a file follows.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Language {
    Rust,
    /// C and C++.
    C,
    Python,
}

impl Language {
    /// The language of a file by the ending of its name.
    pub(super) fn of(file: &str) -> Option<Self> {
        match file.rsplit_once('.')?.1 {
            "rs" => Some(Self::Rust),
            "c" | "cc" | "cpp" | "h" | "hpp" => Some(Self::C),
            "py" | "pyi" => Some(Self::Python),
            _ => None,
        }
    }
}

/// One line of a file.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Line {
    /// The line with a space for every character of a comment or inside a string.
    pub(super) code: String,
    /// The column after the last one of a comment; 0 where there is none.
    pub(super) comment_end: usize,
}

/// What the next character belongs to.
enum State {
    Code,
    LineComment,
    /// With the number of comments that it is inside of.
    BlockComment(u32),
    /// Ends at this text; a backslash takes the next character with it if the flag says so.
    String(String, bool),
}

/// The lines of a file.
pub(super) fn lines(text: &str, language: Language) -> Vec<Line> {
    let mut state = State::Code;
    text.lines().map(|line| read_line(line, language, &mut state)).collect()
}

fn read_line(line: &str, language: Language, state: &mut State) -> Line {
    let mut read = Line::default();
    let (mut rest, mut column) = (line, 0);
    while let Some(first) = rest.chars().next() {
        let mut taken = first.len_utf8();
        let (mut is_code, mut is_comment) = (false, false);
        match state {
            State::Code => match begins(rest, previous(&read.code), language) {
                Some((length, next)) => {
                    is_comment = matches!(next, State::LineComment | State::BlockComment(_));
                    *state = next;
                    taken = length;
                }
                None => match character(rest, language) {
                    Some(length) => taken = length,
                    None => is_code = true,
                },
            },
            State::LineComment => is_comment = true,
            State::BlockComment(depth) => {
                is_comment = true;
                if rest.starts_with("*/") {
                    taken = 2;
                    *depth -= 1;
                    if *depth == 0 {
                        *state = State::Code;
                    }
                } else if language == Language::Rust && rest.starts_with("/*") {
                    taken = 2;
                    *depth += 1;
                }
            }
            State::String(end, escapes) => {
                if *escapes && first == '\\' {
                    taken += rest.chars().nth(1).map_or(0, char::len_utf8);
                } else if rest.starts_with(end.as_str()) {
                    taken = end.len();
                    *state = State::Code;
                }
            }
        }
        let (passed, left) = rest.split_at(taken);
        read.code.extend(passed.chars().map(|passed| if is_code { passed } else { ' ' }));
        column += passed.chars().count();
        if is_comment && !first.is_whitespace() {
            read.comment_end = column;
        }
        rest = left;
    }
    match state {
        State::LineComment => *state = State::Code,
        // Only a string between three quotes goes on in the next line.
        State::String(end, _) if language == Language::Python && end.len() == 1 => {
            *state = State::Code;
        }
        _ => {}
    }
    read
}

fn previous(code: &str) -> char {
    code.chars().next_back().unwrap_or(' ')
}

/// The length of what begins a comment or a string here, and what follows.
fn begins(rest: &str, previous: char, language: Language) -> Option<(usize, State)> {
    if language == Language::Python {
        if rest.starts_with('#') {
            return Some((1, State::LineComment));
        }
        let quotes = ["\"\"\"", "'''", "\"", "'"];
        let quote = quotes.into_iter().find(|quote| rest.starts_with(quote))?;
        return Some((quote.len(), State::String(quote.to_owned(), true)));
    }
    if rest.starts_with("//") {
        return Some((2, State::LineComment));
    }
    if rest.starts_with("/*") {
        return Some((2, State::BlockComment(1)));
    }
    if rest.starts_with('"') {
        return Some((1, State::String("\"".to_owned(), true)));
    }
    let is_in_name = previous.is_alphanumeric() && previous != 'b' && previous != 'c';
    if is_in_name || previous == '_' {
        return None;
    }
    match language {
        Language::Rust => {
            let hashes = rest.strip_prefix('r')?.bytes().take_while(|&byte| byte == b'#').count();
            let is_string = rest.as_bytes().get(1 + hashes) == Some(&b'"');
            let end = format!("\"{}", "#".repeat(hashes));
            is_string.then_some((2 + hashes, State::String(end, false)))
        }
        _ => {
            let (name, _) = rest.strip_prefix("R\"")?.split_once('(')?;
            Some((3 + name.len(), State::String(format!("){name}\""), false)))
        }
    }
}

/// The length of a character between quotes; `None` for a lifetime and for what is no quote.
fn character(rest: &str, language: Language) -> Option<usize> {
    let inside = rest.strip_prefix('\'').filter(|_| language != Language::Python)?;
    let first = inside.chars().next()?;
    if first == '\\' {
        let end = inside.char_indices().skip(2).find(|(_, next)| *next == '\'')?;
        return Some(end.0 + 2);
    }
    inside.get(first.len_utf8()..)?.starts_with('\'').then_some(first.len_utf8() + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str, language: Language) -> Vec<(String, bool)> {
        let lines = lines(text, language).into_iter();
        lines.map(|line| (line.code.trim_end().to_owned(), line.comment_end > 0)).collect()
    }

    fn one(text: &str, language: Language) -> (String, bool) {
        code(text, language).remove(0)
    }

    #[test]
    fn comments_are_told_from_code() {
        for text in ["a; // b", "a; /// b", "a; /* b */", "a; /* b"] {
            assert_eq!(one(text, Language::Rust), ("a;".to_owned(), true), "{text}");
            assert_eq!(one(text, Language::C), ("a;".to_owned(), true), "{text}");
        }
        assert_eq!(one("a  # b", Language::Python), ("a".to_owned(), true));
        assert_eq!(one("a / b", Language::Rust), ("a / b".to_owned(), false));
    }

    #[test]
    fn a_comment_ends_after_its_last_letter() {
        for (text, end) in [("a", 0), ("a; // ä b  ", 9), ("a /* b */ + c", 9), ("// a", 4)] {
            assert_eq!(lines(text, Language::C)[0].comment_end, end, "{text}");
        }
    }

    #[test]
    fn comments_go_on_until_they_end() {
        let expected = [("", true), ("", true), ("  c", true), ("d", false)];
        let expected = expected.map(|(code, comment)| (code.to_owned(), comment));
        assert_eq!(code("/* a\nb\n*/c\nd", Language::C), expected);
        let expected = [("", true), ("", true), ("", true), ("d", false)];
        let expected = expected.map(|(code, comment)| (code.to_owned(), comment));
        assert_eq!(code("/* a /*\nb */\n*/\nd", Language::Rust), expected);
    }

    #[test]
    fn what_looks_like_a_comment_in_a_string_is_none() {
        for (text, language) in [
            ("a(\"https://b\");", Language::Rust),
            ("a(\"\\\" // b\");", Language::Rust),
            ("a(r\"\\\", '/', r#\"// \" b\"#);", Language::Rust),
            ("a(br#\"// \" b\"#);", Language::Rust),
            ("a('\"', \"// b\", '\\'', '\"');", Language::Rust),
            ("a<'b>(\"// b\");", Language::Rust),
            ("a('\"', \"// b\");", Language::C),
            ("a(R\"x(// \" )y\" b)x\");", Language::C),
            ("a('# b')", Language::Python),
            ("a(\"\\\"# b\")", Language::Python),
        ] {
            assert!(!one(text, language).1, "{text}");
        }
    }

    #[test]
    fn strings_go_on_in_the_next_line() {
        for (text, language) in [
            ("a(\"b\n// c\nd\"); e", Language::Rust),
            ("a(r#\"b\n// c\nd\"#); e", Language::Rust),
            ("a(R\"(b\n// c\nd)\"); e", Language::C),
            ("a(\"\"\"b\n# c\nd\"\"\"); e", Language::Python),
        ] {
            let read = code(text, language);
            assert_eq!(read[1], (String::new(), false), "{text}");
            assert!(read[2].0.ends_with("; e"), "{read:?}");
        }
    }

    #[test]
    fn a_comment_follows_a_string_and_a_character() {
        for text in ["a(\"b\"); // c", "a('\\\\'); // c", "a('\"'); // c", "a(r\"\\\"); // c"] {
            assert!(one(text, Language::Rust).1, "{text}");
        }
        assert!(one("a = 'b'  # c", Language::Python).1);
    }
}
