//! What a subscriber of `tracing` is told.
#![allow(clippy::unwrap_used)]

use std::fmt;
use std::sync::{Arc, Mutex};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::copy::Options;
use arrow_device::deferred::{held_back, release_finished};
use arrow_device::types::Int64;
use arrow_device::{Array, Buffer, DataType, Queue, Schema};
use arrow_device_testkit::manual::Manual;
use arrow_device_testkit::process::alone;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// The words of all events and spans.
#[derive(Clone, Default)]
struct Words(Arc<Mutex<Vec<String>>>);

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!("{}={value:?} ", field.name()));
    }
}

impl Subscriber for Words {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "arrow_device"
    }

    fn new_span(&self, span: &Attributes<'_>) -> Id {
        let mut line = Line(format!("{} ", span.metadata().name()));
        span.record(&mut line);
        self.0.lock().unwrap().push(line.0);
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

#[test]
fn a_subscriber_is_told_of_exchanges_copies_and_releases() {
    let words = Words::default();
    tracing::subscriber::with_default(words.clone(), || {
        let numbers = Array::of::<Int64>([Some(1), None]).unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        numbers.export(&mut c_array).unwrap();
        let schema: Schema = numbers.schema().unwrap();
        // SAFETY: UNS-1 to UNS-6: the struct was exported just now.
        let again = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        let options = Options::new().always(true);
        again.copy_with(&Queue::host(), &options).unwrap();
        let mut polled = again.copy_polled(&Queue::host(), &options).unwrap();
        polled.poll().unwrap().unwrap();
        Queue::host().synchronize().unwrap();
        drop((numbers, again));
    });
    let words = words.0.lock().unwrap();
    for expected in ["export", "import", "copy", "bytes=", "route=", "release", "wait"] {
        assert!(words.iter().any(|line| line.contains(expected)), "{expected}: {words:#?}");
    }
}

/// Alone: a release that another test begins ends here, and the other way round.
#[test]
fn a_subscriber_is_told_of_a_deferred_release_and_of_its_end() {
    alone(releases_are_told);
}

fn releases_are_told() {
    let words = Words::default();
    // How many lines have all of these, since the last question.
    let told = |what: &[&str]| {
        let lines = std::mem::take(&mut *words.0.lock().unwrap());
        lines.iter().filter(|line| what.iter().all(|what| line.contains(what))).count()
    };
    let (manual, device) = Manual::open();
    let queue = device.open_queue().unwrap();
    let owner = Arc::new(());
    let address = std::ptr::without_provenance(0x1000);
    // SAFETY: UNS-17: nobody reads the buffer.
    let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner.clone()) };
    let array = Array::builder(DataType::Int64).device(device.id()).len(4);
    let array = array.buffers([None, Some(buffer)]).finish_ready().unwrap();
    tracing::subscriber::with_default(words.clone(), || {
        let view = array.on(&queue).unwrap();
        manual.submit(&queue);
        drop(view);
        drop(array);
        assert_eq!(told(&["deferred release", &format!("device={}", device.id()), "uses=1"]), 1);
        assert_eq!((release_finished(), told(&["release"])), (0, 0), "the work still runs");
        manual.complete(&queue);
        assert_eq!((release_finished(), told(&["release after the last use"])), (1, 1));
        assert_eq!(Arc::strong_count(&owner), 1);
    });
}

/// A subscriber that panics at each event, and at the end of each span.
#[cfg(panic = "unwind")]
struct Panics;

#[cfg(panic = "unwind")]
impl Subscriber for Panics {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "arrow_device"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, _: &Event<'_>) {
        std::panic::resume_unwind(Box::new("planted"));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {
        std::panic::resume_unwind(Box::new("planted"));
    }
}

// Requirement: SAF-13, SAF-14, SAF-30
#[test]
#[cfg(panic = "unwind")]
fn a_subscriber_that_panics_releases_nothing_early_and_stops_no_release() {
    alone(releases_though_a_subscriber_panics);
}

#[cfg(panic = "unwind")]
fn releases_though_a_subscriber_panics() {
    let (manual, device) = Manual::open();
    let queue = device.open_queue().unwrap();
    let owners = [const { Vec::<()>::new() }; 3].map(Arc::new);
    let arrays = owners.clone().map(|owner| {
        let address = std::ptr::without_provenance(0x1000);
        // SAFETY: UNS-17: nobody reads the buffer.
        let buffer = unsafe { Buffer::foreign(device.id(), address, 64, owner) };
        let array = Array::builder(DataType::Int64).device(device.id()).len(4);
        array.buffers([None, Some(buffer)]).finish_ready().unwrap()
    });
    let shares = || owners.each_ref().map(Arc::strong_count);
    tracing::subscriber::with_default(Panics, || {
        let [first, second, unused] = arrays;
        let views = [&first, &second].map(|array| array.on(&queue).unwrap());
        manual.submit(&queue);
        drop(views);
        drop(unused);
        assert_eq!(shares(), [2, 2, 1], "what no queue uses goes at once");
        drop((first, second));
        assert_eq!(shares(), [2, 2, 1], "the work still runs");
        manual.complete(&queue);
        assert_eq!(release_finished(), 2);
        assert_eq!(shares(), [1; 3]);

        let numbers = Array::of::<Int64>([Some(1), None]).unwrap();
        let options = Options::new().always(true);
        let copied = numbers.copy_with(&Queue::host(), &options).unwrap();
        Queue::host().synchronize().unwrap();
        assert!(copied.equals(&numbers).unwrap());
    });
    assert!(held_back().is_nothing(), "{:?}", held_back());
}
