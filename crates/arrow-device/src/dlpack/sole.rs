//! Finds the imported tensors that are kept by one array or one tensor, and by nothing else.

use super::memory::tensor_behind;
use super::{Exported, Tensor};
use crate::Array;

impl Array {
    /// Calls `visit` with each imported DLPack tensor that this array alone keeps. If this [is the
    /// only share](Self::is_only_share), these are all tensors that its memory was imported as.
    /// Otherwise there are none.
    ///
    /// For programs with a garbage collector. They have to know whether an object that they handed
    /// over as a tensor is only kept by another one of their objects.
    ///
    /// ```
    /// use arrow_device::Buffer;
    /// use arrow_device::abi::dlpack::DLManagedTensorVersioned;
    /// use arrow_device::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
    ///
    /// let theirs = Tensor::from_buffer(Buffer::from(vec![1_i32, 2]), Dtype::INT32, &[2])?;
    /// let managed: Managed<DLManagedTensorVersioned> =
    ///     theirs.export(Order::Host, CopyPolicy::Never)?;
    /// // SAFETY: the tensor was just handed over, and nobody writes to its memory.
    /// let tensor = unsafe { Tensor::import(managed.into_raw(), Order::Host)?.assume_frozen() };
    /// let array = tensor.to_array(&Conversion::new())?;
    /// let count = |array: &arrow_device::Array| {
    ///     let mut count = 0;
    ///     array.for_each_sole_import(&mut |_| count += 1);
    ///     count
    /// };
    /// assert_eq!(count(&array), 0);
    /// drop(tensor);
    /// assert_eq!(count(&array), 1);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn for_each_sole_import(&self, visit: &mut dyn FnMut(&Exported)) {
        self.for_each_sole_struct(&mut |base| {
            if let Some(tensor) = tensor_behind(base) {
                visit(tensor);
            }
        });
    }
}

impl Tensor {
    /// Calls `visit` with each imported DLPack tensor that this tensor alone keeps: see
    /// [`Array::for_each_sole_import`].
    pub fn for_each_sole_import(&self, visit: &mut dyn FnMut(&Exported)) {
        if self.has_no_clone() {
            self.for_each_import(visit);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::abi::dlpack::DLManagedTensorVersioned;
    use crate::dlpack::{Conversion, CopyPolicy, Dtype, Managed, Order, Tensor};
    use crate::{Array, Batch, Buffer};

    fn imported(shape: &[i64]) -> Tensor {
        let numbers = Buffer::from((0..12_i64).collect::<Vec<_>>());
        let made = Tensor::from_buffer(numbers, Dtype::INT64, shape).unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            made.export(Order::Host, CopyPolicy::Never).unwrap();
        // SAFETY: a tensor that was just handed over, of memory that nobody writes to.
        let tensor = unsafe { Tensor::import(managed.into_raw(), Order::Host) }.unwrap();
        // SAFETY: nobody writes to the memory.
        unsafe { tensor.assume_frozen() }
    }

    fn count(array: &Array) -> usize {
        let mut count = 0;
        array.for_each_sole_import(&mut |_| count += 1);
        count
    }

    fn count_of_tensor(tensor: &Tensor) -> usize {
        let mut count = 0;
        tensor.for_each_sole_import(&mut |_| count += 1);
        count
    }

    #[test]
    fn a_tensor_is_kept_alone_before_and_after_it_has_an_array() {
        let tensor = imported(&[12]);
        assert_eq!(count_of_tensor(&tensor), 1);
        let clone = tensor.clone();
        assert_eq!((count_of_tensor(&tensor), count_of_tensor(&clone)), (0, 0));
        drop(clone);
        let array = tensor.to_array(&Conversion::new()).unwrap();
        assert_eq!((count_of_tensor(&tensor), count(&array)), (0, 0));
        drop(tensor);
        assert_eq!(count(&array), 1);
        let again = array.to_tensor(&Conversion::new()).unwrap();
        assert_eq!((count_of_tensor(&again), count(&array)), (0, 0));
        drop(array);
        assert_eq!(count_of_tensor(&again), 1);
    }

    #[test]
    fn a_share_on_any_level_counts() {
        let tensor = imported(&[3, 4]);
        let rows = tensor.to_array(&Conversion::new()).unwrap();
        assert_eq!((count(&rows), count_of_tensor(&tensor)), (0, 0));
        drop(tensor);
        assert_eq!(count(&rows), 1);
        let items = rows.child(0).unwrap();
        assert_eq!((count(&rows), count(&items)), (0, 0));
        drop(items);
        let batch = Batch::from_columns([
            ("x", rows),
            ("y", imported(&[3]).to_array(&Conversion::new()).unwrap()),
        ]);
        let batch = batch.unwrap();
        assert_eq!(count(batch.as_array()), 2);
        let column = batch.column(0).unwrap();
        assert_eq!((count(batch.as_array()), count(&column)), (0, 0));
        let tensor = column.to_tensor(&Conversion::new()).unwrap();
        drop(column);
        assert_eq!((count(batch.as_array()), count_of_tensor(&tensor)), (0, 0));
        drop(batch);
        assert_eq!(count_of_tensor(&tensor), 1);
        let twice = imported(&[3]).to_array(&Conversion::new()).unwrap();
        let batch = Batch::from_columns([("x", twice.clone()), ("y", twice)]).unwrap();
        assert_eq!(count(batch.as_array()), 0, "two columns share it");
    }

    #[test]
    fn a_copy_keeps_no_import() {
        let tensor = imported(&[12]);
        let copy = tensor.to_array(&Conversion::new().copying(CopyPolicy::Always)).unwrap();
        assert_eq!((count(&copy), count_of_tensor(&tensor)), (0, 1));
        assert!(copy.is_only_share());
    }

    #[test]
    fn what_nests_too_deep_counts_as_shared() {
        let mut array = imported(&[12]).to_array(&Conversion::new()).unwrap();
        for _ in 0..63 {
            array = Batch::from_columns([("x", array)]).unwrap().into();
        }
        assert_eq!(count(&array), 1);
        array = Batch::from_columns([("x", array)]).unwrap().into();
        assert_eq!(count(&array), 0);
    }
}
