//! Arrays on devices: what is never looked at, and what device, event and batch may be.

use std::ffi::c_void;
use std::ptr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::copy::Options;
use arrow_device::{
    Array, Batch, Buffer, DataType, DeviceId, DeviceType, ErrorKind, Field, IndexType, Queue,
    Result, Schema,
};
use arrow_device_testkit::consumer::{self, Order, Seen};
use arrow_device_testkit::kinds::{Kind, kinds};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window};
use arrow_device_testkit::producer::{self, Manner};
use arrow_device_testkit::relay::{Handwritten, On, Ours, Relay, check_relay};
use arrow_device_testkit::{Verdict, assert_complaint, require};

/// The same with buffers at these addresses, which nobody may look at.
fn poisoned(mut plan: Plan, next: &mut dyn FnMut() -> usize) -> Plan {
    for buffer in &mut plan.buffers {
        if !matches!(buffer, Content::Null) {
            *buffer = Content::At(next());
        }
    }
    plan.children = plan.children.into_iter().map(|child| poisoned(child, next)).collect();
    plan.dictionary = plan.dictionary.map(|values| Box::new(poisoned(*values, next)));
    plan
}

/// Addresses that lead nowhere.
fn dangling() -> impl FnMut() -> usize {
    let mut last = 0x1000;
    move || {
        last += 1;
        last
    }
}

const DEVICE_TYPES: [i32; 18] = [1, 2, 3, 4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 4711, -5];

// Requirement: ARR-1, ARR-2, SYS-1, SAF-4
#[test]
fn nothing_is_read_through_a_buffer_pointer() {
    let stride = if cfg!(miri) { 131 } else { 1 };
    for (number, kind) in kinds().iter().enumerate().step_by(stride) {
        for (window, nulls) in [(Window::WHOLE, Nulls::Unknown), (Window::SLICED, Nulls::Counted)] {
            let plan = poisoned(kind.plan(window, nulls), &mut dangling());
            let on = On::device(DEVICE_TYPES[number % DEVICE_TYPES.len()], -1);
            let verdict =
                check_relay(&Ours, &plan, on, Manner::AllByTheBase, Order::ALL[number % 4]);
            assert_eq!(verdict, Ok(()), "{kind}");
            let sliced = inspect(&plan, on).unwrap();
            assert_eq!(sliced.offset, plan.offset + 1, "{kind}");
        }
    }
}

/// Looks at everything about an array that can be asked, and exports a slice of it.
fn inspect(plan: &Plan, on: On) -> Result<Seen> {
    let ledger = Ledger::new();
    let schema = unsafe { Schema::import(&mut producer::schema(plan, &Ledger::new())) }?;
    let base = producer::array(plan, &ledger);
    let mut c_array = producer::on_device(base, on.device_type, on.device_id);
    let array = unsafe { Array::import(&mut c_array, &schema) }?;
    fn ask(array: &Array) {
        for index in 0..array.buffer_count() {
            let _ = (array.buffer_kind(index), array.extent(index));
        }
        let _ = (array.is_ready(), array.ready(), array.null_count(), format!("{array:?}"));
        (0..array.child_count()).for_each(|index| ask(&array.child(index).unwrap()));
        array.dictionary().iter().for_each(ask);
    }
    ask(&array);
    let mut out = ArrowDeviceArray::empty();
    array.slice(1, 2)?.export(&mut out)?;
    drop(array);
    let seen = Seen::of(&out.array);
    consumer::release(consumer::move_out(&mut out.array)).unwrap();
    ledger.settle(1).unwrap();
    Ok(seen)
}

/// The plan of an array in which each array without elements has its buffers at addresses that
/// lead nowhere.
fn without_bytes(mut plan: Plan, next: &mut dyn FnMut() -> usize) -> Plan {
    if plan.length == 0 {
        let there = plan.buffers.iter_mut().filter(|buffer| !matches!(buffer, Content::Null));
        there.for_each(|buffer| *buffer = Content::At(next()));
    }
    plan.children = plan.children.into_iter().map(|child| without_bytes(child, next)).collect();
    plan.dictionary = plan.dictionary.map(|values| Box::new(without_bytes(*values, next)));
    plan
}

/// That no array without elements is said to have bytes, and none below it.
fn ask_empty(array: &Array) {
    let host = array.host().unwrap();
    for index in (0..array.buffer_count()).filter(|_| array.is_empty()) {
        assert_eq!(array.extent(index).at_least(), 0, "{} {index}", array.data_type());
        assert!(host.buffer(index).unwrap().is_empty(), "{} {index}", array.data_type());
    }
    (0..array.child_count()).for_each(|index| ask_empty(&array.child(index).unwrap()));
    array.dictionary().iter().for_each(ask_empty);
}

// Requirement: ARR-17
#[test]
fn buffers_of_arrays_without_elements_may_have_no_bytes() {
    let stride = if cfg!(miri) { 31 } else { 1 };
    for kind in kinds().iter().step_by(stride) {
        let plan = without_bytes(kind.plan(Window::EMPTY, Nulls::Unknown), &mut dangling());
        let ledger = Ledger::new();
        let schema =
            unsafe { Schema::import(&mut producer::schema(&plan, &Ledger::new())) }.unwrap();
        let mut c_array = producer::array(&plan, &ledger);
        let array = unsafe { Array::import_host(&mut c_array, &schema) }.unwrap();
        ask_empty(&array);
        array.validate().unwrap();
        let always = Options::new().always(true);
        for array in [array.slice(0, 0).unwrap(), array] {
            let copy = array.copy_with(&Queue::host(), &always).unwrap();
            assert!(copy.equals(&array).unwrap(), "{kind}");
        }
        ledger.settle(1).unwrap();
    }
}

/// Checks null columns whose one buffer is their producer's own.
fn check_owned_buffer(relay: &dyn Relay, kind: Kind, on: On) -> Verdict {
    fn with_buffers(mut plan: Plan, next: &mut dyn FnMut() -> usize) -> Plan {
        if plan.format.to_bytes() == b"n" {
            plan.buffers = vec![Content::At(next())];
        }
        plan.children = plan.children.into_iter().map(|child| with_buffers(child, next)).collect();
        plan
    }
    let plan = with_buffers(kind.plan(Window::WHOLE, Nulls::Counted), &mut dangling());
    let ledger = Ledger::new();
    let mut schema = producer::schema(&plan, &Ledger::new());
    let base = producer::array(&plan, &ledger);
    let mut array = producer::on_device(base, on.device_type, on.device_id);
    let (schema, array) = relay.relay(&mut schema, &mut array)?;
    consumer::release(schema)?;
    fn has_none(plan: &Plan, array: &ArrowArray) -> Verdict {
        let is_null = plan.format.to_bytes() == b"n";
        require(!is_null || array.n_buffers == 0, || format!("{} buffers", array.n_buffers))?;
        require(array.length == plan.length, || format!("{} elements", array.length))?;
        let children = plan.children.iter().enumerate();
        for (index, child) in children {
            has_none(child, unsafe { &**array.children.add(index) })?;
        }
        Ok(())
    }
    let found = has_none(&plan, &array.array);
    consumer::release(array.array)?;
    ledger.settle(1)?;
    found
}

// Requirement: ARR-2, SAF-4
#[test]
fn a_buffer_that_a_producer_has_of_its_own_for_a_null_column_is_neither_read_nor_passed_on() {
    let columns = || Kind::Struct(vec![Kind::Fixed("l", 8), Kind::Null, Kind::Null]);
    let kinds = [
        || Kind::Null,
        || Kind::List("+l", 4, Box::new(Kind::Null)),
        || Kind::Struct(vec![Kind::Null]),
    ];
    for on in [On::device(1, -1), On::device(DEVICE_TYPES[2], 0)] {
        for kind in kinds {
            assert_eq!(check_owned_buffer(&Ours, kind(), on), Ok(()), "{}", kind());
        }
        assert_eq!(check_owned_buffer(&Ours, columns(), on), Ok(()));
    }
    let by_hand = check_owned_buffer(&Handwritten(None), Kind::Null, On::device(1, -1));
    assert_complaint(by_hand, "1 buffers");
}

fn number() -> Plan {
    Kind::Fixed("l", 8).plan(Window::WHOLE, Nulls::None)
}

fn check_device(relay: &dyn Relay, device_type: i32, device_id: i64) -> Verdict {
    let on = On::device(device_type, device_id);
    check_relay(relay, &number(), on, Manner::AllByTheBase, Order::Whole)
}

// Requirement: ARR-3, ARR-4
#[test]
fn device_types_and_ids_are_carried_whole() {
    for device_type in DEVICE_TYPES.into_iter().filter(|device_type| *device_type != 1) {
        for id in [-1, 0, 1, i64::from(i32::MAX) + 1, 1 << 40, i64::MAX, i64::MIN] {
            assert_eq!(check_device(&Ours, device_type, id), Ok(()), "{device_type}:{id}");
        }
    }
}

/// What is written as `device_id` of host memory that came with another one.
fn check_host_id(relay: &dyn Relay, id: i64) -> Verdict {
    let ledger = Ledger::new();
    let mut schema = producer::schema(&number(), &Ledger::new());
    let mut array = producer::on_device(producer::array(&number(), &ledger), 1, id);
    let (schema, array) = relay.relay(&mut schema, &mut array)?;
    consumer::release(schema)?;
    let written = array.device_id;
    consumer::release(array.array)?;
    ledger.settle(1)?;
    require(written == -1, || format!("host memory has the id {written}"))
}

// Requirement: ARR-3
#[test]
fn host_memory_comes_with_any_id_and_goes_with_minus_one() {
    for id in [-1, 0, 3, i64::MIN, i64::MAX] {
        assert_eq!(check_host_id(&Ours, id), Ok(()));
    }
    assert_complaint(check_host_id(&Handwritten(None), 3), "host memory has the id 3");
}

/// Something to build an array of two parts that lie on different devices.
type Mix<'a> = dyn Fn(DeviceId, DeviceId) -> Result<Array> + 'a;

fn check_mixed(mix: &Mix<'_>) -> Verdict {
    let cuda = |id| DeviceId::new(DeviceType::CUDA, id);
    for (one, other) in [
        (cuda(0), cuda(1)),
        (cuda(0), DeviceId::CPU),
        (DeviceId::CPU, cuda(0)),
        (cuda(0), DeviceId::new(DeviceType::CUDA_HOST, 0)),
    ] {
        match mix(one, other) {
            Ok(array) => return Err(format!("{one} and {other} became one array {array:?}")),
            Err(error) => {
                require(error.kind() == ErrorKind::InvalidArgument, || error.to_string())?
            }
        }
    }
    mix(cuda(1), cuda(1)).map(|_| ()).map_err(|error| error.to_string())
}

fn buffer(device: DeviceId) -> Option<Buffer> {
    Some(unsafe { Buffer::foreign(device, ptr::without_provenance(0x1000), 64, ()) })
}

fn column(device: DeviceId) -> Array {
    let buffers = [None, buffer(device)];
    Array::builder(DataType::Int64).len(2).buffers(buffers).finish_ready().unwrap()
}

// Requirement: ARR-4
#[test]
fn parts_on_different_devices_do_not_become_one_array() {
    let children = |one, other| {
        Ok(Batch::from_columns([("a", column(one)), ("b", column(other))])?.as_array().clone())
    };
    let buffers = |one, other| {
        let buffers = [buffer(one), buffer(other)];
        Array::builder(DataType::Int64).len(2).buffers(buffers).finish_ready()
    };
    let dictionary = |one, other| {
        Array::builder(DataType::dictionary(IndexType::Int8, DataType::Int64))
            .len(2)
            .buffers([None, buffer(one)])
            .dictionary(column(other))
            .finish_ready()
    };
    let parent = |one, other| {
        Array::builder(DataType::list(DataType::Int64))
            .len(2)
            .buffers([None, buffer(one)])
            .children([column(other)])
            .finish_ready()
    };
    for mix in [&children as &Mix<'_>, &buffers, &dictionary, &parent] {
        assert_eq!(check_mixed(mix), Ok(()));
    }
    // Whoever says of all memory that it is where the first part is mixes devices.
    assert_complaint(check_mixed(&|one, _| children(one, one)), "became one array");
}

/// That an event is refused on these devices, and taken over on all others.
fn check_events(relay: &dyn Relay) -> Verdict {
    let mut handle: *mut c_void = ptr::without_provenance_mut(0x77);
    let without = [DeviceType::CPU, DeviceType::VPI, DeviceType::WEBGPU, DeviceType::HEXAGON];
    for device_type in DEVICE_TYPES {
        let on = On { sync_event: (&raw mut handle).cast(), ..On::device(device_type, -1) };
        let verdict = check_relay(relay, &number(), on, Manner::NodeByNode, Order::Whole);
        if !without.contains(&DeviceType(device_type)) {
            verdict?;
            continue;
        }
        let complaint = match verdict {
            Ok(()) => return Err(format!("an event was accepted on {}", DeviceType(device_type))),
            Err(complaint) => complaint,
        };
        require(complaint.contains("`sync_event`"), || complaint)?;
    }
    Ok(())
}

// Requirement: ARR-1
#[test]
fn an_array_of_a_type_that_nobody_lists_is_carried_unread_and_its_use_names_the_type() {
    for (device_type, name) in [(17, "maia:7"), (18, "trainium:7"), (4711, "device_type(4711):7")] {
        let (plan, ledger) = (poisoned(number(), &mut dangling()), Ledger::new());
        let mut schema = producer::schema(&plan, &Ledger::new());
        let schema = unsafe { Schema::import(&mut schema) }.unwrap();
        let mut c_array = producer::on_device(producer::array(&plan, &ledger), device_type, 7);
        let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        for error in [
            array.host().unwrap_err(),
            array.on(&Queue::host()).unwrap_err(),
            array.copy_to(&Queue::host()).unwrap_err(),
        ] {
            assert!(error.to_string().contains(name), "{error}");
        }
        let mut out = ArrowDeviceArray::empty();
        array.export(&mut out).unwrap();
        drop(array);
        assert_eq!((out.device_type, out.device_id), (device_type, 7));
        consumer::release(consumer::move_out(&mut out.array)).unwrap();
        ledger.settle(1).unwrap();
    }
}

// Requirement: ARR-5, ARR-7
#[test]
fn an_event_is_an_error_where_there_are_none_and_kept_where_there_are() {
    assert_eq!(check_events(&Ours), Ok(()));
    assert_complaint(check_events(&Handwritten(None)), "an event was accepted on cpu");
    struct Refusing;
    impl Relay for Refusing {
        fn relay(
            &self,
            schema: &mut ArrowSchema,
            array: &mut ArrowDeviceArray,
        ) -> std::result::Result<(ArrowSchema, ArrowDeviceArray), String> {
            consumer::release(consumer::move_out(schema))?;
            consumer::release(consumer::move_out(&mut array.array))?;
            Err("`sync_event` is beyond me".into())
        }
    }
    assert_complaint(check_events(&Refusing), "beyond me");
}

// Requirement: SAF-14
#[test]
fn a_struct_that_nobody_filled_is_refused_and_types_that_nobody_knows_are_not() {
    for (device_type, is_refused) in [(0, true), (99, false), (-1, false)] {
        let ledger = Ledger::new();
        let schema = unsafe { Schema::import(&mut producer::schema(&number(), &Ledger::new())) };
        let mut array = producer::on_device(producer::array(&number(), &ledger), device_type, 0);
        let array = unsafe { Array::import(&mut array, &schema.unwrap()) };
        match array.map_err(|error| (error.kind(), error.to_string())) {
            Ok(array) => assert!(!is_refused, "{array:?}"),
            Err((kind, text)) => {
                assert!(
                    is_refused && text.contains("has not filled the struct"),
                    "{device_type}: {text}"
                );
                assert_eq!(kind, ErrorKind::Malformed);
            }
        }
        ledger.settle(1).unwrap();
    }
}

// Requirement: ARR-7, SAF-14
#[test]
fn an_array_refused_for_its_event_is_released_once() {
    for device_type in [1, 9, 15, 16] {
        let ledger = Ledger::new();
        let schema = unsafe { Schema::import(&mut producer::schema(&number(), &Ledger::new())) };
        let mut array = producer::on_device(producer::array(&number(), &ledger), device_type, 0);
        array.sync_event = ptr::dangling_mut::<u64>().cast();
        let error = unsafe { Array::import(&mut array, &schema.unwrap()) }.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert_eq!(error.device(), Some(DeviceId::new(DeviceType(device_type), 0)));
        ledger.settle(1).unwrap();
    }
}

/// Someone who reads the numbers of the first column of a batch.
type Read<'a> = dyn Fn(&mut ArrowDeviceArray, &Schema) -> Result<Vec<i64>> + 'a;

fn read_batch(array: &mut ArrowDeviceArray, schema: &Schema) -> Result<Vec<i64>> {
    let batch = unsafe { Batch::import(array, schema) }?;
    assert_eq!(batch.columns()?.len(), batch.column_count());
    numbers_of(&batch.column(0)?)
}

fn numbers_of(column: &Array) -> Result<Vec<i64>> {
    let host = column.host()?;
    let bytes = host.buffer(1)?;
    let numbers = bytes.chunks_exact(8).map(|bytes| i64::from_ne_bytes(bytes.try_into().unwrap()));
    Ok(numbers.skip(column.offset()).take(column.len()).collect())
}

/// That a batch with an offset is read from there, and one with null rows is refused.
fn check_batch(read: &Read<'_>) -> Verdict {
    let kind = Kind::Struct(vec![Kind::Fixed("l", 8), Kind::Text("u", 4)]);
    for nulls in Nulls::ALL {
        let ledger = Ledger::new();
        let mut plan = kind.plan(Window::SLICED, nulls);
        let all: Vec<i64> = (100..110).collect();
        plan.children[0].buffers[1] =
            Content::Bytes(arrow_device_testkit::plan::integers(8, all.clone()));
        let schema =
            unsafe { Schema::import(&mut producer::schema(&plan, &Ledger::new())) }.unwrap();
        let mut c_array = producer::device_array(&plan, &ledger);
        let outcome = read(&mut c_array, &schema);
        match (nulls, outcome) {
            (Nulls::None, Ok(numbers)) => {
                // The offset of the column and that of the batch.
                let first = (plan.offset + plan.children[0].offset) as usize;
                let expected = &all[first..first + plan.length as usize];
                require(numbers == expected, || format!("{numbers:?} and not {expected:?}"))?;
            }
            (_, Err(error)) => {
                require(nulls != Nulls::None, || error.to_string())?;
                require(error.kind() == ErrorKind::Unsupported, || error.to_string())?;
            }
            (_, Ok(_)) => return Err("a batch with null rows was accepted".into()),
        }
        ledger.settle(1)?;
    }
    Ok(())
}

// Requirement: ARR-14
#[test]
fn a_batch_is_a_struct_whose_offset_counts_and_whose_rows_are_not_null() {
    assert_eq!(check_batch(&read_batch), Ok(()));
    let forgets_the_offset = |array: &mut ArrowDeviceArray, schema: &Schema| {
        let batch = unsafe { Batch::import(array, schema) }?;
        numbers_of(&batch.as_array().child(0)?.slice(0, batch.row_count())?)
    };
    assert_complaint(check_batch(&forgets_the_offset), "and not [104");
    let forgets_nulls = |array: &mut ArrowDeviceArray, schema: &Schema| {
        array.array.null_count = 0;
        read_batch(array, schema)
    };
    assert_complaint(check_batch(&forgets_nulls), "null rows was accepted");
}

// Requirement: ARR-14
#[test]
fn the_metadata_of_a_batch_is_on_its_schema() {
    let metadata = arrow_device::Metadata::from_pairs([("rows", "2")]).unwrap();
    let fields = DataType::struct_([Field::new("a", DataType::Int64, true)]);
    let root = Field::new("", fields, false).with_metadata(metadata.clone());
    let batch = Batch::new(Schema::new(root).unwrap(), [column(DeviceId::CPU)]).unwrap();
    let mut c_schema = ArrowSchema::empty();
    batch.schema().unwrap().export(&mut c_schema).unwrap();
    assert!(!c_schema.metadata.is_null());
    assert!(unsafe { &**c_schema.children }.metadata.is_null());
    let schema = unsafe { Schema::import(&mut c_schema) }.unwrap();
    assert_eq!(schema.metadata(), &metadata);
    let error = Batch::try_from(column(DeviceId::CPU)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::SchemaMismatch);
}
