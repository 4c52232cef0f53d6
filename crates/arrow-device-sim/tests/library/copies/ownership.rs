//! Who allocates, who keeps, who counts: allocators, recycled memory, staging, executors.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::task::{Context, Poll, Wake, Waker};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::{Job, Options};
use arrow_device::{Array, Batch, DataType, Device, ErrorKind, Extent, Memory, Queue, Recycler};
use arrow_device_sim::{Kind, Sim};
use arrow_device_testkit::consumer::{handed_on, move_out};
use arrow_device_testkit::release_until;
use arrow_device_testkit::trips::imported;

use super::words::words;

/// Other tests share the list of what waits for its last use, so a look at it may come too early.
#[test]
fn a_column_of_a_copied_batch_keeps_all_of_it_and_one_with_separate_buffers_its_own() {
    let small = Array::from_values(DataType::Int8, (0..10_000).map(|row| Some(row as i8))).unwrap();
    let batch = Batch::from_columns([("small", small.clone()), ("large", words(10_000))]).unwrap();
    // One allocation for the batch, and two kinds of devices that need one for each buffer.
    let packed = Sim::builder();
    let by_handles = Sim::builder().kind(Kind::Handles);
    for builder in [packed, by_handles, Sim::builder().separate(true)] {
        let sim = builder.build();
        let queue = sim.device().open_queue().unwrap();
        for separate in [false, true] {
            let there = batch.copy_with(&queue, &Options::new().separate(separate)).unwrap();
            let column = there.column(0).unwrap();
            drop(there);
            queue.synchronize().unwrap();
            if separate {
                assert!(release_until(|| sim.allocated() < 11_000), "the large column is freed");
            } else {
                arrow_device::deferred::release_finished();
                assert!(sim.allocated() > 60_000);
            }
            assert!(column.to_host().unwrap().equals(&small).unwrap());
            drop(column);
            assert!(release_until(|| sim.allocated() == 0), "all is freed");
        }
    }
}

#[test]
fn destinations_are_recycled_within_their_bound() {
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).parts(true).build();
        let recycler = Recycler::new(1 << 20);
        let device = sim.device().with_allocator(recycler.clone());
        let queue = device.open_queue().unwrap();
        let source = words(500);
        let mut most = 0;
        for _ in 0..20 {
            let there = source.copy_to(&queue).unwrap();
            assert!(there.to_host().unwrap().equals(&source).unwrap());
            drop(there);
            assert!(release_until(|| recycler.kept() > 0), "it has come back");
            most = most.max(sim.allocated());
        }
        // Twenty copies, and the memory of one.
        assert_eq!((most, recycler.kept()), (sim.allocated(), sim.allocated()));
        assert_eq!(device.held().allocated, recycler.kept());
        // Larger than the bound is not kept, and what is kept can be let go.
        drop(device.allocate(2 << 20).unwrap());
        assert!(release_until(|| sim.allocated() == recycler.kept()), "the large one is freed");
        recycler.clear();
        assert_eq!((sim.allocated(), device.held().allocated), (0, 0));
    }
}

#[test]
fn a_recycled_destination_on_the_host_is_filled_again() {
    let sim = Sim::builder().build();
    let there = words(500).copy_to(&sim.device().open_queue().unwrap()).unwrap();
    let recycler = Recycler::new(1 << 20);
    let options = Options::new().allocator(recycler.clone());
    for _ in 0..3 {
        let back = there.copy_with(&Queue::host(), &options).unwrap();
        assert!(back.equals(&words(500)).unwrap());
        assert_eq!(recycler.kept(), 0);
        drop(back);
        assert!(release_until(|| recycler.kept() > 0), "it has come back");
    }
}

#[test]
fn an_allocator_is_asked_and_what_it_gives_is_looked_at() {
    let sim = Sim::builder().devices(2).build();
    let asked = Arc::new(AtomicU64::new(0));
    let counter = asked.clone();
    let counting = move |device: &Device, len: u64, queue: Option<&Queue>| {
        counter.fetch_add(1, Ordering::SeqCst);
        assert!(queue.is_some());
        device.allocate(len)
    };
    let queue = sim.device().open_queue().unwrap();
    let there = words(9).copy_with(&queue, &Options::new().allocator(counting)).unwrap();
    assert_eq!(asked.load(Ordering::SeqCst), 1);
    assert!(there.to_host().unwrap().equals(&words(9)).unwrap());
    // Too short, and on another device.
    let short = |device: &Device, len: u64, _: Option<&Queue>| device.allocate(len - 1);
    let other = sim.device_number(1);
    let elsewhere = move |_: &Device,
                          len: u64,
                          _: Option<&Queue>|
          -> arrow_device::Result<Memory> { other.allocate(len) };
    for options in [Options::new().allocator(short), Options::new().allocator(elsewhere)] {
        let error = words(9).copy_with(&queue, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.operation(), Some("copy, allocating the destination"));
    }
}

#[test]
fn staging_memory_is_kept_and_used_again() {
    let sim = Sim::builder().devices(2).build();
    let (one, two) =
        (sim.device().open_queue().unwrap(), sim.device_number(1).open_queue().unwrap());
    let there = words(1000).copy_to(&one).unwrap();
    let held = || two.device().held().staging;
    assert_eq!(held(), 0);
    let options = Options::new().chunk(1024);
    for _ in 0..5 {
        let copy = there.copy_with(&two, &options).unwrap();
        copy.wait().unwrap();
        assert!(copy.to_host().unwrap().equals(&words(1000)).unwrap());
        drop(copy);
        assert!(
            release_until(|| (1..=4 * 1024).contains(&held())),
            "no more than four chunks are kept"
        );
    }
}

/// The array as a library hands it on that was given its struct.
fn imported_of_another_library(array: &Array) -> Array {
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    c_array.array = handed_on(move_out(&raw mut c_array.array));
    unsafe { Array::import(&raw mut c_array, &array.schema().unwrap()) }.unwrap()
}

#[test]
fn bytes_are_counted_while_they_are_held() {
    let sim = Sim::builder().build();
    let (device, queue) = (sim.device(), sim.device().open_queue().unwrap());
    device.count_exchanges();
    let there = words(100).copy_to(&queue).unwrap();
    assert_eq!(device.held().allocated, sim.allocated());
    assert!(device.held().allocated > 0);
    let (imported_bytes, exported_bytes) = (device.held().imported, device.held().exported);
    assert_eq!((imported_bytes, exported_bytes), (0, 0));
    let Extent::Exact(text) = words(100).extent(2) else { panic!("the text was built here") };
    // An array that was exported here is known as well as before.
    let again = imported(&there);
    let held = device.held();
    assert_eq!(held.imported, 4 * 101 + text);
    assert_eq!(held.exported, held.imported);
    // Of another library's array the importer knows the offsets, and not how long the text is.
    let other = imported_of_another_library(&there);
    let both = device.held();
    assert_eq!(both.imported, held.imported + 4 * 101);
    assert_eq!(both.exported, 2 * held.exported);
    drop(other);
    drop(there);
    drop(again);
    queue.synchronize().unwrap();
    assert!(
        release_until(|| {
            let held = device.held();
            (held.allocated, held.imported, held.exported) == (0, 0, 0)
        }),
        "all is let go"
    );
}

/// An array on one of two devices that have no common path.
fn stranded(sim: &Sim) -> (Array, Queue) {
    let there = words(300).copy_to(&sim.device().open_queue().unwrap()).unwrap();
    (there, sim.device_number(1).open_queue().unwrap())
}

#[test]
fn an_executor_does_what_would_wait() {
    let sim = Sim::builder().devices(2).build();
    let (there, queue) = stranded(&sim);
    let (sender, jobs) = mpsc::channel::<Job>();
    let executor = move |job: Job| sender.send(job).unwrap();
    let plan = |queue: &Queue| there.plan_copy(queue, &Options::new().chunk(128)).unwrap();
    let copying = plan(&queue).start(&executor);
    let to_host = plan(&Queue::host()).start(&executor);
    assert!(!copying.is_done() && !to_host.is_done());
    let worker = std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
    assert!(copying.wait().unwrap().to_host().unwrap().equals(&words(300)).unwrap());
    assert!(to_host.wait().unwrap().equals(&words(300)).unwrap());
    // A direct hop needs nobody.
    let nobody = |_: Job| panic!("a direct hop does not wait");
    let direct = words(3).plan_copy(&queue, &Options::new()).unwrap().start(&nobody);
    assert!(direct.is_done());
    drop(direct.wait().unwrap());
    drop(executor);
    worker.join().unwrap();
}

#[test]
fn an_executor_changes_offsets_on_the_way() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let there = words(300).copy_to(&queue).unwrap();
    let (sender, jobs) = mpsc::channel::<Job>();
    let executor = move |job: Job| sender.send(job).unwrap();
    // So far behind the beginning it moves less to change the offsets of a part on the host.
    let options = Options::new().always(true);
    let changed = there.slice(290, 5).unwrap().plan_copy(&queue, &options).unwrap();
    let changed = changed.start(&executor);
    assert!(!changed.is_done(), "somebody waited for the device here");
    let whole = there.plan_copy(&queue, &options).unwrap();
    let whole = whole.start(&|_: Job| panic!("nothing has to wait"));
    assert!(whole.is_done());
    jobs.recv().unwrap()();
    let expected = words(300);
    assert!(whole.wait().unwrap().to_host().unwrap().equals(&expected).unwrap());
    let expected = expected.slice(290, 5).unwrap();
    assert!(changed.wait().unwrap().to_host().unwrap().equals(&expected).unwrap());
}

struct Unparked(std::thread::Thread);

impl Wake for Unparked {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

#[test]
fn a_copy_can_be_awaited_and_says_when_it_was_dropped() {
    let sim = Sim::builder().devices(2).build();
    let (there, queue) = stranded(&sim);
    let plan = || there.plan_copy(&queue, &Options::new()).unwrap();
    let waker = Waker::from(Arc::new(Unparked(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let (sender, jobs) = mpsc::channel::<Job>();
    let mut copying = pin!(plan().start(&move |job: Job| sender.send(job).unwrap()));
    assert!(copying.as_mut().poll(&mut context).is_pending());
    let worker = std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
    let copy = loop {
        match copying.as_mut().poll(&mut context) {
            Poll::Ready(result) => break result.unwrap(),
            Poll::Pending => std::thread::park(),
        }
    };
    assert!(copy.to_host().unwrap().equals(&words(300)).unwrap());
    worker.join().unwrap();
    let error = plan().start(&|job: Job| drop(job)).wait().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Cancelled);
}
