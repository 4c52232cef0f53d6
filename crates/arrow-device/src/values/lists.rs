//! Reads lists, in all their layouts, and maps.

use std::fmt;
use std::ops::Range;

use super::bytes::{RangeFault, offset_at};
use super::rows::{Rows, asked};
use crate::{DataType, HostArray, HostBytes, Result};

impl HostArray {
    /// The lists of an array of any list type or of maps. All of them are checked first: a list
    /// that leads outside the items is [`InvalidData`](crate::ErrorKind::InvalidData).
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let items = Array::from_values(DataType::Int32, [Some(1), Some(2), Some(3)])?;
    /// let lists = Array::from_lists(
    ///     DataType::list_view(DataType::Int32),
    ///     [Some(2), None, Some(1)],
    ///     items,
    /// )?;
    /// let host = lists.host()?;
    /// let lists = host.lists()?;
    /// assert_eq!(lists.ranges().collect::<Vec<_>>(), [Some(0..2), None, Some(2..3)]);
    /// assert_eq!(lists.get(2)?.unwrap().values::<i32>()?.get(0), Some(3));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn lists(&self) -> Result<Lists<'_>> {
        let lists = Lists::of(self)?;
        // Lists of one size are all inside if the last one is. There may be very many empty ones,
        // so there is no loop.
        let last = lists.len().checked_sub(1);
        if matches!(lists.layout, ListsLayout::FixedSize { .. })
            && last.is_none_or(|last| lists.find(last).is_ok())
        {
            return Ok(lists);
        }
        for index in 0..lists.len() {
            // Offsets have to be in order even where a list is null. In other layouts, a null says
            // nothing.
            if matches!(lists.layout, ListsLayout::Offsets { .. }) {
                lists.find(index).map_err(|fault| lists.explain(self, index, &fault))?;
            } else {
                lists.at(self, index)?;
            }
        }
        Ok(lists)
    }
}

/// The lists of an array: see [`HostArray::lists`].
pub struct Lists<'host> {
    rows: Rows<'host>,
    layout: ListsLayout<'host>,
    items: HostArray,
}

enum ListsLayout<'host> {
    Offsets { offsets: HostBytes<'host>, wide: bool },
    Views { starts: HostBytes<'host>, sizes: HostBytes<'host>, wide: bool },
    FixedSize { size: usize },
}

impl<'host> Lists<'host> {
    /// The lists of an array of which only the lengths of the buffers were checked.
    pub(super) fn of(host: &'host HostArray) -> Result<Self> {
        let rows = Rows::of(host)?;
        let data_type = host.data_type();
        let wide = matches!(data_type, DataType::LargeList(_) | DataType::LargeListView(_));
        let width = if wide { 8 } else { 4 };
        let layout = match data_type {
            DataType::List(_) | DataType::LargeList(_) | DataType::Map { .. } => {
                let offsets = host.buffer(1)?;
                rows.check_len(host, 1, (offsets.len() / width).saturating_sub(1))?;
                ListsLayout::Offsets { offsets, wide }
            }
            DataType::ListView(_) | DataType::LargeListView(_) => {
                let (starts, sizes) = (host.buffer(1)?, host.buffer(2)?);
                rows.check_len(host, 1, starts.len() / width)?;
                rows.check_len(host, 2, sizes.len() / width)?;
                ListsLayout::Views { starts, sizes, wide }
            }
            DataType::FixedSizeList(_, size) => {
                ListsLayout::FixedSize { size: usize::try_from(*size).unwrap_or(0) }
            }
            other => return Err(asked(format!("{other} is not read as lists"))),
        };
        Ok(Self { rows, layout, items: host.node_child(0)? })
    }

    /// How many lists there are, nulls included.
    pub fn len(&self) -> usize {
        self.rows.len
    }

    /// Whether there are no lists.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The items, of which each list is a part.
    pub fn items(&self) -> &HostArray {
        &self.items
    }

    /// The range of a list's items; `None` where the list is null, and past the end.
    pub fn range(&self, index: usize) -> Option<Range<usize>> {
        // `lists` has checked that all ranges lie inside.
        if self.rows.is_present(index) { self.find(index).ok() } else { None }
    }

    /// The ranges of all lists in order.
    pub fn ranges(
        &self,
    ) -> impl DoubleEndedIterator<Item = Option<Range<usize>>> + ExactSizeIterator {
        (0..self.len()).map(|index| self.range(index))
    }

    /// A list as an array; `None` where it is null, and past the end.
    pub fn get(&self, index: usize) -> Result<Option<HostArray>> {
        self.range(index).map(|range| self.items.slice(range.start, range.len())).transpose()
    }

    /// The range of a list, which may lead outside; `None` where the list is null.
    pub(super) fn at(&self, host: &HostArray, index: usize) -> Result<Option<Range<usize>>> {
        if !self.rows.is_present(index) {
            return Ok(None);
        }
        self.find(index).map(Some).map_err(|fault| self.explain(host, index, &fault))
    }

    /// The range of a list, whether or not it is null.
    fn find(&self, index: usize) -> Result<Range<usize>, RangeFault> {
        let element = self.rows.offset + index;
        let (start, end) = match &self.layout {
            ListsLayout::Offsets { offsets, wide } => {
                (offset_at(offsets, *wide, element)?, offset_at(offsets, *wide, element + 1)?)
            }
            ListsLayout::Views { starts, sizes, wide } => {
                let start = offset_at(starts, *wide, element)?;
                let size = offset_at(sizes, *wide, element)?;
                (start, start.saturating_add(size))
            }
            ListsLayout::FixedSize { size } => {
                // The import and the builder have checked that the items cover all lists.
                let start = element.saturating_mul(*size);
                return Ok(start..start.saturating_add(*size));
            }
        };
        let (from, to) = (usize::try_from(start), usize::try_from(end));
        match (from, to) {
            (Ok(from), Ok(to)) if from <= to && to <= self.items.len() => Ok(from..to),
            _ => Err(RangeFault::Offsets { start, end, len: self.items.len() }),
        }
    }

    fn explain(&self, host: &HostArray, index: usize, fault: &RangeFault) -> crate::Error {
        host.invalid(format!("element {index}: {fault}"))
    }
}

impl fmt::Debug for Lists<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lists({} of {})", self.len(), self.items.data_type())
    }
}
