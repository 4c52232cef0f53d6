//! Arrow C++ of the pyarrow wheel on a device that the checker lends it: its known faults with data
//! that is not on the host are found, under their ids; and what does the same without the function
//! that is to blame breaks no rule.

use arrow_device::abi::ArrowDeviceArrayStream;
use arrow_device_check::{Bench, Entry, Kind, Peer, Report, Side, child_with, usual_places};
use foreign_peers::Structs;
use foreign_peers::arrow_cpp::{Place, arrow_cpp};

use crate::support;
use crate::support::foreign::{MISSING, answer, consumer, on, relay, relay_stream, require_all};

#[test]
fn the_child_of_the_other_tests() {
    child_with(peer);
}

/// A producer of what a function of Arrow C++ makes on the device.
fn made(name: &'static str) -> Entry {
    Entry::ProduceArray(Box::new(move |bench, schema, array| {
        let Some(cpp) = on(bench) else { return MISSING };
        let mut structs = std::mem::ManuallyDrop::new(Structs::empty());
        let exported = unsafe { cpp.call(name, &mut structs) };
        unsafe { schema.write(std::ptr::read(&structs.schema)) };
        unsafe { array.write(std::ptr::read(&structs.array)) };
        answer(exported)
    }))
}

/// One that is good on the host, and has an array that cannot be exported beside it.
fn broken() -> Peer {
    let failing = Entry::ProduceArray(Box::new(|bench, _, array| {
        let Some(cpp) = on(bench) else { return MISSING };
        answer(cpp.export_broken_view(unsafe { &mut *array }))
    }));
    Peer::new(made("export_device_slice"), usual_places(true, false)).with_failing(failing)
}

/// A stream of batches that have no columns.
fn without_columns() -> Peer {
    let entry = Entry::ProduceStream(Box::new(|bench, out: *mut ArrowDeviceArrayStream| {
        let Some(cpp) = on(bench) else { return MISSING };
        let (arrays, batches) = cpp.stream_counts();
        let place = if matches!(bench, Bench::Host) { Place::Host } else { Place::Settled };
        let stream = cpp.export_stream(arrays + batches - 1, place);
        answer(stream.map(|stream| unsafe { out.write(stream) }))
    }));
    Peer::new(entry, usual_places(true, true))
}

fn peer(name: &str) -> Option<Peer> {
    Some(match name {
        "slice" => Peer::new(made("export_device_slice"), usual_places(true, true)),
        "mixed dictionary" => Peer::new(made("export_mixed_dictionary"), usual_places(true, true)),
        "broken" => broken(),
        "without columns" => without_columns(),
        "import" => consumer("import"),
        "import_batch" => consumer("import_batch"),
        "copy_batch" => consumer("copy_batch"),
        "wait_and_copy_batch" => consumer("wait_and_copy_batch"),
        "forward" => relay("forward"),
        "forward_slices" => relay("forward_slices"),
        "forward_batch" => relay("forward_batch"),
        "forward_view" => relay("forward_view"),
        "chunks" => relay_stream("chunks"),
        "batches" => relay_stream("batches"),
        _ => return None,
    })
}

/// What is found of a peer when this is tried.
fn tried(peer: &str, kind: Kind, side: Side, name: &str) -> Option<Report> {
    // Without the library there is nothing to be found.
    drop(arrow_cpp()?);
    Some(support::report_of(peer, kind, side, &[name]))
}

const NUMBERS: &str = "a batch of numbers on a device";
const TEXT: &str = "a batch on a device";
const UNCOUNTED: &str = "a batch on a device whose nulls nobody has counted";
const NULL_BUFFERS: &str = "a batch on a device, some of whose buffers are null";

#[track_caller]
fn assert_found(peer: &str, (kind, side): (Kind, Side), name: &str, expected: (&str, &str)) {
    if let Some(report) = tried(peer, kind, side, name) {
        require_all(&report, &[expected]);
    }
}

/// That none of these is found, and something was looked at.
#[track_caller]
fn assert_not_found(peer: &str, (kind, side): (Kind, Side), name: &str, ids: &[&str]) {
    let Some(report) = tried(peer, kind, side, name) else { return };
    let failed = report.failed();
    assert!(ids.iter().all(|id| !failed.contains(id)), "{report}");
    assert!(report.findings().count() > 3, "{report}");
}

const PRODUCER: (Kind, Side) = (Kind::Array, Side::Producer);
const CONSUMER: (Kind, Side) = (Kind::Array, Side::Consumer);
const RELAY: (Kind, Side) = (Kind::Array, Side::Relay);
const STREAM_PRODUCER: (Kind, Side) = (Kind::Stream, Side::Producer);
const STREAM_RELAY: (Kind, Side) = (Kind::Stream, Side::Relay);

#[test]
fn the_crash_of_its_export_of_a_slice_is_found() {
    let found = ("PEER", "ended the process while producing an array");
    assert_found("slice", PRODUCER, "an array on a device", found);
}

#[test]
fn the_crashes_over_nulls_that_nobody_has_counted_are_found() {
    let found =
        ("ARR-2", "ended the process while consuming a batch whose nulls nobody has counted");
    assert_found("import_batch", CONSUMER, UNCOUNTED, found);
    assert_not_found("import_batch", CONSUMER, NUMBERS, &["ARR-2", "ARR-5"]);
    let found = ("ARR-2", "ended the process while handing on a slice on a device");
    assert_found("forward", RELAY, UNCOUNTED, found);
    let name = "a stream on a device whose nulls nobody has counted";
    let found = ("ARR-2", "ended the process while handing on a stream on a device");
    assert_found("chunks", STREAM_RELAY, name, found);
}

#[test]
fn that_it_reads_offsets_before_their_event_is_found() {
    assert_found("import", CONSUMER, TEXT, ("ARR-2", "read without order"));
    assert_not_found("import", CONSUMER, NUMBERS, &["ARR-2", "ARR-5"]);
    assert_found("forward", RELAY, TEXT, ("ARR-5", "read without order"));
}

#[test]
fn that_slices_of_its_buffers_lose_the_event_is_found() {
    assert_found("forward_slices", RELAY, NUMBERS, ("ARR-5", "the event is lost"));
    assert_not_found("forward", RELAY, NUMBERS, &["ARR-5"]);
}

#[test]
fn that_slices_of_its_pinned_buffers_are_the_hosts_is_found() {
    let name = "a batch in pinned memory of a CUDA device";
    let found = ("ARR-4", "it says that it lies on 1:-1 and not on 3:-1");
    assert_found("forward_slices", RELAY, name, found);
    assert_not_found("forward", RELAY, name, &["ARR-4"]);
}

#[test]
fn that_its_streams_of_chunks_lose_the_event_is_found() {
    let lost = ("ARR-5", "the event of array 0 is lost");
    assert_found("chunks", STREAM_RELAY, "a stream on a device", lost);
    assert_not_found("batches", STREAM_RELAY, "a stream on a device", &["ARR-5"]);
}

#[test]
fn that_views_of_its_batches_lose_the_event_is_found() {
    assert_found("forward_view", RELAY, NUMBERS, ("ARR-5", "the event is lost"));
    assert_not_found("forward_batch", RELAY, NUMBERS, &["ARR-5"]);
}

#[test]
fn that_copies_of_its_batches_do_not_wait_is_found() {
    assert_found("copy_batch", CONSUMER, NUMBERS, ("ARR-2", "read without order"));
    assert_not_found("wait_and_copy_batch", CONSUMER, NUMBERS, &["ARR-2", "ARR-5"]);
}

#[test]
fn that_its_dictionary_may_be_on_the_host_is_found() {
    let found = ("ARR-1", "no memory of this simulator");
    assert_found("mixed dictionary", PRODUCER, "an array on a device", found);
}

#[test]
fn that_null_buffers_are_on_the_host_for_it_is_found() {
    let found = ("SYS-1", "because they have no bytes, was refused");
    assert_found("forward", RELAY, NULL_BUFFERS, found);
    assert_not_found("forward", RELAY, NUMBERS, &["SYS-1"]);
}

#[test]
fn that_its_batches_without_columns_are_on_the_host_is_found() {
    let found = ("STR-2", "an array is on type of device 1, and the stream said 12");
    assert_found("without columns", STREAM_PRODUCER, "a stream on a device", found);
}

#[test]
fn that_it_writes_where_it_fails_is_found() {
    let found =
        ("ARR-11", "has written to the consumer's memory all the same: it says device 1:-1");
    assert_found("broken", PRODUCER, "an array that cannot be made", found);
}
