//! The sizes of buffers that only a device knows, for every type in every shape, and views of very
//! many buffers.

use std::ptr;
use std::time::{Duration, Instant};

use arrow_device::{Array, Buffer, DataType, Error, ErrorKind, HostArray, Queue, Result};
use arrow_device_capi::*;
use arrow_device_sim::Sim;
use arrow_device_testkit::kinds;
use arrow_device_testkit::suite::{Check, Exchange, Suite};

use crate::support::face::{Face, Owned, call, from_rust, made, with_queue};
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

/// How long each question about one buffer takes that a view was asked about before.
fn time_for_buffer(view: *const ArdevView, index: usize) -> Duration {
    const TIMES: u32 = 200;
    let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
    let start = Instant::now();
    for _ in 0..TIMES {
        call(|error| unsafe { ardev_view_buffer(view, index, &mut place, error) }).unwrap();
    }
    start.elapsed() / TIMES
}

#[test]
fn a_view_on_the_host_finds_the_last_of_many_buffers_as_fast_as_the_first() {
    const MANY: usize = 20_000;
    let data = (0..MANY).map(|_| Some(Buffer::from(vec![b'x'; 13])));
    let views = (0..MANY as i32).flat_map(|number| [13, i32::from_ne_bytes(*b"xxxx"), number, 0]);
    let views = Buffer::from(views.collect::<Vec<_>>());
    let array = Array::builder(DataType::Utf8View).len(MANY);
    let array = array.buffers([None, Some(views)].into_iter().chain(data)).finish_ready().unwrap();
    let array = from_rust(&array).unwrap();
    let view = made(|out, error| unsafe { ardev_view_open(array.0, ptr::null(), out, error) });
    let view = view.unwrap();
    let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
    for index in (1..MANY + 2).rev() {
        call(|error| unsafe { ardev_view_buffer(view, index, &mut place, error) }).unwrap();
        assert_eq!(place.size, if index == 1 { 16 * MANY as i64 } else { 13 });
    }
    // The least of several times, in which no other program ran.
    let least = |index| (0..5).map(|_| time_for_buffer(view, index)).min().unwrap();
    let (first, last) = (least(MANY + 1), least(1));
    unsafe { ardev_view_free(view) };
    assert!(last <= 20 * first + Duration::from_micros(5), "{last:?} and not {first:?}");
}
