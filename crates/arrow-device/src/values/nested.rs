//! Arrays made of other arrays: lists, structs, unions, dictionaries and runs.

use super::pieces::{Bits, Offsets, aligned, refused};
use crate::{Array, DataType, Result, UnionMode};

/// Arrays made of other arrays.
impl Array {
    /// An array of lists, of any list type or a map. Each list takes the next `length` elements of
    /// `items`, and `None` is a null. A null of a fixed-size list takes as many elements as a list
    /// does.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let items = Array::from_values(DataType::Int32, [Some(1), Some(2), Some(3)])?;
    /// let lists = Array::from_lists(
    ///     DataType::list(DataType::Int32),
    ///     [Some(2), None, Some(1)],
    ///     items,
    /// )?;
    /// assert_eq!(lists.host()?.value(0)?.to_string(), "[1, 2]");
    /// assert_eq!(lists.host()?.value(1)?.to_string(), "null");
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_lists(
        data_type: DataType,
        lengths: impl IntoIterator<Item = Option<usize>>,
        items: Array,
    ) -> Result<Self> {
        use DataType::{FixedSizeList, LargeList, LargeListView, List, ListView, Map};
        let wide = matches!(data_type, LargeList(_) | LargeListView(_));
        let (first, sizes) = match data_type {
            List(_) | LargeList(_) | Map { .. } => (Some(Offsets::new(wide)), None),
            ListView(_) | LargeListView(_) => (Some(Offsets::new(wide)), Some(Offsets::new(wide))),
            FixedSizeList(..) => (None, None),
            _ => return Err(refused(format!("an array of {data_type} is not made from lists"))),
        };
        let fixed = match data_type {
            FixedSizeList(_, size) => usize::try_from(size).ok(),
            _ => None,
        };
        let is_view = sizes.is_some();
        let (mut starts, mut sizes, mut present) = (first, sizes, Bits::default());
        let mut end = 0_usize;
        for length in lengths {
            present.push(length.is_some());
            if let (Some(length), Some(size)) = (length, fixed)
                && length != size
            {
                return Err(refused(format!("a list of {length} elements is no {data_type}")));
            }
            let length = fixed.or(length).unwrap_or(0);
            if let Some(starts) = &mut starts {
                starts.push(end)?;
            }
            if let Some(sizes) = &mut sizes {
                sizes.push(length)?;
            }
            end = end.saturating_add(length);
        }
        if end > items.len() {
            return Err(refused(format!(
                "the lists take {end} elements, and there are {}",
                items.len()
            )));
        }
        if let Some(offsets) = starts.as_mut().filter(|_| !is_view) {
            offsets.push(end)?;
        }
        let mut buffers = Vec::new();
        for offsets in [starts, sizes].into_iter().flatten() {
            buffers.push(offsets.into_buffer()?);
        }
        present.array(data_type, buffers)?.children([items]).finish_ready()
    }

    /// An array of structs, with one array for each field. `present` says for each struct whether
    /// it is not null. Its length is the number of structs.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType, Field};
    /// let x = Array::from_values(DataType::Int32, [Some(1), Some(2)])?;
    /// let points = DataType::struct_([Field::new("x", DataType::Int32, true)]);
    /// let points = Array::from_fields(points, [true, false], [x])?;
    /// assert_eq!(points.host()?.value(0)?.to_string(), "{x: 1}");
    /// assert_eq!(points.null_count(), Some(1));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_fields(
        data_type: DataType,
        present: impl IntoIterator<Item = bool>,
        fields: impl IntoIterator<Item = Array>,
    ) -> Result<Self> {
        if !matches!(data_type, DataType::Struct(_)) {
            return Err(refused(format!("an array of {data_type} is not made from fields")));
        }
        let mut bits = Bits::default();
        bits.extend(present);
        bits.array(data_type, [])?.children(fields).finish_ready()
    }

    /// An array of a union. `type_ids` says for each element of which field it is.
    ///
    /// In a sparse union, an element has the same index in the array of its field. In a dense
    /// union, it is the next element of that array that was not taken yet.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType, Field, UnionMode};
    /// let number_or_text = DataType::union(
    ///     UnionMode::Dense,
    ///     [
    ///         Field::new("number", DataType::Int32, true),
    ///         Field::new("text", DataType::Utf8, true),
    ///     ],
    /// );
    /// let numbers = Array::from_values(DataType::Int32, [Some(7)])?;
    /// let texts = Array::from_texts(DataType::Utf8, [Some("a"), Some("b")])?;
    /// let mixed = Array::from_variants(number_or_text, [1, 0, 1], [numbers, texts])?;
    /// assert_eq!(mixed.host()?.value(2)?.to_string(), r#"text: "b""#);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_variants(
        data_type: DataType,
        type_ids: impl IntoIterator<Item = i8>,
        fields: impl IntoIterator<Item = Array>,
    ) -> Result<Self> {
        let DataType::Union { mode, type_ids: known, .. } = &data_type else {
            return Err(refused(format!("an array of {data_type} is not made from variants")));
        };
        let fields: Vec<Array> = fields.into_iter().collect();
        let mut taken = vec![0_usize; fields.len()];
        let (mut ids, mut offsets) = (Vec::new(), Offsets::new(false));
        for (row, id) in type_ids.into_iter().enumerate() {
            let field = known.iter().position(|known| *known == id);
            let (Some(taken), Some(field)) =
                field.and_then(|field| Some((taken.get_mut(field)?, fields.get(field)?))).unzip()
            else {
                return Err(refused(format!("{data_type} has no field of type id {id}")));
            };
            let is_dense = *mode == UnionMode::Dense;
            let position = if is_dense { *taken } else { row };
            if position >= field.len() {
                let has = field.len();
                return Err(refused(format!(
                    "element {row} is number {position} of a field that has {has}"
                )));
            }
            if is_dense {
                offsets.push(position)?;
            }
            *taken += 1;
            ids.push(id);
        }
        let len = ids.len();
        let ids = aligned(&ids.iter().map(|id| id.cast_unsigned()).collect::<Vec<_>>())?;
        let buffers = match mode {
            UnionMode::Sparse => vec![Some(ids)],
            UnionMode::Dense => vec![Some(ids), Some(offsets.into_buffer()?)],
        };
        Self::builder(data_type).len(len).buffers(buffers).children(fields).finish_ready()
    }

    /// A dictionary-encoded array. Each key is an index into `values`.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType, IndexType};
    /// let values = Array::from_texts(DataType::Utf8, [Some("low"), Some("high")])?;
    /// let levels = DataType::dictionary(IndexType::Int8, DataType::Utf8);
    /// let levels = Array::from_keys(levels, [Some(1), None, Some(0)], values)?;
    /// assert_eq!(levels.host()?.value(0)?.to_string(), "high");
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_keys(
        data_type: DataType,
        keys: impl IntoIterator<Item = Option<usize>>,
        values: Array,
    ) -> Result<Self> {
        let DataType::Dictionary { index, .. } = &data_type else {
            return Err(refused(format!("an array of {data_type} is not made from keys")));
        };
        let mut present = Bits::default();
        let mut bytes = Vec::new();
        for key in keys {
            present.push(key.is_some());
            if let Some(key) = key.filter(|key| *key >= values.len()) {
                return Err(refused(format!("key {key} is not among {} values", values.len())));
            }
            write_integer(index.data_type(), key.unwrap_or(0), &mut bytes)?;
        }
        present.array(data_type, [aligned(&bytes)?])?.dictionary(values).finish_ready()
    }

    /// A run-end encoded array. Run `n` repeats element `n` of `values` for `lengths[n]` times.
    ///
    /// ```
    /// # use arrow_device::{Array, DataType};
    /// let values = Array::from_texts(DataType::Utf8, [Some("on"), Some("off")])?;
    /// let states = Array::from_runs(
    ///     DataType::run_end_encoded(DataType::Int32, DataType::Utf8),
    ///     [3, 2],
    ///     values,
    /// )?;
    /// assert_eq!((states.len(), states.host()?.value(3)?.to_string()), (5, "off".to_owned()));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_runs(
        data_type: DataType,
        lengths: impl IntoIterator<Item = usize>,
        values: Array,
    ) -> Result<Self> {
        let DataType::RunEndEncoded { run_ends, .. } = &data_type else {
            return Err(refused(format!("an array of {data_type} is not made from runs")));
        };
        let (mut present, mut end, mut bytes) = (Bits::default(), 0_usize, Vec::new());
        for length in lengths {
            if length == 0 {
                return Err(refused("a run is not empty"));
            }
            end = end.saturating_add(length);
            present.push(true);
            write_integer(run_ends.data_type(), end, &mut bytes)?;
        }
        if present.len() != values.len() {
            let runs = present.len();
            return Err(refused(format!("{runs} runs do not have {} values", values.len())));
        }
        let ends =
            present.array(run_ends.data_type().clone(), [aligned(&bytes)?])?.finish_ready()?;
        Self::builder(data_type).len(end).children([ends, values]).finish_ready()
    }
}

/// Appends a number, as a value of this integer type.
fn write_integer(data_type: &DataType, number: usize, bytes: &mut Vec<u8>) -> Result<()> {
    let width = match data_type {
        DataType::Int8 | DataType::UInt8 => 1,
        DataType::Int16 | DataType::UInt16 => 2,
        DataType::Int32 | DataType::UInt32 => 4,
        _ => 8,
    };
    let sign = u32::from(data_type.is_signed_integer());
    let number = number as u64;
    if number.checked_shr(8 * width - sign).is_some_and(|beyond| beyond != 0) {
        return Err(crate::Error::new(
            crate::ErrorKind::LimitExceeded,
            format!("{number} is more than {data_type} holds"),
        )
        .during("build"));
    }
    match width {
        1 => bytes.extend((number as u8).to_ne_bytes()),
        2 => bytes.extend((number as u16).to_ne_bytes()),
        4 => bytes.extend((number as u32).to_ne_bytes()),
        _ => bytes.extend(number.to_ne_bytes()),
    }
    Ok(())
}
