//! Streams of somebody who breaks the rules: an error with its reason, everything released once,
//! and an end.

use std::ffi::c_int;
use std::ptr;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device::{Array, ArrayStream, DataType, DeviceType, Error, ErrorKind, Result};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::plan::{Content, Plan};
use arrow_device_testkit::stream::{
    Books, ProducerFault, Script, Step, UNKNOWN_TYPE, host_of, produce,
};

fn numbers() -> Script {
    Script::of(&Kind::Fixed("i", 4), UNKNOWN_TYPE, 2)
}

fn import(stream: &mut ArrowDeviceArrayStream) -> Result<ArrayStream> {
    let stream_or_error = unsafe { ArrayStream::import(stream) };
    assert!(stream.is_released(), "the source is moved, whatever comes of it");
    stream_or_error
}

#[track_caller]
fn assert_error<T: std::fmt::Debug>(result: Result<T>, kind: ErrorKind, text: &str) {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(text), "`{error}` does not say `{text}`");
}

/// What comes after so many good arrays, in place of an end. After that there is nothing, and
/// nobody is asked again.
fn read_to_error(stream: Result<ArrayStream>, good: usize) -> Error {
    let mut stream = stream.unwrap();
    for _ in 0..good {
        stream.next().unwrap().unwrap();
    }
    let error = stream.next().unwrap().unwrap_err();
    assert!(stream.next().is_none() && stream.next().is_none());
    error
}

// Requirement: STR-7
#[test]
fn a_stream_that_is_none_is_an_error() {
    assert_error(
        unsafe { ArrayStream::import(ptr::null_mut()) },
        ErrorKind::InvalidArgument,
        "null",
    );
    assert_error(import(&mut ArrowDeviceArrayStream::empty()), ErrorKind::Released, "released");
    let host = unsafe { ArrayStream::import_host(ptr::null_mut()) };
    assert_error(host, ErrorKind::InvalidArgument, "null");
    let host = unsafe { ArrayStream::import_host(&mut ArrowArrayStream::empty()) };
    assert_error(host, ErrorKind::Released, "released");
    // Taken over once, it is released here.
    let books = Books::default();
    let mut made = produce(&numbers(), None, &books);
    drop(import(&mut made).unwrap());
    assert_error(import(&mut made), ErrorKind::Released, "released");
    assert_eq!(books.settle(0), Ok(()));
}

#[test]
fn a_stream_without_a_callback_is_refused_and_released() {
    type Spoil = fn(&mut ArrowDeviceArrayStream);
    let spoils: [(&str, Spoil); 3] = [
        ("get_schema", |stream| stream.get_schema = None),
        ("get_next", |stream| stream.get_next = None),
        ("get_last_error", |stream| stream.get_last_error = None),
    ];
    for (name, spoil) in spoils {
        let books = Books::default();
        let mut made = produce(&numbers(), None, &books);
        spoil(&mut made);
        assert_error(import(&mut made), ErrorKind::Malformed, &format!("`{name}` of the stream"));
        assert_eq!(books.settle(0), Ok(()));
    }
}

/// Answers of `get_schema`: it counts on `private_data` to be that of the hand-written producer.
unsafe extern "C" fn gives_nothing(_: *mut ArrowDeviceArrayStream, _: *mut ArrowSchema) -> c_int {
    0
}

unsafe extern "C" fn fails(_: *mut ArrowDeviceArrayStream, _: *mut ArrowSchema) -> c_int {
    libc::ENOTEMPTY
}

unsafe extern "C" fn no_text(_: *mut ArrowDeviceArrayStream) -> *const std::ffi::c_char {
    ptr::null()
}

unsafe extern "C" fn empty_text(_: *mut ArrowDeviceArrayStream) -> *const std::ffi::c_char {
    c"".as_ptr()
}

unsafe extern "C" fn no_utf_8(_: *mut ArrowDeviceArrayStream) -> *const std::ffi::c_char {
    c"out of \xff paper".as_ptr()
}

// Requirement: STR-5, STR-9
#[test]
fn a_stream_without_a_good_schema_is_refused_and_released() {
    let wrong_format = || {
        let mut script = numbers();
        script.schema.format = c"no format".into();
        script
    };
    let books = Books::default();
    let refused = import(&mut produce(&wrong_format(), None, &books));
    assert_error(refused, ErrorKind::Malformed, "no format");
    assert_eq!(books.settle(0), Ok(()));
    assert_eq!(books.schemas.base_releases(), 1);

    let texts: [(unsafe extern "C" fn(_) -> _, &str); 3] = [
        (no_text, "returned 39 and no text"),
        (empty_text, "returned 39 and no text"),
        (no_utf_8, "out of \u{fffd} paper"),
    ];
    for (get_last_error, expected) in texts {
        let books = Books::default();
        let made = produce(&numbers(), None, &books);
        let get_last_error = Some(get_last_error as _);
        let mut made = ArrowDeviceArrayStream { get_schema: Some(fails), get_last_error, ..made };
        let error = import(&mut made).unwrap_err();
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Peer, libc::ENOTEMPTY));
        assert_eq!(error.operation(), Some("get_schema"));
        assert!(error.message().contains(expected), "{error}");
        assert_eq!(books.settle(0), Ok(()));
    }

    let books = Books::default();
    let made = produce(&numbers(), None, &books);
    let mut made = ArrowDeviceArrayStream { get_schema: Some(gives_nothing), ..made };
    assert_error(import(&mut made), ErrorKind::Released, "the schema is released");
    assert_eq!(books.settle(0), Ok(()));
}

// Requirement: STR-2
#[test]
fn an_array_that_cannot_be_is_an_error_and_released_and_the_end() {
    type Spoil = fn(&mut Plan);
    let spoils: [(Spoil, ErrorKind, &str); 4] = [
        (|plan| plan.length = -1, ErrorKind::Malformed, "length is -1"),
        (|plan| plan.null_count = 77, ErrorKind::Malformed, "null count is 77"),
        (|plan| drop(plan.buffers.pop()), ErrorKind::SchemaMismatch, "2 buffers, not 1"),
        (|plan| plan.buffers[1] = Content::Null, ErrorKind::Malformed, "buffer 1 is null"),
    ];
    for (spoil, kind, text) in spoils {
        for on_the_host in [false, true] {
            let books = Books::default();
            let mut wrong = Script::of(&Kind::Fixed("i", 4), UNKNOWN_TYPE, 3);
            if let Some(Step::Chunk(plan, _)) = wrong.steps.last_mut() {
                spoil(plan);
            }
            let mut made = produce(&wrong, None, &books);
            let stream = if on_the_host {
                unsafe { ArrayStream::import_host(&mut host_of(made)) }
            } else {
                import(&mut made)
            };
            assert_error::<()>(Err(read_to_error(stream, 2)), kind, text);
            assert_eq!(books.settle(3), Ok(()));
        }
    }
}

// Requirement: STR-2
#[test]
fn an_array_on_another_type_of_device_says_so() {
    let books = Books::default();
    let script = numbers().then(Step::Stray(numbers().schema, DeviceType::CUDA.0));
    let mut made = produce(&script, Some(ProducerFault::MixesTypes), &books);
    let error = read_to_error(import(&mut made), 2);
    assert_eq!(error.kind(), ErrorKind::Malformed);
    let expected =
        "an array of the stream lies on cuda:0, and the stream is one of device_type(4711)";
    assert_eq!(error.message(), expected);
    assert_eq!(books.settle(3), Ok(()));
}

// Requirement: STR-4, STR-7
#[test]
fn nobody_is_asked_again_after_the_end_or_an_error() {
    // It would give arrays without end.
    let books = Books::default();
    let mut made = produce(&numbers(), Some(ProducerFault::BeginsAgain), &books);
    let mut stream = import(&mut made).unwrap();
    assert_eq!(stream.by_ref().take(100).filter(Result::is_ok).count(), 2);
    assert!(stream.next().is_none());
    assert_eq!(books.settle(2), Ok(()), "released at the end, before the stream is dropped");
    assert_eq!(stream.schema().data_type(), &DataType::Int32);

    // It would fail without end.
    let books = Books::default();
    let script = numbers().then(Step::Error(libc::EIO, Some("again")));
    let stream = import(&mut produce(&script, None, &books)).unwrap();
    assert_eq!(stream.take(100).filter_map(Result::err).count(), 1);
    assert_eq!(books.settle(2), Ok(()));
}

// Requirement: STR-5
#[test]
fn codes_that_are_no_errno_values_are_errors_all_the_same() {
    for errno in [-1, i32::MIN, i32::MAX, 1] {
        let books = Books::default();
        let script = numbers().then(Step::Error(errno, Some("who knows")));
        let error = read_to_error(import(&mut produce(&script, None, &books)), 2);
        assert_eq!((error.kind(), error.errno()), (ErrorKind::Peer, errno));
        assert_eq!((error.message(), error.operation()), ("who knows", Some("get_next")));
        assert_eq!(books.settle(2), Ok(()));
    }
}

/// What is written together with an error was not handed over: it may be half of something.
#[test]
#[cfg_attr(miri, ignore = "the producer forgets what it wrote")]
fn what_comes_with_an_error_is_left_alone() {
    let books = Books::default();
    let script = numbers().then(Step::Error(libc::EIO, Some("too late")));
    let mut made = produce(&script, Some(ProducerFault::HandsOutWithError), &books);
    let error = read_to_error(import(&mut made), 2);
    assert_eq!(error.errno(), libc::EIO);
    assert_eq!(books.stream.settle(1), Ok(()));
    assert_eq!(books.chunks.base_releases(), 2);
}

// Requirement: SAF-14, SAF-33
#[test]
fn a_release_that_does_not_mark_the_stream_is_not_called_twice() {
    let books = Books::default();
    let mut made = produce(&numbers(), Some(ProducerFault::LeavesReleaseSet), &books);
    assert_eq!(import(&mut made).unwrap().count(), 2);
    assert_eq!(books.settle(2), Ok(()));
}

/// A consumer of ours that does not keep to the rules is told so.
#[test]
fn calls_without_a_stream_or_a_place_are_errors() {
    let one = Array::from_values(DataType::Int32, [Some(1)]).unwrap();
    let stream = ArrayStream::new(one.schema().unwrap(), DeviceType::CPU, [Ok(one)]);
    let mut made = ArrowDeviceArrayStream::empty();
    stream.export(&mut made);
    let ArrowDeviceArrayStream { get_schema, get_next, get_last_error, release, .. } = made;
    let (get_schema, get_next) = (get_schema.unwrap(), get_next.unwrap());
    let (get_last_error, release) = (get_last_error.unwrap(), release.unwrap());
    let (mut schema, mut array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    unsafe {
        assert_eq!(get_schema(&mut made, ptr::null_mut()), libc::EINVAL);
        assert_eq!(get_next(&mut made, ptr::null_mut()), libc::EINVAL);
        assert_eq!(get_last_error(&mut made), ptr::null());
        assert_eq!(get_schema(ptr::null_mut(), &mut schema), libc::EINVAL);
        assert_eq!(get_next(ptr::null_mut(), &mut array), libc::EINVAL);
        assert_eq!(get_last_error(ptr::null_mut()), ptr::null());
        release(ptr::null_mut());

        // The stream is none the worse for it.
        assert_eq!(get_next(&mut made, &mut array), 0);
        array.array.release.unwrap()(&mut array.array);
        release(&mut made);
        assert!(made.is_released());

        assert_eq!(get_schema(&mut made, &mut schema), libc::EINVAL);
        assert_eq!(get_next(&mut made, &mut array), libc::EINVAL);
        assert_eq!(get_last_error(&mut made), ptr::null());
        release(&mut made);
    }
    assert!(schema.is_released() && array.is_released());
}
