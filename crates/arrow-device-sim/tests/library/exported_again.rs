//! What the library itself exported and takes back: its memory is as old as it was before.

use std::ffi::c_void;
use std::mem::replace;

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::deferred::release_finished;
use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order, Tensor};
use arrow_device::{
    Array, ArrayStream, Batch, DataType, Device, DeviceId, DeviceType, Error, ErrorKind, Field,
    Queue, Schema,
};
use arrow_device_sim::{Kind, Sim};

use crate::opening::{Renamed, produced_with};
use crate::runtimes::{ready_numbers, refusal, untold};

/// A form in which an array is handed over.
enum Handed {
    Array(ArrowDeviceArray),
    /// A column that was moved out of the struct of its batch, and the rest of the batch.
    Column(ArrowArray, ArrowDeviceArray),
    Stream(Box<ArrowDeviceArrayStream>),
    Tensor(Managed<DLManagedTensorVersioned>),
    LegacyTensor(Managed<DLManagedTensor>),
}

/// How an array is handed over.
#[derive(Clone, Copy, Debug)]
enum Form {
    Array,
    Batch,
    Column,
    ColumnOfReleased,
    Stream,
    Tensor,
    TensorOnQueue,
    LegacyTensor,
}

const FORMS: [Form; 8] = [
    Form::Array,
    Form::Batch,
    Form::Column,
    Form::ColumnOfReleased,
    Form::Stream,
    Form::Tensor,
    Form::TensorOnQueue,
    Form::LegacyTensor,
];

fn batch(array: &Array) -> Batch {
    Batch::from_columns([("n", array.clone())]).unwrap()
}

fn exported(batch: &Batch) -> ArrowDeviceArray {
    let mut c_array = ArrowDeviceArray::empty();
    batch.export(&mut c_array).unwrap();
    c_array
}

impl Form {
    fn hand_over(self, array: &Array, queue: &Queue) -> Handed {
        let tensor = || array.to_tensor(&Conversion::new()).unwrap();
        match self {
            Self::Array => {
                let mut c_array = ArrowDeviceArray::empty();
                array.export(&mut c_array).unwrap();
                Handed::Array(c_array)
            }
            Self::Batch => Handed::Array(exported(&batch(array))),
            Self::Column | Self::ColumnOfReleased => {
                let mut rest = exported(&batch(array));
                let column = unsafe { &mut **rest.array.children };
                let moved = replace(column, ArrowArray::empty());
                if matches!(self, Self::ColumnOfReleased) {
                    unsafe { rest.array.release.unwrap()(&raw mut rest.array) };
                }
                Handed::Column(moved, rest)
            }
            Self::Stream => {
                let mut c_stream = Box::new(ArrowDeviceArrayStream::empty());
                let items = [Ok::<_, Error>(array.clone())];
                let schema = array.schema().unwrap();
                ArrayStream::new(schema, array.device().device_type, items).export(&mut c_stream);
                Handed::Stream(c_stream)
            }
            Self::Tensor => {
                Handed::Tensor(tensor().export(Order::Host, CopyPolicy::Never).unwrap())
            }
            Self::TensorOnQueue => {
                Handed::Tensor(tensor().export(Order::On(queue), CopyPolicy::Never).unwrap())
            }
            Self::LegacyTensor => {
                Handed::LegacyTensor(unsafe { tensor().export_legacy_shared(Order::Host).unwrap() })
            }
        }
    }
}

impl Handed {
    fn take_back(self, like: &Array) -> Array {
        let schema = like.schema().unwrap();
        let of_tensor = |tensor: Tensor| tensor.to_array(&Conversion::new()).unwrap();
        match self {
            Self::Array(mut c_array) if c_array.array.n_children == 0 => {
                unsafe { Array::import(&raw mut c_array, &schema) }.unwrap()
            }
            Self::Array(mut c_array) => {
                let columns = [Field::new("n", like.data_type().clone(), true)];
                let schema = Schema::try_from(DataType::Struct(columns.into())).unwrap();
                let whole = unsafe { Batch::import(&raw mut c_array, &schema) }.unwrap();
                whole.column(0).unwrap()
            }
            Self::Column(moved, mut rest) => {
                let mut c_array = ArrowDeviceArray { array: moved, ..ArrowDeviceArray::empty() };
                c_array.device_type = like.device().device_type.0;
                c_array.device_id = like.device().id;
                let array = unsafe { Array::import(&raw mut c_array, &schema) }.unwrap();
                if let Some(release) = rest.array.release {
                    unsafe { release(&raw mut rest.array) };
                }
                array
            }
            Self::Stream(mut c_stream) => {
                let mut stream = unsafe { ArrayStream::import(&raw mut *c_stream) }.unwrap();
                stream.next().unwrap().unwrap()
            }
            Self::Tensor(managed) => {
                of_tensor(unsafe { Tensor::import(managed.into_raw(), Order::Host) }.unwrap())
            }
            Self::LegacyTensor(managed) => of_tensor(unsafe {
                Tensor::import(managed.into_raw(), Order::Host).unwrap().assume_frozen()
            }),
        }
    }
}

fn id(number: i64) -> DeviceId {
    DeviceId::new(DeviceType::EXT_DEV, number)
}

// Requirement: SAF-12
#[test]
fn what_was_exported_here_is_as_old_as_it_was_when_it_comes_back() {
    let kinds = [Kind::Discrete, Kind::Handles];
    let cases = kinds.into_iter().flat_map(|kind| FORMS.map(|form| (kind, form)));
    for ((kind, form), number) in cases.zip(77_200..) {
        let id = id(number);
        let (old, new) = (Sim::builder().kind(kind).build(), Sim::builder().kind(kind).build());
        let first = untold(&old, id);
        let array = ready_numbers(&old, id);
        let queue = first.open_queue().unwrap();
        let handed = form.hand_over(&array, &queue);
        let keeps_it_open = matches!(form, Form::TensorOnQueue);
        drop((queue, first));
        let later = untold(&new, id);
        let queue = later.open_queue().unwrap();
        let again = handed.take_back(&array);
        if keeps_it_open {
            // The first device is there, and has the memory.
            assert!(again.on(&queue).is_err() && again.to_host().is_ok(), "{kind:?} {form:?}");
        } else {
            let refused = refusal(&again, &queue);
            assert_eq!(refused, Some(ErrorKind::NotReachable), "{kind:?} {form:?}");
        }
        // What is exported and taken back a second time, or is in a batch, is as old.
        let twice = form_of_array(&again).take_back(&again);
        assert!(twice.on(&queue).is_err() && batch(&again).as_array().on(&queue).is_err());
        let own = ready_numbers(&new, id);
        let own_again = form_of_array(&own).take_back(&own);
        // Where both are open, nobody tells whose it is.
        let refused = keeps_it_open.then_some(ErrorKind::NotReachable);
        assert_eq!(refusal(&own_again, &queue), refused, "{kind:?} {form:?}");
        drop((array, again, twice, own, own_again, queue, later));
        release_finished();
        let reports = [old.finish(), new.finish()].concat();
        assert!(reports.is_empty(), "{kind:?} {form:?}: {reports:?}");
    }
}

fn form_of_array(array: &Array) -> Handed {
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    Handed::Array(c_array)
}

// Requirement: SAF-12
#[test]
fn a_tensor_that_comes_back_is_not_taken_by_a_queue_of_a_later_runtime() {
    let id = id(77_230);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&old, id);
    let tensor = ready_numbers(&old, id).to_tensor(&Conversion::new()).unwrap();
    let export = || -> Managed<DLManagedTensorVersioned> {
        tensor.clone().export(Order::Host, CopyPolicy::Never).unwrap()
    };
    let handed = [(); 2].map(|()| export());
    drop(first);
    let later = untold(&new, id);
    let queue = later.open_queue().unwrap();
    let [by_host, by_queue] = handed;
    let by_queue = unsafe { Tensor::import(by_queue.into_raw(), Order::On(&queue)) };
    assert!(by_queue.is_err());
    let again = unsafe { Tensor::import(by_host.into_raw(), Order::Host) }.unwrap();
    // An array of its own is made of the clone.
    for tensor in [again.clone(), again] {
        assert!(tensor.on(&queue).is_err() && tensor.copy_to_host(&queue).is_err());
    }
    drop((tensor, queue, later));
    release_finished();
    let reports = [old.finish(), new.finish()].concat();
    assert!(reports.is_empty(), "{reports:?}");
}

// Requirement: SAF-11, SAF-12
#[test]
fn an_event_that_was_exported_here_is_not_of_a_later_runtime_when_it_comes_back() {
    let id = id(77_231);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first: Device = untold(&old, id);
    let recording = old.device().open_queue().unwrap();
    let (array, _) = produced_with(&old, &recording, id, true);
    let [leaf, whole] = [form_of_array(&array), Handed::Array(exported(&batch(&array)))];
    drop(first);
    let later = untold(&new, id);
    let queue = later.open_queue().unwrap();
    for handed in [leaf, whole] {
        let again = handed.take_back(&array);
        assert_eq!(again.on(&queue).unwrap_err().kind(), ErrorKind::NotReachable);
        assert!(again.wait().is_err() && again.is_ready().is_err());
    }
    recording.synchronize().unwrap();
    drop((array, recording, queue, later));
    let reports = [old.finish(), new.finish()].concat();
    assert!(reports.is_empty(), "{reports:?}");
}

/// What a child of `fork` makes of structs that its parent exported.
#[cfg(all(unix, not(miri)))]
// Requirement: SAF-12, SAF-27
#[test]
fn what_the_parent_exported_is_the_parents_when_it_comes_back_in_a_child() {
    use arrow_device_testkit::process::{alone, forked};

    alone(|| {
        for (form, number) in FORMS.into_iter().zip(77_240..) {
            let id = id(number);
            let old = Sim::builder().build();
            let first = untold(&old, id);
            let array = ready_numbers(&old, id);
            let queue = first.open_queue().unwrap();
            let mut handed = Some(form.hand_over(&array, &queue));
            forked(|| {
                let new = Sim::builder().build();
                let device = untold(&new, id);
                let queue = device.open_queue().map_err(|error| error.to_string())?;
                // A stream of the parent's gives no array of the parent's.
                if let Some(Handed::Stream(mut c_stream)) = handed.take_if(is_stream) {
                    let mut stream =
                        unsafe { ArrayStream::import(&raw mut *c_stream) }.map_err(text)?;
                    let item = stream.next().transpose();
                    return if item.is_err() { Ok(()) } else { Err(format!("{item:?}")) };
                }
                let Some(handed) = handed.take() else { return Err("nothing".to_owned()) };
                let again = handed.take_back(&array);
                let is_used = [
                    again.on(&queue).is_ok(),
                    again.to_host().is_ok(),
                    again.copy_to(&queue).is_ok(),
                    Batch::from_columns([("n", again)])
                        .is_ok_and(|it| it.as_array().on(&queue).is_ok()),
                ];
                if is_used == [false; 4] { Ok(()) } else { Err(format!("{form:?} {is_used:?}")) }
            });
            // The parent's is as good as before.
            let again = handed.take().unwrap().take_back(&array);
            assert!(again.on(&queue).is_ok() && again.to_host().is_ok(), "{form:?}");
        }
    });
}

#[cfg(all(unix, not(miri)))]
fn is_stream(handed: &mut Handed) -> bool {
    matches!(handed, Handed::Stream(_))
}

#[cfg(all(unix, not(miri)))]
fn text(error: Error) -> String {
    error.to_string()
}

/// The struct of a host array, which another party makes memory of a device.
fn pinned(host: &Array, id: DeviceId, values: *const c_void) -> (ArrowDeviceArray, [usize; 2]) {
    let mut base = ArrowArray::empty();
    host.export_host(&mut base).unwrap();
    // The party's memory is the simulator's, so that a use by another one is seen.
    let table = Box::leak(Box::new([std::ptr::null(), values]));
    let kept = [base.buffers.addr(), std::ptr::from_mut(table).addr()];
    base.buffers = table.as_mut_ptr().cast();
    let mut c_array = ArrowDeviceArray { array: base, ..ArrowDeviceArray::empty() };
    (c_array.device_type, c_array.device_id) = (id.device_type.0, id.id);
    (c_array, kept)
}

// Requirement: SAF-12
#[test]
fn what_comes_back_as_memory_of_another_device_is_new_there() {
    let id = id(77_250);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&old, id);
    let host = Array::from_values(DataType::Int64, (0..8_i64).map(Some)).unwrap();
    let second = untold(&new, id);
    let memory = unsafe { new.device().driver().allocate(64, None) }.unwrap();
    // Both are open when the memory comes to the device, and neither tells.
    let (mut c_array, kept) = pinned(&host, id, memory.as_ptr());
    let array = unsafe { Array::import(&raw mut c_array, &host.schema().unwrap()) }.unwrap();
    for device in [&first, &second] {
        let queue = device.open_queue().unwrap();
        assert_eq!(refusal(&array, &queue), Some(ErrorKind::NotReachable));
    }
    drop((array, first, second));
    unsafe { drop(Box::from_raw(kept[1] as *mut [*const c_void; 2])) };
    unsafe { new.device().driver().free(memory, 64) };
    release_finished();
    let reports = [old.finish(), new.finish()].concat();
    assert!(reports.is_empty(), "{reports:?}");
}

// Requirement: SAF-11, SAF-12
#[test]
fn an_event_that_another_party_put_into_a_struct_is_not_as_old_as_the_struct() {
    let id = id(77_251);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&old, id);
    let nothing = Array::builder(DataType::Null).len(3).device(id).finish_ready().unwrap();
    let [mut leaf, mut whole] = [(); 2].map(|()| ArrowDeviceArray::empty());
    nothing.export(&mut leaf).unwrap();
    batch(&nothing).export(&mut whole).unwrap();
    let second = untold(&new, id);
    let recording = new.device().open_queue().unwrap();
    let event = recording.record().unwrap();
    let queue = first.open_queue().unwrap();
    for c_array in [&mut leaf, &mut whole] {
        c_array.sync_event = event.raw().as_ptr();
        let is_batch = c_array.array.n_children > 0;
        let schema = if is_batch { batch(&nothing).schema() } else { nothing.schema() }.unwrap();
        let again = unsafe { Array::import(c_array, &schema) }.unwrap();
        assert!(again.on(&queue).is_err() && again.wait().is_err() && again.to_host().is_err());
    }
    drop((nothing, event, recording, queue, first, second));
    release_finished();
    let reports = [old.finish(), new.finish()].concat();
    assert!(reports.is_empty(), "{reports:?}");
}

// Requirement: SAF-12
#[test]
fn a_column_without_memory_makes_no_other_column_older() {
    let id = id(77_252);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&old, id);
    let nothing = Array::builder(DataType::Null).len(8).device(id).finish_ready().unwrap();
    // Nor does it make the moment unknown: the device of another id is opened in between.
    let between = untold(&new, self::id(77_260));
    let own = ready_numbers(&old, id);
    let own = Batch::from_columns([("e", nothing.clone()), ("n", own)]).unwrap();
    drop(between);
    let second = untold(&new, id);
    let array = ready_numbers(&new, id);
    let together = Batch::from_columns([("e", nothing), ("n", array)]).unwrap();
    assert_eq!(refusal(own.as_array(), &first.open_queue().unwrap()), None);
    drop(own);
    for device in [&first, &second] {
        let queue = device.open_queue().unwrap();
        let refused = refusal(together.as_array(), &queue);
        assert_eq!(refused, Some(ErrorKind::NotReachable));
    }
    drop((together, first, second));
    release_finished();
    let reports = [old.finish(), new.finish()].concat();
    assert!(reports.is_empty(), "{reports:?}");
}

// Requirement: SAF-12
#[test]
fn columns_that_came_at_several_moments_are_not_all_as_old_as_the_first() {
    let id = id(77_253);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    let first = untold(&old, id);
    let queue = first.open_queue().unwrap();
    let open = || Device::new(Renamed::new(new.device().driver().clone(), id));
    for is_later_first in [false, true] {
        let before = is_later_first.then(open);
        let two = before.is_some().then(|| ready_numbers(&new, id));
        drop(before);
        // Memory of the other runtime, which nobody can know.
        let one = ready_numbers(&new, id);
        // It tells that it has the memory of both columns, as long as it is open.
        let second = open();
        let two = two.unwrap_or_else(|| ready_numbers(&new, id));
        let mixed = Batch::from_columns([("one", one.clone()), ("two", two.clone())]).unwrap();
        drop(second);
        release_finished();
        assert!(one.on(&queue).is_ok() && two.on(&queue).is_err());
        assert!(mixed.as_array().on(&queue).is_err() && mixed.to_host().is_err());
        let whole = exported(&mixed);
        let column = unsafe { &mut **whole.array.children.add(1) };
        let moved = replace(column, ArrowArray::empty());
        let child = Handed::Column(moved, whole).take_back(&two);
        assert!(child.on(&queue).is_err() && child.to_host().is_err());
    }
    queue.synchronize().unwrap();
    drop((queue, first));
    release_finished();
    let reports = [old.finish(), new.finish()].concat();
    assert!(reports.is_empty(), "{reports:?}");
}

// Requirement: SAF-12
#[test]
fn devices_of_other_ids_divide_no_time() {
    let id = id(77_255);
    let (old, new) = (Sim::builder().build(), Sim::builder().build());
    // The id has stood for another runtime, which is closed.
    drop(untold(&new, id));
    let device = untold(&old, id);
    let queue = device.open_queue().unwrap();
    let of_two_moments = |opened_between: DeviceId| {
        let one = ready_numbers(&old, id);
        let between = untold(&new, opened_between);
        let columns = [("one", one), ("two", ready_numbers(&old, id))];
        drop(between);
        Batch::from_columns(columns).map(|batch| batch.as_array().clone())
    };
    let undivided = of_two_moments(self::id(77_256)).unwrap();
    assert_eq!(refusal(&undivided, &queue), None);
    let columns =
        [("earlier", undivided.clone()), ("later", of_two_moments(self::id(77_256)).unwrap())];
    let nested = Batch::from_columns(columns).unwrap();
    assert_eq!(refusal(nested.as_array(), &queue), None);
    // The second one came while another runtime was open by the id.
    assert_eq!(of_two_moments(id).unwrap_err().kind(), ErrorKind::InvalidArgument);
    drop((undivided, nested, queue, device));
    release_finished();
    let reports = [old.finish(), new.finish()].concat();
    assert!(reports.is_empty(), "{reports:?}");
}

// Requirement: SAF-11, SAF-12
#[test]
fn an_event_beside_memory_is_not_of_the_memorys_runtime_because_that_is_open() {
    // In a process of its own: once an id is ambiguous, a batch like this is refused at once.
    arrow_device_testkit::process::alone(|| {
        let id = id(77_257);
        let (old, new) = (Sim::builder().build(), Sim::builder().build());
        let queue = new.device().open_queue().unwrap();
        new.kernel("work").launch(&queue, |_| {}).unwrap();
        // Nothing but an event of a runtime that is not open by the id yet.
        let own = Array::builder(DataType::Null).len(8).device(new.device().id());
        let own = own.finish_on(&queue).unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        own.export(&mut c_array).unwrap();
        (c_array.device_type, c_array.device_id) = (id.device_type.0, id.id);
        let schema = Schema::try_from(DataType::Null).unwrap();
        let alone = unsafe { Array::import(&raw mut c_array, &schema) }.unwrap();
        let first = untold(&old, id);
        let columns = [("n", ready_numbers(&old, id)), ("e", alone.clone())];
        let together = Batch::from_columns(columns).unwrap();
        let second = untold(&new, id);
        let of_first = first.open_queue().unwrap();
        for array in [&alone, together.as_array()] {
            assert_eq!(array.on(&of_first).unwrap_err().kind(), ErrorKind::NotReachable);
            assert!(array.is_ready().is_err() && array.to_host().is_err());
        }
        queue.synchronize().unwrap();
        drop((own, alone, together, queue, of_first, first, second));
        release_finished();
        let reports = [old.finish(), new.finish()].concat();
        assert!(reports.is_empty(), "{reports:?}");
    });
}

// Requirement: SAF-11, SAF-12
#[test]
fn a_batch_of_memory_of_two_runtimes_is_of_neither_when_the_second_is_opened() {
    // In a process of its own: once an id is ambiguous, a batch like this is refused at once.
    arrow_device_testkit::process::alone(|| {
        let id = id(77_254);
        let (old, new) = (Sim::builder().build(), Sim::builder().build());
        let open = |sim: &Sim| Device::new(Renamed::new(sim.device().driver().clone(), id));
        let first = open(&old);
        let (one, two) = (ready_numbers(&old, id), ready_numbers(&new, id));
        let columns = [("one", one.clone()), ("two", two.clone())];
        let mixed = Batch::from_columns(columns).unwrap();
        let mut c_array = exported(&mixed);
        let second = open(&new);
        let schema = mixed.schema().unwrap();
        let again = unsafe { Batch::import(&raw mut c_array, &schema) }.unwrap();
        for (device, own, other) in [(&first, &one, &two), (&second, &two, &one)] {
            let queue = device.open_queue().unwrap();
            assert!(own.on(&queue).is_ok() && other.on(&queue).is_err());
            for mixed in [&mixed, &again] {
                assert!(mixed.as_array().on(&queue).is_err() && mixed.to_host().is_err());
                assert!(mixed.copy_to(&queue).is_err() && mixed.as_array().fetch().is_err());
            }
            queue.synchronize().unwrap();
        }
        drop((one, two, mixed, again, first, second));
        release_finished();
        let reports = [old.finish(), new.finish()].concat();
        assert!(reports.is_empty(), "{reports:?}");
    });
}
