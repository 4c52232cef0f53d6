//! What the specification asks of schemas, each rule as a check that runs against this library and
//! against implementations that break just that rule.

mod dictionaries;
mod fields;
mod formats;
mod metadata;
mod shared;

use proptest::prelude::*;

use super::text::{TextBlob, TextSpan};
use super::{DataType, Field, Text};
use crate::Result;

/// A complaint of a check, or nothing.
type Verdict = std::result::Result<(), String>;

fn require(holds: bool, complaint: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(complaint()) }
}

/// The four parts of an `ArrowSchema` that make a type.
type Parse<'a> = &'a dyn Fn(&[u8], Vec<Field>, Option<Field>, i64) -> Result<DataType>;

fn real_parse(
    format: &[u8],
    children: Vec<Field>,
    dictionary: Option<Field>,
    flags: i64,
) -> Result<DataType> {
    DataType::from_format(format, children, dictionary, flags)
}

fn real_write(data_type: &DataType) -> String {
    data_type.format().to_string()
}

/// How many random cases a test tries; fewer where an interpreter runs them.
fn config() -> ProptestConfig {
    let cases = if cfg!(miri) { 16 } else { 2000 };
    ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(cases) }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_texts_come_back_from_their_blob(
        texts in proptest::collection::vec("[^\0]{0,12}", 0..8),
    ) {
        let mut strings = String::new();
        let spans: Vec<TextSpan> = texts
            .iter()
            .map(|text| {
                let start = strings.len() as u32;
                strings.extend([text, "\0"]);
                TextSpan { start, len: text.len() as u32 }
            })
            .collect();
        let blob = TextBlob::new(&strings);
        for (span, text) in spans.into_iter().zip(&texts) {
            let shared = blob.text(span);
            prop_assert_eq!(&*shared, text);
            prop_assert_eq!(shared.as_c_str().unwrap().to_bytes(), text.as_bytes());
            prop_assert_eq!(shared, Text::from(text));
        }
    }
}
