//! Structs, streams and callbacks through the functions of the header: who is released when,
//! whatever is wrong.

use std::ffi::{CStr, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};
use arrow_device::convention::{self, Convention};
use arrow_device::{DeviceType, ErrorKind};
use arrow_device_capi::*;
use arrow_device_testkit::hostile::{self, Hostile};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::pushed::{self, Sink, Source};
use arrow_device_testkit::release_until;
use arrow_device_testkit::stream::{
    Script, Step, UNKNOWN_TYPE, Watch, check_consumer, check_producer, device_of, host_of, produce,
};

use crate::support::face::{Face, Owned, call, inspect, made, read, relay};
use crate::support::objects::{int64, numbers, parts};

fn assert_all(all: impl IntoIterator<Item = Hostile>) {
    for hostile in all {
        assert_eq!(hostile.check(&Face), Ok(()), "{}", hostile.name);
    }
}

// Requirement: ABI-2, ABI-5, ARR-3, ARR-7, ARR-17, ARR-18, SCH-1, SCH-2, SCH-3, SCH-4, SYS-2
// Requirement: SAF-32
#[test]
fn structs_with_anything_wrong_are_refused_at_their_place_and_released_once() {
    assert_all(hostile::all());
    assert_all((0..2000).map(hostile::random));
}

fn scripts() -> Vec<Script> {
    let kinds = [
        Kind::Fixed("i", 4),
        Kind::Text("u", 4),
        Kind::Struct(vec![Kind::Fixed("l", 8), Kind::Bits]),
    ];
    let whole = kinds.iter().flat_map(|kind| [1, UNKNOWN_TYPE].map(|on| Script::of(kind, on, 3)));
    let with_errors = [Step::Error(5, Some("the tape is torn")), Step::Error(95, None)]
        .map(|step| Script::of(&kinds[0], 1, 2).then(step));
    whole.chain(with_errors).collect()
}

// Requirement: STR-1, STR-3, STR-4, STR-5, STR-6, STR-7
#[test]
fn a_stream_that_is_handed_on_keeps_to_the_rules() {
    for script in scripts() {
        let handed_on =
            |script: &Script, books: &_| relay(&mut produce(script, None, books)).unwrap();
        assert_eq!(check_producer(&handed_on, &script), Ok(()), "{script:?}");
    }
}

// Requirement: STR-1, STR-3, STR-5
#[test]
fn a_host_stream_that_is_handed_on_keeps_to_the_rules() {
    let handed_on = |script: &Script, books: &_| {
        let mut host = host_of(produce(script, None, books));
        let stream =
            made(|out, error| unsafe { ardev_stream_import_host(&mut host, out, error) }).unwrap();
        let mut out = ArrowArrayStream::empty();
        call(|error| unsafe { ardev_stream_export_host(stream, &mut out, error) }).unwrap();
        unsafe { ardev_stream_free(stream) };
        device_of(out)
    };
    for script in scripts().iter().filter(|script| script.device_type == 1) {
        assert_eq!(check_producer(&handed_on, script), Ok(()), "{script:?}");
    }
}

// Requirement: STR-1, STR-4, STR-5, STR-6, STR-7
#[test]
fn a_stream_is_read_to_its_end_or_its_error() {
    let stray = Script::of(&Kind::Fixed("i", 4), UNKNOWN_TYPE, 1);
    let stray = stray.clone().then(Step::Stray(stray.schema, 1));
    for script in scripts().into_iter().chain([stray]) {
        assert_eq!(check_consumer(&read, &script, Watch(Duration::ZERO)), Ok(()), "{script:?}");
    }
}

// Requirement: ASY-1, ASY-9, ASY-12
#[test]
fn what_an_asynchronous_producer_pushes_is_read_with_a_loop() {
    let (mut handler, mut stream) = (ptr::null_mut(), ptr::null_mut());
    call(|error| unsafe { ardev_stream_from_async(2, &mut handler, &mut stream, error) }).unwrap();
    let source = Source::new(handler, 5, None);
    let over = AtomicBool::new(false);
    let lengths: Vec<i64> = std::thread::scope(|threads| {
        threads.spawn(|| {
            while !over.load(Ordering::Acquire) {
                source.run();
                std::thread::yield_now();
            }
        });
        let arrays = std::iter::from_fn(|| {
            let mut array = ptr::null_mut();
            call(|error| unsafe { ardev_stream_next(stream, &mut array, error) }).unwrap();
            (!array.is_null()).then(|| inspect(&Owned(array)).length)
        });
        let lengths = arrays.collect();
        over.store(true, Ordering::Release);
        lengths
    });
    unsafe { ardev_stream_free(stream) };
    assert_eq!(lengths, [3; 5]);
    source.settle().unwrap();
}

/// A source of so many arrays, and what becomes of it.
struct Arrays {
    left: usize,
    array: Owned,
    released: &'static AtomicUsize,
}

unsafe extern "C" fn next(
    context: *mut c_void,
    out: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let arrays = unsafe { &mut *context.cast::<Arrays>() };
    if arrays.left == 0 {
        return 0;
    }
    arrays.left -= 1;
    unsafe { ardev_array_slice(arrays.array.0, 0, 1, out, error) }
}

unsafe extern "C" fn fail(
    _: *mut c_void,
    _: *mut *mut ArdevArray,
    error: *mut ArdevError,
) -> c_int {
    let text = b"the tape is torn\0".map(u8::cast_signed);
    unsafe { (&raw mut (*error).message).cast::<[i8; 17]>().write(text) };
    71 // EPROTO
}

unsafe extern "C" fn release(context: *mut c_void) {
    let arrays = unsafe { Box::from_raw(context.cast::<Arrays>()) };
    arrays.released.fetch_add(1, Ordering::SeqCst);
}

/// A stream of so many arrays of one number.
fn stream_of(count: usize, next: ArdevNext, released: &'static AtomicUsize) -> *mut ArdevStream {
    let arrays = Box::new(Arrays { left: count, array: numbers(0), released });
    let source = ArdevSource {
        context: Box::into_raw(arrays).cast(),
        next: Some(next),
        release: Some(release),
        ..ArdevSource::default()
    };
    let schema = int64();
    let stream = made(|out, error| unsafe { ardev_stream_new(schema, 1, &source, out, error) });
    unsafe { ardev_schema_free(schema) };
    stream.unwrap()
}

// Requirement: ASY-4, ASY-14
#[test]
fn a_stream_is_pushed_to_an_asynchronous_consumer() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    let sink = Sink::new(2, None);
    let handler = sink.handler().expose_provenance();
    // The lengths of the arrays. Nothing is asserted while the other thread waits for this one.
    let mut taken = Vec::new();
    let driven = std::thread::scope(|threads| {
        let drive = threads.spawn(move || {
            let stream = stream_of(7, next, &RELEASED);
            let handler = ptr::with_exposed_provenance_mut(handler);
            let outcome = call(|error| unsafe { ardev_stream_drive(stream, handler, error) });
            unsafe { ardev_stream_free(stream) };
            outcome.map_err(|error| error.to_string())
        });
        while sink.outcome() == pushed::Outcome::Open {
            taken.extend(sink.take());
            std::thread::yield_now();
        }
        drive.join().unwrap()
    });
    taken.extend(std::iter::from_fn(|| sink.take()));
    assert_eq!((driven, taken), (Ok(()), vec![Ok(1); 7]));
    assert_eq!((sink.outcome(), sink.arrived()), (pushed::Outcome::Ended, 7));
    sink.settle().unwrap();
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
}

// Requirement: STR-4
#[test]
fn an_error_of_a_callback_reaches_the_consumer_with_its_code_and_text() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    let stream = stream_of(1, fail, &RELEASED);
    let mut c_stream = ArrowDeviceArrayStream::empty();
    call(|error| unsafe { ardev_stream_export(stream, ptr::null(), &mut c_stream, error) })
        .unwrap();
    // What was handed on is not there any more.
    let again = made(|out, error| unsafe { ardev_stream_next(stream, out, error) });
    assert_eq!(again.unwrap_err().kind(), ErrorKind::InvalidArgument);
    unsafe { ardev_stream_free(stream) };
    let outcome = read(&mut c_stream);
    let (code, text) = outcome.error.unwrap();
    assert!(code == 71 && text.contains("the tape is torn"), "{code}: {text}");
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
}

#[test]
fn a_stream_is_read_by_several_threads() {
    static RELEASED: AtomicUsize = AtomicUsize::new(0);
    let stream = stream_of(300, next, &RELEASED).expose_provenance();
    let read = || {
        let stream: *mut ArdevStream = ptr::with_exposed_provenance_mut(stream);
        let mut count = 0;
        loop {
            let mut array = ptr::null_mut();
            call(|error| unsafe { ardev_stream_next(stream, &mut array, error) }).unwrap();
            if array.is_null() {
                return count;
            }
            drop(Owned(array));
            count += 1;
        }
    };
    let counts = std::thread::scope(|threads| {
        let threads = [threads.spawn(read), threads.spawn(read), threads.spawn(read)];
        threads.map(|thread| thread.join().unwrap())
    });
    assert_eq!(counts.iter().sum::<usize>(), 300);
    unsafe { ardev_stream_free(ptr::with_exposed_provenance_mut(stream)) };
    assert_eq!(RELEASED.load(Ordering::SeqCst), 1);
}

#[test]
fn one_array_is_used_by_several_threads() {
    let array = numbers(5);
    let shared = array.0.expose_provenance();
    std::thread::scope(|threads| {
        for _ in 0..4 {
            threads.spawn(|| {
                for _ in 0..200 {
                    let array: *mut ArdevArray = ptr::with_exposed_provenance_mut(shared);
                    let part = Owned(
                        made(|out, error| unsafe { ardev_array_slice(array, 1, 2, out, error) })
                            .unwrap(),
                    );
                    assert_eq!(inspect(&part).offset, 1);
                    let view = made(|out, error| unsafe {
                        ardev_view_open(part.0, ptr::null(), out, error)
                    })
                    .unwrap();
                    let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
                    call(|error| unsafe { ardev_view_buffer(view, 1, &mut place, error) }).unwrap();
                    assert_eq!(
                        (place.size, unsafe { place.base.cast::<i64>().add(2).read() }),
                        (24, 7)
                    );
                    unsafe { ardev_view_free(view) };
                    let wrong =
                        made(|out, error| unsafe { ardev_array_child(array, 3, out, error) });
                    assert!(wrong.unwrap_err().to_string().contains("none is number 3"));
                }
            });
        }
    });
}

#[test]
fn a_buffer_of_the_caller_is_released_once_after_its_last_use() {
    unsafe extern "C" fn count(context: *mut c_void) {
        unsafe { &*context.cast::<AtomicUsize>() }.fetch_add(1, Ordering::SeqCst);
    }
    let (values, released) = ([1_i64, 2, 3], AtomicUsize::new(0));
    let context = (&raw const released).cast_mut().cast();
    let base = values.as_ptr().cast();
    let buffer = made(|out, error| unsafe {
        ardev_buffer_wrap(1, -1, base, 24, context, Some(count), out, error)
    })
    .unwrap();
    let schema = int64();
    let buffers = [ptr::null_mut(), buffer];
    let parts = ArdevParts { buffers: buffers.as_ptr(), n_buffers: 2, ..parts(schema, 3) };
    let array = Owned(made(|out, error| unsafe { ardev_array_build(&parts, out, error) }).unwrap());
    // It is not the library's to be written to.
    let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
    let refused =
        call(|error| unsafe { ardev_buffer_place(buffer, ptr::null(), &mut place, error) });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::InvalidArgument);
    // An array that cannot be built takes nothing.
    let long = ArdevParts { length: 4, ..parts };
    let refused = made(|out, error| unsafe { ardev_array_build(&long, out, error) });
    assert!(refused.unwrap_err().to_string().contains("24 bytes and needs 32"));
    unsafe { ardev_buffer_free(buffer) };
    unsafe { ardev_schema_free(schema) };
    assert_eq!(released.load(Ordering::SeqCst), 0);
    drop(array);
    assert!(release_until(|| released.load(Ordering::SeqCst) == 1));
}

#[test]
fn memory_comes_from_the_callers_functions_and_goes_back_to_them() {
    #[derive(Default)]
    struct Books {
        allocated: AtomicUsize,
        freed: AtomicUsize,
        released: AtomicUsize,
    }
    fn books<'a>(context: *mut c_void) -> &'a Books {
        unsafe { &*context.cast::<Books>() }
    }
    unsafe extern "C" fn allocate(
        context: *mut c_void,
        size: u64,
        _: *mut c_void,
        out: *mut *mut c_void,
    ) -> c_int {
        if size > 1 << 20 {
            return 12; // ENOMEM
        }
        books(context).allocated.fetch_add(size as usize, Ordering::SeqCst);
        let words = size.div_ceil(8) as usize;
        unsafe { out.write(Box::into_raw(vec![0_u64; words].into_boxed_slice()).cast()) };
        0
    }
    unsafe extern "C" fn free(context: *mut c_void, memory: *mut c_void, size: u64) {
        let words = size.div_ceil(8) as usize;
        drop(unsafe { Box::from_raw(ptr::slice_from_raw_parts_mut(memory.cast::<u64>(), words)) });
        books(context).freed.fetch_add(size as usize, Ordering::SeqCst);
    }
    unsafe extern "C" fn release(context: *mut c_void) {
        books(context).released.fetch_add(1, Ordering::SeqCst);
    }
    let kept = Books::default();
    let context = (&raw const kept).cast_mut().cast();
    let allocator = ArdevAllocator {
        context,
        allocate: Some(allocate),
        free: Some(free),
        release: Some(release),
        ..ArdevAllocator::default()
    };
    let host = made(|out, error| unsafe { ardev_device_open(1, -1, out, error) }).unwrap();
    let device =
        made(|out, error| unsafe { ardev_device_with_allocator(host, &allocator, out, error) })
            .unwrap();
    let queue = made(|out, error| unsafe { ardev_queue_open(device, out, error) }).unwrap();
    let buffer =
        made(|out, error| unsafe { ardev_buffer_allocate(queue, 4096, out, error) }).unwrap();
    assert_eq!(kept.allocated.load(Ordering::SeqCst), 4096);
    let mut held = ArdevHeld::default();
    call(|error| unsafe { ardev_device_held(host, &mut held, error) }).unwrap();
    assert!(held.allocated >= 4096, "{held:?}");
    let options = ArdevCopyOptions { flags: ARDEV_COPY_ALWAYS, ..ArdevCopyOptions::default() };
    let source = numbers(1);
    let copied =
        made(|out, error| unsafe { ardev_array_copy(source.0, queue, &options, out, error) });
    drop(Owned(copied.unwrap()));
    assert!(kept.allocated.load(Ordering::SeqCst) > 4096);
    let refused = made(|out, error| unsafe { ardev_buffer_allocate(queue, 1 << 30, out, error) });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::OutOfMemory);
    unsafe { ardev_buffer_free(buffer) };
    unsafe { ardev_queue_free(queue) };
    unsafe { ardev_device_free(device) };
    unsafe { ardev_device_free(host) };
    assert!(release_until(|| kept.released.load(Ordering::SeqCst) == 1));
    assert_eq!(kept.allocated.load(Ordering::SeqCst), kept.freed.load(Ordering::SeqCst));
}

#[test]
fn devices_are_listed_with_the_reason_why_they_are_missing() {
    let mut infos = [ArdevDeviceInfo::default(); 64];
    let mut count = 0;
    let list = |infos: *mut ArdevDeviceInfo, capacity, count: &mut usize| {
        call(|error| unsafe { ardev_device_list(infos, capacity, count, error) }).unwrap();
    };
    list(infos.as_mut_ptr(), infos.len(), &mut count);
    let rows = &infos[..count];
    let row =
        |device_type: DeviceType| rows.iter().find(|row| row.device_type == device_type.0).unwrap();
    let name = |row: &ArdevDeviceInfo| {
        unsafe { CStr::from_ptr(row.name.as_ptr()) }.to_str().unwrap().to_owned()
    };
    // What is not in the build is said once, of all types, and of no type that has a row.
    let others = rows.iter().find(|row| row.device_type == 0);
    assert!(others.is_none_or(|row| row.status == 38));
    let others = others.map(name).unwrap_or_default();
    let others: Vec<&str> = others
        .strip_prefix("not in this build: ")
        .into_iter()
        .flat_map(|it| it.split(", "))
        .collect();
    for Convention { device_type, .. } in convention::ALL {
        let row = rows.iter().find(|row| row.device_type == device_type.0);
        let is_told = row.is_some_and(|row| row.name[0] != 0);
        let is_other = others.contains(&device_type.to_string().as_str());
        assert_ne!(is_told, is_other, "{device_type}");
    }
    assert_eq!(others.contains(&"hexagon"), cfg!(not(feature = "hexagon")), "{others:?}");
    assert_eq!(row(DeviceType::CPU).status, 0);
    assert!(row(DeviceType::CPU).alignment >= 64, "{}", row(DeviceType::CPU).alignment);
    assert_ne!(row(DeviceType::CPU).flags & ARDEV_DEVICE_HOST_READABLE, 0);
    let mut again = 0;
    list(ptr::null_mut(), 0, &mut again);
    assert_eq!(again, count);
}
