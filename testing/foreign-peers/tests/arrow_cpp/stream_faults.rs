//! What the released Arrow C++ does wrong with streams, each shown, and what this library does
//! instead.

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::{Array, ArrayStream, Batch, DataType, DeviceType, Queue, Schema};
use arrow_device_testkit::kinds::cases;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::process::{self, End};
use arrow_device_testkit::producer;
use foreign_peers::Structs;
use foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use foreign_peers::table::{self, Table};

/// Writes the line of a fault that was seen.
fn seen(cpp: &ArrowCpp, fault: &str, how: &str, here: &str, test: &str) {
    table::check(Table::Faults, &[&cpp.name(), fault, how, here], test);
}

fn record() -> Array {
    let numbers = Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3)]).unwrap();
    Batch::from_columns([("n", numbers)]).unwrap().as_array().clone()
}

fn export(array: &Array) -> ArrowDeviceArrayStream {
    let mut out = ArrowDeviceArrayStream::empty();
    let (schema, on) = (array.schema().unwrap(), array.device().device_type);
    ArrayStream::new(schema, on, [Ok(array.clone())]).export(&mut out);
    out
}

/// The first array of a stream, as C sees it, and the end of the stream.
fn first(mut stream: ArrowDeviceArrayStream) -> Structs {
    let mut structs = Structs::empty();
    let get_next = stream.get_next.unwrap();
    assert_eq!(unsafe { get_next(&mut stream, &mut structs.array) }, 0);
    unsafe { stream.release.unwrap()(&mut stream) };
    structs
}

#[test]
fn its_streams_of_chunks_lose_the_event() {
    const TEST: &str = "its_streams_of_chunks_lose_the_event";
    let Some(cpp) = arrow_cpp() else { return };
    cpp.on_sim(1, |_, queue| {
        let there = record().copy_to(queue).unwrap();
        let ours = first(export(&there));
        assert!(!ours.array.sync_event.is_null(), "the library's stream has the event");
        let relayed = unsafe { cpp.relay_stream("chunks", export(&there)) }?;
        assert!(first(relayed).array.sync_event.is_null(), "Arrow C++ hands on the event now");
        Ok(())
    })
    .unwrap();
    let fault = "a stream of chunks whose buffers have an event";
    seen(&cpp, fault, "its chunks are exported without", "streams keep the event", TEST);
}

#[test]
fn reading_chunks_of_a_device_whose_nulls_are_not_counted_crashes_it() {
    const TEST: &str = "reading_chunks_of_a_device_whose_nulls_are_not_counted_crashes_it";
    let Some(cpp) = arrow_cpp() else { return };
    let slice = |queue: &Queue| {
        let numbers = Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3)]).unwrap();
        let mut out = ArrowDeviceArrayStream::empty();
        let slice = numbers.copy_to(queue).unwrap().slice(1, 2).unwrap();
        let (schema, on) = (slice.schema().unwrap(), slice.device().device_type);
        ArrayStream::new(schema, on, [Ok(slice)]).export_settled(&mut out);
        out
    };
    let end = process::end_of(|| {
        cpp.on_sim(1, |_, queue| unsafe { cpp.relay_stream("chunks", slice(queue)).map(drop) })
            .unwrap();
    });
    let Some(end) = end else { return };
    assert_eq!(end, End::Crashed, "Arrow C++ no longer crashes");
    cpp.on_sim(1, |_, queue| {
        let mut stream = unsafe { ArrayStream::import(&mut slice(queue)) }.unwrap();
        let array = stream.next().unwrap().unwrap();
        assert_eq!(first(export(&array)).array.array.null_count, -1);
        array.validate_on(queue).unwrap();
        Ok(())
    })
    .unwrap();
    let fault = "chunks on a device with a bitmap whose nulls nobody has counted";
    seen(&cpp, fault, "its import as a ChunkedArray crashes", "imported, and handed on", TEST);
}

/// A batch that a ledger watches, said to be on a device that nobody knows.
fn of_another_device(ledger: &std::sync::Arc<Ledger>) -> Array {
    let case = cases().find(|case| case.plan().format.to_bytes() == b"+s").unwrap();
    let (plan, schemas) = (case.plan(), Ledger::new());
    let mut structs = Structs {
        schema: producer::schema(&plan, &schemas),
        array: producer::device_array(&plan, ledger),
    };
    (structs.array.device_type, structs.array.device_id) = (2, 0);
    let schema = unsafe { Schema::import(&mut structs.schema) }.unwrap();
    unsafe { Array::import(&mut structs.array, &schema) }.unwrap()
}

#[test]
fn it_leaks_the_array_of_a_stream_on_a_device_that_it_does_not_know() {
    const TEST: &str = "it_leaks_the_array_of_a_stream_on_a_device_that_it_does_not_know";
    let Some(cpp) = arrow_cpp() else { return };
    let ledger = Ledger::new();
    let array = of_another_device(&ledger);
    let stream = export(&array);
    drop(array);
    let said = unsafe { cpp.read_batches(1, stream) }.unwrap_err();
    assert!(said.contains("not") && said.contains("registered"), "{said}");
    assert!(ledger.settle_soon(1).is_err(), "Arrow C++ releases it now");
    let ledger = Ledger::new();
    let array = of_another_device(&ledger);
    let mut stream = export(&array);
    drop(array);
    let mut stream = unsafe { ArrayStream::import(&mut stream) }.unwrap();
    let array = stream.next().unwrap().unwrap();
    assert_eq!(array.device().device_type, DeviceType(2));
    drop((stream, array));
    ledger.settle_soon(1).unwrap();
    let fault = "a stream on a type of device that is not registered";
    let how = "its reader fails, and the array is never released";
    seen(&cpp, fault, how, "imported, handed on, and released", TEST);
}

#[test]
fn it_takes_an_array_of_the_host_from_a_stream_on_a_device() {
    const TEST: &str = "it_takes_an_array_of_the_host_from_a_stream_on_a_device";
    let Some(cpp) = arrow_cpp() else { return };
    let lying = || {
        let mut stream = export(&record());
        stream.device_type = 2;
        stream
    };
    let mut relayed = unsafe { cpp.relay_stream("batches", lying()) }.unwrap();
    assert_eq!(relayed.device_type, 2);
    let mut array = ArrowDeviceArray::empty();
    assert_eq!(unsafe { relayed.get_next.unwrap()(&mut relayed, &mut array) }, 0);
    assert_eq!(array.device_type, 1, "Arrow C++ refuses it now");
    unsafe { array.array.release.unwrap()(&mut array.array) };
    unsafe { relayed.release.unwrap()(&mut relayed) };
    let mut stream = unsafe { ArrayStream::import(&mut lying()) }.unwrap();
    let kind = stream.next().unwrap().unwrap_err().kind();
    assert!(stream.next().is_none());
    let fault = "an array of the host in a stream on a device";
    let here = format!("an error ({kind:?}), and released");
    seen(&cpp, fault, "accepted, and handed on", &here, TEST);
}

#[test]
fn its_batches_without_buffers_are_on_the_host_in_a_stream_on_a_device() {
    const TEST: &str = "its_batches_without_buffers_are_on_the_host_in_a_stream_on_a_device";
    let Some(cpp) = arrow_cpp() else { return };
    let (arrays, batches) = cpp.stream_counts();
    let without_columns = arrays + batches - 1;
    cpp.on_sim(1, |_, queue| {
        let stream = cpp.export_stream(without_columns, Place::Settled)?;
        assert_eq!((stream.device_type, first(stream).array.device_type), (12, 1));
        let mut stream = cpp.export_stream(without_columns, Place::Settled)?;
        let mut stream = unsafe { ArrayStream::import(&mut stream) }.unwrap();
        stream.next().unwrap().unwrap_err();
        let empty = Array::builder(DataType::struct_([]))
            .device(queue.device().id())
            .len(3)
            .buffers([None])
            .finish_ready()
            .unwrap();
        assert_eq!(first(export(&empty)).array.device_type, 12);
        Ok(())
    })
    .unwrap();
    let fault = "a batch without columns in a stream on a device";
    let how = "is said to be on the host";
    seen(&cpp, fault, how, "is an error from a peer, and on the device from us", TEST);
}

#[test]
fn it_refuses_batches_with_an_offset() {
    const TEST: &str = "it_refuses_batches_with_an_offset";
    let Some(cpp) = arrow_cpp() else { return };
    let batch = Batch::try_from(record()).unwrap();
    // The same, which nobody has called a batch.
    let rows = Array::builder(batch.schema().unwrap()).len(3).buffers([None]);
    let rows = rows.children(batch.columns().unwrap()).finish_ready().unwrap();
    let rows = rows.slice(1, 2).unwrap();
    let said = unsafe { cpp.read_batches(1, export(&rows)) }.unwrap_err();
    assert!(said.contains("non-zero offset"), "{said}");
    let mut stream = unsafe { ArrayStream::import(&mut export(&rows)) }.unwrap();
    assert!(stream.next().unwrap().unwrap().equals(&rows).unwrap());
    unsafe { cpp.read_batches(1, export(Batch::try_from(rows).unwrap().as_array())) }.unwrap();
    let here = "imported; a `Batch` is exported without one";
    seen(&cpp, "a batch with an offset", "its import as a RecordBatch is an error", here, TEST);
}
