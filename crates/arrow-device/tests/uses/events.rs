//! Events and uses: data is used after its event, and memory goes back after its last use.
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::deferred::release_finished;
use arrow_device::driver::{Raw, Readiness};
use arrow_device::{Array, Buffer, DataType, Device, Field, Queue, Ready, Schema};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::manual::{Manual, shown_event};
use arrow_device_testkit::plan::{Content, Nulls, Window};
use arrow_device_testkit::{
    Verdict, assert_complaint, consumer, kinds, producer, release_until, release_what_has_passed,
    require,
};

/// A device, a queue on it, and an array of somebody else's on it.
pub(crate) struct Scene {
    pub(crate) manual: Manual,
    pub(crate) queue: Queue,
    pub(crate) ledger: Arc<Ledger>,
    pub(crate) array: Array,
    pub(crate) device: Device,
}

impl Scene {
    pub(crate) fn new() -> Self {
        let (manual, device) = Manual::open();
        let ledger = Ledger::new();
        let array = foreign(&device, &ledger, std::ptr::null_mut());
        Self { manual, queue: device.open_queue().unwrap(), ledger, array, device }
    }
}

/// Two numbers and text on a device, whose addresses nobody can read.
fn foreign(device: &Device, ledger: &Arc<Ledger>, sync_event: *mut std::ffi::c_void) -> Array {
    let text = kinds::Kind::Text("u", 4);
    let kind = kinds::Kind::Struct(vec![kinds::Kind::Fixed("l", 8), text]);
    let mut plan = kind.plan(Window::WHOLE, Nulls::None);
    for child in &mut plan.children {
        child.buffers.iter_mut().for_each(|buffer| *buffer = Content::At(0x1000));
    }
    let schema = unsafe { Schema::import(&mut producer::schema(&plan, &Ledger::new())) }.unwrap();
    let id = device.id();
    let base = producer::array(&plan, ledger);
    let mut c_array = producer::on_device(base, id.device_type.0, id.id);
    c_array.sync_event = sync_event;
    unsafe { Array::import(&mut c_array, &schema) }.unwrap()
}

/// What is done with an array on a queue; the array is given up in the end.
type Use = dyn Fn(&Scene, Array);

fn properly(scene: &Scene, array: Array) {
    let view = array.on(&scene.queue).unwrap();
    scene.manual.submit(&scene.queue);
    drop(view);
}

/// That memory is kept until the use is over, and goes back then.
fn check_kept(prepare: &dyn Fn(&Manual), used: &Use) -> Verdict {
    let scene = Scene::new();
    prepare(&scene.manual);
    used(&scene, scene.array.clone());
    let Scene { manual, queue, ledger, array, device } = scene;
    drop(array);
    release_finished();
    require(ledger.base_releases() == 0, || "released while a queue still uses it".into())?;
    // Work that was submitted later does not count.
    manual.complete(&queue);
    manual.submit(&queue);
    release_what_has_passed();
    let gone = ledger.base_releases() == 1 && ledger.live() == 0;
    require(gone, || "not released after the last use".into())?;
    ledger.settle(1)?;
    require(manual.live_events() == 0, || format!("{} events leaked", manual.live_events()))?;
    drop(device);
    Ok(())
}

// Requirement: ARR-20, SAF-13, SAF-21
#[test]
fn memory_goes_back_after_the_last_use() {
    assert_eq!(check_kept(&|_| {}, &properly), Ok(()));
    // A child, a slice and a clone are uses of the whole.
    let through_a_child = |scene: &Scene, array: Array| {
        let part = array.child(1).unwrap().slice(1, 2).unwrap();
        drop(array);
        properly(scene, part);
    };
    assert_eq!(check_kept(&|_| {}, &through_a_child), Ok(()));
}

// Requirement: DRV-19
#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn a_driver_that_lies_and_a_consumer_that_hides_its_use_are_found_out() {
    let early = "released while a queue still uses it";
    assert_complaint(check_kept(&Manual::lie, &properly), early);
    let hidden = |scene: &Scene, array: Array| {
        drop(array.on(&scene.queue).unwrap());
        // Submitted after the view said that everything was.
        scene.manual.submit(&scene.queue);
    };
    assert_complaint(check_kept(&|_| {}, &hidden), early);
    let forgotten = |scene: &Scene, array: Array| std::mem::forget(array.on(&scene.queue).unwrap());
    assert_complaint(check_kept(&|_| {}, &forgotten), "not released after the last use");
}

// Requirement: ARR-20, SAF-17
#[test]
fn where_no_event_can_be_recorded_the_queue_has_to_be_idle() {
    let Scene { manual, queue, ledger, array, device } = Scene::new();
    let view = array.on(&queue).unwrap();
    manual.submit(&queue);
    manual.refuse_to_record();
    drop((view, array));
    release_finished();
    assert_eq!(ledger.base_releases(), 0);
    manual.complete(&queue);
    manual.submit(&queue);
    release_finished();
    assert_eq!(ledger.base_releases(), 0, "nobody knows which work is done");
    manual.complete(&queue);
    release_until(|| ledger.live() == 0);
    assert_eq!(ledger.settle(1), Ok(()));
    drop(device);
}

// Requirement: ARR-20, SAF-18
#[test]
fn a_lost_device_uses_nothing() {
    let Scene { manual, queue, ledger, array, device } = Scene::new();
    let view = array.on(&queue).unwrap();
    manual.submit(&queue);
    drop((view, array));
    release_finished();
    assert_eq!(ledger.base_releases(), 0);
    manual.lose();
    release_until(|| ledger.live() == 0);
    assert_eq!(ledger.settle(1), Ok(()));
    drop((device, queue));
}

// Requirement: ARR-20, SAF-14
#[test]
#[cfg_attr(miri, ignore = "it leaks on purpose, which Miri reports")]
fn a_view_that_was_forgotten_keeps_the_memory_for_ever() {
    let Scene { manual, queue, ledger, array, .. } = Scene::new();
    std::mem::forget(array.on(&queue).unwrap());
    drop(array);
    manual.complete(&queue);
    release_finished();
    assert_eq!((ledger.base_releases(), ledger.live() > 0), (0, true));
}

// Requirement: ARR-20, SAF-13
#[test]
fn uses_on_several_queues_are_waited_for_one_by_one() {
    let Scene { manual, queue, ledger, array, device } = Scene::new();
    let other = device.open_queue().unwrap();
    for queue in [&queue, &other, &queue] {
        let view = array.on(queue).unwrap();
        manual.submit(queue);
        drop(view);
    }
    drop(array);
    for queue in [&other, &queue] {
        release_finished();
        assert_eq!(ledger.base_releases(), 0);
        manual.complete(queue);
    }
    release_until(|| ledger.live() == 0);
    assert_eq!(ledger.settle(1), Ok(()));
    assert_eq!(manual.live_events(), 0);
}

// Requirement: ARR-20, SAF-13
#[test]
fn memory_made_here_is_freed_after_its_last_use() {
    let (manual, device) = Manual::open();
    let queue = device.open_queue().unwrap();
    let mut memory = device.allocate(64).unwrap();
    memory.spot(&queue).unwrap();
    manual.submit(&queue);
    drop(memory);
    release_finished();
    assert_eq!(manual.live_memory(), 1);
    manual.complete(&queue);
    assert!(release_until(|| manual.live_memory() == 0));
}

/// Where a consumer finds the first buffer of the second column, to use it on this queue.
type Find = dyn Fn(&Queue, &Array) -> usize;

/// That the queue waits for the event before an address is known, and once.
fn check_waits(find: &Find) -> Verdict {
    let (manual, device) = Manual::open();
    let (writer, reader) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    manual.submit(&writer);
    let event = writer.record().unwrap();
    let handle = event.raw().as_ptr();
    let ledger = Ledger::new();
    let array = foreign(&device, &ledger, (&raw const handle).cast_mut().cast());
    require(array.ready() == Ready::AfterEvent, || "the event was not taken over".into())?;
    require(matches!(array.is_ready(), Ok(false)), || {
        "said to be ready while work is pending".into()
    })?;
    require(manual.wait_count() == 0, || "waited on import".into())?;
    for _ in 0..3 {
        require(find(&reader, &array) == 0x1000, || "another address".into())?;
    }
    let waits = manual.waits_for(&reader, handle.addr());
    require(waits, || "buffers are used and the queue did not wait".into())?;
    require(manual.wait_count() == 1, || format!("{} waits for one array", manual.wait_count()))?;
    require(!manual.is_idle(&writer), || "the host waited".into())?;
    manual.complete(&writer);
    require(matches!(array.is_ready(), Ok(true)), || "said to wait for complete work".into())?;
    drop(array);
    release_until(|| ledger.live() == 0);
    ledger.settle(1)?;
    let is_alive = manual.event(event.raw().bits()).is_some();
    require(is_alive, || "the producer's event was destroyed".into())
}

// Requirement: ARR-2, ARR-5, SAF-6
#[test]
fn a_queue_waits_for_the_event_before_an_address_is_told() {
    let find = |queue: &Queue, array: &Array| {
        let view = array.on(queue).unwrap();
        view.child(1).unwrap().buffer(1).location().address().addr()
    };
    assert_eq!(check_waits(&find), Ok(()));
    let reads_the_struct = |_: &Queue, array: &Array| {
        let mut c_array = ArrowDeviceArray::empty();
        array.export(&mut c_array).unwrap();
        let column = unsafe { &**c_array.array.children.add(1) };
        let address = unsafe { *column.buffers.add(1) }.addr();
        consumer::release(consumer::move_out(&mut c_array.array)).unwrap();
        address
    };
    assert_complaint(check_waits(&reads_the_struct), "the queue did not wait");
    let waits_always = move |queue: &Queue, array: &Array| {
        array.wait().unwrap();
        find(queue, array)
    };
    assert_complaint(check_waits(&waits_always), "the host waited");
}

/// Eight bytes of a device, which count how many of their kind are alive.
fn numbers(device: &Device, alive: &Arc<AtomicUsize>) -> arrow_device::ArrayBuilder {
    struct Counted(Arc<AtomicUsize>);
    impl Drop for Counted {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Ordering::SeqCst);
        }
    }
    alive.fetch_add(1, Ordering::SeqCst);
    let address = std::ptr::without_provenance(0x2000);
    let buffer = unsafe { Buffer::foreign(device.id(), address, 8, Counted(alive.clone())) };
    Array::builder(DataType::Int64).len(1).buffers([None, Some(buffer)])
}

// Requirement: ARR-6, SAF-9
#[test]
fn columns_with_different_events_are_joined_by_a_queue_or_refused() {
    let (manual, device) = Manual::open();
    let (one, two) = (device.open_queue().unwrap(), device.open_queue().unwrap());
    let column = |queue: &Queue| {
        manual.submit(queue);
        numbers(&device, &Arc::default()).finish_on(queue).unwrap()
    };
    let columns = [("a", column(&one)), ("b", column(&two)), ("c", column(&one))];
    let batch = arrow_device::Batch::from_columns(columns).unwrap();
    assert_eq!(batch.as_array().ready(), Ready::AfterEvents(3));
    let mut c_array = ArrowDeviceArray::empty();
    let error = batch.export(&mut c_array).unwrap_err();
    assert_eq!(error.kind(), arrow_device::ErrorKind::NotReady);
    assert!(c_array.is_released(), "a refused export leaves the struct as it was");
    let joining = device.open_queue().unwrap();
    batch.export_on(&joining, &mut c_array).unwrap();
    let event = shown_event(c_array.sync_event);
    assert_eq!(manual.event(event), Some(true), "nothing was submitted to the joining queue");
    assert_eq!(manual.wait_count(), 3, "which waits for each column first");
    consumer::release(consumer::move_out(&mut c_array.array)).unwrap();
}

// Requirement: SAF-6
#[test]
fn a_wait_without_a_limit_that_says_no_has_not_waited() {
    let (manual, device) = Manual::open();
    let (_, other) = Manual::open();
    let (queue, another) = (device.open_queue().unwrap(), other.open_queue().unwrap());
    manual.submit(&queue);
    let array = numbers(&device, &Arc::default()).finish_on(&queue).unwrap();
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    let imported = unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap();
    let event = queue.record().unwrap();
    manual.set_gives_up(true);
    let errors = [event.synchronize(), another.wait(&event), array.wait(), imported.wait()];
    let is_refused: Vec<bool> = errors
        .iter()
        .map(|error| error.as_ref().is_err_and(|e| e.kind() == arrow_device::ErrorKind::NotReady))
        .collect();
    assert_eq!(is_refused, [true; 4], "{errors:?}");
    assert!(!array.is_ready().unwrap());
    manual.complete(&queue);
    event.synchronize().unwrap();
    another.wait(&event).unwrap();
    imported.wait().unwrap();
}

/// Arrays of a producer that has finished, each with an event of its own; and how many there are.
fn of_others(manual: &Manual, device: &Device) -> ([Array; 2], Arc<AtomicUsize>) {
    let alive = Arc::default();
    let arrays = [(); 2].map(|()| {
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        let array = numbers(device, &alive).finish_on(&queue).unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        array.export(&mut c_array).unwrap();
        manual.complete(&queue);
        // SAFETY: exported just now.
        unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap()
    });
    (arrays, alive)
}

// Requirement: SAF-13, SAF-19
#[test]
fn a_producers_events_are_kept_until_the_queue_that_joins_them_has_passed() {
    let (manual, device) = Manual::open();
    let joining = device.open_queue().unwrap();
    let (columns, alive) = of_others(&manual, &device);
    let batch = arrow_device::Batch::from_columns(["a", "b"].into_iter().zip(columns)).unwrap();
    manual.submit(&joining);
    let mut c_array = ArrowDeviceArray::empty();
    batch.export_on(&joining, &mut c_array).unwrap();
    drop(batch);
    consumer::release(consumer::move_out(&mut c_array.array)).unwrap();
    release_finished();
    assert_eq!(alive.load(Ordering::SeqCst), 2, "released while the queue waits");
    manual.complete(&joining);
    assert!(release_until(|| alive.load(Ordering::SeqCst) == 0));
}

// Requirement: SAF-13, SAF-19
#[test]
fn a_producers_events_are_kept_for_a_queue_that_waits_though_the_array_is_refused() {
    let (manual, device) = Manual::open();
    let queue = device.open_queue().unwrap();
    let (columns, alive) = of_others(&manual, &device);
    manual.submit(&queue);
    manual.refuse_to_record();
    let fields = ["a", "b"].map(|name| Field::new(name, DataType::Int64, true));
    let builder = Array::builder(DataType::struct_(fields)).len(1).null_count(0);
    builder.buffers([None]).children(columns).finish_on(&queue).unwrap_err();
    assert_eq!(manual.wait_count(), 2);
    release_finished();
    assert_eq!(alive.load(Ordering::SeqCst), 2, "released while the queue waits");
    manual.record_again();
    manual.complete(&queue);
    assert!(release_until(|| alive.load(Ordering::SeqCst) == 0));
}

// Requirement: SAF-25
#[test]
fn an_array_keeps_nothing_of_the_queues_that_are_done_with_it() {
    let (manual, device) = Manual::open();
    let array = numbers(&device, &Arc::default()).finish_ready().unwrap();
    let rounds = if cfg!(miri) { 100 } else { 2_000 };
    let mut most = 0;
    for _ in 0..rounds {
        let queue = device.open_queue().unwrap();
        let view = array.on(&queue).unwrap();
        manual.submit(&queue);
        drop(view);
        manual.complete(&queue);
        most = most.max(manual.live_events());
    }
    assert!(most <= 40, "{most} events after {rounds} queues");
    // What is still used is kept.
    let busy: Vec<_> = (0..100).map(|_| device.open_queue().unwrap()).collect();
    for queue in &busy {
        let view = array.on(queue).unwrap();
        manual.submit(queue);
        drop(view);
    }
    assert!(manual.live_events() >= 100);
}

// Requirement: ARR-6, ARR-7, SAF-10
#[test]
fn a_device_without_events_is_waited_for_before_the_export() {
    for (readiness, ready, is_waited_for) in
        [(Readiness::HostWait, Ready::Now, true), (Readiness::QueueOrder, Ready::AfterEvent, false)]
    {
        let (manual, device) = Manual::open_with(readiness);
        let queue = device.open_queue().unwrap();
        manual.submit(&queue);
        let array = numbers(&device, &Arc::default()).finish_on(&queue).unwrap();
        assert_eq!(array.ready(), ready, "{readiness:?}");
        assert_eq!(manual.is_idle(&queue), is_waited_for, "{readiness:?}");
        let mut c_array = ArrowDeviceArray::empty();
        array.export(&mut c_array).unwrap();
        assert!(c_array.sync_event.is_null());
        consumer::release(consumer::move_out(&mut c_array.array)).unwrap();
    }
}

#[test]
fn a_queue_is_known_by_its_device_and_not_by_its_handle_alone() {
    let ((_, one), (_, other)) = (Manual::open(), Manual::open());
    let adopt = |device: &Device| {
        // SAFETY: no work is submitted to the queue, and `Manual` looks up what it is asked for.
        unsafe { device.adopt_queue(Raw::from_bits(7)) }
    };
    let (first, again, foreign) = (adopt(&one), adopt(&one), adopt(&other));
    assert_eq!(first.raw(), foreign.raw());
    assert!(first.is_same(&first.clone()) && first.is_same(&again));
    assert!(!first.is_same(&foreign));
    assert!(!first.is_same(&one.open_queue().unwrap()));
}
