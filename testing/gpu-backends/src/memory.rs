//! Kinds of memory, what the driver says of addresses, foreign numbers, captures.

use std::cell::Cell;
use std::ffi::c_void;
use std::ptr;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::driver::{HostAccess, Raw};
use arrow_device::{Array, DataType, Device, DeviceId, ErrorKind, Recycler, dlpack};
use arrow_device_testkit::{oracle, trips};

use crate::{Kind, Machine, assert_numbers, numbers, settle};

/// What lies at an address, and how far it goes.
pub fn addresses_are_located(machine: &Machine) {
    let asks = machine.open(0, Kind::Device);
    for kind in machine.kinds() {
        for ordinal in [0, 1] {
            let device = machine.open(ordinal, *kind);
            let queue = device.open_queue().unwrap();
            for mut memory in [device.allocate(1000).unwrap(), queue.allocate(1000).unwrap()] {
                let base = memory.spot(&queue).unwrap().base;
                let inside = Raw::from_ptr(base.as_ptr().wrapping_byte_add(10));
                let found = unsafe { asks.driver().locate(inside) }.unwrap().unwrap();
                assert_eq!(found.device.device_type, device.id().device_type);
                assert!((990..1000 + 512).contains(&found.remaining), "{found:?}");
                if *kind == Kind::Device {
                    assert_eq!(found.device, device.id());
                }
            }
        }
    }
    let plain = [0_u8; 8];
    let found = unsafe { asks.driver().locate(Raw::from_ptr(plain.as_ptr().cast_mut().cast())) };
    assert!(found.unwrap().is_none());
}

/// Pinned and managed memory is read in place, after the event.
pub fn host_kinds_are_read_in_place(machine: &Machine) {
    for kind in machine.kinds().iter().filter(|kind| **kind != Kind::Device) {
        let device = machine.open(0, *kind);
        assert_eq!(device.properties().host_access, HostAccess::Mapped);
        let queue = device.open_queue().unwrap();
        let there = numbers().copy_to(&queue).unwrap();
        machine.take_calls();
        let read = there.host().unwrap();
        assert_eq!(read.buffer(1).unwrap()[8..12], 3_i32.to_ne_bytes());
        let calls = machine.take_calls();
        assert!(!calls.iter().any(|name| name.contains("Memcpy")), "{calls:?}");
    }
}

/// Producers write -1 or 0 for memory that belongs to all devices.
pub fn numbers_that_stand_for_all_devices(machine: &Machine) {
    for kind in machine.kinds().iter().filter(|kind| **kind != Kind::Device) {
        let device = machine.open(1, *kind);
        let queue = device.open_queue().unwrap();
        for id in [-1, 0, 1] {
            let there = numbers().copy_to(&queue).unwrap();
            let schema = there.schema().unwrap();
            let mut c_array = ArrowDeviceArray::empty();
            there.export(&mut c_array).unwrap();
            c_array.device_id = id;
            let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
            assert_eq!(array.device(), DeviceId::new(device.id().device_type, id));
            drop(array.on(&queue).unwrap());
            drop(array.on(&machine.open(0, Kind::Device).open_queue().unwrap()).unwrap());
            assert_numbers(&array);
        }
    }
    let none = DeviceId::new(machine.device_type(Kind::Device), -1);
    assert!(arrow_device::Device::find(none).is_none());
}

/// Tensors count all memory of the host as number 0.
pub fn tensors_have_dlpacks_numbers(machine: &Machine) {
    for kind in machine.kinds() {
        let device = machine.open(1, *kind);
        let named = dlpack::dl_device(device.id()).unwrap();
        assert_eq!(named.device_type.0, device.id().device_type.0);
        assert_eq!(named.device_id, i32::from(*kind == Kind::Device), "{kind:?}");
        let back = dlpack::device_id(named).unwrap();
        assert!(arrow_device::Device::find(back).is_some());
    }
}

/// A stream that captures a graph is refused and the graph stays whole, whatever other threads do
/// meanwhile.
pub fn a_capturing_stream_is_refused(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let (queue, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    let there = numbers().copy_to(&other).unwrap();
    there.wait().unwrap();
    settle();
    let stream = queue.raw().as_ptr() as u64;
    let mut entered = 0_u64;
    if machine.is_cuda() {
        let out = ptr::from_mut(&mut entered) as u64;
        assert_eq!(machine.raw("cuDevicePrimaryCtxRetain", &[out, 0]), 0);
        assert_eq!(machine.raw("cuCtxPushCurrent_v2", &[entered]), 0);
    }
    let begin = machine.name("cuStreamBeginCapture_v2", "hipStreamBeginCapture");
    assert_eq!(machine.raw(begin, &[stream, 0]), 0);
    for error in [
        queue.record().map(drop).unwrap_err(),
        queue.allocate(64).map(drop).unwrap_err(),
        numbers().copy_to(&queue).map(drop).unwrap_err(),
        there.on(&queue).map(drop).unwrap_err(),
    ] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("capturing a graph"), "{error}");
    }
    // All of these would end a capture that was begun in the strictest mode.
    std::thread::scope(|scope| {
        scope.spawn(|| {
            drop(device.allocate(64).unwrap());
            let again = there.copy_to(&other).unwrap();
            assert!(again.is_ready().is_ok());
            assert_numbers(&numbers().copy_to(&other).unwrap());
        });
    });
    assert_numbers(&there);
    let mut graph = 0_u64;
    let end = machine.name("cuStreamEndCapture", "hipStreamEndCapture");
    assert_eq!(machine.raw(end, &[stream, ptr::from_mut(&mut graph) as u64]), 0);
    if machine.is_cuda() {
        assert_eq!(machine.raw("cuCtxPopCurrent_v2", &[ptr::from_mut(&mut entered) as u64]), 0);
    }
    drop(queue.record().unwrap());
    drop(there);
    settle();
}

/// What was imported is read by work that a graph captures, and let go of meanwhile: the capture
/// stays whole, and the memory is there until the queue can be asked again.
pub fn an_import_that_a_graph_reads_is_kept(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let (queue, other) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    let stream = queue.raw().bits() as u64;
    let there = numbers().copy_to(&other).unwrap();
    let schema = there.schema().unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    there.export(&mut c_array).unwrap();
    drop(there);
    let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
    let view = array.on(&queue).unwrap();
    let address = view.buffer(1).location().address() as u64;
    let launch = || {
        let kernel = machine.sim.kernel("read").reads(address, 12);
        assert_eq!(machine.entered(|| kernel.launch(stream, |_| {})), 0);
    };
    // This reads while the stream is not captured, and has not run when the view ends.
    launch();
    let begin = machine.name("cuStreamBeginCapture_v2", "hipStreamBeginCapture");
    assert_eq!(machine.entered(|| machine.raw(begin, &[stream, 0])), 0);
    launch();
    drop(view);
    drop(array);
    arrow_device::deferred::release_finished();
    assert_eq!(machine.take_mistakes(), [""; 0]);
    let mut graph = 0_u64;
    let end = machine.name("cuStreamEndCapture", "hipStreamEndCapture");
    let out = ptr::from_mut(&mut graph) as u64;
    assert_eq!(machine.entered(|| machine.raw(end, &[stream, out])), 0);
    assert_ne!(graph, 0);
    queue.synchronize().unwrap();
    settle();
    assert_eq!(machine.take_mistakes(), [""; 0]);
}

/// The default streams of the device and of this thread, by the handles that callers have for them.
pub fn default_streams_are_adopted(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    for handle in [0_usize, 1, 2] {
        if handle == 1 && !machine.is_cuda() {
            continue;
        }
        let queue = unsafe { device.adopt_queue(Raw::from_bits(handle)) };
        assert_eq!(queue.raw().bits(), handle);
        let there = numbers().copy_to(&queue).unwrap();
        drop(there.on(&queue).unwrap());
        assert_numbers(&there);
        queue.synchronize().unwrap();
    }
    let own = device.properties().default_queues.unwrap();
    assert_eq!(own.of_device.bits(), usize::from(machine.is_cuda()));
    assert_eq!(own.of_thread.unwrap().bits(), 2);
}

/// What one thread makes on its own default stream, another one reads on another default stream of
/// the same handle, behind it.
pub fn default_streams_of_threads_wait_for_each_other(machine: &Machine) {
    const OF_THREAD: usize = 2;
    let device = machine.open(0, Kind::Device);
    let array = std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            let queue = unsafe { device.adopt_queue(Raw::from_bits(OF_THREAD)) };
            numbers().copy_to(&queue).unwrap()
        });
        made.join().unwrap()
    });
    let other = unsafe { device.adopt_queue(Raw::from_bits(OF_THREAD)) };
    let view = array.on(&other).unwrap();
    let address = view.buffer(1).location().address() as u64;
    let kernel = machine.sim.kernel("read").reads(address, 12);
    assert_eq!(machine.entered(|| kernel.launch(OF_THREAD as u64, |_| {})), 0);
    drop(view);
    other.synchronize().unwrap();
    assert_numbers(&array);
    drop((array, other));
    settle();
}

/// A stream of a context that a program has made for the same device is refused with words, and the
/// device goes on.
pub fn streams_of_a_context_beside_the_primary_one_are_refused(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let [mut made, mut stream] = [0_u64; 2];
    let out = |place: &mut u64| ptr::from_mut(place) as u64;
    assert_eq!(machine.raw("cuCtxCreate_v2", &[out(&mut made), 0, 0]), 0);
    assert_eq!(machine.raw("cuStreamCreate", &[out(&mut stream), 1]), 0);
    assert_eq!(machine.raw("cuCtxPopCurrent_v2", &[0]), 0);
    assert_refused(&device, stream as usize);
    assert_numbers(&numbers().copy_to(&device.open_queue().unwrap()).unwrap());
    // What was begun there is kept until its stream has passed.
    settle();
    machine.take_mistakes();
    assert_eq!(machine.raw("cuCtxDestroy_v2", &[made]), 0);
}

/// Nothing is done on a stream that is of no context of this device.
pub fn assert_refused(device: &Device, stream: usize) {
    let wrong = unsafe { device.adopt_queue(Raw::from_bits(stream)) };
    for error in
        [wrong.record().map(drop).unwrap_err(), numbers().copy_to(&wrong).map(drop).unwrap_err()]
    {
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
        assert!(error.to_string().contains("context"), "{error}");
    }
}

/// A stream of another device's context is refused with words, and the device goes on.
pub fn streams_of_another_context_are_refused(machine: &Machine) {
    let [one, two] = [0, 1].map(|ordinal| machine.open(ordinal, Kind::Device));
    let theirs = two.open_queue().unwrap();
    assert_refused(&one, theirs.raw().bits());
    machine.take_mistakes();
    for device in [&one, &two] {
        assert_numbers(&numbers().copy_to(&device.open_queue().unwrap()).unwrap());
    }
    settle();
    machine.take_mistakes();
}

/// A producer that leaves the sizes of a view array's buffers on the device is understood.
pub fn sizes_of_views_may_lie_on_the_device(machine: &Machine) {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    let texts =
        ["short", "a text that is too long to be part of a view", "one more of these texts"];
    let host = Array::from_texts(DataType::Utf8View, texts.map(Some)).unwrap();
    let there = host.copy_to(&queue).unwrap();
    let bytes: usize = texts[1..].iter().map(|text| text.len()).sum();
    let mut sizes = queue.allocate(8).unwrap();
    sizes.write(&queue, &(bytes as i64).to_ne_bytes()).unwrap();
    let view = there.on(&queue).unwrap();
    let at = |index: usize| view.buffer(index).location().address();
    let sizes_at = sizes.spot(&queue).unwrap().base.as_ptr().cast_const();
    assert_eq!(there.buffer_count(), 4);
    let mut table: [*const c_void; 4] = [at(0), at(1), at(2), sizes_at];
    unsafe extern "C" fn release(array: *mut ArrowArray) {
        unsafe { (*array).release = None };
    }
    let mut c_array = ArrowDeviceArray::empty();
    c_array.device_type = machine.device_type(Kind::Device).0;
    c_array.device_id = 0;
    c_array.array.length = 3;
    c_array.array.n_buffers = 4;
    c_array.array.buffers = table.as_mut_ptr().cast();
    c_array.array.release = Some(release);
    queue.synchronize().unwrap();
    let foreign = unsafe { Array::import(&mut c_array, &host.schema().unwrap()) }.unwrap();
    let found = oracle::plan_of(&foreign.to_host().unwrap()).unwrap();
    oracle::require_equal(&oracle::plan_of(&host).unwrap(), &found).unwrap();
    drop(foreign);
    drop(view);
    settle();
}

/// What an allocator gives for a queue is written to behind what the queue still reads there.
pub fn memory_of_an_allocator_is_filled_in_the_order_of_its_queue(machine: &Machine) {
    for kind in machine.kinds() {
        // The driver does nothing until somebody waits.
        let device = machine.open(0, *kind);
        trips::an_allocator_gives_what_its_queue_still_reads(&device, |_| (), |()| ());
    }
    settle();
}

/// Pinned memory that data passes through is used again, however the sizes of copies are mixed.
pub fn mixed_copies_reuse_pinned_memory(machine: &Machine) {
    let queue = machine.open(0, Kind::Device).open_queue().unwrap();
    let name = machine.name("cuMemHostAlloc", "hipHostMalloc");
    machine.take_calls();
    let count = Cell::new(0);
    trips::mixed_copies_reuse_what_they_pass_through(&queue, || {
        let calls = machine.take_calls();
        count.set(count.get() + calls.iter().filter(|call| *call == name).count());
        count.get()
    });
    settle();
}

/// What a recycler keeps is given back for an allocation of another size.
pub fn recycled_memory_is_given_back(machine: &Machine) {
    const MIB: u64 = 1 << 20;
    let recycler = Recycler::new(1 << 30);
    let device = machine.open(0, Kind::Device);
    let recycling = device.with_allocator(recycler.clone());
    for allocate in [&device, &recycling] {
        drop(recycling.allocate(150 * MIB).unwrap());
        assert_eq!(recycler.kept(), 150 * MIB);
        // The device has 256 MiB.
        assert_eq!(allocate.allocate(200 * MIB).unwrap().len(), 200 * MIB);
        recycler.clear();
    }
    settle();
}

/// A foreign column of more than 4 GiB, whose last text begins behind 4 GiB, is understood. The
/// machine has memory for it.
pub fn a_column_of_more_than_four_gib_is_copied(machine: &Machine) {
    const TEXT: &[u8] = b"the last one";
    // An exact multiple of 2^32 bytes, and one that is none.
    for len in [4_u64 << 30, 5 << 30] {
        let queue = machine.open(0, Kind::Device).open_queue().unwrap();
        let stream = queue.raw().bits() as u64;
        let mut bytes = queue.device().allocate(len).unwrap();
        let mut offsets = queue.device().allocate(24).unwrap();
        let start = len - TEXT.len() as u64;
        let ends = [0, start, len];
        let at = |memory: &mut arrow_device::Memory| {
            memory.spot(&queue).unwrap().base.as_ptr().cast_const()
        };
        let (bytes_at, offsets_at) = (at(&mut bytes), at(&mut offsets));
        let copy = machine.name("cuMemcpyHtoDAsync_v2", "hipMemcpyHtoDAsync");
        machine.entered(|| {
            let to = bytes_at as u64 + start;
            let text = [to, TEXT.as_ptr() as u64, TEXT.len() as u64, stream];
            assert_eq!(machine.raw(copy, &text), 0);
            let ends = [offsets_at as u64, ends.as_ptr() as u64, 24, stream];
            assert_eq!(machine.raw(copy, &ends), 0);
        });
        queue.synchronize().unwrap();
        let mut table: [*const c_void; 3] = [ptr::null(), offsets_at, bytes_at];
        unsafe extern "C" fn release(array: *mut ArrowArray) {
            unsafe { (*array).release = None };
        }
        let mut c_array = ArrowDeviceArray::empty();
        c_array.device_type = machine.device_type(Kind::Device).0;
        c_array.device_id = 0;
        c_array.array.length = 2;
        c_array.array.n_buffers = 3;
        c_array.array.buffers = table.as_mut_ptr().cast();
        c_array.array.release = Some(release);
        let schema = arrow_device::Schema::try_from(DataType::LargeUtf8).unwrap();
        let foreign = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        let last = foreign.slice(1, 1).unwrap().to_host().unwrap();
        let text = std::str::from_utf8(TEXT).unwrap();
        let expected = Array::from_texts(DataType::LargeUtf8, [Some(text)]).unwrap();
        let [expected, found] = [&expected, &last].map(|array| oracle::plan_of(array).unwrap());
        oracle::require_equal(&expected, &found).unwrap();
        drop(foreign);
        settle();
    }
}
