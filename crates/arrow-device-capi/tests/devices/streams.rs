//! What holds for streams and events of the application's on CUDA and on ROCm: the driver's own, in
//! and out.

use std::ffi::c_void;
use std::ptr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, DataType, Device, DeviceId, DeviceType, ErrorKind};
use arrow_device_capi::*;
use arrow_device_testkit::release_until;
use gpu_backends::Bench;

use crate::support::face::{Owned, call, import, made};
use crate::support::objects::{END, Ends, copy, int64, numbers, parts, values_of};

/// Makes a stream or an event, as the application does.
fn create(bench: &Bench, function: &str) -> usize {
    let mut handle = 0_usize;
    let out = (&raw mut handle).expose_provenance() as u64;
    // Both take flags: a stream that does not wait for the default stream, an event that tells no
    // time.
    let flags = if function.contains("Event") { 2 } else { 1 };
    bench.entered(|| assert_eq!(bench.raw(function, &[out, flags]), 0));
    handle
}

fn open(device_type: i32) -> *mut ArdevDevice {
    made(|out, error| unsafe { ardev_device_open(device_type, 0, out, error) }).unwrap()
}

/// Data is written on a stream of the application's, ordered by an event of the application's, and
/// read on another stream of the application's; the driver reports what is not ordered.
pub(crate) fn streams_and_events_go_in_and_out(bench: &Bench, device_type: i32) {
    static ENDS: Ends = Ends::new();
    let stream = || create(bench, bench.name("cuStreamCreate", "hipStreamCreateWithFlags"));
    let (producer, consumer) = (stream(), stream());
    let event = create(bench, bench.name("cuEventCreate", "hipEventCreateWithFlags"));
    let device = open(device_type);
    let pointer = ptr::with_exposed_provenance_mut;
    let adopt = |stream: usize| {
        made(|out, error| unsafe {
            ardev_queue_adopt(device, pointer(stream), ENDS.context(), END, out, error)
        })
        .unwrap()
    };
    let (on_producer, on_consumer) = (adopt(producer), adopt(consumer));
    for (queue, stream) in [(on_producer, producer), (on_consumer, consumer)] {
        let handle = made(|out, error| unsafe { ardev_queue_handle(queue, out, error) });
        assert_eq!(handle.unwrap().addr(), stream);
    }

    // The application fills memory on its stream, and records its event behind that.
    let buffer =
        made(|out, error| unsafe { ardev_buffer_allocate(on_producer, 24, out, error) }).unwrap();
    let mut place = ArdevPlace { base: ptr::null(), offset: 0, size: 0 };
    call(|error| unsafe { ardev_buffer_place(buffer, on_producer, &mut place, error) }).unwrap();
    bench.entered(|| {
        let fill = bench.name("cuMemsetD8Async", "hipMemsetAsync");
        let address = place.base.expose_provenance() as u64;
        assert_eq!(bench.raw(fill, &[address, 3, 24, producer as u64]), 0);
        let record = bench.name("cuEventRecord", "hipEventRecord");
        assert_eq!(bench.raw(record, &[event as u64, producer as u64]), 0);
    });
    let adopted = made(|out, error| unsafe {
        ardev_event_adopt(device, pointer(event), ENDS.context(), END, out, error)
    })
    .unwrap();
    let (schema, buffers) = (int64(), [ptr::null_mut(), buffer]);
    let all =
        ArdevParts { buffers: buffers.as_ptr(), n_buffers: 2, event: adopted, ..parts(schema, 3) };
    let array = Owned(made(|out, error| unsafe { ardev_array_build(&all, out, error) }).unwrap());
    unsafe { ardev_event_free(adopted) };
    unsafe { ardev_buffer_free(buffer) };
    unsafe { ardev_schema_free(schema) };

    // Read on the other stream, whose copy has to wait for the event.
    let there = copy(&array, ptr::null(), on_consumer).unwrap();
    assert_eq!(values_of(&there), [0x0303_0303_0303_0303; 3]);
    assert!(bench.take_calls().iter().any(|call| call.contains("StreamWaitEvent")));

    // An event of the library's is one of the driver's.
    let array_there = copy(&numbers(5), on_producer, ptr::null()).unwrap();
    let recorded =
        made(|out, error| unsafe { ardev_queue_record(on_producer, out, error) }).unwrap();
    let handle = made(|out, error| unsafe { ardev_event_handle(recorded, out, error) }).unwrap();
    bench.entered(|| {
        let wait = bench.name("cuEventSynchronize", "hipEventSynchronize");
        assert_eq!(bench.raw(wait, &[handle.expose_provenance() as u64]), 0);
    });
    let mut passed = false;
    call(|error| unsafe { ardev_event_is_complete(recorded, &mut passed, error) }).unwrap();
    assert!(passed);
    assert_eq!(values_of(&copy(&array_there, ptr::null(), on_consumer).unwrap()), [5, 6, 7]);

    // Everything is given back once, when nothing needs it any more.
    unsafe { ardev_event_free(recorded) };
    assert_eq!(ENDS.count(), 0);
    drop((array, array_there));
    for queue in [on_producer, on_consumer] {
        unsafe { ardev_queue_free(queue) };
    }
    unsafe { ardev_device_free(device) };
    assert!(release_until(|| ENDS.count() == 3), "{}", ENDS.count());
    bench.entered(|| {
        let end = bench.name("cuStreamDestroy_v2", "hipStreamDestroy");
        assert!([producer, consumer].iter().all(|it| bench.raw(end, &[*it as u64]) == 0));
        assert_eq!(
            bench.raw(bench.name("cuEventDestroy_v2", "hipEventDestroy"), &[event as u64]),
            0
        );
    });
}

/// There is one context for each device, so another one is no way in.
pub(crate) fn no_other_context_is_taken(device_type: i32) {
    let mut anything = 0_u8;
    let handle = (&raw mut anything).cast();
    let refused = made(|out, error| unsafe {
        ardev_device_open_in(device_type, handle, handle, 0, out, error)
    })
    .unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    assert!(refused.to_string().contains("primary context of its device"), "{refused}");
    // What an array carries is enough to find its device.
    let found = made(|out, error| unsafe {
        ardev_device_open_for(device_type, ptr::null(), 0, out, error)
    })
    .unwrap();
    unsafe { ardev_device_free(found) };
    let refused =
        made(|out, error| unsafe { ardev_device_open_with(device_type, 0, 2, out, error) });
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}

/// A producer that leaves the sizes of a view array's buffers on the device is understood.
pub(crate) fn sizes_of_views_may_lie_on_the_device(_bench: &Bench, device_type: i32) {
    unsafe extern "C" fn release(array: *mut ArrowArray) {
        unsafe { (*array).release = None };
    }
    let c_device = open(device_type);
    let device = Device::find(DeviceId::new(DeviceType(device_type), 0)).unwrap();
    let queue = device.open_queue().unwrap();
    let texts = ["short", "a text that is too long to be part of a view"];
    let host = Array::from_texts(DataType::Utf8View, texts.map(Some)).unwrap();
    let there = host.copy_to(&queue).unwrap();
    let mut sizes = queue.allocate(8).unwrap();
    sizes.write(&queue, &(texts[1].len() as i64).to_ne_bytes()).unwrap();
    let view = there.on(&queue).unwrap();
    let at = |index: usize| view.buffer(index).location().address();
    let sizes_at = sizes.spot(&queue).unwrap().base.as_ptr().cast_const();
    assert_eq!(there.buffer_count(), 4);
    let mut table: [*const c_void; 4] = [ptr::null(), at(1), at(2), sizes_at];
    let (mut c_schema, mut c_array) = (ArrowSchema::empty(), ArrowDeviceArray::empty());
    host.schema().unwrap().export(&mut c_schema).unwrap();
    c_array.device_type = device_type;
    c_array.device_id = 0;
    c_array.array.length = 2;
    c_array.array.n_buffers = 4;
    c_array.array.buffers = table.as_mut_ptr().cast();
    c_array.array.release = Some(release);
    queue.synchronize().unwrap();
    let array = import(&mut c_schema, &mut c_array).unwrap();
    let (mut found, mut count) = ([7_u64; 4], 0);
    call(|error| unsafe {
        ardev_array_buffer_sizes(array.0, ptr::null(), found.as_mut_ptr(), 4, &mut count, error)
    })
    .unwrap();
    assert_eq!((found, count), ([0, 32, texts[1].len() as u64, 8], 4));
    drop(array);
    drop(view);
    unsafe { ardev_device_free(c_device) };
}
