//! Format strings and metadata: bytes that safe code parses.

use arrow_device::abi::ArrowSchema;
use arrow_device::{DataType, ErrorKind, Field, Layout, Metadata, Schema};

use crate::consumer::{self, SeenSchema};
use crate::generate::Choices;

/// Parses a format string with some children, perhaps a dictionary, and flags.
///
/// # Panics
/// Panics on a finding.
pub fn formats(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let shape = choices.byte();
    let pair = || ["a", "b"].map(|name| Field::new(name, DataType::Int16, false));
    let child = if shape & 8 == 0 { DataType::Int16 } else { DataType::struct_(pair()) };
    let children = vec![Field::new("c", child, true); usize::from(shape % 8)];
    let dictionary = (shape & 16 != 0).then(|| Field::new("d", DataType::Utf8, true));
    let flags = i64::from(shape >> 5);
    let format = choices.rest();
    let parsed = DataType::from_format(format, children.clone(), dictionary.clone(), flags);
    let data_type = match parsed {
        Ok(data_type) => data_type,
        Err(error) => {
            let kinds = [ErrorKind::Malformed, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{error:?}");
            assert!(error.to_string().contains("format"), "{error}");
            return;
        }
    };
    assert!(!data_type.to_string().is_empty());
    assert_eq!(Layout::of(&data_type).child_count(), children.len());
    let written = data_type.format();
    let again = DataType::from_format(written.as_str(), children, dictionary, flags);
    assert_eq!(again.expect("what was written can be read"), data_type);
    let schema = Schema::try_from(data_type).expect("a type that was read makes a schema");
    let mut exported = ArrowSchema::empty();
    schema.export(&mut exported).expect("a type that was read can be exported");
    let seen = SeenSchema::of(&exported);
    assert_eq!(seen.format, written.as_str().as_bytes());
    assert_eq!(consumer::release(exported), Ok(()));
}

/// Parses the encoding of metadata, and whatever follows it.
///
/// # Panics
/// Panics on a finding.
pub fn metadata(bytes: &[u8]) {
    let expected = pairs(bytes);
    match Metadata::decode(bytes) {
        Ok((metadata, len)) => {
            let (expected, expected_len) = expected.expect("a naive reading accepts it too");
            assert_eq!(metadata.iter().collect::<Vec<_>>(), expected);
            assert_eq!(len, expected_len);
            assert_eq!(metadata.len(), expected.len());
            let again = Metadata::from_pairs(metadata.iter()).expect("the pairs of what was read");
            assert_eq!(again, metadata);
            assert_eq!(again.as_encoded_bytes().is_some(), !expected.is_empty());
            assert!(again.as_encoded_bytes().is_none_or(|encoded| encoded == &bytes[..len]));
            for (key, _) in expected.iter().take(8) {
                let first = expected.iter().find(|(other, _)| other == key).unwrap().1;
                assert_eq!(metadata.get(key), Some(first));
            }
            assert!(format!("{metadata}{metadata:?}").len() >= 4);
        }
        Err(error) => {
            assert!(expected.is_none(), "{error}, and a naive reading accepts it");
            let kinds = [ErrorKind::Malformed, ErrorKind::LimitExceeded];
            assert!(kinds.contains(&error.kind()), "{error:?}");
        }
    }
}

type Pairs<'a> = Vec<(&'a [u8], &'a [u8])>;

/// Returns the pairs that are there according to the specification, and how many bytes they take.
fn pairs(bytes: &[u8]) -> Option<(Pairs<'_>, usize)> {
    let mut at = 0;
    let count = length(bytes, &mut at)?;
    if count > 1 << 16 {
        return None;
    }
    let mut pairs = Vec::new();
    for _ in 0..count {
        let mut part = || {
            let len = length(bytes, &mut at)?;
            at += len;
            bytes.get(at - len..at)
        };
        pairs.push((part()?, part()?));
    }
    Some((pairs, at))
}

fn length(bytes: &[u8], at: &mut usize) -> Option<usize> {
    let number = bytes.get(*at..*at + 4)?;
    *at += 4;
    usize::try_from(i32::from_ne_bytes([number[0], number[1], number[2], number[3]])).ok()
}
