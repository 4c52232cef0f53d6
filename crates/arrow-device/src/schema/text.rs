//! Strings that many owners share and that C can read unchanged.
//!
//! A schema of a thousand fields has a thousand names. They lie in one blob, each followed by a NUL
//! byte. A [`Text`] is a share of the blob and a place in it, so neither a clone nor an export
//! allocates memory.

use std::borrow::Borrow;
use std::ffi::CStr;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;
use std::sync::Arc;

use crate::numbered::numbered;

/// An immutable string that is cheap to clone and is followed by a NUL byte in memory.
///
/// ```
/// use arrow_device::Text;
///
/// let name = Text::from("price");
/// assert_eq!(name, "price");
/// assert_eq!(name.as_c_str(), Some(c"price"));
/// assert_eq!(Text::from("a\0b").as_c_str(), None, "C would see only the `a`");
/// ```
#[derive(Clone)]
pub struct Text(TextStorage);

#[derive(Clone)]
enum TextStorage {
    /// The string ends with the NUL byte.
    Static(&'static str),
    /// The text is `blob[start..][..len]`, and the byte behind it is the NUL byte.
    Shared { blob: Arc<str>, start: u32, len: u32 },
}

/// The length that stands for the whole blob without its NUL byte, so that a text with a blob of
/// its own may have any length.
const TO_THE_END: u32 = u32::MAX;

impl Text {
    /// The empty string.
    pub const EMPTY: Self = Self::from_static("\0");

    /// A string that is part of the program. It must end with a NUL byte, which does not belong to
    /// the text.
    pub(crate) const fn from_static(with_nul: &'static str) -> Self {
        Self(TextStorage::Static(with_nul))
    }

    /// The text, without the NUL byte.
    pub fn as_str(&self) -> &str {
        let with_nul = self.with_nul();
        with_nul.strip_suffix('\0').unwrap_or(with_nul)
    }

    /// The text as a C string. `None` if the text holds a NUL byte, which would end the C string
    /// early.
    pub fn as_c_str(&self) -> Option<&CStr> {
        CStr::from_bytes_with_nul(self.with_nul().as_bytes()).ok()
    }

    fn with_nul(&self) -> &str {
        match &self.0 {
            TextStorage::Static(with_nul) => with_nul,
            TextStorage::Shared { blob, len: TO_THE_END, .. } => blob,
            TextStorage::Shared { blob, start, len } => {
                let start = *start as usize;
                numbered(blob.get(start..start + *len as usize + 1))
            }
        }
    }
}

impl From<String> for Text {
    fn from(mut text: String) -> Self {
        text.push('\0');
        Self(TextStorage::Shared { blob: text.into(), start: 0, len: TO_THE_END })
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        if text.is_empty() {
            return Self::EMPTY;
        }
        let mut with_nul = String::with_capacity(text.len() + 1);
        with_nul.push_str(text);
        Self::from(with_nul)
    }
}

impl From<&String> for Text {
    fn from(text: &String) -> Self {
        Self::from(text.as_str())
    }
}

impl Default for Text {
    fn default() -> Self {
        Self::EMPTY
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        self.as_str()
    }
}

impl Borrow<str> for Text {
    fn borrow(&self) -> &str {
        self.as_str()
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.as_str(), f)
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

impl PartialEq for Text {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Text {}

impl PartialEq<str> for Text {
    #[inline]
    fn eq(&self, other: &str) -> bool {
        // Bytes are compared, because to cut a string out of the blob takes longer.
        let with_nul = match &self.0 {
            TextStorage::Static(with_nul) => with_nul.as_bytes(),
            TextStorage::Shared { blob, len: TO_THE_END, .. } => blob.as_bytes(),
            TextStorage::Shared { blob, start, len } => {
                let start = *start as usize;
                numbered(blob.as_bytes().get(start..start + *len as usize + 1))
            }
        };
        with_nul.split_last().is_some_and(|(_nul, text)| text == other.as_bytes())
    }
}

impl PartialEq<&str> for Text {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl PartialOrd for Text {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Text {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl Hash for Text {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

/// The place of a string in a blob. A NUL byte follows the string, unless it is empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TextSpan {
    pub(super) start: u32,
    pub(super) len: u32,
}

impl TextSpan {
    /// The bytes of the string, in a blob that was not checked to be UTF-8 yet.
    pub(crate) fn bytes(self, blob: &[u8]) -> &[u8] {
        let rest = numbered(blob.get(self.start as usize..));
        numbered(rest.get(..self.len as usize))
    }

    /// The last `len` bytes of the string as a string of their own, such as the time zone of a
    /// format string.
    pub(crate) fn last(self, len: usize) -> Self {
        let len = u32::try_from(len).unwrap_or(u32::MAX).min(self.len);
        Self { start: self.start + (self.len - len), len }
    }
}

/// Many strings in one allocation, each followed by a NUL byte.
#[derive(Clone, Debug)]
pub(crate) struct TextBlob(Arc<str>);

impl TextBlob {
    /// A blob with a copy of these strings.
    pub(crate) fn new(strings: &str) -> Self {
        Self(strings.into())
    }

    /// All strings of the blob.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// The text at this place: a share of the blob, without an allocation.
    pub(crate) fn text(&self, span: TextSpan) -> Text {
        if span.len == 0 {
            return Text::EMPTY;
        }
        Text(TextStorage::Shared { blob: Arc::clone(&self.0), start: span.start, len: span.len })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::numbered::tests::is_a_bug_of_ours;

    #[test]
    fn texts_of_a_blob_share_its_bytes_and_end_with_a_nul() {
        let blob = TextBlob::new("tss:UTC\0été\0");
        let [first, empty, second] =
            [(0, 7), (8, 0), (8, 5)].map(|(start, len)| TextSpan { start, len });
        for text in [blob.text(first), blob.text(second), blob.text(first.last(3))] {
            assert!(blob.0.as_bytes().as_ptr_range().contains(&text.as_ptr()));
            assert_eq!(text.as_c_str().unwrap().to_bytes(), text.as_bytes());
        }
        assert_eq!(blob.text(first.last(3)), "UTC");
        assert_eq!(blob.text(first.last(99)), "tss:UTC");
        assert_eq!(blob.text(empty), Text::EMPTY);
        assert_eq!(blob.text(second), "été");
        assert_eq!(second.bytes(blob.as_str().as_bytes()), "été".as_bytes());
        let beyond = TextSpan { start: 8, len: 99 };
        assert!(is_a_bug_of_ours(|| beyond.bytes(b"too short").len()));
    }

    #[test]
    fn texts_are_equal_by_content_wherever_they_lie() {
        let texts =
            [Text::from("key"), Text::from(String::from("key")), Text::from_static("key\0")];
        assert!(texts.iter().all(|text| *text == texts[0] && text.as_c_str() == Some(c"key")));
        assert_eq!(Text::from("a").cmp(&Text::from("b")), std::cmp::Ordering::Less);
        assert_eq!(Text::default(), "");
        assert_eq!(Text::from("a\0"), "a\0");
        assert_eq!(Text::from("a\0").as_c_str(), None);
    }

    #[test]
    fn a_text_is_three_words_or_four_small_ones() {
        let expected = if cfg!(target_pointer_width = "64") { 24 } else { 16 };
        assert_eq!(size_of::<Text>(), expected);
    }
}
