//! Names that are missing, and metadata of any bytes.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Verdict, config, require};
use crate::schema::metadata::MAX_PAIRS;
use crate::schema::{DataType, Field, Metadata, Text};
use crate::{Error, ErrorKind, Result};

type Pairs = Vec<(Vec<u8>, Vec<u8>)>;

/// The encoding as the specification describes it, written down once more.
fn encode(pairs: &[(&[u8], &[u8])]) -> Vec<u8> {
    let mut bytes = i32::try_from(pairs.len()).unwrap().to_ne_bytes().to_vec();
    for part in pairs.iter().flat_map(|(key, value)| [*key, *value]) {
        bytes.extend(i32::try_from(part.len()).unwrap().to_ne_bytes());
        bytes.extend(part);
    }
    bytes
}

fn ints(numbers: &[i32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_ne_bytes()).collect()
}

type Decode<'a> = &'a dyn Fn(&[u8]) -> Result<Pairs>;

fn check_metadata(decode: Decode<'_>) -> Verdict {
    let all_bytes: Vec<u8> = (0..=255).collect();
    let accepted: &[&[(&[u8], &[u8])]] = &[
        &[],
        &[(b"", b"")],
        &[(b"key", b"value")],
        &[(b"a\0b", b"\0\0"), (b"\xff\xfe", &all_bytes)],
        &[(b"twice", b"1"), (b"twice", b"2")],
        &[(b"z", b"1"), (b"a", b"2")],
    ];
    for pairs in accepted {
        let owned: Pairs =
            pairs.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        let encoding = encode(pairs);
        let decoded = decode(&encoding).map_err(|error| format!("{pairs:?} refused: {error}"))?;
        require(decoded == owned, || format!("{pairs:?} came back as {decoded:?}"))?;
        for end in 0..encoding.len() {
            let cut = decode(&encoding[..end]);
            require(cut.is_err(), || format!("{pairs:?} cut at {end} came back as {cut:?}"))?;
        }
    }
    let absurd = i32::try_from(MAX_PAIRS).unwrap() + 1;
    for (what, encoding) in [
        ("a negative count", ints(&[-1])),
        ("the most negative count", ints(&[i32::MIN])),
        ("an absurd count", ints(&[absurd])),
        ("a negative key length", ints(&[1, -1, 0])),
        ("a negative value length", ints(&[1, 0, -1])),
        ("an absurd key length", ints(&[1, i32::MAX, 0])),
        ("an absurd value length", ints(&[1, 0, i32::MAX])),
    ] {
        let padded = [encoding, vec![0; 4096]].concat();
        let decoded = decode(&padded);
        require(decoded.is_err(), || format!("{what} came back as {decoded:?}"))?;
    }
    Ok(())
}

fn real_decode(bytes: &[u8]) -> Result<Pairs> {
    let (metadata, _) = Metadata::decode(bytes)?;
    Ok(metadata.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

// Requirement: SCH-2
#[test]
fn metadata_holds_any_bytes_and_wrong_lengths_are_errors() {
    assert_eq!(check_metadata(&real_decode), Ok(()));
}

// Requirement: SCH-2
#[test]
fn wrong_decoders_of_metadata_are_caught() {
    let takes_negative_for_none = |bytes: &[u8]| match bytes.first_chunk() {
        Some(count) if i32::from_ne_bytes(*count) < 0 => Ok(Vec::new()),
        _ => real_decode(bytes),
    };
    let takes_negative_lengths_for_zero = |bytes: &[u8]| {
        let lengths = bytes.chunks_exact(4).map(|four| {
            let length = i32::from_ne_bytes(four.try_into().unwrap());
            if length == -1 { 0 } else { length }
        });
        let mut mended = ints(&lengths.collect::<Vec<_>>());
        mended.extend(bytes.chunks_exact(4).remainder());
        real_decode(if bytes.len() >= 4096 { &mended } else { bytes })
    };
    let refuses_no_pairs = |bytes: &[u8]| match real_decode(bytes)? {
        pairs if pairs.is_empty() => Err(Error::new(ErrorKind::Malformed, "no pairs")),
        pairs => Ok(pairs),
    };
    let reads_c_strings = |bytes: &[u8]| {
        let until_nul = |part: Vec<u8>| part.into_iter().take_while(|byte| *byte != 0).collect();
        let pairs = real_decode(bytes)?.into_iter();
        Ok(pairs.map(|(key, value)| (until_nul(key), until_nul(value))).collect())
    };
    let reads_text = |bytes: &[u8]| {
        let lossy = |part: Vec<u8>| String::from_utf8_lossy(&part).into_owned().into_bytes();
        Ok(real_decode(bytes)?.into_iter().map(|(key, value)| (lossy(key), lossy(value))).collect())
    };
    let keeps_a_map = |bytes: &[u8]| {
        Ok(real_decode(bytes)?.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    };
    let fills_up_with_zeros = |bytes: &[u8]| real_decode(&[bytes, &[0; 64]].concat());
    let wrong: [(&str, Decode<'_>); 7] = [
        ("takes a negative count for none", &takes_negative_for_none),
        ("takes a negative length for zero", &takes_negative_lengths_for_zero),
        ("refuses no pairs", &refuses_no_pairs),
        ("reads C strings", &reads_c_strings),
        ("reads text", &reads_text),
        ("keeps a map", &keeps_a_map),
        ("fills up with zeros", &fills_up_with_zeros),
    ];
    for (wrong, decode) in wrong {
        assert!(check_metadata(decode).is_err(), "a decoder that {wrong} passed");
    }
}

// Requirement: SCH-2
#[test]
fn no_name_is_an_empty_name_and_no_metadata_is_null() {
    let nameless = Field::new(Text::EMPTY, DataType::Int8, true);
    assert_eq!(nameless, Field::new("", DataType::Int8, true));
    assert_eq!(nameless.name_text().as_c_str(), Some(c""));
    assert_eq!(nameless.metadata().as_encoded_bytes(), None);
    let (no_pairs, consumed) = Metadata::decode(&ints(&[0, 77])).unwrap();
    assert_eq!((no_pairs.len(), consumed), (0, 4));
    assert_eq!(no_pairs.as_encoded_bytes(), None);
    assert_eq!(no_pairs, Metadata::EMPTY);
}

proptest! {
    #![proptest_config(config())]

    // Requirement: SCH-2
    #[test]
    fn any_bytes_are_metadata_or_an_error(
        numbers in proptest::collection::vec(prop_oneof![-2..12_i32, any::<i32>()], 0..24),
        tail in proptest::collection::vec(any::<u8>(), 0..16),
    ) {
        let bytes = [ints(&numbers), tail].concat();
        if let Ok((metadata, consumed)) = Metadata::decode(&bytes) {
            prop_assert!(consumed <= bytes.len());
            prop_assert_eq!(metadata.iter().count(), metadata.len());
            let again = Metadata::from_pairs(&metadata).map_err(|error| error.to_string());
            prop_assert_eq!(again, Ok(metadata));
        }
    }

    // Requirement: SCH-2
    #[test]
    fn any_pairs_come_back(
        pairs in proptest::collection::vec((any::<Vec<u8>>(), any::<Vec<u8>>()), 0..6),
        before in 0_usize..9,
    ) {
        let metadata = Metadata::from_pairs(pairs.clone()).unwrap();
        let borrowed: Vec<(&[u8], &[u8])> = pairs.iter().map(|(k, v)| (&k[..], &v[..])).collect();
        prop_assert_eq!(metadata.iter().collect::<Vec<_>>(), borrowed.clone());
        let blob = [vec![0xAA; before], encode(&borrowed), vec![0xAA; 3]].concat().into();
        let (shared, consumed) = Metadata::decode_shared(&blob, before).unwrap();
        prop_assert_eq!(&shared, &metadata);
        prop_assert_eq!(consumed, blob.len() - before - 3);
        let cut = blob.iter().copied().take(blob.len() - 4).collect();
        prop_assert!(Metadata::decode_shared(&cut, before).is_err());
    }
}
