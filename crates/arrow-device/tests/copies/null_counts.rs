//! The number of nulls of a copy.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Options;
use arrow_device::{Array, Batch, DataType, Queue};

/// A producer may leave the number of nulls unknown, also where there is no bitmap. An array that
/// this library exports says that there are none.
#[test]
fn a_copy_without_a_bitmap_has_no_nulls_though_its_producer_counted_none() {
    let numbers = Array::from_values(DataType::Int32, (0..4).map(Some)).unwrap();
    let batch = Array::from(Batch::from_columns([("a", numbers.clone())]).unwrap());
    for array in [numbers, batch] {
        let schema = array.schema().unwrap();
        let counts = |c_array: &mut ArrowDeviceArray| {
            let children = c_array.array.n_children;
            // SAFETY: the struct was exported just now, and has as many children.
            let below =
                (children > 0).then(|| unsafe { &raw mut (**c_array.array.children).null_count });
            [Some(&raw mut c_array.array.null_count), below]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
        };
        let mut told = ArrowDeviceArray::empty();
        array.export(&mut told).unwrap();
        // SAFETY: places in the struct, which nobody else has.
        counts(&mut told).into_iter().for_each(|count| unsafe { *count = -1 });
        // SAFETY: UNS-1, UNS-3 to UNS-6: the struct was exported just now, and is imported once.
        let unknown = unsafe { Array::import(&raw mut told, &schema) }.unwrap();
        let copy = unknown.copy_with(&Queue::host(), &Options::new().always(true)).unwrap();
        let mut found = ArrowDeviceArray::empty();
        copy.export(&mut found).unwrap();
        // SAFETY: places in the struct, which nobody else has.
        assert!(counts(&mut found).into_iter().all(|count| unsafe { *count } == 0));
        // SAFETY: UNS-1, UNS-3 to UNS-6: the struct was exported just now, and is imported once.
        drop(unsafe { Array::import(&raw mut found, &schema) }.unwrap());
    }
}
