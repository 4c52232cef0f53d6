//! What the released Arrow C++ does wrong with arrays and schemas, each shown, and what this
//! library does instead. What crashes does so in a child process.

use arrow_device::{Array, Batch, Buffer, DataType, ErrorKind, Field, IndexType, Queue, Schema};
use arrow_device_testkit::process::{self, End};
use foreign_peers::Structs;
use foreign_peers::arrow_cpp::{ArrowCpp, Place, arrow_cpp};
use foreign_peers::table::{self, Table};

/// Writes the line of a fault that was seen.
fn seen(cpp: &ArrowCpp, fault: &str, how: &str, here: &str, test: &str) {
    table::check(Table::Faults, &[&cpp.name(), fault, how, here], test);
}

fn numbers() -> Array {
    Array::from_values(DataType::Int32, [Some(1_i32), None, Some(3), Some(4)]).unwrap()
}

fn text() -> Array {
    Array::from_texts(DataType::Utf8, [Some("tea"), Some("coffee"), Some("milk")]).unwrap()
}

/// What the library says to these structs.
fn ours(mut structs: Structs) -> Result<Array, ErrorKind> {
    let schema = unsafe { Schema::import(&mut structs.schema) }.map_err(|error| error.kind())?;
    let imported = unsafe { Array::import(&mut structs.array, &schema) };
    assert!(structs.array.is_released(), "what is refused is released");
    imported.map_err(|error| error.kind())
}

fn on_device(array: &Array, queue: &Queue) -> Array {
    array.copy_to(queue).unwrap()
}

/// That the body crashes in a child; the child's assertions hold until then.
fn assert_crashes(test: &str, body: impl FnOnce(&ArrowCpp)) -> bool {
    let Some(cpp) = arrow_cpp() else { return false };
    match process::end_of(|| body(&cpp)) {
        None => false,
        Some(end) => {
            assert_eq!(end, End::Crashed, "{test}: Arrow C++ no longer crashes");
            true
        }
    }
}

#[test]
fn exporting_a_slice_of_a_device_array_with_nulls_crashes_it() {
    const TEST: &str = "exporting_a_slice_of_a_device_array_with_nulls_crashes_it";
    let crashed = assert_crashes(TEST, |cpp| {
        let exported =
            cpp.on_sim(1, |_, _| unsafe { cpp.call("export_device_slice", &mut Structs::empty()) });
        exported.unwrap();
    });
    let Some(cpp) = arrow_cpp().filter(|_| crashed) else { return };
    cpp.on_sim(1, |_, queue| {
        let slice = on_device(&numbers(), queue).slice(1, 2).unwrap();
        let structs = Structs::of(&slice).unwrap();
        assert_eq!((structs.array.array.null_count, structs.array.array.offset), (-1, 1));
        Ok(())
    })
    .unwrap();
    let (fault, how) = ("a slice of a device array with nulls", "its export crashes");
    seen(&cpp, fault, how, "exported with its null count unknown", TEST);
}

#[test]
fn importing_a_device_batch_whose_nulls_are_not_counted_crashes_it() {
    const TEST: &str = "importing_a_device_batch_whose_nulls_are_not_counted_crashes_it";
    let structs = |queue: &Queue| {
        let record = Array::builder(DataType::struct_([Field::new("n", DataType::Int32, true)]))
            .len(4)
            .buffers([Some(Buffer::from(vec![0xff_u8]))])
            .children([numbers()])
            .finish_ready()
            .unwrap();
        let mut structs = Structs::settled(&on_device(&record, queue)).unwrap();
        structs.array.array.null_count = -1;
        structs
    };
    let crashed = assert_crashes(TEST, |cpp| {
        let imported =
            cpp.on_sim(1, |_, queue| unsafe { cpp.call("import_batch", &mut structs(queue)) });
        imported.unwrap();
    });
    let Some(cpp) = arrow_cpp().filter(|_| crashed) else { return };
    cpp.on_sim(1, |_, queue| {
        let mut structs = structs(queue);
        let schema = unsafe { Schema::import(&mut structs.schema) }.unwrap();
        let error = unsafe { Batch::import(&mut structs.array, &schema) }.unwrap_err();
        assert!(structs.array.is_released(), "{error}");
        Ok(())
    })
    .unwrap();
    let fault = "a device batch with a bitmap whose nulls nobody has counted";
    seen(&cpp, fault, "its import crashes", "refused with an error, and released", TEST);
}

#[test]
fn it_reads_offsets_before_it_waits_and_the_software_device_reports_that() {
    const TEST: &str = "it_reads_offsets_before_it_waits_and_the_software_device_reports_that";
    let Some(cpp) = arrow_cpp() else { return };
    let reports = |settled: bool| {
        let mut reports = None;
        cpp.on_sim(1, |sim, queue| {
            let there = on_device(&text(), queue);
            let structs = if settled { Structs::settled(&there) } else { Structs::of(&there) };
            let mut structs = structs.unwrap();
            assert_eq!(structs.array.sync_event.is_null(), settled);
            let _ = unsafe { cpp.call("import", &mut structs) };
            reports = sim.mistakes();
            Ok(())
        })
        .unwrap();
        reports
    };
    assert_eq!(reports(true), None);
    let report = reports(false).expect("the read is reported");
    println!("{report}");
    assert!(report.contains("read without order"), "{report}");
    let how = "its import reads them at once; the software device reports the read";
    seen(&cpp, "offsets of text that an event says are not ready", how, "`export_settled`", TEST);
}

#[test]
fn a_slice_of_its_buffers_has_no_event() {
    const TEST: &str = "a_slice_of_its_buffers_has_no_event";
    let Some(cpp) = arrow_cpp() else { return };
    cpp.on_sim(1, |_, queue| {
        let there = on_device(&numbers(), queue);
        let mut structs = Structs::of(&there).unwrap();
        let said = unsafe { cpp.call("slice_keeps_event", &mut structs) }.unwrap_err();
        assert!(said.contains("the slice has no event"), "{said}");
        let slice = there.slice(1, 2).unwrap();
        assert!(!Structs::of(&slice).unwrap().array.sync_event.is_null());
        Ok(())
    })
    .unwrap();
    let fault = "a slice of a buffer that an event says is not ready";
    seen(&cpp, fault, "has no event", "slices of arrays keep the event", TEST);
}

#[test]
fn it_does_not_write_reserved() {
    const TEST: &str = "it_does_not_write_reserved";
    let Some(cpp) = arrow_cpp() else { return };
    let structs = cpp.export(8, Place::Host).unwrap();
    assert_eq!(structs.array.reserved, [-1; 3]);
    let array = ours(structs).unwrap();
    assert_eq!(Structs::of(&array).unwrap().array.reserved, [0; 3]);
    let here = "not looked at in an import, zero in an export";
    seen(&cpp, "`reserved`", "holds what the memory held before", here, TEST);
}

#[test]
fn it_exports_a_dictionary_on_the_host_with_keys_on_a_device() {
    const TEST: &str = "it_exports_a_dictionary_on_the_host_with_keys_on_a_device";
    let Some(cpp) = arrow_cpp() else { return };
    cpp.on_sim(1, |_, queue| {
        let mut structs = Structs::empty();
        unsafe { cpp.call("export_mixed_dictionary", &mut structs) }.unwrap();
        assert_eq!(structs.array.device_type, 12);
        drop(structs);
        let keys = queue.allocate(4).unwrap().into_buffer();
        let mixed = Array::builder(DataType::dictionary(IndexType::Int8, DataType::Utf8))
            .len(4)
            .buffers([None, Some(keys)])
            .dictionary(text())
            .finish_ready();
        assert!(mixed.is_err());
        Ok(())
    })
    .unwrap();
    let fault = "keys on a device with a dictionary on the host";
    seen(&cpp, fault, "exported as if all were on the device", "cannot be built", TEST);
}

#[test]
fn null_buffers_of_an_empty_device_array_are_on_the_host_for_it() {
    const TEST: &str = "null_buffers_of_an_empty_device_array_are_on_the_host_for_it";
    let Some(cpp) = arrow_cpp() else { return };
    cpp.on_sim(1, |_, queue| {
        let columns = [("full", numbers()), ("empty", Array::nulls(4).unwrap())];
        let batch = Batch::from_columns(columns).unwrap().as_array().clone();
        let there = on_device(&batch, queue);
        let empty = Array::builder(DataType::struct_([
            Field::new("n", DataType::Int32, true),
            Field::new(
                "l",
                DataType::fixed_size_list(Field::new("i", DataType::Int32, true), 0),
                true,
            ),
        ]))
        .device(there.device())
        .len(4)
        .buffers([None])
        .children([
            there.child(0).unwrap(),
            Array::builder(DataType::fixed_size_list(Field::new("i", DataType::Int32, true), 0))
                .device(there.device())
                .len(4)
                .buffers([None])
                .children([Array::builder(DataType::Int32)
                    .device(there.device())
                    .len(0)
                    .buffers([None, None])
                    .finish_ready()
                    .unwrap()])
                .finish_ready()
                .unwrap(),
        ]);
        let event = queue.record().unwrap();
        let empty = unsafe { empty.finish_after(event) }.unwrap();
        let said = match unsafe { cpp.relay(Structs::settled(&empty).unwrap()) } {
            Ok(_) => "handed on".to_owned(),
            Err(said) => said,
        };
        assert!(said.contains("more than one device"), "{said}");
        ours(Structs::settled(&empty).unwrap()).unwrap();
        Ok(())
    })
    .unwrap();
    let fault = "a null buffer of no bytes in a device array";
    let how = "is on the host after the import, and the next export fails";
    seen(&cpp, fault, how, "stays null, and is handed on", TEST);
}

#[test]
fn it_does_not_release_an_array_of_a_device_that_it_does_not_know() {
    const TEST: &str = "it_does_not_release_an_array_of_a_device_that_it_does_not_know";
    let Some(cpp) = arrow_cpp() else { return };
    let foreign = || {
        let mut structs = Structs::of(&numbers()).unwrap();
        (structs.array.device_type, structs.array.device_id) = (2, 0);
        structs
    };
    let mut structs = foreign();
    assert!(unsafe { cpp.call("import", &mut structs) }.is_err());
    assert!(!structs.array.is_released());
    let array = ours(foreign()).unwrap();
    assert!(array.on(&Queue::host()).is_err());
    let fault = "an array of a type of device that is not registered";
    let here = "imported, handed on, and only refused to who would use it";
    seen(&cpp, fault, "is refused and not released", here, TEST);
}

#[test]
fn it_takes_device_type_257_for_the_host() {
    const TEST: &str = "it_takes_device_type_257_for_the_host";
    let Some(cpp) = arrow_cpp() else { return };
    let foreign = || {
        let mut structs = Structs::of(&numbers()).unwrap();
        structs.array.device_type = 257;
        structs
    };
    unsafe { cpp.call("import", &mut foreign()) }.expect("it has learned that this is no host");
    let array = ours(foreign()).unwrap();
    assert_eq!(array.device().device_type.0, 257);
    assert!(array.host().is_err());
    seen(&cpp, "device type 257", "is taken for 1, the host", "is what it is", TEST);
}

#[test]
fn it_ignores_an_event_on_the_host() {
    const TEST: &str = "it_ignores_an_event_on_the_host";
    let Some(cpp) = arrow_cpp() else { return };
    let with_event = || {
        let mut structs = Structs::of(&numbers()).unwrap();
        structs.array.sync_event = std::ptr::dangling_mut::<u64>().cast();
        structs
    };
    unsafe { cpp.call("import", &mut with_event()) }.expect("it has learned to look");
    assert!(ours(with_event()).is_err());
    seen(&cpp, "an event of a host array", "is not looked at", "an error", TEST);
}

#[test]
fn it_says_that_structs_whose_first_child_has_no_buffer_are_on_the_host() {
    const TEST: &str = "it_says_that_structs_whose_first_child_has_no_buffer_are_on_the_host";
    let Some(cpp) = arrow_cpp() else { return };
    cpp.on_sim(1, |_, queue| {
        let columns = [("nothing", Array::nulls(4).unwrap()), ("n", numbers())];
        let batch = Batch::from_columns(columns).unwrap().as_array().clone();
        let there = on_device(&batch, queue);
        let mut structs = Structs::settled(&there).unwrap();
        let said = unsafe { cpp.call("knows_device", &mut structs) }.unwrap_err();
        assert!(said.contains("said to be on the host"), "{said}");
        assert_eq!(ours(Structs::settled(&there).unwrap()).unwrap().device(), there.device());
        Ok(())
    })
    .unwrap();
    let fault = "a device struct whose first child is of the null type";
    let how = "`Array::device_type` says the host, and so does its export";
    seen(&cpp, fault, how, "is where the struct says", TEST);
}

#[test]
fn it_writes_the_device_into_a_struct_that_it_fails_to_export() {
    const TEST: &str = "it_writes_the_device_into_a_struct_that_it_fails_to_export";
    let Some(cpp) = arrow_cpp() else { return };
    let mut structs = Structs::empty();
    (structs.array.device_type, structs.array.device_id) = (77, 77);
    assert!(cpp.export_broken_view(&mut structs.array).is_err());
    assert!(structs.array.is_released());
    assert_eq!((structs.array.device_type, structs.array.device_id), (1, -1));
    let fault = "an export that fails";
    seen(&cpp, fault, "has written the device", "writes all or nothing", TEST);
}

/// Changes of a struct that Arrow C++ lets pass, and what this library says to each.
type Change = fn(&mut Structs);

/// What is wrong, of which array, and how it is made so.
type Wrong = (&'static str, fn() -> Array, Change);

const ACCEPTED: [Wrong; 8] = [
    ("a length of -1", numbers, |s| s.array.array.length = -1),
    ("an offset of -5", numbers, |s| s.array.array.offset = -5),
    ("a length of 2^63 - 1", numbers, |s| s.array.array.length = i64::MAX),
    ("a null count of -7", numbers, |s| s.array.array.null_count = -7),
    ("a null count above the length", numbers, |s| s.array.array.null_count = 5),
    ("a child shorter than its struct", record, |s| {
        unsafe { (**s.array.array.children).length = 1 };
    }),
    ("a negative last offset", text, |s| {
        static OFFSETS: [i32; 4] = [0, 3, 9, -1];
        unsafe { *s.array.array.buffers.add(1) = OFFSETS.as_ptr().cast() };
    }),
    ("a negative size of a data buffer", views, |s| {
        let last = s.array.array.n_buffers as usize - 1;
        static SIZES: [i64; 1] = [-1];
        unsafe { *s.array.array.buffers.add(last) = SIZES.as_ptr().cast() };
    }),
];

fn record() -> Array {
    Batch::from_columns([("n", numbers())]).unwrap().as_array().clone()
}

fn views() -> Array {
    let long = "longer than a view can hold";
    Array::from_texts(DataType::Utf8View, [Some(long), Some("short")]).unwrap()
}

#[test]
fn it_lets_numbers_pass_that_cannot_be() {
    const TEST: &str = "it_lets_numbers_pass_that_cannot_be";
    let Some(cpp) = arrow_cpp() else { return };
    for (what, array, change) in ACCEPTED {
        let changed = || {
            let mut structs = Structs::of(&array()).unwrap();
            change(&mut structs);
            structs
        };
        let imported = unsafe { cpp.call("import", &mut changed()) };
        let how = if unsafe { cpp.call("validate", &mut changed()) }.is_ok() {
            "accepted, also by `Validate`"
        } else {
            "accepted; `Validate` sees it"
        };
        imported.unwrap_or_else(|said| panic!("{what} is refused now: {said}"));
        let kind = ours(changed()).map(|array| array.validate().map_err(|error| error.kind()));
        let here = match kind {
            Err(kind) => format!("the import is an error ({kind:?})"),
            Ok(Err(kind)) => format!("`validate` is an error ({kind:?})"),
            Ok(Ok(())) => panic!("{what} passes here too"),
        };
        seen(&cpp, what, how, &here, TEST);
    }
}

const CRASHING: [Wrong; 3] = [
    ("a table of buffers that is null", numbers, |s| {
        s.array.array.buffers = std::ptr::null_mut();
    }),
    ("a child that is null", record, |s| {
        unsafe { *s.array.array.children = std::ptr::null_mut() };
    }),
    ("sizes of data buffers that are null", views, |s| {
        let last = s.array.array.n_buffers as usize - 1;
        unsafe { *s.array.array.buffers.add(last) = std::ptr::null() };
    }),
];

/// A struct that was changed so, of an array that is never freed: its own release may trip over the
/// change.
fn broken(number: usize) -> Structs {
    let (_, array, change) = CRASHING[number];
    let mut structs = Structs::of(&array()).unwrap();
    change(&mut structs);
    structs
}

fn null_pointer_crashes(number: usize, test: &str) {
    let crashed = assert_crashes(test, |cpp| {
        let _ = unsafe { cpp.call("import", &mut broken(number)) };
    });
    let Some(cpp) = arrow_cpp().filter(|_| crashed) else { return };
    let kind = ours(broken(number)).unwrap_err();
    let here = format!("the import is an error ({kind:?})");
    seen(&cpp, CRASHING[number].0, "its import crashes", &here, test);
}

#[test]
fn a_null_table_of_buffers_crashes_it() {
    null_pointer_crashes(0, "a_null_table_of_buffers_crashes_it");
}

#[test]
fn a_null_child_crashes_it() {
    null_pointer_crashes(1, "a_null_child_crashes_it");
}

#[test]
fn null_sizes_of_data_buffers_crash_it() {
    null_pointer_crashes(2, "null_sizes_of_data_buffers_crash_it");
}
