//! Whether two arrays hold the same values.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Range;

use super::follow::is_followed;
use super::lists::Lists;
use crate::{Array, DataType, Error, ErrorKind, HostArray, Result};

impl Array {
    /// Whether two arrays are of the same type and hold the same values, wherever and however they
    /// lie.
    ///
    /// Offsets, what lies below a null, the order of a dictionary's values, and where runs and list
    /// views are cut make no difference. Floats are the same where their bits are. Metadata is not
    /// looked at. Waits for both, and reads them on the host, as [`host`](Self::host) does.
    ///
    /// List views may share their items. Where they do so more than 64 times over, and there are
    /// more than a million to compare, this is an error of the kind
    /// [`LimitExceeded`](ErrorKind::LimitExceeded).
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let one = Array::from_values(DataType::Int32, [Some(1), None, Some(3)])?;
    /// let other = Array::from_values(DataType::Int32, [None, Some(3)])?;
    /// assert!(one.slice(1, 2)?.equals(&other)?);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn equals(&self, other: &Self) -> Result<bool> {
        if self.len() != other.len()
            || !self.data_type().equals_ignoring_metadata(other.data_type())
        {
            return Ok(false);
        }
        let (one, other) = (self.host()?, other.host()?);
        let all = 0..one.len();
        let (are_equal, _) = Comparison::default().are_equal((&one, all.clone()), (&other, all))?;
        Ok(are_equal)
    }
}

/// How many items of list views are compared in any case. More than these are compared only as far
/// as there are lists and items.
const FREE_VISITS: usize = 1 << 20;
/// How often each item of list views is compared on average, at most.
const MOST_VISITS: usize = 64;

/// Elements of an array.
type SomeElements<'a> = (&'a HostArray, Range<usize>);

/// A comparison of two arrays. List views may share their items, on each of many levels, so that a
/// few bytes hold more lists of lists than anybody can compare.
#[derive(Default)]
struct Comparison {
    /// How often items of the list views of each node were compared.
    visits: RefCell<HashMap<(usize, u32), usize>>,
}

impl Comparison {
    /// Counts some comparisons of items of list views.
    fn count_visits(&self, lists: &HostArray, items: &HostArray, more: usize) -> Result<()> {
        let array = lists.array();
        let node = (std::ptr::from_ref(&**array.tree()).addr(), array.node_number());
        let mut visits = self.visits.borrow_mut();
        let visits = visits.entry(node).or_default();
        *visits = visits.saturating_add(more);
        let expected = lists.len().saturating_add(items.len());
        if *visits > FREE_VISITS.saturating_add(expected.saturating_mul(MOST_VISITS)) {
            let message = "list views share their items more often than can be compared";
            return Err(Error::new(ErrorKind::LimitExceeded, message).during("equals"));
        }
        Ok(())
    }

    /// Whether elements of arrays of the same type are the same, as many of the one as of the
    /// other; and how many steps that took.
    ///
    /// There may be more of them than a loop could visit, where they take no memory: elements
    /// without width, and those of a run.
    fn are_equal(
        &self,
        (a, here): SomeElements<'_>,
        (b, there): SomeElements<'_>,
    ) -> Result<(bool, usize)> {
        if here.len() != there.len() {
            return Ok((false, 0));
        }
        let (mut done, mut steps) = (0_usize, 0_usize);
        while done < here.len() {
            match self.same_from((a, here.start + done), (b, there.start + done))? {
                0 => return Ok((false, steps)),
                same => done = done.saturating_add(same),
            }
            steps += 1;
        }
        Ok((true, steps))
    }

    /// How many elements from these two on are certainly the same, in arrays of the same type: 0
    /// where these two are not. There may be fewer elements.
    fn same_from(&self, one: (&HostArray, usize), other: (&HostArray, usize)) -> Result<usize> {
        const ALL: usize = usize::MAX;
        let ((a, i), (b, j)) = (one, other);
        match a.data_type() {
            DataType::Null => return Ok(ALL),
            DataType::RunEndEncoded { .. } => {
                let ((values, run, left), (other_values, other_run, other_left)) =
                    (a.run_at(i)?, b.run_at(j)?);
                return Ok(match self.same_from((&values, run), (&other_values, other_run))? {
                    0 => 0,
                    _ => left.min(other_left),
                });
            }
            _ => {}
        }
        let (found, others) = match (a.follow(i)?, b.follow(j)?) {
            (Some(found), Some(others)) => (found, others),
            (one, other) => {
                // A dictionary says null in two ways.
                let are_null =
                    (one.is_none() || a.is_null(i)?) && (other.is_none() || b.is_null(j)?);
                return Ok(are_null.into());
            }
        };
        // How many elements are present together with these two, as far as one look tells.
        let present = if says_who_is_null(a) || says_who_is_null(b) { 1 } else { ALL };
        match a.data_type() {
            DataType::Union { type_ids, .. }
                if a.variant(type_ids, i)? != b.variant(type_ids, j)? =>
            {
                Ok(0)
            }
            data_type if is_followed(data_type) => {
                Ok(self.same_from((&found.0, found.1), (&others.0, others.1))?.min(1))
            }
            DataType::FixedSizeBinary(0) | DataType::FixedSizeList(_, 0) => Ok(present),
            DataType::Struct(fields) => {
                let (i, j) = (a.array().offset() + i, b.array().offset() + j);
                let mut same = present;
                for number in 0..fields.len() {
                    same = same.min(
                        self.same_from((&a.node_child(number)?, i), (&b.node_child(number)?, j))?,
                    );
                    if same == 0 {
                        break;
                    }
                }
                Ok(same)
            }
            data_type if data_type.is_nested() => {
                let (lists, other_lists) = (Lists::of(a)?, Lists::of(b)?);
                let range = lists.at(a, i)?.unwrap_or(0..0);
                let others = other_lists.at(b, j)?.unwrap_or(0..0);
                let (items, other_items) = (lists.items(), other_lists.items());
                if let DataType::FixedSizeList(_, size) = data_type {
                    // The items of all lists lie one behind the other.
                    let same = self.same_from((items, range.start), (other_items, others.start))?;
                    let whole_lists = same / usize::try_from(*size).unwrap_or(1).max(1);
                    if whole_lists > 0 {
                        return Ok(whole_lists.min(present));
                    }
                }
                let (same, steps) = self.are_equal((items, range), (other_items, others))?;
                if matches!(data_type, DataType::ListView(_) | DataType::LargeListView(_)) {
                    self.count_visits(a, items, steps + 1)?;
                }
                Ok(same.into())
            }
            _ => Ok((a.leaf(i)? == b.leaf(j)?).into()),
        }
    }
}

/// Whether an array has a bitmap of which elements are null.
fn says_who_is_null(host: &HostArray) -> bool {
    !host.array().node().buffer(0).is_null()
}
