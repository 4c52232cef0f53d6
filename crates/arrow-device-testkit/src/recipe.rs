//! Arrays of every type as plain bytes, from which arrays are built. The bytes can be changed one
//! by one, and are read with every index checked.

use arrow_device::{Array, DataType, Field, IndexType, UnionMode};

/// An array that is not built yet.
#[derive(Clone, Debug)]
pub struct ArrayRecipe {
    /// The type.
    pub data_type: DataType,
    /// The number of elements.
    pub len: usize,
    /// How many elements of the buffers come before the first one.
    pub offset: usize,
    /// How many elements are null, if the array says so.
    pub null_count: Option<usize>,
    /// The bytes of each buffer. An absent buffer is `None`.
    pub buffers: Vec<Option<Vec<u8>>>,
    /// The children.
    pub children: Vec<ArrayRecipe>,
    /// The values of a dictionary.
    pub dictionary: Option<Box<ArrayRecipe>>,
}

/// The bytes of numbers.
pub trait ToBytes {
    /// Returns the bytes, as a buffer that is there.
    fn bytes(&self) -> Option<Vec<u8>>;
}

macro_rules! bytes {
    ($($type:ty),*) => {$(
        impl<const N: usize> ToBytes for [$type; N] {
            fn bytes(&self) -> Option<Vec<u8>> {
                Some(self.iter().flat_map(|value| value.to_ne_bytes()).collect())
            }
        }
    )*};
}
bytes!(i8, u8, i16, u16, i32, u32, i64, u64);

impl ArrayRecipe {
    /// Makes a recipe with these buffers, without children and without a dictionary.
    pub fn new(data_type: DataType, len: usize, buffers: impl Into<Vec<Option<Vec<u8>>>>) -> Self {
        Self {
            data_type,
            len,
            offset: 0,
            null_count: None,
            buffers: buffers.into(),
            children: Vec::new(),
            dictionary: None,
        }
    }

    /// Sets the first element of the buffers that belongs to the array.
    pub fn offset(mut self, offset: usize) -> Self {
        self.offset = offset;
        self
    }

    /// Sets how many elements the array says are null.
    pub fn nulls(mut self, null_count: usize) -> Self {
        self.null_count = Some(null_count);
        self
    }

    /// Sets the children.
    pub fn children(mut self, children: impl Into<Vec<ArrayRecipe>>) -> Self {
        self.children = children.into();
        self
    }

    /// Sets the values of a dictionary.
    pub fn dictionary(mut self, dictionary: ArrayRecipe) -> Self {
        self.dictionary = Some(Box::new(dictionary));
        self
    }

    /// Builds the array with the library.
    pub fn build(&self) -> arrow_device::Result<Array> {
        let buffers = self.buffers.iter().map(|bytes| bytes.clone().map(Into::into));
        let children: Vec<Array> =
            self.children.iter().map(Self::build).collect::<Result<_, _>>()?;
        let mut builder = Array::builder(self.data_type.clone())
            .len(self.len)
            .offset(self.offset)
            .buffers(buffers)
            .children(children);
        if let Some(null_count) = self.null_count {
            builder = builder.null_count(null_count);
        }
        if let Some(dictionary) = &self.dictionary {
            builder = builder.dictionary(dictionary.build()?);
        }
        builder.finish_ready()
    }

    /// Returns all bytes of all buffers, to be changed.
    pub fn bytes_mut(&mut self) -> Vec<&mut u8> {
        let own = self.buffers.iter_mut().flatten().flatten();
        let below = self.children.iter_mut().chain(self.dictionary.as_deref_mut());
        own.chain(below.flat_map(Self::bytes_mut)).collect()
    }

    /// Reads all elements as the format defines. Panics where an index is out of bounds.
    pub fn read_all(&self) {
        (0..self.len).for_each(|index| self.read(index));
    }

    fn read(&self, index: usize) {
        assert!(index < self.len, "element {index} of {}", self.len);
        let at = self.offset + index;
        let has_bitmap = !matches!(
            self.data_type,
            DataType::Null | DataType::Union { .. } | DataType::RunEndEncoded { .. }
        );
        if has_bitmap
            && self.buffers[0].as_ref().is_some_and(|bits| bits[at / 8] >> (at % 8) & 1 == 0)
        {
            return;
        }
        match &self.data_type {
            DataType::Null => {}
            DataType::Utf8 | DataType::Binary => {
                self.read_bytes(self.i32(1, at), self.i32(1, at + 1))
            }
            DataType::LargeUtf8 | DataType::LargeBinary => {
                self.read_bytes(self.i64(1, at), self.i64(1, at + 1))
            }
            DataType::Utf8View | DataType::BinaryView => self.read_view(at),
            DataType::List(_) | DataType::Map { .. } => {
                (self.i32(1, at)..self.i32(1, at + 1)).for_each(|item| self.children[0].read(item))
            }
            DataType::LargeList(_) => {
                (self.i64(1, at)..self.i64(1, at + 1)).for_each(|item| self.children[0].read(item))
            }
            DataType::ListView(_) => {
                (0..self.i32(2, at)).for_each(|item| self.children[0].read(self.i32(1, at) + item))
            }
            DataType::LargeListView(_) => {
                (0..self.i64(2, at)).for_each(|item| self.children[0].read(self.i64(1, at) + item))
            }
            DataType::FixedSizeList(_, size) => {
                let size = *size as usize;
                (at * size..(at + 1) * size).for_each(|item| self.children[0].read(item));
            }
            DataType::Struct(_) => self.children.iter().for_each(|child| child.read(at)),
            DataType::Union { mode, type_ids, .. } => {
                let id = self.buffers[0].as_ref().unwrap()[at] as i8;
                let child =
                    type_ids.iter().position(|known| *known == id).expect("a known type id");
                let place = if *mode == UnionMode::Dense { self.i32(1, at) } else { at };
                self.children[child].read(place);
            }
            DataType::Dictionary { index, .. } => {
                let key = match index {
                    IndexType::Int8 | IndexType::UInt8 => {
                        self.buffers[1].as_ref().unwrap()[at] as usize
                    }
                    IndexType::Int32 => self.i32(1, at),
                    _ => self.i64(1, at),
                };
                self.dictionary.as_ref().unwrap().read(key);
            }
            DataType::RunEndEncoded { .. } => {
                let ends = &self.children[0];
                let run = (0..ends.len).find(|run| ends.i32(1, ends.offset + run) > at);
                self.children[1].read(run.expect("a run for each element"));
            }
            DataType::Boolean => assert!(self.buffers[1].as_ref().unwrap().len() > at / 8),
            _ => assert!(self.buffers[1].as_ref().unwrap().len() >= (at + 1) * 4),
        }
    }

    fn read_bytes(&self, begin: usize, end: usize) {
        let bytes = self.buffers[2].as_deref().unwrap_or_default();
        self.check_text(&bytes[begin..end]);
    }

    fn read_view(&self, at: usize) {
        let view = &self.buffers[1].as_ref().unwrap()[at * 16..][..16];
        let number = |word: usize| i32::from_ne_bytes(view[word * 4..][..4].try_into().unwrap());
        let len = number(0) as usize;
        if len <= 12 {
            return self.check_text(&view[4..4 + len]);
        }
        let data = self.buffers[2 + number(2) as usize].as_deref().unwrap_or_default();
        let value = &data[number(3) as usize..][..len];
        assert_eq!(value[..4], view[4..8]);
        self.check_text(value);
    }

    fn check_text(&self, bytes: &[u8]) {
        if self.data_type.is_text() {
            std::str::from_utf8(bytes).unwrap();
        }
    }

    /// Negative numbers become numbers that are out of any bounds.
    fn i32(&self, buffer: usize, at: usize) -> usize {
        let bytes = &self.buffers[buffer].as_ref().unwrap()[at * 4..][..4];
        i32::from_ne_bytes(bytes.try_into().unwrap()) as usize
    }

    fn i64(&self, buffer: usize, at: usize) -> usize {
        let bytes = &self.buffers[buffer].as_ref().unwrap()[at * 8..][..8];
        i64::from_ne_bytes(bytes.try_into().unwrap()) as usize
    }
}

/// Four numbers; the second one is null.
pub fn numbers() -> ArrayRecipe {
    ArrayRecipe::new(DataType::Int32, 4, [[0b1101_u8].bytes(), [1_i32, 2, 3, 4].bytes()])
}

/// Words; the third one is null.
pub fn text() -> ArrayRecipe {
    let words = "über tea null ø";
    let offsets = [0_i32, 5, 9, 14, words.len() as i32];
    let buffers = [[0b1011_u8].bytes(), offsets.bytes(), Some(words.as_bytes().to_vec())];
    ArrayRecipe::new(DataType::Utf8, 4, buffers)
}

/// Returns a view of bytes in a data buffer.
pub fn long_view(value: &[u8], buffer: i32, offset: i32) -> Vec<u8> {
    let mut view = (value.len() as i32).to_ne_bytes().to_vec();
    view.extend(&value[..4]);
    view.extend(buffer.to_ne_bytes());
    view.extend(offset.to_ne_bytes());
    view
}

/// Returns a view of at most 12 bytes.
pub fn short_view(value: &[u8]) -> Vec<u8> {
    let mut view = (value.len() as i32).to_ne_bytes().to_vec();
    view.extend(value);
    view.resize(16, 0);
    view
}

/// Text, some of it in data buffers.
pub fn views() -> ArrayRecipe {
    let (first, second) = ("the first data buffer", "..der zweite, länger");
    let views = [
        short_view(b"tea"),
        long_view(first.as_bytes(), 0, 0),
        vec![0xff; 16],
        long_view(&second.as_bytes()[2..], 1, 2),
        long_view(&first.as_bytes()[4..20], 0, 4),
    ];
    let data = [Some(first.as_bytes().to_vec()), Some(second.as_bytes().to_vec())];
    let buffers: Vec<_> =
        [[0b11011_u8].bytes(), Some(views.concat())].into_iter().chain(data).collect();
    ArrayRecipe::new(DataType::Utf8View, 5, buffers)
}

/// Three lists of a child; the second one is null.
pub fn list(child: ArrayRecipe) -> ArrayRecipe {
    let data_type = DataType::list(child.data_type.clone());
    ArrayRecipe::new(data_type, 3, [[0b101_u8].bytes(), [0_i32, 1, 3, 4].bytes()]).children([child])
}

/// Four list views of a child.
pub fn list_view(child: ArrayRecipe) -> ArrayRecipe {
    let data_type = DataType::list_view(child.data_type.clone());
    ArrayRecipe::new(data_type, 4, [None, [3_i32, 0, 4, 1].bytes(), [1_i32, 4, 0, 2].bytes()])
        .children([child])
}

/// Two maps of letters to numbers.
pub fn map() -> ArrayRecipe {
    let keys = ArrayRecipe::new(
        DataType::Utf8,
        4,
        [None, [0_i32, 1, 2, 3, 4].bytes(), Some(b"abcd".to_vec())],
    );
    let values = numbers();
    let map = DataType::map(DataType::Utf8, DataType::Int32);
    let entries = map.child(0).unwrap().data_type().clone();
    let entries = ArrayRecipe::new(entries, 3, [None]).offset(1).children([keys, values]);
    ArrayRecipe::new(map, 2, [None, [0_i32, 1, 3].bytes()]).children([entries])
}

/// Keys into words. The key of the null element leads nowhere.
pub fn dictionary() -> ArrayRecipe {
    let keys = [[0b1011_u8].bytes(), [3_i8, 0, -7, 3].bytes()];
    ArrayRecipe::new(DataType::dictionary(IndexType::Int8, DataType::Utf8), 4, keys)
        .dictionary(text())
}

/// A dense union of numbers and words.
pub fn dense_union() -> ArrayRecipe {
    let fields = [Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8, true)];
    let ids = [0_i8, 1, 0, 1, 1].bytes();
    ArrayRecipe::new(
        DataType::union(UnionMode::Dense, fields),
        5,
        [ids, [0_i32, 1, 2, 1, 3].bytes()],
    )
    .children([numbers(), text()])
}

/// A sparse union of words and numbers.
pub fn sparse_union() -> ArrayRecipe {
    let fields: [Field; 2] =
        [Field::new("n", DataType::Int32, true), Field::new("t", DataType::Utf8, true)];
    let union =
        DataType::Union { mode: UnionMode::Sparse, type_ids: [5, 9].into(), fields: fields.into() };
    ArrayRecipe::new(union, 3, [[9_i8, 5, 5, 9].bytes()]).offset(1).children([numbers(), text()])
}

/// Runs of words, beginning in the middle of a run.
pub fn runs() -> ArrayRecipe {
    let ends = ArrayRecipe::new(DataType::Int32, 3, [None, [99_i32, 2, 5, 9].bytes()]).offset(1);
    ArrayRecipe::new(DataType::run_end_encoded(DataType::Int32, DataType::Utf8), 6, [])
        .offset(3)
        .children([ends, text()])
}

/// Returns an array of every layout, some nested in others.
pub fn samples() -> Vec<ArrayRecipe> {
    let large_text = {
        let ArrayRecipe { buffers, .. } = text();
        let offsets = [0_i64, 5, 9, 14, 17].bytes();
        ArrayRecipe::new(DataType::LargeUtf8, 3, [buffers[0].clone(), offsets, buffers[2].clone()])
            .offset(1)
            .nulls(1)
    };
    let fields = |children: &[ArrayRecipe]| {
        children
            .iter()
            .map(|child| Field::new("f", child.data_type.clone(), true))
            .collect::<Vec<_>>()
    };
    let columns = vec![numbers(), text(), dictionary()];
    let record = ArrayRecipe::new(DataType::struct_(fields(&columns)), 4, [[0b0111_u8].bytes()])
        .children(columns);
    let large_list = ArrayRecipe::new(
        DataType::large_list(record.data_type.clone()),
        2,
        [None, [0_i64, 3, 4].bytes()],
    )
    .children([record.clone()]);
    let fixed =
        ArrayRecipe::new(DataType::fixed_size_list(DataType::Utf8View, 2), 2, [[0b01_u8].bytes()])
            .children([views()]);
    let keys = [None, [1_u64, 0, 2].bytes()];
    let nested_dictionary =
        ArrayRecipe::new(DataType::dictionary(IndexType::UInt64, list(text()).data_type), 3, keys)
            .dictionary(list(text()));
    let large_list_view = ArrayRecipe::new(
        DataType::large_list_view(DataType::Int32),
        2,
        [[0b10_u8].bytes(), [1_i64, 0].bytes(), [2_i64, 4].bytes()],
    )
    .children([numbers()]);
    vec![
        ArrayRecipe::new(DataType::Null, 3, []),
        ArrayRecipe::new(DataType::Boolean, 9, [None, Some(vec![0xa5, 0xff])]),
        numbers().nulls(1),
        text(),
        large_text,
        views(),
        list(list_view(numbers())),
        list_view(views()),
        large_list,
        large_list_view,
        fixed,
        record,
        map(),
        dictionary(),
        nested_dictionary,
        dense_union(),
        sparse_union(),
        runs(),
        ArrayRecipe::new(DataType::Utf8, 0, [None, None, None]),
    ]
}
