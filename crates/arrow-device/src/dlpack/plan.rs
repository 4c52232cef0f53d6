//! Plans the conversion of an array to a tensor: follows nested fixed-size lists down to the
//! elements, and collects the dimensions and the nulls on the way.

use super::copy::{read_bytes, room};
use super::dims::Dims;
use super::fixed_shape::{self, FixedShape};
use super::storage::{Elements, elements_of};
use super::{Conversion, Nulls};
use crate::numbered::numbered;
use crate::{Array, DataType, Error, ErrorKind, Result};

/// The elements of an array, and their order.
pub(crate) struct TensorPlan {
    /// The array that has the elements, with a window on those that are used. For complex numbers
    /// this is the array of their parts.
    pub(crate) leaf: Array,
    pub(crate) elements: Elements,
    pub(crate) dims: Dims,
    levels: Vec<Level>,
}

/// One array on the way down, which may have nulls.
struct Level {
    array: Array,
    /// How many elements of the tensor one element of the array has, and how many elements of the
    /// array one element of the tensor has. One of the two is 1.
    per: u64,
    parts: u64,
}

impl TensorPlan {
    pub(crate) fn new(array: &Array, conversion: &Conversion) -> Result<Self> {
        let outermost = FixedShape { shape: vec![length_of(array)?], order: vec![0] };
        let mut groups = vec![outermost];
        let mut arrays = vec![array.clone()];
        let mut leaf = array.clone();
        let elements = loop {
            if let Some(elements) = elements_of(leaf.field()) {
                break elements;
            }
            let DataType::FixedSizeList(_, size) = leaf.data_type() else {
                return Err(no_tensor(leaf.data_type()));
            };
            let size = i64::from(*size);
            groups.push(shape_of(&leaf, size)?);
            leaf = items(&leaf, size)?;
            arrays.push(leaf.clone());
        };
        if matches!(elements, Elements::View(_)) && !conversion.as_integers {
            let message = format!(
                "a {} would lose its meaning as a tensor of integers; allow that with `as_integers`",
                leaf.data_type()
            );
            return Err(Error::new(ErrorKind::Unsupported, message));
        }
        let total = length_of(&leaf)?.unsigned_abs();
        let per = |array: &Array| total.checked_div(array.len() as u64).unwrap_or(0);
        let mut levels: Vec<Level> =
            arrays.into_iter().map(|array| Level { per: per(&array), parts: 1, array }).collect();
        if let Elements::Complex(_) = elements {
            leaf = items(&leaf, 2)?;
            levels.push(Level { array: leaf.clone(), per: 1, parts: 2 });
        }
        Ok(Self { leaf, elements, dims: dims_of(&groups)?, levels })
    }

    /// The number of elements.
    pub(crate) fn count(&self) -> u64 {
        self.dims.count()
    }

    /// Whether the array itself has the elements, and no other array can have nulls.
    pub(crate) fn has_one_level(&self) -> bool {
        self.levels.len() == 1
    }

    /// Which elements are not null, in the order of memory; `None` if all are. Reads a bitmap only
    /// where there is one and the number of nulls is not known to be 0.
    pub(crate) fn validity(
        &self,
        conversion: &Conversion,
        beside: bool,
    ) -> Result<Option<Vec<bool>>> {
        let refuses = conversion.nulls == Nulls::Refused && !beside;
        let mut valid: Option<Vec<bool>> = None;
        for level in &self.levels {
            let array = &level.array;
            let has_bitmap = !array.node().buffer(0).is_null();
            if array.is_empty() || array.null_count() == Some(0) || !has_bitmap {
                continue;
            }
            if array.null_count().is_some() && refuses {
                return Err(self.null_in(array));
            }
            let Some(bits) = bits(array, 0, conversion)?.filter(|bits| bits.contains(&false))
            else {
                continue;
            };
            if refuses {
                return Err(self.null_in(array));
            }
            if !beside {
                conversion.may_copy(|| "there are nulls, and nobody may write over them".into())?;
            }
            let count = usize::try_from(self.count()).unwrap_or(0);
            if valid.is_none() {
                let mut all = room(count)?;
                all.resize(count, true);
                valid = Some(all);
            }
            let valid = valid.get_or_insert_default();
            for (element, valid) in valid.iter_mut().enumerate() {
                let first = (element as u64 * level.parts).checked_div(level.per).unwrap_or(0);
                let own =
                    (first..first + level.parts).all(|index| *numbered(bits.get(index as usize)));
                *valid &= own;
            }
        }
        Ok(valid)
    }

    fn null_in(&self, array: &Array) -> Error {
        let place = array.tree().schema.place(array.node_number());
        Nulls::refusal().at(place)
    }
}

/// The bits of a buffer, one for each element of an array; `None` where there is no buffer.
pub(crate) fn bits(
    array: &Array,
    buffer: usize,
    conversion: &Conversion,
) -> Result<Option<Vec<bool>>> {
    if array.is_empty() {
        return Ok(None);
    }
    let (offset, len) = (array.offset(), array.len());
    let (first, shift) = (offset / 8, offset % 8);
    let bytes = (shift + len).div_ceil(8) as u64;
    let queue = conversion.queue_for(array)?;
    let bytes = read_bytes(array, buffer, first as u64, bytes, &queue)?;
    let all = bytes.iter().flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 == 1));
    let mut bits = room(len)?;
    bits.extend(all.skip(shift).take(len));
    Ok(Some(bits))
}

/// The elements of the lists of an array.
fn items(lists: &Array, size: i64) -> Result<Array> {
    let size = usize::try_from(size).unwrap_or(0);
    let too_large = || Error::new(ErrorKind::LimitExceeded, "the lists are longer than any memory");
    let first = lists.offset().checked_mul(size).ok_or_else(too_large)?;
    let count = lists.len().checked_mul(size).ok_or_else(too_large)?;
    lists.node_child(0)?.slice(first, count)
}

fn shape_of(lists: &Array, size: i64) -> Result<FixedShape> {
    match lists.field().extension() {
        Some(extension) if extension.name == fixed_shape::NAME => {
            FixedShape::parse(extension.metadata, size)
        }
        _ => Ok(FixedShape { shape: vec![size], order: vec![0] }),
    }
}

fn length_of(array: &Array) -> Result<i64> {
    i64::try_from(array.len())
        .map_err(|_| Error::new(ErrorKind::LimitExceeded, "the array is too long"))
}

/// The dimensions of nested lists. They are compact in memory, and the dimensions of each group are
/// in the order of the group's parameters.
fn dims_of(groups: &[FixedShape]) -> Result<Dims> {
    let shape: Vec<i64> = groups.iter().flat_map(|group| group.shape.iter().copied()).collect();
    let mut axes = Vec::with_capacity(shape.len());
    for group in groups {
        let first = axes.len();
        axes.extend(group.order.iter().map(|axis| first + axis));
    }
    Dims::compact(&shape)?.permuted(&axes)
}

fn no_tensor(data_type: &DataType) -> Error {
    let message = format!("a tensor has no elements like {data_type}");
    Error::new(ErrorKind::Unsupported, message)
}
