//! What peers tell of themselves to whoever moves them on.

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::producer;
use arrow_device_testkit::pushed::{Sink, Source, numbers};
use arrow_device_testkit::relay::{Handwritten, Relay, RelayFault};

#[test]
fn a_consumer_is_open_to_calls_from_the_schema_to_the_release_and_a_producer_tells_that_one() {
    let sink = Sink::new(1, None);
    let source = Source::new(sink.handler(), 1, None);
    assert!(!sink.is_open_to_calls() && !source.is_released());
    assert!(source.step());
    assert!(sink.is_open_to_calls() && !source.is_released());
    source.run();
    sink.take().unwrap().unwrap();
    source.run();
    assert!(!sink.is_open_to_calls() && source.is_released());
    source.settle().unwrap();
}

/// Whether a relay that keeps the address of its base structure releases it, there or elsewhere.
fn releases(is_moved: bool) -> bool {
    let ledger = Ledger::new();
    let mut schema = producer::schema(&numbers(0), &ledger);
    let mut array = producer::device_array(&numbers(0), &ledger);
    let relay = Handwritten(Some(RelayFault::KeepsAddressOfStruct));
    let (given_schema, given) = relay.relay(&mut schema, &mut array).unwrap();
    let mut place = [ArrowDeviceArray::empty(), ArrowDeviceArray::empty()];
    place[0] = given;
    Handwritten::settle_at(&raw mut place[0].array);
    let node: *mut ArrowArray = if is_moved {
        place.swap(0, 1);
        &raw mut place[1].array
    } else {
        &raw mut place[0].array
    };
    unsafe { (*node).release.unwrap()(node) };
    let mut given_schema: ArrowSchema = given_schema;
    unsafe { given_schema.release.unwrap()(&raw mut given_schema) };
    ledger.base_releases() == 2
}

#[test]
fn a_relay_that_is_told_where_its_base_structure_lies_knows_it_by_that() {
    assert!(releases(false));
    assert!(!releases(true));
}
