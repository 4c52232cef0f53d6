//! [`Dims`]: the lengths and strides of a tensor, with arithmetic that foreign numbers cannot
//! overflow.
//!
//! Lengths and strides of other parties are checked once, in [`Dims::of`]: no length is negative,
//! and the number of elements, the lowest place of an element and the highest one fit into 64 bits.
//! All later sums and products are parts of those that were checked, so they cannot overflow.

use crate::numbered::numbered;
use crate::{Error, ErrorKind, Result};

/// More dimensions than this are refused. No library has more.
pub(crate) const MAX_DIMENSIONS: usize = 64;

/// The shape and the strides of a tensor: as many strides as lengths. No length is negative, and
/// the place of every element, counted in elements from the first one, is an `i64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Dims {
    axes: Axes,
    /// The number of elements.
    count: u64,
}

/// Up to so many dimensions need no allocation.
pub(crate) const FEW: usize = 4;

/// The lengths and strides of dimensions, which were not checked yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Axes {
    /// The length and the stride of the only dimension.
    One([i64; 2]),
    /// Entries behind the last dimension are 0.
    Few { ndim: u8, shape: [i64; FEW], strides: [i64; FEW] },
    /// All lengths, and then all strides.
    Many(Box<[i64]>),
}

impl Axes {
    /// `ndim` dimensions, whose length and stride `axis` gives.
    #[inline(always)]
    pub(crate) fn new(ndim: usize, axis: impl Fn(usize) -> (i64, i64)) -> Self {
        let mut axes = match ndim {
            1 => Self::One([0; 2]),
            _ if ndim <= FEW => Self::Few { ndim: ndim as u8, shape: [0; FEW], strides: [0; FEW] },
            _ => Self::Many(vec![0; 2 * ndim].into()),
        };
        let (shape, strides) = axes.both_mut();
        for (index, (length, stride)) in shape.iter_mut().zip(strides).enumerate() {
            (*length, *stride) = axis(index);
        }
        axes
    }

    #[inline(always)]
    fn both(&self) -> (&[i64], &[i64]) {
        match self {
            Self::One(both) => both.split_at(1),
            Self::Few { ndim, shape, strides } => {
                let ndim = usize::from(*ndim).min(FEW);
                (shape.split_at(ndim).0, strides.split_at(ndim).0)
            }
            Self::Many(both) => both.split_at(both.len() / 2),
        }
    }

    fn both_mut(&mut self) -> (&mut [i64], &mut [i64]) {
        match self {
            Self::One(both) => both.split_at_mut(1),
            Self::Few { ndim, shape, strides } => {
                let ndim = usize::from(*ndim).min(FEW);
                (shape.split_at_mut(ndim).0, strides.split_at_mut(ndim).0)
            }
            Self::Many(both) => both.split_at_mut(both.len() / 2),
        }
    }

    /// These lengths with the strides of a compact tensor in row-major order; `None` where the
    /// strides overflow. The strides of a tensor without elements do not matter: lengths of 0 count
    /// as 1 for them.
    #[inline(always)]
    pub(crate) fn compacted(mut self) -> Option<Self> {
        let (shape, strides) = self.both_mut();
        let is_empty = shape.contains(&0);
        let mut next = 1_i64;
        for (length, stride) in shape.iter().zip(strides).rev() {
            *stride = next;
            next = match next.checked_mul((*length).max(1)) {
                Some(product) => product,
                None if is_empty => i64::MAX,
                None => return None,
            };
        }
        Some(self)
    }
}

impl Dims {
    /// Compact dimensions in row-major order.
    #[inline]
    pub(crate) fn compact(shape: &[i64]) -> Result<Self> {
        let axes = match shape {
            [length] => Axes::new(1, |_| (*length, 0)),
            _ => Axes::new(shape.len(), |index| (*numbered(shape.get(index)), 0)),
        };
        Self::of(axes.compacted().ok_or_else(too_large)?)
    }

    /// Compact dimensions with `count` elements, at least one.
    pub(crate) fn full(axes: Axes, count: u64) -> Self {
        Self { axes, count }
    }

    /// Dimensions with any strides.
    pub(crate) fn new(shape: &[i64], strides: &[i64]) -> Result<Self> {
        let number = |from: &[i64], index: usize| *numbered(from.get(index));
        Self::of(Axes::new(shape.len(), |index| (number(shape, index), number(strides, index))))
    }

    /// Checks lengths and strides of another party.
    #[inline(always)]
    pub(crate) fn of(axes: Axes) -> Result<Self> {
        let (shape, strides) = axes.both();
        if shape.len() > MAX_DIMENSIONS {
            return Err(too_many(shape.len()));
        }
        let mut count = 1_i64;
        let mut overflows = false;
        let (mut low, mut high) = (0_i64, 0_i64);
        for (length, stride) in shape.iter().zip(strides) {
            if *length < 0 {
                return Err(negative(shape));
            }
            // The stride of a dimension with one element means nothing, and shipped libraries write
            // any number there.
            let span = if *length > 1 { (length - 1).checked_mul(*stride) } else { Some(0) };
            let end = if span.is_some_and(|span| span < 0) { &mut low } else { &mut high };
            match (count.checked_mul(*length), span.and_then(|span| end.checked_add(span))) {
                (Some(product), Some(sum)) => (count, *end) = (product, sum),
                _ => overflows = true,
            }
        }
        if shape.contains(&0) {
            return Ok(Self { axes, count: 0 });
        }
        if overflows {
            return Err(too_large());
        }
        Ok(Self { axes, count: count.unsigned_abs() })
    }

    #[inline(always)]
    pub(crate) fn shape(&self) -> &[i64] {
        self.axes.both().0
    }

    #[inline(always)]
    pub(crate) fn strides(&self) -> &[i64] {
        self.axes.both().1
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// The lowest and the highest place of an element; `None` without elements.
    pub(crate) fn reach(&self) -> Option<(i64, i64)> {
        let (shape, strides) = self.axes.both();
        let mut reach = (0_i64, 0_i64);
        for (length, stride) in shape.iter().zip(strides).filter(|(length, _)| **length > 1) {
            // No overflow: `of` computed the same sums.
            let span = (length - 1).wrapping_mul(*stride);
            let end = if span < 0 { &mut reach.0 } else { &mut reach.1 };
            *end = end.wrapping_add(span);
        }
        (self.count > 0).then_some(reach)
    }

    /// Whether the elements lie one behind the other in row-major order.
    pub(crate) fn is_compact(&self) -> bool {
        self.count == 0 || self.compact_suffix() == self.shape().len()
    }

    /// How many of the last dimensions are compact together.
    fn compact_suffix(&self) -> usize {
        let mut expected = 1_i64;
        let dims = self.shape().iter().zip(self.strides()).rev();
        dims.take_while(|(length, stride)| {
            let fits = **length == 1 || **stride == expected;
            // No overflow: the product of all lengths was computed before.
            expected = expected.wrapping_mul(**length);
            fits
        })
        .count()
    }

    /// The places of runs of elements that lie together, in row-major order, and the number of
    /// elements of each run.
    pub(crate) fn runs(&self) -> Runs<'_> {
        let outer = self.shape().len() - self.compact_suffix();
        let (outer_shape, inner) = self.shape().split_at(outer);
        let length = if self.count == 0 { 0 } else { inner.iter().product::<i64>().unsigned_abs() };
        let left =
            if self.count == 0 { 0 } else { outer_shape.iter().product::<i64>().unsigned_abs() };
        Runs { dims: self, index: vec![0; outer], place: 0, left, length }
    }

    /// The dimensions in another order.
    pub(crate) fn permuted(&self, axes: &[usize]) -> Result<Self> {
        if !is_permutation(axes, self.shape().len()) {
            let message = format!("{axes:?} is no order of {} dimensions", self.shape().len());
            return Err(Error::new(ErrorKind::InvalidArgument, message));
        }
        let (shape, strides) = self.axes.both();
        let axis = |index: usize| {
            let from = *numbered(axes.get(index));
            (*numbered(shape.get(from)), *numbered(strides.get(from)))
        };
        Self::of(Axes::new(axes.len(), axis))
    }

    /// The order in which the dimensions would be compact, from the one with the largest stride on;
    /// `None` where no order is compact.
    pub(crate) fn compact_order(&self) -> Option<Vec<usize>> {
        if self.is_compact() {
            return Some((0..self.shape().len()).collect());
        }
        let stride = |axis: &usize| *numbered(self.strides().get(*axis));
        let (mut order, single): (Vec<usize>, Vec<usize>) =
            (0..self.shape().len()).partition(|axis| self.shape().get(*axis) != Some(&1));
        order.sort_by_key(|axis| std::cmp::Reverse(stride(axis)));
        order.extend(single);
        self.permuted(&order).ok().filter(Self::is_compact).map(|_| order)
    }
}

/// The runs of elements of a tensor: see [`Dims::runs`].
pub(crate) struct Runs<'dims> {
    dims: &'dims Dims,
    /// The current index in the outer dimensions.
    index: Vec<i64>,
    place: i64,
    left: u64,
    /// How many elements each run has.
    pub(crate) length: u64,
}

impl Iterator for Runs<'_> {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        self.left = self.left.checked_sub(1)?;
        let here = self.place;
        let (shape, strides) = (self.dims.shape(), self.dims.strides());
        for (axis, index) in self.index.iter_mut().enumerate().rev() {
            let (Some(length), Some(stride)) = (shape.get(axis), strides.get(axis)) else { break };
            *index += 1;
            if *index < *length {
                self.place = self.place.wrapping_add(*stride);
                break;
            }
            // Wraps only for the stride of a dimension with one element, which is not used.
            self.place = self.place.wrapping_sub(stride.wrapping_mul(*length - 1));
            *index = 0;
        }
        Some(here)
    }
}

/// Whether the axes are the numbers below `len`, each once.
pub(crate) fn is_permutation(axes: &[usize], len: usize) -> bool {
    axes.len() == len && (0..len).all(|axis| axes.contains(&axis))
}

#[cold]
fn too_many(ndim: usize) -> Error {
    let message = format!("{ndim} dimensions, and {MAX_DIMENSIONS} are the most");
    Error::new(ErrorKind::LimitExceeded, message)
}

#[cold]
fn negative(shape: &[i64]) -> Error {
    let found = shape.iter().enumerate().find(|(_, length)| **length < 0);
    let (axis, length) = found.map_or((0, 0), |(axis, length)| (axis, *length));
    Error::new(ErrorKind::Malformed, format!("dimension {axis} has the length {length}"))
}

#[cold]
fn too_large() -> Error {
    Error::new(ErrorKind::LimitExceeded, "the tensor is larger than any memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(shape: &[i64], strides: &[i64]) -> Vec<i64> {
        let dims = Dims::new(shape, strides).unwrap();
        let runs = dims.runs();
        let length = runs.length as i64;
        // Inside a run the distance is 1 by definition.
        runs.flat_map(|place| (0..length).map(move |step| place + step)).collect()
    }

    /// Every index, multiplied out.
    fn expected(shape: &[i64], strides: &[i64]) -> Vec<i64> {
        shape.iter().zip(strides).fold(vec![0], |places, (length, stride)| {
            places.iter().flat_map(|place| (0..*length).map(move |i| place + i * stride)).collect()
        })
    }

    #[test]
    fn runs_visit_every_element_in_row_major_order() {
        for (shape, strides) in [
            (&[][..], &[][..]),
            (&[4], &[1]),
            (&[4], &[-1]),
            (&[3], &[0]),
            (&[2, 3], &[3, 1]),
            (&[2, 3], &[1, 2]),
            (&[2, 3, 4], &[24, 8, 1]),
            (&[2, 3, 4], &[12, 4, 1]),
            (&[2, 0, 4], &[12, 4, 1]),
            (&[1, 4], &[77, 1]),
            (&[2, 1, 2], &[2, -900, 1]),
            (&[3, 2, 1], &[-2, 1, 5]),
        ] {
            assert_eq!(places(shape, strides), expected(shape, strides), "{shape:?} {strides:?}");
        }
    }

    #[test]
    fn the_distance_of_a_single_element_means_nothing() {
        assert!(Dims::new(&[1, 4], &[77, 1]).unwrap().is_compact());
        assert!(Dims::new(&[4, 1], &[1, i64::MAX]).unwrap().is_compact());
        assert_eq!(Dims::new(&[1, 2], &[i64::MIN, -3]).unwrap().reach(), Some((-3, 0)));
        assert!(!Dims::new(&[2, 4], &[5, 1]).unwrap().is_compact());
        assert!(Dims::new(&[2, 0], &[9, 9]).unwrap().is_compact());
    }

    #[test]
    fn an_overflow_is_an_error() {
        let kind = |shape: &[i64], strides: &[i64]| Dims::new(shape, strides).unwrap_err().kind();
        assert_eq!(kind(&[-1], &[1]), ErrorKind::Malformed);
        assert_eq!(kind(&[1 << 32, 1 << 32], &[0, 0]), ErrorKind::LimitExceeded);
        assert_eq!(kind(&[3], &[i64::MAX]), ErrorKind::LimitExceeded);
        assert_eq!(kind(&[2, 2], &[i64::MIN, -1]), ErrorKind::LimitExceeded);
        assert_eq!(kind(&[1; 65], &[1; 65]), ErrorKind::LimitExceeded);
        assert_eq!(
            Dims::compact(&[1 << 40, 1 << 40]).unwrap_err().kind(),
            ErrorKind::LimitExceeded
        );
        assert_eq!(Dims::compact(&[1 << 40, 1 << 40, 0]).unwrap().count(), 0);
    }

    #[test]
    fn the_order_of_a_permuted_tensor_is_found() {
        let dims = Dims::compact(&[2, 3, 4]).unwrap();
        for axes in [[0, 1, 2], [2, 0, 1], [1, 2, 0], [2, 1, 0]] {
            let permuted = dims.permuted(&axes).unwrap();
            let order = permuted.compact_order().unwrap();
            assert_eq!(permuted.permuted(&order).unwrap(), dims, "{axes:?}");
        }
        assert_eq!(Dims::new(&[2, 3], &[4, 1]).unwrap().compact_order(), None);
        assert_eq!(Dims::new(&[2, 3], &[3, -1]).unwrap().compact_order(), None);
        assert_eq!(Dims::new(&[1, 3, 2], &[5, 1, 3]).unwrap().compact_order(), Some(vec![2, 1, 0]));
        assert!(dims.permuted(&[0, 0, 1]).is_err());
    }
}
