//! Key-value pairs of a field, kept in the encoding of the C interface.
//!
//! The `metadata` of an `ArrowSchema` is a native-endian `int32` count. For each pair follow the
//! key's length, the key, the value's length and the value. Nothing is aligned, nothing ends with a
//! NUL byte, and the bytes may be anything. A [`Metadata`] is a share of such bytes, which were
//! checked once. Pairs are decoded when they are read.

use std::ffi::c_char;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::{Error, ErrorKind, Result};

/// The largest number of pairs that are imported or written.
pub(crate) const MAX_PAIRS: usize = 1 << 16;

/// The largest number of bytes, lengths included, that are imported or written.
pub(crate) const MAX_ENCODED_BYTES: usize = 24 << 20;

/// Key-value pairs of a field. Keys and values are bytes, a key may occur twice, and the order is
/// kept.
///
/// Metadata without pairs is the same as no metadata, which is NULL in C.
///
/// Metadata is made of an iterator of pairs by [`from_pairs`](Self::from_pairs), which also takes
/// the pairs of an iterator of a `Metadata`. The C interface has limits, so this can fail. A
/// `collect` could not return the error, so there is no `FromIterator`.
///
/// ```
/// use arrow_device::Metadata;
///
/// let metadata = Metadata::from_pairs([("unit", "EUR"), ("source", "till 4")])?;
/// assert_eq!(metadata.get("unit"), Some(&b"EUR"[..]));
/// assert_eq!(metadata.to_string(), "{unit: EUR, source: till 4}");
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Default)]
pub struct Metadata(Option<MetadataShare>);

/// `blob[start..][..len]` is one complete encoding of at least one pair, checked.
#[derive(Clone)]
struct MetadataShare {
    blob: Arc<[u8]>,
    start: u32,
    len: u32,
}

impl Metadata {
    /// No pairs.
    pub const EMPTY: Self = Self(None);

    /// Metadata of these pairs, in this order. At most 65536 pairs and 24 MiB in all.
    ///
    /// ```
    /// use arrow_device::Metadata;
    ///
    /// let metadata = Metadata::from_pairs([("unit", "EUR"), ("secret", "x")])?;
    /// let kept = Metadata::from_pairs(metadata.iter().filter(|(key, _)| *key != b"secret"))?;
    /// assert_eq!(kept, Metadata::from_pairs([("unit", "EUR")])?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_pairs<K: AsRef<[u8]>, V: AsRef<[u8]>>(
        pairs: impl IntoIterator<Item = (K, V)>,
    ) -> Result<Self> {
        let mut encoded = vec![0; LENGTH_BYTES];
        let mut count = 0_i32;
        for (key, value) in pairs {
            count = count.saturating_add(1);
            push_bytes(&mut encoded, key.as_ref())?;
            push_bytes(&mut encoded, value.as_ref())?;
        }
        if let Some(place) = encoded.first_chunk_mut() {
            *place = count.to_ne_bytes();
        }
        Self::decode_shared(&encoded.into(), 0).map(|(metadata, _)| metadata)
    }

    /// Reads the encoding of the C interface at the beginning of `bytes`. Returns the metadata, and
    /// how many bytes its encoding takes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, usize)> {
        let len = encoded_len(|at| length_at(bytes, at))?;
        let encoded = bytes.get(..len).ok_or_else(|| ends_early(bytes.len()))?;
        Self::decode_shared(&encoded.into(), 0)
    }

    /// Copies an encoding out of another party's memory. Null means no pairs.
    ///
    /// # Safety
    /// `metadata` is null or in the encoding of the C data interface.
    pub(crate) unsafe fn copy(metadata: *const c_char) -> Result<Self> {
        // SAFETY: `metadata` is null or in the encoding of the C data interface, as the caller
        // promises.
        match unsafe { encoded(metadata) }? {
            Some(bytes) => Self::decode(bytes).map(|(metadata, _)| metadata),
            None => Ok(Self::EMPTY),
        }
    }

    /// [`decode`](Self::decode), for an encoding at `start` of a blob that many fields share.
    /// Nothing is copied.
    pub(crate) fn decode_shared(blob: &Arc<[u8]>, start: usize) -> Result<(Self, usize)> {
        let bytes = blob.get(start..).unwrap_or_default();
        let len = encoded_len(|at| length_at(bytes, at))?;
        if len > bytes.len() {
            return Err(ends_early(bytes.len()));
        }
        if len == LENGTH_BYTES {
            return Ok((Self::EMPTY, len));
        }
        let (Ok(start), Ok(share_len)) = (u32::try_from(start), u32::try_from(len)) else {
            return Err(too_large());
        };
        Ok((Self(Some(MetadataShare { blob: Arc::clone(blob), start, len: share_len })), len))
    }

    /// The encoding for C. `None`, which is NULL in C, if there are no pairs.
    pub fn as_encoded_bytes(&self) -> Option<&[u8]> {
        let MetadataShare { blob, start, len } = self.0.as_ref()?;
        blob.get(*start as usize..)?.get(..*len as usize)
    }

    /// How many pairs there are.
    pub fn len(&self) -> usize {
        self.iter().len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// The pairs, in their order.
    pub fn iter(&self) -> MetadataPairs<'_> {
        let mut rest = self.as_encoded_bytes().unwrap_or_default();
        let count = take_length(&mut rest).unwrap_or(0);
        MetadataPairs { rest, count }
    }

    /// The value of the first pair with this key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Option<&[u8]> {
        let key = key.as_ref();
        self.iter().find(|(candidate, _)| *candidate == key).map(|(_, value)| value)
    }
}

/// The pairs as owned values.
impl IntoIterator for Metadata {
    type Item = (Vec<u8>, Vec<u8>);
    type IntoIter = std::vec::IntoIter<(Vec<u8>, Vec<u8>)>;

    fn into_iter(self) -> Self::IntoIter {
        let pairs: Vec<_> =
            self.iter().map(|(key, value)| (key.to_vec(), value.to_vec())).collect();
        pairs.into_iter()
    }
}

impl<'a> IntoIterator for &'a Metadata {
    type Item = (&'a [u8], &'a [u8]);
    type IntoIter = MetadataPairs<'a>;

    fn into_iter(self) -> MetadataPairs<'a> {
        self.iter()
    }
}

/// Equal if both have the same pairs in the same order.
impl PartialEq for Metadata {
    fn eq(&self, other: &Self) -> bool {
        self.as_encoded_bytes() == other.as_encoded_bytes()
    }
}

impl Eq for Metadata {}

impl Hash for Metadata {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_encoded_bytes().hash(state);
    }
}

/// `{key: value, key: value}`; bytes that do not print are escaped.
impl fmt::Display for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("{")?;
        for (index, (key, value)) in self.iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}: {}", Printable(key), Printable(value))?;
        }
        f.write_str("}")
    }
}

impl fmt::Debug for Metadata {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// An iterator over the pairs of a [`Metadata`].
#[derive(Clone)]
pub struct MetadataPairs<'a> {
    rest: &'a [u8],
    count: usize,
}

impl<'a> Iterator for MetadataPairs<'a> {
    type Item = (&'a [u8], &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        self.count = self.count.checked_sub(1)?;
        Some((take_bytes(&mut self.rest)?, take_bytes(&mut self.rest)?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.count, Some(self.count))
    }
}

impl ExactSizeIterator for MetadataPairs<'_> {}

impl fmt::Debug for MetadataPairs<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.clone().map(|(key, value)| (Printable(key), Printable(value)));
        f.debug_map().entries(pairs).finish()
    }
}

/// The bytes of another party's encoding; `None` for null.
///
/// # Safety
/// `metadata` is null or in the encoding of the C data interface, and stays as it is for as long as
/// the bytes are used.
pub(crate) unsafe fn encoded<'a>(metadata: *const c_char) -> Result<Option<&'a [u8]>> {
    if metadata.is_null() {
        return Ok(None);
    }
    let len = encoded_len(|at| {
        // SAFETY: `encoded_len` asks for a length only after all before it was accounted for, so
        // these four bytes belong to the encoding; they need not be aligned.
        Ok(unsafe { metadata.wrapping_byte_add(at).cast::<i32>().read_unaligned() })
    })?;
    // SAFETY: the encoding is `len` bytes long: that is what its lengths add up to.
    Ok(Some(unsafe { std::slice::from_raw_parts(metadata.cast::<u8>(), len) }))
}

/// How many bytes an encoding takes, computed from its lengths alone.
///
/// `length_at(n)` reads the `int32` at byte `n`. It is called with rising `n`, and only for bytes
/// that the lengths before them have announced. It can therefore read from a pointer to memory of
/// unknown length.
pub(crate) fn encoded_len(mut length_at: impl FnMut(usize) -> Result<i32>) -> Result<usize> {
    let count = length_at(0)?;
    let Ok(pairs) = usize::try_from(count) else {
        let message = format!("metadata claims {count} pairs");
        return Err(Error::new(ErrorKind::Malformed, message));
    };
    if pairs > MAX_PAIRS {
        let message = format!("metadata claims {count} pairs; {MAX_PAIRS} is the limit");
        return Err(Error::new(ErrorKind::LimitExceeded, message));
    }
    let mut end = LENGTH_BYTES;
    for index in 0..pairs * 2 {
        let len = length_at(end)?;
        end += LENGTH_BYTES;
        let refused = |kind, why: &str| {
            let part = if index % 2 == 0 { "key" } else { "value" };
            let pair = index / 2;
            Error::new(kind, format!("{part} {pair} of metadata claims {len} bytes{why}"))
        };
        match usize::try_from(len) {
            Ok(len) if len <= MAX_ENCODED_BYTES.saturating_sub(end) => end += len,
            Ok(_) => return Err(refused(ErrorKind::LimitExceeded, "; 24 MiB in all is the limit")),
            Err(_) => return Err(refused(ErrorKind::Malformed, "")),
        }
    }
    Ok(end)
}

const LENGTH_BYTES: usize = size_of::<i32>();

fn length_at(bytes: &[u8], at: usize) -> Result<i32> {
    let length = bytes.get(at..).and_then(<[u8]>::first_chunk);
    length.map(|length| i32::from_ne_bytes(*length)).ok_or_else(|| ends_early(bytes.len()))
}

fn take_length(rest: &mut &[u8]) -> Option<usize> {
    let (length, behind) = rest.split_first_chunk()?;
    *rest = behind;
    usize::try_from(i32::from_ne_bytes(*length)).ok()
}

fn take_bytes<'a>(rest: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take_length(rest)?;
    rest.split_off(..len)
}

fn push_bytes(encoded: &mut Vec<u8>, bytes: &[u8]) -> Result<()> {
    let len = i32::try_from(bytes.len()).map_err(|_| too_large())?;
    if encoded.len() > MAX_ENCODED_BYTES {
        return Err(too_large());
    }
    encoded.extend_from_slice(&len.to_ne_bytes());
    encoded.extend_from_slice(bytes);
    Ok(())
}

#[cold]
fn ends_early(len: usize) -> Error {
    Error::new(ErrorKind::Malformed, format!("metadata is cut off after {len} bytes"))
}

#[cold]
fn too_large() -> Error {
    Error::new(ErrorKind::LimitExceeded, "metadata is larger than 24 MiB")
}

/// Bytes on one line: printable text unchanged, and all other bytes escaped.
struct Printable<'a>(&'a [u8]);

impl fmt::Display for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                match character.is_control() {
                    true => write!(f, "{}", character.escape_default())?,
                    false => write!(f, "{character}")?,
                }
            }
            write!(f, "{}", chunk.invalid().escape_ascii())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Printable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_two_equal_keys_is_found() {
        let metadata = Metadata::from_pairs([("a", "1"), ("b", "2"), ("a", "3")]).unwrap();
        assert_eq!(metadata.len(), 3);
        assert_eq!(metadata.get("a"), Some(&b"1"[..]));
        assert_eq!(metadata.get(b"c"), None);
    }

    #[test]
    fn bytes_that_do_not_print_are_escaped() {
        let metadata = Metadata::from_pairs([(&b"k\n"[..], &b"\xff\xc3\xa9"[..])]).unwrap();
        assert_eq!(metadata.to_string(), r"{k\n: \xffé}");
        assert_eq!(Metadata::EMPTY.to_string(), "{}");
    }

    #[test]
    fn only_lengths_are_read_to_learn_the_extent() {
        let metadata = Metadata::from_pairs([("key", "value"), ("", "x")]).unwrap();
        let encoded = metadata.as_encoded_bytes().unwrap();
        let mut read = Vec::new();
        let len = encoded_len(|at| {
            read.push(at);
            length_at(encoded, at)
        });
        assert_eq!(len.unwrap(), encoded.len());
        assert_eq!(read, [0, 4, 11, 20, 24]);
    }

    #[test]
    fn the_limit_is_for_all_bytes_together() {
        let half = i32::try_from(MAX_ENCODED_BYTES / 2).unwrap();
        let len = |second| {
            encoded_len(|at| {
                Ok(match at {
                    0 => 1,
                    4 => half,
                    _ => second,
                })
            })
        };
        assert_eq!(len(half - 12).unwrap(), MAX_ENCODED_BYTES);
        let error = len(half - 11).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    }

    #[test]
    fn too_many_pairs_are_refused() {
        let pairs = |count| Metadata::from_pairs(std::iter::repeat_n(("", ""), count));
        assert_eq!(pairs(MAX_PAIRS).unwrap().len(), MAX_PAIRS);
        assert_eq!(pairs(MAX_PAIRS + 1).unwrap_err().kind(), ErrorKind::LimitExceeded);
    }
}
