//! The library before the judges of producers, consumers and relays. That those judges see what is
//! wrong is shown where they are, in `arrow-device-testkit`.

use arrow_device::abi::{ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, ArrayBuilder, Batch, Buffer, DataType, Schema};
use arrow_device_testkit::judge::{self, Stage};
use arrow_device_testkit::ledger::Bytes;
use arrow_device_testkit::relay::Ours;

/// Four numbers in memory that the books of the stage count.
fn numbers(stage: &Stage) -> ArrayBuilder {
    let bytes = Bytes::new((0..32).collect(), &stage.ledger);
    let id = stage.device.id();
    let buffer = unsafe { Buffer::foreign(id, bytes.address(), bytes.len(), bytes) };
    Array::builder(DataType::Int64).len(4).buffers([None, Some(buffer)])
}

fn export(array: &Array, schema: *mut ArrowSchema, out: *mut ArrowDeviceArray) {
    unsafe {
        array.schema().unwrap().export(&mut *schema).unwrap();
        array.export_to(out).unwrap();
    }
}

// Requirement: ABI-1, ABI-3, ABI-5, ARR-6, ARR-7, ARR-8, ARR-9

// Requirement: ARR-10, ARR-11, ARR-12, ARR-13, ARR-17, SCH-1, SCH-6
#[test]
fn the_library_is_a_right_producer() {
    let on_a_queue = |stage: &Stage, schema, out| {
        stage.manual.submit(&stage.queue);
        let column = numbers(stage).finish_on(&stage.queue).unwrap();
        let other = numbers(stage).finish_ready().unwrap();
        let batch = Batch::from_columns([("a", column), ("b", other)]).unwrap();
        export(batch.as_array(), schema, out);
    };
    assert_eq!(judge::producer(&on_a_queue), Ok(()));
    let after_an_event = |stage: &Stage, schema, out| {
        stage.manual.submit(&stage.queue);
        let array = if stage.has_events() {
            unsafe { numbers(stage).finish_after(stage.queue.record().unwrap()) }
        } else {
            numbers(stage).finish_on(&stage.queue)
        };
        export(&array.unwrap(), schema, out);
    };
    assert_eq!(judge::producer(&after_an_event), Ok(()));
    let ready = |stage: &Stage, schema, out| {
        export(&numbers(stage).finish_ready().unwrap(), schema, out);
    };
    assert_eq!(judge::producer(&ready), Ok(()));
    let settled = |stage: &Stage, schema: *mut ArrowSchema, out: *mut ArrowDeviceArray| unsafe {
        stage.manual.submit(&stage.queue);
        let column = numbers(stage).finish_on(&stage.queue).unwrap();
        column.schema().unwrap().export(&mut *schema).unwrap();
        // `export_settled` wants memory that holds a struct.
        out.write(ArrowDeviceArray::empty());
        column.export_settled(&mut *out).unwrap();
    };
    assert_eq!(judge::producer(&settled), Ok(()));
}

// Requirement: ARR-2, ARR-5, ARR-13, ARR-15, ARR-18, ARR-20, SCH-6
#[test]
fn the_library_is_a_right_consumer() {
    let uses = |stage: &Stage, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray| {
        let schema = unsafe { Schema::import(schema) }.unwrap();
        let array = unsafe { Array::import(array, &schema) }.unwrap();
        let view = array.on(&stage.queue).unwrap();
        stage.manual.submit(&stage.queue);
        drop((view, array));
    };
    assert_eq!(judge::consumer(&uses), Ok(()));
    let does_not_use = |_: &Stage, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray| {
        let schema = unsafe { Schema::import(schema) }.unwrap();
        drop(unsafe { Array::import(array, &schema) }.unwrap());
    };
    assert_eq!(judge::consumer(&does_not_use), Ok(()));
}

// Requirement: ABI-2, ABI-5, SCH-2, SCH-3, SCH-4, SCH-5, ARR-1

// Requirement: ARR-3, ARR-4, ARR-14, ARR-16, ARR-19, SYS-1, SYS-2
#[test]
fn the_library_is_a_right_relay() {
    assert_eq!(judge::relay(&Ours), Ok(()));
    assert_eq!(judge::relay_of_unreadable_data(&Ours), Ok(()));
}
