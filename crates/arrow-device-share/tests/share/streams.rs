//! Streams: as many arrays as are asked for, their end, and their errors.

use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::{ArrayStream, Device, DeviceType, Error, ErrorKind};
use arrow_device_share::to_shareable;

use crate::support::{batch, connected, shareable, software};

#[test]
fn a_stream_comes_whole() {
    let (sender, receiver) = connected([Device::host()]);
    let thread = std::thread::spawn(move || {
        let schema = batch(1).schema().unwrap();
        let arrays = (0..100).map(|rows| Ok(shareable(rows)));
        sender.serve(ArrayStream::new(schema, DeviceType::CPU, arrays)).unwrap();
        assert_eq!(sender.held().unwrap(), 0);
    });
    let stream = receiver.into_stream(4).unwrap();
    assert_eq!(stream.device_type(), DeviceType::CPU);
    let lens: Vec<usize> = stream.map(|array| array.unwrap().len()).collect();
    assert_eq!(lens, (0..100).collect::<Vec<_>>());
    thread.join().unwrap();
}

#[test]
fn no_more_arrays_are_made_than_are_wanted() {
    let (sender, receiver) = connected([Device::host()]);
    let made = std::sync::Arc::new(AtomicUsize::new(0));
    let counted = made.clone();
    let thread = std::thread::spawn(move || {
        let arrays = (0..).map(move |number| {
            counted.fetch_add(1, Ordering::Relaxed);
            Ok(shareable(number % 3))
        });
        let schema = batch(1).schema().unwrap();
        sender.serve(ArrayStream::new(schema, DeviceType::CPU, arrays))
    });
    let mut stream = receiver.into_stream(2).unwrap();
    let kept: Vec<_> = stream.by_ref().take(10).collect::<Result<_, _>>().unwrap();
    // Two ahead, and one that is made before it is known to be wanted.
    assert!(made.load(Ordering::Relaxed) <= 10 + 2 + 1);
    drop(stream);
    drop(kept);
    let error = thread.join().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
}

#[test]
fn an_error_of_a_stream_comes_through_in_its_place() {
    let (sender, receiver) = connected([Device::host()]);
    let thread = std::thread::spawn(move || {
        let failed = || Error::new(ErrorKind::InvalidData, "the third is bad");
        let arrays = [Ok(shareable(1)), Ok(shareable(2)), Err(failed()), Ok(shareable(3))];
        let schema = batch(1).schema().unwrap();
        sender.serve(ArrayStream::new(schema, DeviceType::CPU, arrays))
    });
    let mut stream = receiver.into_stream(8).unwrap();
    assert_eq!(stream.next().unwrap().unwrap().len(), 1);
    assert_eq!(stream.next().unwrap().unwrap().len(), 2);
    let error = stream.next().unwrap().unwrap_err();
    assert!(error.to_string().contains("the third is bad"), "{error}");
    assert!(stream.next().is_none());
    assert_eq!(thread.join().unwrap().unwrap_err().kind(), ErrorKind::InvalidData);
}

#[test]
fn a_stream_without_arrays_has_its_schema() {
    let (sender, receiver) = connected([Device::host()]);
    let schema = batch(1).schema().unwrap();
    let sent = schema.clone();
    let thread = std::thread::spawn(move || {
        let none = std::iter::empty::<arrow_device::Result<arrow_device::Array>>();
        sender.serve(ArrayStream::new(sent, DeviceType::CPU, none))
    });
    let mut stream = receiver.into_stream(1).unwrap();
    assert_eq!(*stream.schema(), schema);
    assert!(stream.next().is_none());
    thread.join().unwrap().unwrap();
}

#[test]
fn a_stream_that_ends_without_its_end_is_an_error() {
    let (sender, receiver) = connected([Device::host()]);
    sender.send(&shareable(4)).unwrap();
    let mut stream = receiver.into_stream(1).unwrap();
    assert_eq!(stream.next().unwrap().unwrap().len(), 4);
    drop(sender);
    // The socket is the keeper's until the array is released, and closes then.
    let error = stream.next().unwrap().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
}

#[test]
fn a_stream_of_a_device_stays_on_its_device() {
    let (_one, here) = software();
    let (_other, there) = software();
    let (sender, receiver) = connected([there.clone()]);
    let device_type = here.id().device_type;
    let thread = std::thread::spawn(move || {
        let arrays = (1..20).map(move |rows| to_shareable(batch(rows).as_array(), &here));
        let schema = batch(1).schema().unwrap();
        sender.serve(ArrayStream::new(schema, device_type, arrays))
    });
    let stream = receiver.into_stream(3).unwrap();
    for (rows, array) in (1..20).zip(stream) {
        let array = array.unwrap();
        assert_eq!(array.device(), there.id());
        assert!(array.to_host().unwrap().equals(batch(rows).as_array()).unwrap());
    }
    thread.join().unwrap().unwrap();
}

#[test]
fn a_stream_comes_after_arrays_of_its_own_and_of_another_schema() {
    let (sender, mut receiver) = connected([Device::host()]);
    let narrow = batch(3).column(0).unwrap();
    let narrow = to_shareable(&narrow, &Device::host()).unwrap();
    let thread = std::thread::spawn(move || {
        sender.send(&shareable(5)).unwrap();
        sender.send(&narrow).unwrap();
        sender.send(&shareable(6)).unwrap();
        let schema = batch(1).schema().unwrap();
        sender.serve(ArrayStream::new(schema, DeviceType::CPU, [Ok(shareable(7))])).unwrap();
    });
    let lens = [5, 3, 6].map(|_| receiver.receive().unwrap().unwrap().len());
    assert_eq!(lens, [5, 3, 6]);
    let stream = receiver.into_stream(1).unwrap();
    assert_eq!(stream.map(|array| array.unwrap().len()).collect::<Vec<_>>(), [7]);
    thread.join().unwrap();
}
