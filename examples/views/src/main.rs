//! Views of `ndarray` and of `faer` on the memory of a column or of a batch, without a copy.
//!
//! A column or a batch becomes a tensor, the tensor is borrowed by the host, and the borrow has an
//! address, a shape and strides. Both libraries take these as they are, whatever the strides. A
//! view is read-only and ends with the borrow: the compiler sees to that.
//!
//! `cargo run --package=example-views`

use std::error::Error;

use arrow_device::dlpack::{Conversion, CopyPolicy, Element, HostElements};
use arrow_device::types::Float64;
use arrow_device::{Array, Batch, ErrorKind};
use arrow_device_sim::Sim;
use faer::MatRef;
use ndarray::{ArrayViewD, Axis, IxDyn, ShapeBuilder};

fn main() -> Result<(), Box<dyn Error>> {
    // A column is a tensor of one dimension, in the same memory.
    let prices = Array::of::<Float64>([Some(2.0), Some(3.0), Some(5.0)])?;
    let host = prices.to_tensor(&Conversion::new())?.host()?;
    let elements = host.elements::<f64>()?;
    let view = ndarray_view(&elements)?;
    println!("the prices as ndarray sees them: {view}");
    assert_eq!((view.as_ptr(), view.sum()), (elements.as_ptr(), 10.0));

    // A batch is a matrix. Columns of allocations of their own are copied next to each other,
    // which has to be allowed; columns that lie so already are shared.
    let amounts = Array::of::<Float64>([Some(10.0), Some(20.0), Some(30.0)])?;
    let batch = Batch::from_columns([("price", prices), ("amount", amounts)])?;
    let matrix = batch.to_tensor(&Conversion::new().copying(CopyPolicy::IfNeeded))?;
    let host = matrix.host()?;
    let elements = host.elements::<f64>()?;
    let (wide, math) = (ndarray_view(&elements)?, faer_view(&elements)?);
    println!("the batch has the strides {:?} in both libraries", wide.strides());
    assert_eq!(wide.strides(), [math.row_stride(), math.col_stride()]);
    // Price times amount, summed over the rows, as one product of matrices.
    let gram = math.transpose() * math;
    assert_eq!(gram[(0, 1)], 2.0 * 10.0 + 3.0 * 20.0 + 5.0 * 30.0);
    assert_eq!(wide.sum_axis(Axis(0)).as_slice(), Some(&[10.0, 60.0][..]));

    // Rows backwards, of the same memory still: strides may be negative.
    let backwards = matrix.sliced(0, 2, 3, -1)?.host()?;
    let elements = backwards.elements::<f64>()?;
    let (wide, math) = (ndarray_view(&elements)?, faer_view(&elements)?);
    assert_eq!((wide.first(), math[(0, 0)], math[(2, 1)]), (Some(&5.0), 5.0, 10.0));

    // What is of another type, or not on the host, is an error and not a conversion.
    let refused = host.elements::<f32>().err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::InvalidArgument));
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue()?;
    let there = batch.column(0)?.copy_to(&queue)?.to_tensor(&Conversion::new())?;
    let refused = there.host().err().map(|error| error.kind());
    assert_eq!(refused, Some(ErrorKind::Unsupported));
    let back = there.copy_to_host(&queue)?.host()?;
    assert_eq!(back.elements::<f64>()?.as_slice(), Some(&[2.0, 3.0, 5.0][..]));
    Ok(())
}

/// The elements as `ndarray` sees them.
///
/// `ndarray` takes no negative strides from outside. Such a dimension is described from its other
/// end, and turned round in the view.
fn ndarray_view<'a, T: Element>(
    elements: &'a HostElements<'_, T>,
) -> Result<ArrayViewD<'a, T>, Box<dyn Error>> {
    let (mut shape, mut strides, mut turned) = (Vec::new(), Vec::new(), Vec::new());
    let mut lowest = elements.as_ptr();
    for (axis, (&length, &stride)) in elements.shape().iter().zip(elements.strides()).enumerate() {
        // The stride of a single element means nothing, and may be any number.
        let stride = if length > 1 { isize::try_from(stride)? } else { 1 };
        shape.push(usize::try_from(length)?);
        strides.push(stride.unsigned_abs());
        if stride < 0 && !elements.is_empty() {
            lowest = lowest.wrapping_offset(stride * (isize::try_from(length)? - 1));
            turned.push(Axis(axis));
        }
    }
    let layout = IxDyn(&shape).strides(IxDyn(&strides));
    // SAFETY: all elements of this shape at these strides from the lowest on are those of the
    // borrow, which keeps them initialised and unwritten for `'a`.
    let mut view = unsafe { ArrayViewD::from_shape_ptr(layout, lowest) };
    for axis in turned {
        view.invert_axis(axis);
    }
    Ok(view)
}

/// The elements of a matrix as `faer` sees them.
fn faer_view<'a, T: Element>(
    elements: &'a HostElements<'_, T>,
) -> Result<MatRef<'a, T>, Box<dyn Error>> {
    let (&[rows, columns], &[down, right]) = (elements.shape(), elements.strides()) else {
        return Err(format!("{} dimensions are no matrix", elements.shape().len()).into());
    };
    let size = (usize::try_from(rows)?, usize::try_from(columns)?);
    let strides = (isize::try_from(down)?, isize::try_from(right)?);
    // SAFETY: all elements of this shape at these strides are those of the borrow, which keeps them
    // initialised and unwritten for `'a`.
    Ok(unsafe { MatRef::from_raw_parts(elements.as_ptr(), size.0, size.1, strides.0, strides.1) })
}

#[cfg(test)]
mod tests {
    use arrow_device::Buffer;
    use arrow_device::dlpack::{Dtype, Tensor};

    use super::*;

    #[test]
    fn the_example_runs() {
        main().unwrap();
    }

    #[test]
    fn both_views_show_every_element_at_its_index() {
        let cube = Buffer::from((0..24).collect::<Vec<i64>>());
        let cube = Tensor::from_buffer(cube, Dtype::INT64, &[2, 3, 4]).unwrap();
        for tensor in [
            cube.clone(),
            cube.permuted(&[2, 0, 1]).unwrap(),
            cube.sliced(2, 3, 4, -1).unwrap().sliced(0, 1, 2, -1).unwrap(),
            cube.sliced(1, 2, 2, -2).unwrap().sliced(2, 1, 1, 1).unwrap(),
            cube.sliced(0, 0, 0, 1).unwrap(),
        ] {
            let host = tensor.host().unwrap();
            let elements = host.elements::<i64>().unwrap();
            let view = ndarray_view(&elements).unwrap();
            assert!(view.iter().copied().eq(host.to_vec::<i64>().unwrap()), "{tensor:?}");
            assert!(faer_view(&elements).is_err(), "{tensor:?}");
        }
        let matrix = Buffer::from((0..6).map(f64::from).collect::<Vec<f64>>());
        let matrix = Tensor::from_buffer(matrix, Dtype::FLOAT64, &[2, 3]).unwrap();
        for tensor in
            [matrix.clone(), matrix.permuted(&[1, 0]).unwrap(), matrix.sliced(1, 2, 2, -2).unwrap()]
        {
            let host = tensor.host().unwrap();
            let elements = host.elements::<f64>().unwrap();
            let view = faer_view(&elements).unwrap();
            let rows = (0..view.nrows())
                .flat_map(|row| (0..view.ncols()).map(move |column| (row, column)));
            assert!(rows.map(|place| view[place]).eq(host.to_vec::<f64>().unwrap()), "{tensor:?}");
        }
    }
}
