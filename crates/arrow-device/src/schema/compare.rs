//! Whether types are the same, and their hashes.
//!
//! A type of a few kilobytes can name more fields than any loop visits, because fields can be
//! shared. A type can also be nested deeper than the stack reaches. Therefore:
//!
//! 1. After some pairs of types, compared pairs are remembered, and each is compared once. The
//!    first difference ends the comparison, so a pair that was seen before is equal or part of a
//!    comparison that is still going on.
//! 2. What lies too deep for the stack is put on a list, and compared later.
//! 3. Only the first fields of a type are hashed. Types that begin alike may have the same hash.

use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ptr;

use super::{DataType, Field, format};

/// How many pairs of types are compared before pairs are remembered. Most types have fewer, and are
/// compared without a table.
const FREE_PAIRS: usize = 1000;
/// How many levels of a type are compared, or hashed, on the stack.
const MOST_LEVELS: usize = 64;
/// How many fields of a type are hashed.
const MOST_HASHED: usize = 1000;

/// Compares names, flags and metadata too.
impl PartialEq for DataType {
    fn eq(&self, other: &Self) -> bool {
        are_equal(self, other, true)
    }
}

impl Eq for DataType {}

/// Types with more than a thousand fields, or more than 64 levels, may have the same hash as other
/// types with the same beginning.
impl Hash for DataType {
    fn hash<H: Hasher>(&self, state: &mut H) {
        hash_type(self, MOST_LEVELS, &mut MOST_HASHED.clone(), state);
    }
}

impl DataType {
    /// Whether names, types and nullability are the same in all children. Metadata and unknown
    /// flags may differ.
    pub fn equals_ignoring_metadata(&self, other: &Self) -> bool {
        are_equal(self, other, false)
    }
}

#[inline]
fn are_equal(one: &DataType, other: &DataType, looks_at_metadata: bool) -> bool {
    are_kinds_equal(one, other)
        && match (one.fields().0, other.fields().0) {
            ([], others) => others.is_empty(),
            _ => are_nested_equal(one, other, looks_at_metadata),
        }
}

/// Whether two types of one kind are equal, as far as their fields say.
fn are_nested_equal(one: &DataType, other: &DataType, looks_at_metadata: bool) -> bool {
    let mut comparison =
        TypeComparison { looks_at_metadata, pairs: 0, seen: BTreeSet::new(), later: vec![] };
    let mut next = Some((one, other));
    while let Some((one, other)) = next {
        if !comparison.are_parts_equal(one, other, MOST_LEVELS) {
            return false;
        }
        next = comparison.later.pop();
    }
    true
}

/// A comparison of two types. The first difference ends it, so that all pairs that were seen before
/// are the same, or will turn out to be.
struct TypeComparison<'types> {
    looks_at_metadata: bool,
    /// How many pairs of types with fields were compared.
    pairs: usize,
    /// The pairs that may be seen again.
    seen: BTreeSet<(*const DataType, *const DataType)>,
    /// Pairs that lie too deep for the stack, and are compared later.
    later: Vec<(&'types DataType, &'types DataType)>,
}

impl<'types> TypeComparison<'types> {
    /// `levels` is how many levels may follow on the stack.
    #[inline]
    fn are_types_equal(
        &mut self,
        one: &'types DataType,
        other: &'types DataType,
        levels: usize,
    ) -> bool {
        are_kinds_equal(one, other)
            && match (one.fields().0, other.fields().0) {
                ([], others) => others.is_empty(),
                _ => self.are_parts_equal(one, other, levels),
            }
    }

    /// Compares the fields of two types of one kind.
    fn are_parts_equal(
        &mut self,
        one: &'types DataType,
        other: &'types DataType,
        levels: usize,
    ) -> bool {
        let Some(levels) = levels.checked_sub(1) else {
            self.later.push((one, other));
            return true;
        };
        if self.is_seen(one, other) {
            return true;
        }
        let ((first, second), (other_first, other_second)) = (one.fields(), other.fields());
        self.are_fields_equal(first, other_first, levels)
            && self.are_fields_equal(second, other_second, levels)
    }

    fn are_fields_equal(
        &mut self,
        some: &'types [Field],
        others: &'types [Field],
        levels: usize,
    ) -> bool {
        ptr::eq(some, others)
            || (some.len() == others.len()
                && some.iter().zip(others).all(|(one, other)| {
                    one.is_named_as(other, self.looks_at_metadata)
                        && self.are_types_equal(one.data_type(), other.data_type(), levels)
                }))
    }

    /// Whether this pair was seen before. Once there are many pairs, this one is remembered.
    fn is_seen(&mut self, one: &DataType, other: &DataType) -> bool {
        self.pairs += 1;
        self.pairs > FREE_PAIRS && !self.seen.insert((one, other))
    }
}

/// Whether two types are of one kind, with the same parameters. Fields are not compared.
fn are_kinds_equal(one: &DataType, other: &DataType) -> bool {
    use DataType::*;
    if std::mem::discriminant(one) != std::mem::discriminant(other) {
        return false;
    }
    match (one, other) {
        (Decimal32 { precision, scale }, Decimal32 { precision: digits, scale: power })
        | (Decimal64 { precision, scale }, Decimal64 { precision: digits, scale: power })
        | (Decimal128 { precision, scale }, Decimal128 { precision: digits, scale: power })
        | (Decimal256 { precision, scale }, Decimal256 { precision: digits, scale: power }) => {
            (precision, scale) == (digits, power)
        }
        (Time32(one), Time32(other))
        | (Time64(one), Time64(other))
        | (Duration(one), Duration(other)) => one == other,
        (Timestamp(one, zone), Timestamp(other, other_zone)) => one == other && zone == other_zone,
        (Interval(one), Interval(other)) => one == other,
        (FixedSizeBinary(one), FixedSizeBinary(other))
        | (FixedSizeList(_, one), FixedSizeList(_, other)) => one == other,
        (Map { keys_sorted: one, .. }, Map { keys_sorted: other, .. }) => one == other,
        (
            Dictionary { index, ordered, .. },
            Dictionary { index: other_index, ordered: other_ordered, .. },
        ) => (index, ordered) == (other_index, other_ordered),
        (Union { mode, type_ids, .. }, Union { mode: other_mode, type_ids: other_ids, .. }) => {
            (mode, type_ids) == (other_mode, other_ids)
        }
        _ => true,
    }
}

/// Hashes a type, up to a number of levels and fields.
fn hash_type<H: Hasher>(data_type: &DataType, levels: usize, left: &mut usize, state: &mut H) {
    std::mem::discriminant(data_type).hash(state);
    // The format tells all parameters but those that are flags.
    format::write(data_type).hash(state);
    let Some(levels) = levels.checked_sub(1) else { return };
    let (first, second) = data_type.fields();
    for field in first.iter().chain(second) {
        let Some(fewer) = left.checked_sub(1) else { return };
        *left = fewer;
        field.hash_name(state);
        hash_type(field.data_type(), levels, left, state);
    }
}
