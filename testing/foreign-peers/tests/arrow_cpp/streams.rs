//! Streams of Arrow C++ and of the library, each read by the other: record batches and arrays of
//! every type, on the host and on the software device, to the end and not, with errors and without.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::deferred::wait_until_released;
use arrow_device::{
    Array, ArrayStream, Batch, DataType, DeviceType, Error, ErrorKind, Queue, Schema,
};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::{Verdict, require};
use foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use foreign_peers::table::{self, Table};

const TYPES: &str = "every type, every nesting of two";
const TIMEOUT: std::time::Duration = std::time::Duration::from_secs(60);
/// Marks a complaint as one that was expected.
const EXCEPTION: &str = "exception: ";

fn words(error: Error) -> String {
    error.to_string()
}

fn import(mut stream: ArrowDeviceArrayStream) -> Result<ArrayStream, String> {
    unsafe { ArrayStream::import(&mut stream) }.map_err(words)
}

fn export(stream: ArrayStream) -> ArrowDeviceArrayStream {
    let mut out = ArrowDeviceArrayStream::empty();
    stream.export(&mut out);
    out
}

fn stream_of(schema: &Schema, device_type: DeviceType, arrays: Vec<Array>) -> ArrayStream {
    ArrayStream::new(schema.clone(), device_type, arrays.into_iter().map(Ok))
}

/// What Arrow C++ cannot do with its own streams, by what it says then.
const ITS_OWN: [(&str, &str); 2] = [
    (
        "nested run-end encoded",
        "run-end encoding in run-end encoding is not taken back from itself",
    ),
    (
        "extension<arrow_device.test> array not supported",
        "extensions of extensions are not exported",
    ),
];

/// Runs a check for each stream of Arrow C++, holds it to what the device and its memory pool say,
/// and writes the line. Where one fails that Arrow C++ itself does not get through either, that is
/// an exception.
fn each_stream(
    cpp: &ArrowCpp,
    numbers: impl Iterator<Item = usize>,
    place: Place,
    (direction, place_name, test): (&str, &str, &str),
    check: impl Fn(usize, &Queue) -> Verdict,
) {
    let (before, mut good, mut complaints) = (cpp.allocated(), 0, Vec::new());
    let mut exceptions = BTreeMap::<String, usize>::new();
    cpp.on_sim(1, |sim, queue| {
        for number in numbers {
            let verdict = check(number, queue);
            queue.synchronize().map_err(words)?;
            wait_until_released(TIMEOUT).map_err(words)?;
            let verdict = verdict.map_err(|complaint| {
                let alone = check_alone(cpp, number, place).err().unwrap_or_default();
                let known = ITS_OWN.iter().find(|(said, _)| alone.contains(said));
                known.map_or(complaint, |(_, reason)| format!("{EXCEPTION}{reason}"))
            });
            match verdict.and(sim.mistakes().map_or(Ok(()), Err)) {
                Ok(()) => good += 1,
                Err(complaint) => match complaint.strip_prefix(EXCEPTION) {
                    Some(reason) => *exceptions.entry(reason.to_owned()).or_default() += 1,
                    None => complaints
                        .push(format!("{}: {complaint}", cpp.case_name(cpp.first_case(number)))),
                },
            }
        }
        Ok(())
    })
    .unwrap_or_else(|report| complaints.push(report));
    let shown: Vec<_> = complaints.iter().take(20).cloned().collect();
    assert!(shown.is_empty(), "{} complaints:\n{}", complaints.len(), shown.join("\n"));
    assert_eq!(cpp.allocated(), before, "Arrow C++ still holds memory");
    let exceptions: Vec<_> =
        exceptions.iter().map(|(reason, count)| format!("{reason} ({count} cases)")).collect();
    let exceptions = if exceptions.is_empty() { "none".into() } else { exceptions.join("; ") };
    let cells = [&cpp.name(), direction, place_name, TYPES, &good.to_string(), &exceptions];
    table::check(Table::Exchanges, &cells, test);
}

fn check_alone(cpp: &ArrowCpp, number: usize, place: Place) -> Verdict {
    let stream = cpp.export_stream(number, place)?;
    unsafe { cpp.compare_stream(number, place, stream) }
}

/// Every stream of the host, and every so many of the device.
fn numbers(cpp: &ArrowCpp, step: usize) -> impl Iterator<Item = usize> + use<> {
    let (arrays, batches) = cpp.stream_counts();
    (0..arrays).step_by(step).chain(arrays..arrays + batches)
}

#[test]
fn streams_of_arrow_cpp_come_back_to_it_as_they_were() {
    const TEST: &str = "streams_of_arrow_cpp_come_back_to_it_as_they_were";
    let Some(cpp) = arrow_cpp() else { return };
    let line = ("streams, to us and back", "host", TEST);
    each_stream(&cpp, numbers(&cpp, 1), Place::Host, line, |number, _| {
        let stream = import(cpp.export_stream(number, Place::Host)?)?;
        // Arrow C++ asks for the arrays, and the library asks Arrow C++.
        unsafe { cpp.compare_stream(number, Place::Host, export(stream)) }?;
        let stream = import(cpp.export_stream(number, Place::Host)?)?;
        let schema = stream.schema().clone();
        let arrays = stream.collect::<Result<Vec<_>, _>>().map_err(words)?;
        arrays.iter().try_for_each(|array| array.validate().map_err(words))?;
        let again = stream_of(&schema, DeviceType::CPU, arrays);
        unsafe { cpp.compare_stream(number, Place::Host, export(again)) }
    });
}

#[test]
fn plain_streams_of_arrow_cpp_come_back_to_it_as_they_were() {
    const TEST: &str = "plain_streams_of_arrow_cpp_come_back_to_it_as_they_were";
    let Some(cpp) = arrow_cpp() else { return };
    let line = ("streams, to us and back", "host, structs without a device", TEST);
    each_stream(&cpp, numbers(&cpp, 1), Place::Host, line, |number, _| {
        let mut stream = cpp.export_plain_stream(number)?;
        let stream = unsafe { ArrayStream::import_host(&mut stream) }.map_err(words)?;
        let mut out = ArrowArrayStream::empty();
        stream.export_host(&mut out).map_err(words)?;
        unsafe { cpp.compare_plain_stream(number, out) }
    });
}

#[test]
fn slices_of_batches_of_ours_come_back_from_arrow_cpp() {
    const TEST: &str = "slices_of_batches_of_ours_come_back_from_arrow_cpp";
    let Some(cpp) = arrow_cpp() else { return };
    let batch = || {
        let numbers = Array::from_values(DataType::Int32, [Some(1), None, Some(3), Some(4)])?;
        let words = [None, Some("two"), Some("three"), Some("")];
        let lists = Array::from_values(DataType::Int8, [Some(1_i8), None, Some(3), Some(4)])?;
        let lens = [Some(1), Some(0), None, Some(3)];
        let lists = Array::from_lists(DataType::list(DataType::Int8), lens, lists)?;
        Batch::from_columns([
            ("numbers", numbers),
            ("words", Array::from_texts(DataType::Utf8, words)?),
            ("lists", lists),
        ])
    };
    let batch = batch().unwrap();
    let mut cases = 0;
    for from in 0..=4 {
        for len in 0..=4 - from {
            let slice = batch.slice(from, len).unwrap();
            let schema = slice.schema().unwrap();
            let stream = || {
                let batches = [Ok(slice.clone()), Ok(slice.clone())];
                export(ArrayStream::new(schema.clone(), DeviceType::CPU, batches))
            };
            let relayed = unsafe { cpp.relay_stream("batches", stream()) }.unwrap();
            for again in import(relayed).unwrap() {
                let again = again.unwrap();
                again.validate().unwrap();
                assert!(again.equals(slice.as_array()).unwrap(), "{from}+{len}");
                cases += 1;
            }
            unsafe { cpp.equal_streams(stream(), stream()) }.unwrap();
        }
    }
    let place = "host, slices of batches";
    let cells = [
        &cpp.name(),
        "streams, from us and back",
        place,
        "three columns",
        &cases.to_string(),
        "none",
    ];
    table::check(Table::Exchanges, &cells, TEST);
}

/// That a stream of the software device is read here as it was made, goes back, and is the same
/// there.
fn check_on_device(cpp: &ArrowCpp, number: usize, place: Place) -> Verdict {
    let first = cpp.export(cpp.first_case(number), Place::Settled)?;
    let is_lost = first.array.device_type == 1;
    let stream = import(cpp.export_stream(number, place)?)?;
    require(stream.device_type() == DeviceType::EXT_DEV, || "it lies elsewhere".into())?;
    let schema = stream.schema().clone();
    let arrays = stream.collect::<Result<Vec<_>, _>>();
    if is_lost {
        let refused = arrays.is_err_and(|error| error.kind() == ErrorKind::Malformed);
        require(refused, || "an array of the host passes for one of the device".into())?;
        let reason = "where the first part has no buffer, chunks are said to be on the host";
        return Err(format!("{EXCEPTION}{reason}"));
    }
    let arrays = arrays.map_err(words)?;
    let here: Result<Vec<_>, _> = arrays.iter().map(Array::to_host).collect();
    let near = export(stream_of(&schema, DeviceType::CPU, here.map_err(words)?));
    // Offsets are read before the event is waited for.
    let mut far = ArrowDeviceArrayStream::empty();
    stream_of(&schema, DeviceType::EXT_DEV, arrays).export_settled(&mut far);
    unsafe { cpp.equal_streams(near, far) }?;
    let stream = import(cpp.export_stream(number, place)?)?;
    let mut far = ArrowDeviceArrayStream::empty();
    stream.export_settled(&mut far);
    unsafe { cpp.compare_stream(number, place, far) }
}

#[test]
fn device_streams_of_arrow_cpp_are_read_here_and_go_back() {
    const TEST: &str = "device_streams_of_arrow_cpp_are_read_here_and_go_back";
    let Some(cpp) = arrow_cpp() else { return };
    let line = ("streams, to us and back", "software device, settled", TEST);
    each_stream(&cpp, numbers(&cpp, 3), Place::Settled, line, |number, _| {
        check_on_device(&cpp, number, Place::Settled)
    });
    let (arrays, batches) = cpp.stream_counts();
    let line = ("streams, to us and back", "software device, batches with pending events", TEST);
    each_stream(&cpp, arrays..arrays + batches, Place::Pending, line, |number, _| {
        check_on_device(&cpp, number, Place::Pending)
    });
}

#[test]
fn a_comparison_of_streams_that_must_fail_fails() {
    let Some(cpp) = arrow_cpp() else { return };
    let compare = |number, stream| unsafe { cpp.compare_stream(number, Place::Host, stream) };
    let (_, batches) = cpp.stream_counts();
    assert_eq!(batches, 3);
    let said = compare(3, cpp.export_stream(2, Place::Host).unwrap()).unwrap_err();
    assert!(said.contains("differ"), "{said}");
    let all = import(cpp.export_stream(2, Place::Host).unwrap()).unwrap();
    let schema = all.schema().clone();
    let fewer: Vec<_> = all.skip(1).map(Result::unwrap).collect();
    let said = compare(2, export(stream_of(&schema, DeviceType::CPU, fewer))).unwrap_err();
    assert!(said.contains("6 chunks instead of 7"), "{said}");
}

/// Something that a ledger says is gone.
struct Held(Arc<Ledger>);

impl Held {
    fn new(ledger: &Arc<Ledger>) -> Self {
        ledger.opened();
        Self(ledger.clone())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.closed();
    }
}

/// Arrays of four types, several of each.
fn ours() -> Vec<(Schema, Vec<Array>)> {
    let numbers = Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3)]).unwrap();
    let texts = |of: DataType| {
        Array::from_texts(of, [Some("tea"), None, Some("more than fits into a view")]).unwrap()
    };
    let record = || {
        let columns = [("n", numbers.clone()), ("t", texts(DataType::Utf8))];
        Batch::from_columns(columns).unwrap().as_array().clone()
    };
    [numbers.clone(), texts(DataType::LargeUtf8), texts(DataType::Utf8View), record()]
        .into_iter()
        .map(|array| {
            // It refuses batches with an offset; a batch of slices has none.
            let slice = match Batch::try_from(array.clone()) {
                Ok(batch) => {
                    let columns = batch.slice(1, 2).unwrap().columns().unwrap();
                    Batch::new(batch.schema().unwrap(), columns).unwrap().into()
                }
                Err(_) => array.slice(1, 2).unwrap(),
            };
            (array.schema().unwrap(), vec![array.clone(), slice, array])
        })
        .collect()
}

/// A stream of these arrays, whose iterator a ledger watches.
fn watched(schema: &Schema, on: DeviceType, arrays: &[Array], ledger: &Arc<Ledger>) -> ArrayStream {
    let held = Held::new(ledger);
    let arrays = Vec::from(arrays);
    let arrays = arrays.into_iter().map(move |array| {
        let _ = &held;
        Ok(array)
    });
    ArrayStream::new(schema.clone(), on, arrays)
}

#[test]
fn streams_of_ours_come_back_from_arrow_cpp() {
    const TEST: &str = "streams_of_ours_come_back_from_arrow_cpp";
    let Some(cpp) = arrow_cpp() else { return };
    let (before, ledger) = (cpp.allocated(), Ledger::new());
    for (schema, arrays) in ours() {
        let manner = if schema.data_type().is_nested() { "batches" } else { "chunks" };
        let out = export(watched(&schema, DeviceType::CPU, &arrays, &ledger));
        let back = import(unsafe { cpp.relay_stream(manner, out) }.unwrap()).unwrap();
        let back: Vec<_> = back.map(Result::unwrap).collect();
        assert_eq!(back.len(), arrays.len());
        for (back, ours) in back.iter().zip(&arrays) {
            back.validate().unwrap();
            assert!(back.equals(ours).unwrap(), "{schema:?}");
        }
    }
    ledger.settle(0).unwrap();
    assert_eq!(cpp.allocated(), before);
    let (name, types) = (cpp.name(), "numbers, text, views, batches");
    let cells = [&*name, "streams, from us and back", "host", types, "4", "none"];
    table::check(Table::Exchanges, &cells, TEST);
}

#[test]
fn device_streams_of_ours_are_the_same_in_arrow_cpp() {
    const TEST: &str = "device_streams_of_ours_are_the_same_in_arrow_cpp";
    let Some(cpp) = arrow_cpp() else { return };
    let (before, ledger) = (cpp.allocated(), Ledger::new());
    cpp.on_sim(1, |_, queue| {
        for (schema, arrays) in ours() {
            // It counts the nulls of a slice on the device, and crashes.
            let is_counted = |array: &&Array| array.len() == 3 || schema.data_type().is_nested();
            let arrays: Vec<_> = arrays.iter().filter(is_counted).cloned().collect();
            let there: Vec<_> = arrays.iter().map(|array| array.copy_to(queue).unwrap()).collect();
            let on_device = |there: &[Array]| {
                let mut far = ArrowDeviceArrayStream::empty();
                watched(&schema, DeviceType::EXT_DEV, there, &ledger).export_settled(&mut far);
                far
            };
            let near = export(watched(&schema, DeviceType::CPU, &arrays, &ledger));
            unsafe { cpp.equal_streams(near, on_device(&there)) }?;
            if schema.data_type().is_nested() {
                unsafe { cpp.read_batches(9, on_device(&there)) }?;
            }
        }
        Ok(())
    })
    .unwrap();
    ledger.settle(0).unwrap();
    assert_eq!(cpp.allocated(), before);
    let (name, types) = (cpp.name(), "numbers, text, views, batches");
    let cells = [&*name, "streams, from us", "software device, settled", types, "4", "none"];
    table::check(Table::Exchanges, &cells, TEST);
}

// Requirement: STR-5
#[test]
fn errors_of_its_readers_arrive_with_their_code_and_text() {
    let Some(cpp) = arrow_cpp() else { return };
    let before = cpp.allocated();
    let errnos = [libc::EIO, libc::ENOSYS, libc::ENOMEM, libc::EINVAL, libc::EINVAL];
    for (status, errno) in (0..).zip(errnos) {
        for good in [0, 2] {
            let mut stream = import(cpp.export_failing_stream(good, status).unwrap()).unwrap();
            let arrays: Vec<_> = stream.by_ref().take(good).map(Result::unwrap).collect();
            let error = stream.next().unwrap().unwrap_err();
            assert_eq!(error.errno(), errno, "{error}");
            assert!(error.message().contains("the reader has failed"), "{error}");
            assert!(stream.next().is_none());
            drop(stream);
            arrays.iter().for_each(|array| array.validate().unwrap());
        }
    }
    assert_eq!(cpp.allocated(), before);
}

fn record() -> Array {
    let numbers = Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3)]).unwrap();
    Batch::from_columns([("n", numbers)]).unwrap().as_array().clone()
}

/// A stream of batches that goes on for ever, or fails after so many.
fn endless(ledger: &Arc<Ledger>, failure: Option<(usize, ErrorKind)>) -> ArrayStream {
    let (held, array) = (Held::new(ledger), record());
    let schema = array.schema().unwrap();
    let arrays = (0..).map(move |number| {
        let _ = &held;
        match failure {
            Some((at, kind)) if number >= at => Err(Error::new(kind, "the iterator has failed")),
            _ => Ok(array.clone()),
        }
    });
    ArrayStream::new(schema, DeviceType::CPU, arrays)
}

// Requirement: STR-5
#[test]
fn errors_of_ours_arrive_there_with_their_code_and_text() {
    let Some(cpp) = arrow_cpp() else { return };
    let (before, ledger) = (cpp.allocated(), Ledger::new());
    let kinds = [
        (ErrorKind::OutOfMemory, "Out of memory"),
        (ErrorKind::Unsupported, "NotImplemented"),
        (ErrorKind::InvalidArgument, "Invalid"),
        (ErrorKind::DeviceLost, "IOError"),
    ];
    for (kind, status) in kinds {
        for good in [0, 2] {
            let stream = export(endless(&ledger, Some((good, kind))));
            let said = unsafe { cpp.read_batches(9, stream) }.unwrap_err();
            assert!(said.starts_with(status), "{kind:?}: {said}");
            assert!(said.contains("the iterator has failed"), "{kind:?}: {said}");
        }
    }
    ledger.settle(0).unwrap();
    assert_eq!(cpp.allocated(), before);
}

// Requirement: STR-6, STR-7
#[test]
fn a_stream_that_either_side_leaves_in_the_middle_leaves_nothing_behind() {
    let Some(cpp) = arrow_cpp() else { return };
    let (before, ledger) = (cpp.allocated(), Ledger::new());
    let (arrays, _) = cpp.stream_counts();
    for number in [2, arrays] {
        for taken in 0..3 {
            let mut stream = import(cpp.export_stream(number, Place::Host).unwrap()).unwrap();
            let kept: Vec<_> = stream.by_ref().take(taken).map(Result::unwrap).collect();
            drop(stream);
            kept.iter().for_each(|array| array.validate().unwrap());
            drop(kept);
            assert_eq!(cpp.allocated(), before);
            unsafe { cpp.read_batches(taken, export(endless(&ledger, None))) }.unwrap();
            ledger.settle(0).unwrap();
        }
    }
    cpp.on_sim(1, |sim, queue| {
        let there = record().copy_to(queue).map_err(words)?;
        let schema = there.schema().map_err(words)?;
        for taken in 0..3 {
            for place in [Place::Settled, Place::Pending] {
                let mut stream = import(cpp.export_stream(arrays + 1, place)?)?;
                let kept: Vec<_> =
                    stream.by_ref().take(taken).collect::<Result<_, _>>().map_err(words)?;
                drop(stream);
                for array in kept {
                    array.validate_on(queue).map_err(words)?;
                }
            }
            let mut far = ArrowDeviceArrayStream::empty();
            let all = [there.clone(), there.clone(), there.clone()];
            watched(&schema, DeviceType::EXT_DEV, &all, &ledger).export_settled(&mut far);
            unsafe { cpp.read_batches(taken, far) }?;
            sim.mistakes().map_or(Ok(()), Err)?;
        }
        Ok(())
    })
    .unwrap();
    ledger.settle(0).unwrap();
    assert_eq!(cpp.allocated(), before);
}
