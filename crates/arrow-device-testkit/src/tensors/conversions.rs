//! Converts arrays to tensors and tensors to arrays on any device, and compares value by value.

use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Element, Nulls, Tensor};
use arrow_device::{Array, Batch, Buffer, DataType, ErrorKind, Field, Queue};

/// Runs all conversions on the device of a queue.
pub fn run(queue: &Queue) {
    let bench = Bench { queue };
    bench.slices_begin_where_they_begin();
    bench.nulls_become_what_is_said();
    bench.nulls_are_seen_at_every_level();
    bench.validity_comes_beside();
    bench.booleans_are_expanded_and_packed();
    bench.bytes_that_are_booleans_are_looked_at();
    bench.lists_and_shapes_are_dimensions();
    bench.complex_numbers_lie_in_pairs();
    bench.batches_are_matrices();
    bench.shared_memory_is_not_copied();
}

struct Bench<'queue> {
    queue: &'queue Queue,
}

fn never() -> Conversion {
    Conversion::new()
}

fn if_needed() -> Conversion {
    Conversion::new().copying(CopyPolicy::IfNeeded)
}

impl Bench<'_> {
    fn up(&self, array: &Array) -> Array {
        array.copy_with(self.queue, &arrow_device::copy::Options::new().trim(false)).unwrap()
    }

    fn read<T: Element>(&self, tensor: &Tensor) -> Vec<T> {
        tensor.copy_to_host(self.queue).unwrap().host().unwrap().to_vec().unwrap()
    }

    fn bytes(&self, tensor: &Tensor) -> Vec<u8> {
        tensor.copy_to_host(self.queue).unwrap().host().unwrap().to_bytes().unwrap()
    }

    fn tensor(&self, array: &Array, conversion: Conversion) -> Tensor {
        array.to_tensor(&conversion.on(self.queue)).unwrap()
    }

    fn refusal(&self, array: &Array, conversion: Conversion) -> ErrorKind {
        array.to_tensor(&conversion.on(self.queue)).unwrap_err().kind()
    }

    /// Returns numbers of which every third is null.
    fn gaps(&self, count: i32) -> Array {
        let values = (0..count).map(|value| (value % 3 != 0).then_some(f64::from(value)));
        self.up(&Array::from_values(DataType::Float64, values).unwrap())
    }

    fn slices_begin_where_they_begin(&self) {
        let values = (0..100_u16).map(Some);
        let all = self.up(&Array::from_values(DataType::UInt16, values).unwrap());
        for (first, length) in [(0, 100), (7, 20), (99, 1), (50, 0)] {
            let part = self.tensor(&all.slice(first, length).unwrap(), never());
            let expected: Vec<u16> = (first as u16..(first + length) as u16).collect();
            assert_eq!(self.read::<u16>(&part), expected);
            // The way back works where the handle does not have to move.
            let again = part.to_array(&never().on(self.queue)).unwrap();
            assert_eq!(self.read::<u16>(&self.tensor(&again, never())), expected);
        }
    }

    fn nulls_become_what_is_said(&self) {
        let count = if cfg!(miri) { 20 } else { 3000 };
        let gaps = self.gaps(count).slice(1, count as usize - 10).unwrap();
        assert_eq!(self.refusal(&gaps, never()), ErrorKind::InvalidData);
        assert_eq!(self.refusal(&gaps, if_needed()), ErrorKind::InvalidData);
        let fill = || Nulls::fill(-1.0_f64);
        assert_eq!(self.refusal(&gaps, never().nulls(fill())), ErrorKind::Unsupported);
        let wrong = if_needed().nulls(Nulls::fill(-1_i64));
        assert_eq!(self.refusal(&gaps, wrong), ErrorKind::InvalidArgument);
        let value = |value: i32| if value % 3 == 0 { -1.0 } else { f64::from(value) };
        let expected: Vec<f64> = (1..count - 9).map(value).collect();
        let filled = self.tensor(&gaps, if_needed().nulls(fill()));
        assert_eq!(self.read::<f64>(&filled), expected);
        let marked = self.read::<f64>(&self.tensor(&gaps, if_needed().nulls(Nulls::NaN)));
        assert!(marked.iter().zip(&expected).all(|(a, b)| if *b < 0.0 {
            a.is_nan()
        } else {
            a == b
        }));
        // A part without nulls is shared, although nobody counted its nulls.
        let whole = self.gaps(9).slice(1, 2).unwrap();
        assert_eq!(whole.null_count(), None);
        assert_eq!(self.read::<f64>(&self.tensor(&whole, never())), [1.0, 2.0]);
        // Long runs of nulls are filled in pieces.
        let many = if cfg!(miri) { 40 } else { 5000 };
        let none = Array::from_values(DataType::Int8, vec![None::<i8>; many]).unwrap();
        let zeros = self.tensor(&self.up(&none), if_needed().nulls(Nulls::fill(7_i8)));
        assert_eq!(self.read::<i8>(&zeros), vec![7; many]);
        let integers = self.up(&none.slice(0, 1).unwrap());
        let marked = if_needed().nulls(Nulls::NaN);
        assert_eq!(self.refusal(&integers, marked), ErrorKind::InvalidArgument);
    }

    /// Returns lists of `size` items each. `validity` has the bits of the lists' bitmap.
    fn lists(&self, items: Array, size: i32, validity: Option<u8>) -> Array {
        let len = items.len() / size as usize;
        let bitmap = validity.map(|bits| Buffer::from(vec![bits]));
        let field = DataType::fixed_size_list(items.field().clone(), size);
        let lists = Array::builder(field).len(len).buffers([bitmap]).children([items]);
        lists.finish_ready().unwrap()
    }

    fn nulls_are_seen_at_every_level(&self) {
        let items = |null: Option<usize>| {
            let values = (0..12).map(|value| (Some(value) != null).then_some(value as i32));
            Array::from_values(DataType::Int32, values).unwrap()
        };
        let nested =
            |null, inner, outer| self.up(&self.lists(self.lists(items(null), 2, inner), 3, outer));
        let fill = || if_needed().nulls(Nulls::fill(-1_i32));
        let whole: Vec<i32> = (0..12).collect();
        let filled = |from: usize, to: usize| {
            let mut filled = whole.clone();
            filled[from..to].fill(-1);
            filled
        };
        let all = nested(None, Some(0b11_1111), Some(0b11));
        assert_eq!(self.read::<i32>(&self.tensor(&all, never())), whole);
        for (array, expected) in [
            (nested(Some(5), None, None), filled(5, 6)),
            (nested(None, Some(0b10_1111), None), filled(8, 10)),
            (nested(None, None, Some(0b01)), filled(6, 12)),
        ] {
            assert_eq!(self.refusal(&array, if_needed()), ErrorKind::InvalidData);
            let tensor = self.tensor(&array, fill());
            assert_eq!(tensor.shape(), [2, 3, 2]);
            assert_eq!(self.read::<i32>(&tensor), expected);
        }
        // A null that is sliced away does not count.
        let second = nested(Some(5), None, None).slice(1, 1).unwrap();
        assert_eq!(self.read::<i32>(&self.tensor(&second, never())), whole[6..]);
    }

    fn validity_comes_beside(&self) {
        let gaps = self.gaps(10).slice(1, 6).unwrap();
        let (values, validity) = gaps.to_tensor_and_validity(&never().on(self.queue)).unwrap();
        let validity = validity.unwrap();
        assert_eq!((validity.dtype(), validity.shape()), (Dtype::BOOL, values.shape()));
        assert_eq!(self.bytes(&validity), [1, 1, 0, 1, 1, 0]);
        let values = self.read::<f64>(&values);
        assert_eq!((values[0], values[1], values[4]), (1.0, 2.0, 5.0));
        let (_, validity) =
            gaps.slice(0, 2).unwrap().to_tensor_and_validity(&never().on(self.queue)).unwrap();
        assert!(validity.is_none(), "nothing is null");
    }

    fn booleans_are_expanded_and_packed(&self) {
        let bits = (0..77).map(|index| Some(index % 3 == 0));
        let bits = self.up(&Array::from_bools(bits).unwrap()).slice(5, 70).unwrap();
        assert_eq!(self.refusal(&bits, never()), ErrorKind::Unsupported);
        let bytes = self.tensor(&bits, if_needed());
        let expected: Vec<u8> = (5..75).map(|index| u8::from(index % 3 == 0)).collect();
        assert_eq!((bytes.dtype(), self.bytes(&bytes)), (Dtype::BOOL, expected.clone()));
        let packed = bytes.to_array(&if_needed().pack_bools(true).on(self.queue)).unwrap();
        assert_eq!((packed.data_type(), packed.len()), (&DataType::Boolean, 70));
        assert_eq!(self.bytes(&self.tensor(&packed, if_needed())), expected);
        let refused = bytes.to_array(&never().pack_bools(true).on(self.queue)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let gap = self.up(&Array::from_bools([Some(true), None, Some(false)]).unwrap());
        let yes = Nulls::Fill { dtype: Dtype::BOOL, value: vec![1] };
        assert_eq!(self.bytes(&self.tensor(&gap, if_needed().nulls(yes))), [1, 1, 0]);
    }

    fn bytes_that_are_booleans_are_looked_at(&self) {
        let field = Field::from(DataType::Int8).with_extension("arrow.bool8", "").unwrap();
        let build = |bytes: Vec<i8>| {
            let array = Array::builder(field.clone()).len(4).buffers([None, Some(bytes.into())]);
            self.up(&array.finish_ready().unwrap())
        };
        let clean = self.tensor(&build(vec![0, 1, 1, 0]), never());
        assert_eq!((clean.dtype(), self.bytes(&clean)), (Dtype::BOOL, vec![0, 1, 1, 0]));
        let odd = build(vec![0, 5, -1, 1]);
        assert_eq!(self.refusal(&odd, never()), ErrorKind::Unsupported);
        assert_eq!(self.bytes(&self.tensor(&odd, if_needed())), [0, 1, 1, 1]);
        let trusted = self.tensor(&odd, never().trust_bools(true));
        assert_eq!(self.bytes(&trusted), [0, 5, 255, 1]);
        let again = clean.to_array(&never().on(self.queue)).unwrap();
        assert_eq!(again.field().extension().unwrap().name, "arrow.bool8");
    }

    fn lists_and_shapes_are_dimensions(&self) {
        let values = (0..24).map(|value| Some(value as f32));
        let items = Array::from_values(DataType::Float32, values).unwrap();
        let nested = self.up(&self.lists(self.lists(items.clone(), 3, None), 2, None));
        let tensor = self.tensor(&nested.slice(1, 2).unwrap(), never());
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 2, 3][..], &[6, 3, 1][..]));
        let expected: Vec<f32> = (6..18).map(|value| value as f32).collect();
        assert_eq!(self.read::<f32>(&tensor), expected);
        let lists = tensor.to_array(&never().as_lists(true).on(self.queue)).unwrap();
        assert_eq!((lists.len(), lists.child(0).unwrap().len()), (2, 4));
        assert_eq!(self.read::<f32>(&self.tensor(&lists, never())), expected);

        // The memory is 2 by 3, and the tensor 3 by 2.
        let field = DataType::fixed_size_list(items.field().clone(), 6);
        let metadata = "{\"permutation\":[1,0],\"shape\":[2,3]}";
        let field =
            Field::from(field).with_extension("arrow.fixed_shape_tensor", metadata).unwrap();
        let shaped = Array::builder(field).len(4).buffers([None]).children([items]);
        let shaped = self.up(&shaped.finish_ready().unwrap());
        let tensor = self.tensor(&shaped.slice(2, 2).unwrap(), never());
        assert_eq!((tensor.shape(), tensor.strides()), (&[2, 3, 2][..], &[6, 1, 3][..]));
        let turned = [12, 15, 13, 16, 14, 17, 18, 21, 19, 22, 20, 23].map(|value| value as f32);
        assert_eq!(self.read::<f32>(&tensor), turned);
        let again = tensor.to_array(&never().on(self.queue)).unwrap();
        let extension = again.field().extension().unwrap();
        assert_eq!(extension.metadata, b"{\"shape\":[2, 3],\"permutation\":[1, 0]}");
        let again = self.tensor(&again, never());
        assert_eq!((again.shape(), again.strides()), (tensor.shape(), tensor.strides()));
        assert_eq!(self.read::<f32>(&again), turned);
        // The order of three dimensions is no swap.
        let cube =
            Tensor::from_buffer(vec![1_i32; 48].into(), Dtype::INT32, &[2, 2, 3, 4]).unwrap();
        let cube = cube.permuted(&[0, 3, 1, 2]).unwrap();
        let there = cube.to_array(&never()).unwrap().to_tensor(&never()).unwrap();
        assert_eq!((there.shape(), there.strides()), (cube.shape(), cube.strides()));
        let lists = cube.to_array(&never().as_lists(true)).unwrap_err();
        assert_eq!(lists.kind(), ErrorKind::Unsupported);
        // The metadata says something else than the type.
        let wrong = Field::from(DataType::fixed_size_list(Field::from(DataType::Int8), 2))
            .with_extension("arrow.fixed_shape_tensor", "{\"shape\":[3]}")
            .unwrap();
        let items = Array::from_values(DataType::Int8, [Some(1_i8), Some(2)]).unwrap();
        let wrong = Array::builder(wrong).len(1).buffers([None]).children([items]).finish_ready();
        assert_eq!(self.refusal(&wrong.unwrap(), never()), ErrorKind::Malformed);
    }

    fn complex_numbers_lie_in_pairs(&self) {
        let parts = (0..8).map(|value| Some(value as f32));
        let parts = Array::from_values(DataType::Float32, parts).unwrap();
        let field = DataType::fixed_size_list(parts.field().clone(), 2);
        let field = Field::from(field).with_extension("arrow_device.complex", "").unwrap();
        let pairs = Array::builder(field).len(4).buffers([Some(vec![0b1011_u8].into())]);
        let pairs = self.up(&pairs.children([parts]).finish_ready().unwrap());
        let tensor = self.tensor(&pairs.slice(0, 2).unwrap(), never());
        assert_eq!((tensor.dtype(), tensor.shape()), (Dtype::COMPLEX64, &[2][..]));
        let numbers = |tensor: &Tensor| -> Vec<f32> {
            let bytes = self.bytes(tensor);
            bytes.chunks(4).map(|four| f32::from_ne_bytes(four.try_into().unwrap())).collect()
        };
        assert_eq!(numbers(&tensor), [0.0, 1.0, 2.0, 3.0]);
        let value: Vec<u8> = [9.0_f32, 8.0].iter().flat_map(|part| part.to_ne_bytes()).collect();
        let fill = Nulls::Fill { dtype: Dtype::COMPLEX64, value };
        let filled = self.tensor(&pairs.slice(1, 3).unwrap(), if_needed().nulls(fill));
        assert_eq!(numbers(&filled), [2.0, 3.0, 9.0, 8.0, 6.0, 7.0]);
        let again = filled.to_array(&never().on(self.queue)).unwrap();
        assert_eq!(numbers(&self.tensor(&again, never())), numbers(&filled));
    }

    fn batches_are_matrices(&self) {
        let all: Vec<i64> = (0..20).collect();
        let mut memory = self.queue.allocate(160).unwrap();
        let bytes: Vec<u8> = all.iter().flat_map(|value| value.to_ne_bytes()).collect();
        memory.write(self.queue, &bytes).unwrap();
        let buffer = memory.into_buffer();
        let column = |first: usize| {
            let column = Array::builder(DataType::Int64).offset(first).len(4);
            column.buffers([None, Some(buffer.clone())]).finish_ready().unwrap()
        };
        let batch = |starts: [usize; 3]| {
            Batch::from_columns(["a", "b", "c"].into_iter().zip(starts.map(column))).unwrap()
        };
        let even = batch([1, 6, 11]).slice(1, 3).unwrap();
        let matrix = even.to_tensor(&never().on(self.queue)).unwrap();
        assert_eq!((matrix.shape(), matrix.strides()), (&[3, 3][..], &[1, 5][..]));
        let rows = [2, 7, 12, 3, 8, 13, 4, 9, 14];
        assert_eq!(self.read::<i64>(&matrix), rows);
        let back = matrix.to_batch(["x", "y", "z"], &never().on(self.queue)).unwrap();
        assert_eq!(back.fields()[2].name(), "z");
        let middle = self.tensor(&back.column(1).unwrap(), never());
        assert_eq!(self.read::<i64>(&middle), [7, 8, 9]);
        let again = back.to_tensor(&never().on(self.queue)).unwrap();
        assert_eq!((again.strides(), self.read::<i64>(&again)), (matrix.strides(), rows.to_vec()));
        let wrong = matrix.to_batch(["x"], &never()).unwrap_err();
        assert_eq!(wrong.kind(), ErrorKind::InvalidArgument);

        let uneven = batch([1, 6, 12]);
        let refused = uneven.to_tensor(&never().on(self.queue)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let gathered = uneven.to_tensor(&if_needed().on(self.queue)).unwrap();
        assert_eq!(gathered.strides(), [1, 4]);
        assert_eq!(self.read::<i64>(&gathered)[..6], [1, 6, 12, 2, 7, 13]);

        let row_major = matrix.copy(self.queue).unwrap();
        let refused = row_major.to_batch(["x", "y", "z"], &never().on(self.queue)).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unsupported);
        let columns = row_major.to_batch(["x", "y", "z"], &if_needed().on(self.queue)).unwrap();
        let last = self.tensor(&columns.column(2).unwrap(), never());
        assert_eq!(self.read::<i64>(&last), [12, 13, 14]);

        let gaps = Batch::from_columns([("a", self.gaps(4)), ("b", self.gaps(4))]).unwrap();
        let fill = if_needed().nulls(Nulls::fill(0.5_f64)).on(self.queue);
        let filled = gaps.to_tensor(&fill).unwrap();
        assert_eq!(self.read::<f64>(&filled), [0.5, 0.5, 1.0, 1.0, 2.0, 2.0, 0.5, 0.5]);
        let mixed =
            Batch::from_columns([("a", self.gaps(3)), ("b", column(0).slice(0, 3).unwrap())]);
        assert_eq!(mixed.unwrap().to_tensor(&fill).unwrap_err().kind(), ErrorKind::Unsupported);
    }

    fn shared_memory_is_not_copied(&self) {
        let array = self.up(&Array::from_values(DataType::Int32, (0..9).map(Some)).unwrap());
        let part = array.slice(4, 3).unwrap();
        let tensor = self.tensor(&part, never());
        let (tensor_view, array_view) =
            (tensor.on(self.queue).unwrap(), array.on(self.queue).unwrap());
        let (base, offset) = tensor_view.location().handle();
        assert_eq!((base, offset), (array_view.buffer(1).location().handle().0, 16));
        let copy = self.tensor(&part, Conversion::new().copying(CopyPolicy::Always));
        let copied = copy.on(self.queue).unwrap();
        assert_ne!(copied.location().handle().0, base);
        assert_eq!(self.read::<i32>(&copy), [4, 5, 6]);
    }
}
