//! Allocations that find no memory: what they wait for, and for how long.

use std::time::{Duration, Instant};

use arrow_device::deferred::{release_finished, set_allocation_timeout};
use arrow_device::{Device, Error, ErrorKind, Memory, Queue, Recycler};
use arrow_device_testkit::manual::Manual;
use arrow_device_testkit::process;

/// Longer than a test may wait by mistake.
const LONG: Duration = Duration::from_secs(if cfg!(miri) { 3000 } else { 300 });

/// A device with room for one block, which a queue still uses.
struct Full {
    manual: Manual,
    device: Device,
    queue: Queue,
}

impl Full {
    fn new() -> Self {
        let (manual, device) = Manual::open();
        manual.limit_memory(1000);
        let queue = device.open_queue().unwrap();
        let mut memory = device.allocate(800).unwrap();
        memory.spot(&queue).unwrap();
        manual.submit(&queue);
        drop(memory);
        assert_eq!(manual.live_memory(), 1);
        Self { manual, device, queue }
    }
}

impl Drop for Full {
    fn drop(&mut self) {
        // Miri runs all tests in one process: nothing is left for the next one.
        self.manual.complete(&self.queue);
        release_finished();
        set_allocation_timeout(Duration::from_secs(10));
    }
}

/// How long a call took, and what came of it.
fn timed<T>(call: impl FnOnce() -> T) -> (Duration, T) {
    let start = Instant::now();
    let result = call();
    (start.elapsed(), result)
}

fn is_out_of_memory(result: &Result<Memory, Error>) -> bool {
    result.as_ref().is_err_and(|error| error.kind() == ErrorKind::OutOfMemory)
}

// Requirement: SAF-22
#[test]
fn an_allocation_waits_for_memory_of_its_own_runtime() {
    process::alone(|| {
        let full = Full::new();
        // The wait completes the work.
        let memory = full.device.allocate(800).unwrap();
        assert_eq!((memory.len(), full.manual.live_memory()), (800, 1));
        assert!(full.manual.is_idle(&full.queue));
    });
}

// Requirement: SAF-22
#[test]
fn an_allocation_does_not_wait_for_another_runtime() {
    process::alone(|| {
        set_allocation_timeout(LONG);
        let others = Full::new();
        others.manual.set_slow(true);
        let (manual, device) = Manual::open();
        manual.limit_memory(10);
        let (took, result) = timed(|| device.allocate(800));
        assert!(is_out_of_memory(&result) && took < LONG / 10, "{took:?} {result:?}");
        assert_eq!(others.manual.live_memory(), 1);
    });
}

// Requirement: SAF-22
#[test]
fn an_allocation_waits_for_a_bounded_time_and_says_so() {
    process::alone(|| {
        set_allocation_timeout(Duration::from_millis(60));
        let full = Full::new();
        full.manual.set_slow(true);
        let (took, result) = timed(|| full.device.allocate(800));
        assert!(is_out_of_memory(&result), "{result:?}");
        assert!(took >= Duration::from_millis(60) && took < LONG / 10, "{took:?}");
        let text = result.unwrap_err().to_string();
        assert!(text.contains("memory was waited for that 1 queues use"), "{text}");
        // Without time nobody waits, and what has passed is released all the same.
        set_allocation_timeout(Duration::ZERO);
        assert!(is_out_of_memory(&full.device.allocate(800)));
        full.manual.complete(&full.queue);
        assert_eq!(full.device.allocate(800).unwrap().len(), 800);
    });
}

// Requirement: SAF-22
#[test]
fn an_allocation_does_not_wait_for_a_driver_that_cannot_tell() {
    process::alone(|| {
        set_allocation_timeout(LONG);
        let full = Full::new();
        full.manual.set_slow(true);
        full.manual.set_cannot_tell(true);
        let (took, result) = timed(|| full.device.allocate(800));
        assert!(is_out_of_memory(&result) && took < LONG / 10, "{took:?} {result:?}");
        full.manual.set_cannot_tell(false);
    });
}

// Requirement: SAF-22
#[test]
fn an_allocation_does_not_wait_for_what_came_later() {
    process::alone(|| {
        set_allocation_timeout(LONG);
        let full = Full::new();
        full.manual.set_slow(true);
        let device = full.device.clone();
        let (manual, queue) = (full.manual.clone(), full.queue.clone());
        let allocating = std::thread::spawn(move || timed(|| device.allocate(900)));
        std::thread::sleep(Duration::from_millis(50));
        // From now on there is always something that waits for the queue.
        let deadline = Instant::now() + LONG;
        while !allocating.is_finished() && Instant::now() < deadline {
            manual.complete(&queue);
            manual.submit(&queue);
            queue.keep_until_done(());
            std::thread::sleep(Duration::from_millis(1));
        }
        let (took, result) = allocating.join().unwrap();
        assert!(took < LONG / 10, "{took:?} {result:?}");
        assert_eq!(result.unwrap().len(), 900);
        manual.complete(&queue);
    });
}

// Requirement: SAF-22
#[test]
fn the_host_waits_for_what_holds_host_memory_only() {
    process::alone(|| {
        set_allocation_timeout(LONG);
        let full = Full::new();
        full.manual.set_slow(true);
        let no_memory = |_: &Device, _: u64, _: Option<&Queue>| {
            Err(Error::new(ErrorKind::OutOfMemory, "as the test ordered"))
        };
        let host = Device::host().with_allocator(no_memory);
        let (took, result) = timed(|| host.allocate(64));
        assert!(is_out_of_memory(&result) && took < LONG / 10, "device memory: {took:?}");
        set_allocation_timeout(Duration::from_millis(60));
        full.queue.keep_until_done(vec![0_u8; 64]);
        let (took, result) = timed(|| host.allocate(64));
        assert!(is_out_of_memory(&result) && took >= Duration::from_millis(60), "{took:?}");
    });
}

// Requirement: SAF-22
#[test]
fn no_memory_can_be_so_large_that_it_is_worth_a_wait() {
    process::alone(|| {
        set_allocation_timeout(LONG);
        let full = Full::new();
        full.manual.set_slow(true);
        full.queue.keep_until_done(vec![0_u8; 64]);
        for len in [1 << 62, u64::MAX] {
            let (took, result) = timed(|| Device::host().allocate(len));
            assert!(is_out_of_memory(&result) && took < LONG / 10, "{len}: {took:?}");
        }
        full.manual.complete(&full.queue);
    });
}

// Requirement: SAF-22
#[test]
fn what_a_recycler_keeps_is_freed_for_an_allocation_without_memory() {
    process::alone(|| {
        let (manual, device) = Manual::open();
        manual.limit_memory(1000);
        let [recycler, other] = [(); 2].map(|()| Recycler::new(1 << 20));
        let kept = device.with_allocator(recycler.clone());
        for allocate in [&|| kept.allocate(200), &|| device.allocate(200), &|| {
            device.with_allocator(other.clone()).allocate(200)
        }] as [&dyn Fn() -> Result<Memory, Error>; 3]
        {
            drop(kept.allocate(900).unwrap());
            assert_eq!(recycler.kept(), 900);
            assert_eq!(allocate().unwrap().len(), 200);
            // The recycler that was asked keeps these bytes now.
            assert!(recycler.kept() + other.kept() <= 200);
            recycler.clear();
            other.clear();
        }
        // What comes back during the wait goes to the recycler, and is freed there.
        let queue = device.open_queue().unwrap();
        let mut used = kept.allocate(900).unwrap();
        used.spot(&queue).unwrap();
        manual.submit(&queue);
        drop(used);
        assert_eq!((recycler.kept(), manual.live_memory()), (0, 1));
        assert_eq!(kept.allocate(200).unwrap().len(), 200);
        recycler.clear();
        // What another runtime has helps nobody.
        let (_, elsewhere) = Manual::open();
        drop(elsewhere.with_allocator(recycler.clone()).allocate(100).unwrap());
        assert!(is_out_of_memory(&device.allocate(2000)));
        assert_eq!(recycler.kept(), 100);
    });
}
