//! The sizes of buffers that only a device knows, for every type in every shape.

use std::ptr;

use arrow_device::{Array, Error, ErrorKind, HostArray, Queue, Result};
use arrow_device_capi::*;
use arrow_device_sim::Sim;
use arrow_device_testkit::kinds;
use arrow_device_testkit::suite::{Check, Exchange, Suite};

use crate::support::face::{Face, Owned, call, from_rust, with_queue};
use crate::support::software::{Fault, register};

/// All sizes of a tree, as the library reads them.
fn sizes(array: &Owned, queue: *const ArdevQueue) -> Result<Vec<u64>> {
    let (mut sizes, mut count) = (vec![u64::MAX; 4096], 0);
    call(|error| unsafe {
        ardev_array_buffer_sizes(array.0, queue, sizes.as_mut_ptr(), sizes.len(), &mut count, error)
    })?;
    sizes.truncate(count);
    let mut info = ArdevArrayInfo::default();
    call(|error| unsafe { ardev_array_inspect(array.0, &mut info, error) })?;
    assert_eq!(info.n_buffers_in_all, count);
    Ok(sizes)
}

/// The same of an array in host memory, by reading it. The number of elements stands beside each.
fn on_host(array: &HostArray, found: &mut Vec<(u64, usize)>) -> Result<()> {
    for index in 0..array.array().buffer_count() {
        found.push((array.buffer(index)?.len() as u64, array.len()));
    }
    for index in 0..array.array().child_count() {
        on_host(&array.child(index)?, found)?;
    }
    array.dictionary().map_or(Ok(()), |dictionary| on_host(&dictionary, found))
}

/// Looks at the sizes of whatever is copied to the device.
struct Sizing;

impl Exchange for Sizing {
    fn to_device(&self, array: &Array, queue: &Queue) -> Result<Array> {
        let there = Face.to_device(array, queue)?;
        let mut expected = Vec::new();
        on_host(&array.host()?, &mut expected)?;
        let held = from_rust(&there)?;
        let found = with_queue(queue, |queue| sizes(&held, queue))?;
        assert_eq!(found, sizes(&held, ptr::null())?, "with a queue that is opened for it");
        // Without elements nothing has to be there, and what is there does not matter.
        let differ =
            |(found, (expected, len)): (&u64, &(u64, usize))| *len > 0 && found != expected;
        if found.len() != expected.len() || found.iter().zip(&expected).any(differ) {
            let message = format!("{found:?} and not {expected:?}");
            return Err(Error::new(ErrorKind::InvalidData, message));
        }
        Ok(there)
    }
}

#[test]
fn every_buffer_has_the_size_that_its_elements_need() {
    let sim = Sim::builder().seed(5).backtraces(false).build();
    let (device, _) = register(&sim, Fault::None);
    let cases = kinds::cases_of(kinds::types());
    let report = Suite::new(&device).over(cases).only([Check::Copy]).through(&Sizing).run();
    report.assert();
    assert_eq!(report.cases(), 69 * 12);
    assert!(sim.take_reports().is_empty());
}

#[test]
fn too_little_room_is_filled_and_the_count_is_told() {
    let words = Array::from_texts(arrow_device::DataType::Utf8, [Some("ab"), Some("c")]).unwrap();
    let held = from_rust(&words).unwrap();
    let (mut first, mut count) = ([7; 2], 0);
    call(|error| unsafe {
        ardev_array_buffer_sizes(held.0, ptr::null(), first.as_mut_ptr(), 2, &mut count, error)
    })
    .unwrap();
    assert_eq!((first, count), ([0, 12], 3));
    assert_eq!(sizes(&held, ptr::null()).unwrap(), [0, 12, 3]);
}
