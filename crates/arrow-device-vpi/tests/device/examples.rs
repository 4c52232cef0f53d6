//! The example of an accelerator runs to its end, and its comparison can fail.

#[path = "../../examples/accelerator/main.rs"]
mod accelerator;

use arrow_device::{Array, DataType};

use accelerator::sums;

use crate::support;

#[test]
fn the_accelerator_sums() {
    if support::is_there() {
        accelerator::main().unwrap();
    }
}

/// A unit that is told the wrong first row sums other rows, which the example's comparison finds.
#[test]
fn a_column_with_other_values_has_another_sum() {
    if !support::is_there() {
        return;
    }
    let device = accelerator::open().unwrap();
    let queue = device.open_queue().unwrap();
    let column = Array::from_values(DataType::Int32, [Some(5), None, Some(-7)]).unwrap();
    let there = column.copy_to(&queue).unwrap();
    assert_eq!(sums::sum(&queue, &there).unwrap(), [-2, 2]);
    let shifted = there.slice(1, 2).unwrap();
    assert_eq!(sums::sum(&queue, &shifted).unwrap(), [-7, 1]);
    assert_eq!(sums::expected(&column).unwrap(), [-2, 2]);
    let empty = there.slice(1, 0).unwrap();
    assert_eq!(sums::sum(&queue, &empty).unwrap(), [0, 0]);
}
