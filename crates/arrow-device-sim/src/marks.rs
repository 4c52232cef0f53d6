//! [`Marks`]: ranges of bytes, each with the place in the program where it was marked.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::site::SiteId;

/// Ranges of bytes, each with the place in the program where it was marked.
#[derive(Debug, Default)]
pub(crate) struct Marks(BTreeMap<u64, (u64, SiteId)>);

impl Marks {
    /// Marks bytes. An existing mark of exactly these bytes stays as it is.
    pub(crate) fn set(&mut self, bytes: Range<u64>, site: SiteId) {
        if bytes.is_empty() || self.0.get(&bytes.start).is_some_and(|(end, _)| *end == bytes.end) {
            return;
        }
        self.clear(&bytes);
        self.0.insert(bytes.start, (bytes.end, site));
    }

    /// Removes the mark from these bytes.
    pub(crate) fn clear(&mut self, bytes: &Range<u64>) {
        while let Some((marked, site)) = self.find(bytes) {
            self.0.remove(&marked.start);
            if marked.start < bytes.start {
                self.0.insert(marked.start, (bytes.start, site));
            }
            if bytes.end < marked.end {
                self.0.insert(bytes.end, (marked.end, site));
            }
        }
    }

    /// Whether no bytes are marked.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns a mark that these bytes touch.
    pub(crate) fn find(&self, bytes: &Range<u64>) -> Option<(Range<u64>, SiteId)> {
        let (start, (end, site)) = self.0.range(..bytes.end).next_back()?;
        (*end > bytes.start && !bytes.is_empty()).then_some((*start..*end, *site))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::{RawSite, Sites};

    #[test]
    fn a_mark_is_taken_back_where_it_was_asked_for_and_nowhere_else() {
        let site = Sites::default().add(RawSite::Unknown);
        let mut marks = Marks::default();
        let found = |marks: &Marks, bytes| marks.find(&bytes).map(|(marked, _)| marked);
        marks.set(0..64, site);
        marks.set(64..128, site);
        marks.clear(&(32..80));
        assert_eq!(found(&marks, 0..1), Some(0..32));
        assert_eq!(found(&marks, 32..80), None);
        assert_eq!(found(&marks, 0..1000), Some(80..128));
        marks.set(0..256, site);
        assert_eq!(found(&marks, 40..41), Some(0..256));
    }
}
