//! Tensors and streams of somebody who breaks the rules, through the functions of the header:
//! refused as the library refuses them, and released once. (Arrays and schemas are in
//! `exchange.rs`.)

use std::ffi::c_int;
use std::ptr;

use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::abi::{ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::dlpack::{Managed, Order, Tensor};
use arrow_device::{ArrayStream, Error, ErrorKind, Result};
use arrow_device_capi::*;
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::plan::Content;
use arrow_device_testkit::stream::{
    Books, ProducerFault, Script, Step, StreamSeen, UNKNOWN_TYPE, host_of, produce,
};
use arrow_device_testkit::tensors::hostile::{ACCEPTED, REFUSED, REFUSED_VERSIONED};
use arrow_device_testkit::tensors::{Recipe, TestForm, free_without_deleter};

use crate::support::face::{call, made, read};

/// A form of the struct, and the functions that take it and give it.
trait CForm: TestForm {
    const IMPORT: unsafe extern "C" fn(
        *mut Self,
        *const ArdevQueue,
        u32,
        *mut *mut ArdevTensor,
        *mut ArdevError,
    ) -> c_int;
    const EXPORT: unsafe extern "C" fn(
        *const ArdevTensor,
        *const ArdevQueue,
        i32,
        *mut *mut Self,
        *mut ArdevError,
    ) -> c_int;
}

impl CForm for DLManagedTensorVersioned {
    const IMPORT: unsafe extern "C" fn(
        *mut Self,
        *const ArdevQueue,
        u32,
        *mut *mut ArdevTensor,
        *mut ArdevError,
    ) -> c_int = ardev_tensor_import;
    const EXPORT: unsafe extern "C" fn(
        *const ArdevTensor,
        *const ArdevQueue,
        i32,
        *mut *mut Self,
        *mut ArdevError,
    ) -> c_int = ardev_tensor_export;
}

impl CForm for DLManagedTensor {
    const IMPORT: unsafe extern "C" fn(
        *mut Self,
        *const ArdevQueue,
        u32,
        *mut *mut ArdevTensor,
        *mut ArdevError,
    ) -> c_int = ardev_tensor_import_legacy;
    const EXPORT: unsafe extern "C" fn(
        *const ArdevTensor,
        *const ArdevQueue,
        i32,
        *mut *mut Self,
        *mut ArdevError,
    ) -> c_int = ardev_tensor_export_legacy;
}

fn import<F: CForm>(c_tensor: *mut F, queue: *const ArdevQueue) -> Result<*mut ArdevTensor> {
    made(|out, error| unsafe { F::IMPORT(c_tensor, queue, ARDEV_TENSOR_FROZEN, out, error) })
}

/// Does something for the host, and for its queue as an object.
fn with_queues(act: impl Fn(*const ArdevQueue)) {
    act(ptr::null());
    let host = made(|out, error| unsafe { ardev_device_open(1, -1, out, error) }).unwrap();
    let queue = made(|out, error| unsafe { ardev_queue_open(host, out, error) }).unwrap();
    act(queue);
    unsafe { ardev_queue_free(queue) };
    unsafe { ardev_device_free(host) };
}

fn refuse<F: CForm>(what: &str, kind: ErrorKind, spoil: fn(&mut Recipe)) {
    with_queues(|queue| {
        let mut recipe = Recipe::default();
        spoil(&mut recipe);
        let (c_tensor, deletions) = recipe.make::<F>();
        let error = import(c_tensor, queue).expect_err(what);
        // A queue of the host does not reach the memory of GPUs, which is said first where that is
        // all that is wrong.
        let said = error.kind();
        assert!(
            said == kind || !queue.is_null() && said == ErrorKind::NotReachable,
            "{what}: {error}"
        );
        assert_eq!(deletions.get(), 1, "{what}");

        // Also where nothing can be given back.
        let (c_tensor, deletions) = recipe.make::<F>();
        let nowhere = ptr::null_mut();
        let refused = call(|error| unsafe { F::IMPORT(c_tensor, queue, 0, nowhere, error) });
        assert!(refused.is_err(), "{what}");
        assert_eq!(deletions.get(), 1, "{what}");
    });
}

// Requirement: DLP-1, DLP-11
#[test]
fn every_field_of_a_tensor_that_is_wrong_is_refused_and_deleted_once() {
    for (what, kind, spoil) in REFUSED {
        refuse::<DLManagedTensorVersioned>(what, *kind, *spoil);
        refuse::<DLManagedTensor>(what, *kind, *spoil);
    }
    for (what, kind, spoil) in REFUSED_VERSIONED {
        refuse::<DLManagedTensorVersioned>(what, *kind, *spoil);
    }
}

/// Hands a tensor on in this form, and looks at what its consumer gets.
fn hand_on<F: CForm>(what: &str, tensor: *mut ArdevTensor, shape: &[i64], elements: &[i32]) {
    let mut c_tensor = ptr::null_mut::<F>();
    let copying = ARDEV_COPYING_ALWAYS;
    call(|error| unsafe { F::EXPORT(tensor, ptr::null(), copying, &mut c_tensor, error) }).unwrap();
    let handed_on = unsafe { Tensor::import(c_tensor, Order::Host) }.unwrap();
    let handed_on = unsafe { handed_on.assume_frozen() };
    assert_eq!(handed_on.shape(), shape, "{what}");
    assert_eq!(handed_on.host().unwrap().to_vec::<i32>().unwrap(), elements, "{what}");
}

fn accept<F: CForm>(what: &str, change: fn(&mut Recipe), shape: &[i64], elements: &[i32]) {
    with_queues(|queue| {
        let mut recipe = Recipe::default();
        change(&mut recipe);
        let (c_tensor, deletions) = recipe.make::<F>();
        let tensor = import(c_tensor, queue).expect(what);
        let mut info = ArdevTensorInfo::default();
        call(|error| unsafe { ardev_tensor_inspect(tensor, &mut info, error) }).unwrap();
        assert_eq!((info.ndim, info.is_frozen), (shape.len() as i32, 1), "{what}");
        if !shape.is_empty() {
            let told = unsafe { std::slice::from_raw_parts(info.shape, shape.len()) };
            assert_eq!(told, shape, "{what}");
        }
        hand_on::<DLManagedTensorVersioned>(what, tensor, shape, elements);
        hand_on::<DLManagedTensor>(what, tensor, shape, elements);
        // What has no elements needs no memory.
        assert!(deletions.get() == 0 || elements.is_empty(), "{what}");
        unsafe { ardev_tensor_free(tensor) };
        assert!(deletions.reaches(1), "{what}: deleted {} times", deletions.get());
    });
}

// Requirement: DLP-1, DLP-7
#[test]
fn a_tensor_that_is_odd_and_right_is_read_and_handed_on() {
    for (what, change, shape, elements) in ACCEPTED {
        accept::<DLManagedTensorVersioned>(what, *change, shape, elements);
        accept::<DLManagedTensor>(what, *change, shape, elements);
    }
}

#[test]
fn a_deleter_may_be_missing() {
    let recipe = Recipe { has_deleter: false, ..Recipe::default() };
    let (c_tensor, deletions) = recipe.make::<DLManagedTensorVersioned>();
    let tensor = import(c_tensor, ptr::null()).unwrap();
    let mut shared = ptr::null_mut();
    call(|error| unsafe {
        ardev_tensor_export(tensor, ptr::null(), ARDEV_COPYING_NEVER, &mut shared, error)
    })
    .unwrap();
    unsafe { ardev_tensor_free(tensor) };
    drop(unsafe { Managed::from_raw(shared) }.unwrap());
    assert_eq!(deletions.get(), 0);
    unsafe { free_without_deleter(c_tensor) };
}

/// What the library sees of a stream.
fn read_in_rust(c_stream: &mut ArrowDeviceArrayStream) -> StreamSeen {
    let told = |error: &Error| Some((error.errno(), error.to_string()));
    let mut outcome = StreamSeen::default();
    let mut stream = match unsafe { ArrayStream::import(c_stream) } {
        Err(error) => return StreamSeen { error: told(&error), ..outcome },
        Ok(stream) => stream,
    };
    let mut c_schema = ArrowSchema::empty();
    stream.schema().export(&mut c_schema).unwrap();
    outcome.format = arrow_device_testkit::consumer::SeenSchema::of(&c_schema).format;
    arrow_device_testkit::consumer::release(c_schema).unwrap();
    for array in stream.by_ref() {
        match array {
            Ok(array) => outcome.lengths.push(array.len() as i64),
            Err(error) => outcome.error = told(&error),
        }
    }
    outcome
}

fn numbers() -> Script {
    Script::of(&Kind::Fixed("i", 4), UNKNOWN_TYPE, 2)
}

/// Reads the same stream in C and in Rust; what is seen, and what becomes of it.
fn assert_same(what: &str, make: impl Fn(&Books) -> ArrowDeviceArrayStream) -> StreamSeen {
    let seen = [read as fn(&mut _) -> _, read_in_rust].map(|read| {
        let books = Books::default();
        let mut stream = make(&books);
        let outcome = read(&mut stream);
        let released = books.chunks.base_releases();
        (outcome, stream.is_released(), released, books.settle(released))
    });
    let [in_c, in_rust] = seen;
    assert_eq!(in_c, in_rust, "{what}");
    assert!(in_c.1, "{what}: the source is moved, whatever comes of it");
    in_c.0
}

// Requirement: STR-1, STR-4, STR-5, STR-7
#[test]
fn a_stream_that_does_anything_wrong_is_as_the_library_sees_it() {
    use ProducerFault::*;
    let failing = numbers().then(Step::Error(5, Some("it failed")));
    let stray = numbers().then(Step::Stray(numbers().schema, 2));
    let mut seen = Vec::new();
    // All but two: one would write to arrays that are freed, the other leaves `release` set, which
    // is looked at here.
    for fault in [
        NamesTypeLate,
        MixesTypes,
        GivesSchemaOnce,
        ChangesSchema,
        EndsWithError,
        BeginsAgain,
        HidesError,
        ForgetsError,
        GarblesText,
        LosesText,
        LosesCode,
        HandsOutWithError,
        TakesSchemasAlong,
        KeepsAddress,
        Leaks,
    ] {
        for (name, script) in
            [("whole", numbers()), ("failing", failing.clone()), ("stray", stray.clone())]
        {
            // Without the fault, nothing is on another type of device.
            if name == "stray" && fault != MixesTypes {
                continue;
            }
            let what = format!("{fault:?}, {name}");
            let make = |books: &Books| produce(&script, Some(fault), books);
            seen.push((fault, name, assert_same(&what, make)));
        }
    }
    let error_of = |fault, script| {
        let (_, _, outcome) =
            seen.iter().find(|(found, name, _)| (*found, *name) == (fault, script)).unwrap();
        outcome.error.clone().unwrap_or_default()
    };
    assert_eq!(error_of(EndsWithError, "whole").0, 22);
    assert!(error_of(MixesTypes, "stray").1.contains("lies on cuda:0"));
    assert_eq!(error_of(LosesCode, "failing").0, -1);
    assert!(error_of(GarblesText, "failing").1.contains('\u{fffd}'));
}

// Requirement: STR-2, STR-5, STR-9
#[test]
fn a_stream_whose_parts_cannot_be_is_refused_and_released() {
    type Spoil = fn(&mut Script);
    let scripts: [(&str, Spoil); 4] = [
        ("a format that is none", |script| script.schema.format = c"no format".into()),
        ("a negative length", |script| last(script).length = -1),
        ("a buffer too few", |script| drop(last(script).buffers.pop())),
        ("a null buffer", |script| last(script).buffers[1] = Content::Null),
    ];
    for (what, spoil) in scripts {
        let mut script = numbers();
        spoil(&mut script);
        let outcome = assert_same(what, |books| produce(&script, None, books));
        assert_eq!(outcome.error.unwrap().0, 22, "{what}");
    }

    type SpoilStream = fn(&mut ArrowDeviceArrayStream);
    let callbacks: [(&str, SpoilStream); 3] = [
        ("get_schema", |stream| stream.get_schema = None),
        ("get_next", |stream| stream.get_next = None),
        ("get_last_error", |stream| stream.get_last_error = None),
    ];
    for (name, spoil) in callbacks {
        let make = |books: &Books| {
            let mut stream = produce(&numbers(), None, books);
            spoil(&mut stream);
            stream
        };
        let (code, text) = assert_same(name, make).error.unwrap();
        assert!(code == 22 && text.contains(name), "{name}: {text}");
        // The same struct for plain arrays.
        let books = Books::default();
        let mut host = host_of(make(&books));
        if name == "get_schema" {
            host.get_schema = None;
        }
        let taken = made(|out, error| unsafe { ardev_stream_import_host(&mut host, out, error) });
        assert!(host.release.is_none(), "{name}");
        if let Ok(stream) = taken {
            unsafe { ardev_stream_free(stream) };
        }
        assert_eq!(books.settle(0), Ok(()), "{name}");
    }
    assert_eq!(read(&mut ArrowDeviceArrayStream::empty()).error.unwrap().0, 22);
}

/// The plan of the last array.
fn last(script: &mut Script) -> &mut arrow_device_testkit::plan::Plan {
    match script.steps.last_mut() {
        Some(Step::Chunk(plan, _)) => plan,
        _ => panic!("the script has no array"),
    }
}
