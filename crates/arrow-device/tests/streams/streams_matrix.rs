//! Arrays of every type in streams: one stream for each type, with the type's arrays in every
//! shape, handed out, taken over and handed out again. All addresses are kept, and everything is
//! released once.

use std::sync::Arc;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::{Array, ArrayStream, DeviceType, Result, Schema};
use arrow_device_testkit::consumer::{Order, Seen, SeenSchema, release, release_in_order};
use arrow_device_testkit::kinds::{Kind, kinds};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Plan, Window};
use arrow_device_testkit::{Verdict, assert_complaint, producer, require};

/// Every shape of arrays of this type.
fn plans(kind: &Kind) -> Vec<Plan> {
    let shapes = Window::ALL.into_iter().flat_map(|window| Nulls::ALL.map(|nulls| (window, nulls)));
    let every = if cfg!(miri) { 5 } else { 1 };
    shapes.step_by(every).map(|(window, nulls)| kind.plan(window, nulls)).collect()
}

/// What hands on a stream of arrays.
type Relay = dyn Fn(ArrowDeviceArrayStream) -> ArrowDeviceArrayStream;

/// Takes it over, and hands it on to somebody who takes it over again, in the other struct where
/// that can be.
fn ours(mut c_stream: ArrowDeviceArrayStream) -> ArrowDeviceArrayStream {
    let stream = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
    let mut out = ArrowDeviceArrayStream::empty();
    if stream.device_type() == DeviceType::CPU {
        let mut host = ArrowArrayStream::empty();
        stream.export_host(&mut host).unwrap();
        unsafe { ArrayStream::import_host(&mut host) }.unwrap().export(&mut out);
    } else {
        stream.export(&mut out);
    }
    out
}

/// Gives every second array twice, and leaves out the others.
fn stuttering(mut c_stream: ArrowDeviceArrayStream) -> ArrowDeviceArrayStream {
    let stream = unsafe { ArrayStream::import(&mut c_stream) }.unwrap();
    let (schema, device_type) = (stream.schema().clone(), stream.device_type());
    let twice = |array: Result<Array>| {
        let array = array.unwrap();
        [Ok(array.clone()), Ok(array)]
    };
    let mut out = ArrowDeviceArrayStream::empty();
    ArrayStream::new(schema, device_type, stream.step_by(2).flat_map(twice)).export(&mut out);
    out
}

fn schema_of(plan: &Plan) -> Schema {
    unsafe { Schema::import(&mut producer::schema(plan, &Ledger::new())) }.unwrap()
}

/// That all arrays of a type come through a relay as they were.
fn check(relay: &Relay, plans: &[Plan], device_type: i32, order: Order) -> Verdict {
    let ledger = Ledger::new();
    let mut c_schema = producer::schema(&plans[0], &Ledger::new());
    let expected_schema = SeenSchema::of(&c_schema);
    release(std::mem::replace(&mut c_schema, ArrowSchema::empty()))?;
    let made: Vec<ArrowDeviceArray> = plans
        .iter()
        .map(|plan| producer::on_device(producer::array(plan, &ledger), device_type, -1))
        .collect();
    let expected: Vec<Seen> = made
        .iter()
        .map(|c_array| Seen::of(&c_array.array).with_known_nulls(&expected_schema))
        .collect();

    let schema = schema_of(&plans[0]);
    // One in two has a schema of its own.
    let arrays = made.into_iter().zip(plans).enumerate().map(|(index, (mut c_array, plan))| {
        let own = if index % 2 == 0 { schema.clone() } else { schema_of(plan) };
        unsafe { Array::import(&mut c_array, &own) }
    });
    let arrays: Vec<Result<Array>> = arrays.collect();
    let mut c_stream = ArrowDeviceArrayStream::empty();
    ArrayStream::new(schema.clone(), DeviceType(device_type), arrays).export(&mut c_stream);

    let mut c_stream = relay(c_stream);
    let mut seen_schema = ArrowSchema::empty();
    let mut result = Ok(());
    unsafe { c_stream.get_schema.unwrap()(&raw mut c_stream, &raw mut seen_schema) };
    let is_same = SeenSchema::of(&seen_schema) == expected_schema;
    release(seen_schema)?;
    let mut taken = Vec::new();
    loop {
        let mut out = ArrowDeviceArray::empty();
        let errno = unsafe { c_stream.get_next.unwrap()(&raw mut c_stream, &raw mut out) };
        if errno != 0 || out.is_released() {
            result = result.and(require(errno == 0, || format!("it failed with {errno}")));
            break;
        }
        taken.push(out);
    }
    unsafe { c_stream.release.unwrap()(&raw mut c_stream) };
    let count = taken.len();
    for (index, c_array) in taken.into_iter().enumerate() {
        let seen = Seen::of(&c_array.array).with_known_nulls(&expected_schema);
        let is_same = expected.get(index).map_or(Ok(()), |expected| seen.require_same(expected));
        result = result.and(is_same);
        result = result.and(release_in_order(c_array.array, order));
    }
    result?;
    require(is_same, || "the schema is another one".into())?;
    require(count == expected.len(), || format!("{count} arrays and not {}", expected.len()))?;
    Arc::clone(&ledger).settle(plans.len())
}

// Requirement: STR-1, STR-3, STR-6
#[test]
fn arrays_of_every_type_travel_in_streams() {
    let stride = if cfg!(miri) { 97 } else { 1 };
    let (mut types, mut arrays) = (0, 0);
    for (number, kind) in kinds().into_iter().enumerate().step_by(stride) {
        let plans = plans(&kind);
        let device_type = [1, 4711][number % 2];
        let order = Order::ALL[number / 2 % 4];
        if let Err(complaint) = check(&ours, &plans, device_type, order) {
            panic!("{kind} on {device_type}, {order:?}: {complaint}");
        }
        types += 1;
        arrays += plans.len();
    }
    println!("{arrays} arrays in {types} streams");
    assert!(cfg!(miri) || (types, arrays) == (kinds().len(), kinds().len() * 12));
}

#[test]
fn a_stream_that_gives_other_arrays_is_found_out() {
    let plans = plans(&Kind::Fixed("l", 8));
    assert_complaint(check(&stuttering, &plans, 4711, Order::Whole), "(5, 0, 0) and not");
}
