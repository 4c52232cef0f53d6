//! JSON text, written and never read.

use std::fmt::{self, Write};

/// A value.
#[derive(Clone, Debug)]
pub(crate) enum Json {
    Null,
    Bool(bool),
    Number(f64),
    Integer(i128),
    Text(String),
    List(Vec<Json>),
    Object(Vec<(&'static str, Json)>),
}

impl Json {
    /// The value, or null.
    pub(crate) fn or_null(value: Option<impl Into<Json>>) -> Self {
        value.map_or(Self::Null, Into::into)
    }

    /// One value for each.
    pub(crate) fn list<T>(
        values: impl IntoIterator<Item = T>,
        to_json: impl Fn(T) -> Json,
    ) -> Self {
        Self::List(values.into_iter().map(to_json).collect())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<u64> for Json {
    fn from(value: u64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<usize> for Json {
    fn from(value: usize) -> Self {
        Self::Integer(value as i128)
    }
}

impl From<i64> for Json {
    fn from(value: i64) -> Self {
        Self::Integer(value.into())
    }
}

impl From<&str> for Json {
    fn from(value: &str) -> Self {
        Self::Text(value.to_owned())
    }
}

impl From<String> for Json {
    fn from(value: String) -> Self {
        Self::Text(value)
    }
}

/// Indented, with a value on each line.
impl fmt::Display for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_value(f, self, 0)
    }
}

fn write_value(f: &mut fmt::Formatter<'_>, value: &Json, depth: usize) -> fmt::Result {
    match value {
        Json::Null => f.write_str("null"),
        Json::Bool(value) => write!(f, "{value}"),
        // JSON has neither infinity nor "not a number".
        Json::Number(value) if value.is_finite() => write!(f, "{value}"),
        Json::Number(_) => f.write_str("null"),
        Json::Integer(value) => write!(f, "{value}"),
        Json::Text(text) => write_text(f, text),
        Json::List(values) => {
            write_many(f, ('[', ']'), values, depth, |f, value| write_value(f, value, depth + 1))
        }
        Json::Object(members) => write_many(f, ('{', '}'), members, depth, |f, (name, value)| {
            write_text(f, name)?;
            f.write_str(": ")?;
            write_value(f, value, depth + 1)
        }),
    }
}

fn write_many<T>(
    f: &mut fmt::Formatter<'_>,
    (open, close): (char, char),
    values: &[T],
    depth: usize,
    mut write: impl FnMut(&mut fmt::Formatter<'_>, &T) -> fmt::Result,
) -> fmt::Result {
    f.write_char(open)?;
    for (index, value) in values.iter().enumerate() {
        let comma = if index > 0 { "," } else { "" };
        write!(f, "{comma}\n{:indent$}", "", indent = 2 * depth + 2)?;
        write(f, value)?;
    }
    if !values.is_empty() {
        write!(f, "\n{:indent$}", "", indent = 2 * depth)?;
    }
    f.write_char(close)
}

fn write_text(f: &mut fmt::Formatter<'_>, text: &str) -> fmt::Result {
    f.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(f, "\\{letter}")?,
            letter if letter.is_control() => write!(f, "\\u{:04x}", u32::from(letter))?,
            letter => f.write_char(letter)?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_cannot_hold_as_it_is_is_escaped() {
        let value = Json::Object(vec![
            ("text", "a \"b\"\\\n\u{1}é".into()),
            ("none", Json::Number(f64::NAN)),
            ("all", Json::list([1_u64, u64::MAX], Json::from)),
        ]);
        let expected = "{\n  \"text\": \"a \\\"b\\\"\\\\\\u000a\\u0001é\",\n  \"none\": null,\n  \"all\": [\n    1,\n    \
                        18446744073709551615\n  ]\n}";
        assert_eq!(value.to_string(), expected);
    }
}
