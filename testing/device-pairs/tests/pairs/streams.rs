//! Streams, as C structs, of one device, from one device to another, and through chains of all.

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device::{Array, ArrayStream, DeviceType, Queue};
use arrow_device_testkit::generate::{self, Generated};
use arrow_device_testkit::oracle;
use arrow_device_testkit::trips::{assert_is, built};
use device_pairs::{Place, World};

/// The stream again, as somebody who only knows the C struct has it.
pub(crate) fn exchange(stream: ArrayStream) -> ArrayStream {
    let mut c_stream = ArrowDeviceArrayStream::empty();
    stream.export(&mut c_stream);
    unsafe { ArrayStream::import(&mut c_stream) }.unwrap()
}

/// A peer with a device of its own: takes a stream, and gives one of copies on its device.
pub(crate) fn through(stream: ArrayStream, queue: &Queue) -> ArrayStream {
    let (schema, queue) = (stream.schema().clone(), queue.clone());
    let device_type = queue.device().id().device_type;
    let copies = stream.map(move |array| array?.copy_to(&queue));
    let stream = exchange(ArrayStream::new(schema, device_type, copies));
    assert_eq!(stream.device_type(), device_type);
    stream
}

/// Three parts of an array, the last without elements.
fn parts(array: &Array) -> ArrayStream {
    let cut = array.len() / 3;
    let parts = [(0, cut), (cut, array.len() - cut), (array.len(), 0)];
    let array = array.clone();
    let schema = array.schema().unwrap();
    let parts = parts.into_iter().map(move |(from, len)| array.slice(from, len));
    ArrayStream::new(schema, DeviceType::CPU, parts)
}

/// Sends an array in parts through places, one after another, and looks at what comes out.
fn send(plan: &arrow_device_testkit::plan::Plan, places: &[&Place]) {
    let (array, expected) = built(plan);
    let mut stream = exchange(parts(&array));
    for place in places {
        stream = through(stream, &place.queue);
    }
    let mut seen = 0;
    for part in stream {
        let what = || format!("{} through {places:?}", generate::describe(plan));
        let part = part.unwrap_or_else(|error| panic!("{}: {error}", what()));
        let part = part.to_host().unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert_is(&part, &oracle::slice(&expected, seen, part.len()), &what());
        seen += part.len();
    }
    assert_eq!(seen, array.len(), "{places:?}");
}

// Requirement: STR-1, STR-6
#[test]
fn streams_go_from_every_place_to_every_other() {
    let world = World::new(10);
    let samples: Vec<Generated> = generate::samples(60, 3).collect();
    for (number, (from, to)) in world.pairs().enumerate() {
        for turn in 0..4 {
            send(&samples[(number + 17 * turn) % samples.len()].plan, &[from, to]);
        }
    }
}

#[test]
fn streams_go_through_chains_of_all_places() {
    let world = World::new(11);
    let count = world.places.len();
    for (number, Generated { plan, .. }) in generate::samples(2 * count, 5).enumerate() {
        let mut chain: Vec<&Place> = world.places.iter().collect();
        chain.rotate_left(number % count);
        if number >= count {
            chain.reverse();
        }
        send(&plan, &chain);
    }
}
