//! Structs that are made on one thread and released on another, by threads that come and go.

use std::cell::RefCell;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, Queue, Schema};
use arrow_device_testkit::consumer::{move_out, move_out_all, release};
use arrow_device_testkit::kinds::Kind;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Nulls, Window};
use arrow_device_testkit::{Verdict, assert_complaint, producer, require};

/// A struct on its way to another thread.
struct Sent(ArrowDeviceArray);

// SAFETY: the specification lets a struct be released on any thread.
unsafe impl Send for Sent {}

/// Longer than anything here takes; a test that hangs fails.
const LONG: Duration = Duration::from_secs(120);

/// An array of a few columns whose buffers a ledger counts.
fn array(ledger: &Arc<Ledger>) -> Array {
    let columns = vec![Kind::Fixed("l", 8), Kind::Dictionary("c", 1, Box::new(Kind::Text("u", 4)))];
    let plan = Kind::Struct(columns).plan(Window::WHOLE, Nulls::Counted);
    let mut c_schema = producer::schema(&plan, &Ledger::new());
    let schema = unsafe { Schema::import(&mut c_schema) }.unwrap();
    unsafe { Array::import(&mut producer::device_array(&plan, ledger), &schema) }.unwrap()
}

/// Exports an array.
type Export = dyn Fn(&Array) -> ArrowDeviceArray + Sync;

fn ours(array: &Array) -> ArrowDeviceArray {
    let mut out = ArrowDeviceArray::empty();
    array.export(&mut out).unwrap();
    out
}

/// A wrong exporter, whose release frees nothing on any thread but its own.
fn bound_to_its_thread(array: &Array) -> ArrowDeviceArray {
    struct Bound(thread::ThreadId, Box<dyn FnOnce()>);

    unsafe extern "C" fn release_at_home(node: *mut arrow_device::abi::ArrowArray) {
        let bound = unsafe { (*node).private_data.cast::<Bound>() };
        if unsafe { (*bound).0 } == thread::current().id() {
            (unsafe { Box::from_raw(bound) }.1)();
        }
        unsafe { (*node).release = None };
    }

    let keep = array.clone();
    let bound = Bound(thread::current().id(), Box::new(move || drop(keep)));
    let mut out = ArrowDeviceArray::empty();
    out.array.release = Some(release_at_home);
    out.array.private_data = Box::into_raw(Box::new(bound)).cast();
    out
}

/// That structs exported by some threads can be released by others, while and after the exporters
/// live.
fn check_exchange(export: &Export, exporters: usize, each: usize) -> Verdict {
    let ledger = Ledger::new();
    let source = array(&ledger);
    let (sender, receiver) = channel::<Sent>();
    let receiver: Mutex<Receiver<Sent>> = Mutex::new(receiver);
    thread::scope(|scope| {
        for _ in 0..exporters {
            let (sender, source) = (sender.clone(), source.clone());
            scope.spawn(move || {
                for turn in 0..each {
                    let out = export(&source);
                    // Some come back to the thread they were made on.
                    if turn % 4 == 0 {
                        release(out.array).unwrap();
                    } else {
                        sender.send(Sent(out)).unwrap();
                    }
                }
            });
        }
        drop(sender);
        let releasers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut released = 0;
                    loop {
                        let next = receiver.lock().unwrap().recv_timeout(LONG);
                        let Ok(Sent(out)) = next else { return released };
                        // One in two has its children moved out first.
                        if released % 2 == 0 {
                            for child in move_out_all(&out.array) {
                                release(child).unwrap();
                            }
                        }
                        release(out.array).unwrap();
                        released += 1;
                    }
                })
            })
            .collect();
        let released: usize = releasers.into_iter().map(|thread| thread.join().unwrap()).sum();
        let sent = exporters * (each - each.div_ceil(4));
        require(released == sent, || format!("{released} of {sent} were released"))
    })?;
    require(ledger.base_releases() == 0, || "released while it is held".into())?;
    drop(source);
    ledger.settle(1)
}

// Requirement: ARR-12, ARR-13, SAF-15
#[test]
fn what_one_thread_exports_others_release() {
    let (exporters, each) = if cfg!(miri) { (2, 8) } else { (8, 2000) };
    assert_eq!(check_exchange(&ours, exporters, each), Ok(()));
    if !cfg!(miri) {
        assert_complaint(check_exchange(&bound_to_its_thread, 2, 8), "0 releases of 1");
    }
}

/// That a struct outlives the thread that exported it.
fn check_outliving(export: &Export) -> Verdict {
    let ledger = Ledger::new();
    let source = array(&ledger);
    let mut all = Vec::new();
    for _ in 0..if cfg!(miri) { 3 } else { 200 } {
        let sent = thread::scope(|scope| scope.spawn(|| Sent(export(&source))).join().unwrap());
        all.push(sent);
    }
    drop(source);
    for (number, Sent(out)) in all.into_iter().enumerate() {
        require(ledger.base_releases() == 0, || format!("released before number {number}"))?;
        release(out.array)?;
    }
    ledger.settle(1)
}

// Requirement: ARR-13, SAF-20
#[test]
fn a_struct_outlives_the_thread_that_exported_it() {
    assert_eq!(check_outliving(&ours), Ok(()));
    if !cfg!(miri) {
        assert_complaint(check_outliving(&bound_to_its_thread), "0 releases of 1");
    }
}

/// Exports and releases when its thread has ended but for its destructors.
struct AtTheEnd(Option<(Array, ArrowDeviceArray)>);

impl Drop for AtTheEnd {
    fn drop(&mut self) {
        let Some((source, held)) = self.0.take() else { return };
        let last = ours(&source);
        release(held.array).unwrap();
        release(last.array).unwrap();
    }
}

thread_local! {
    static AT_THE_END: RefCell<AtTheEnd> = const { RefCell::new(AtTheEnd(None)) };
}

// Requirement: ARR-13, SAF-20
#[test]
fn a_thread_exports_and_releases_while_it_is_torn_down() {
    let ledger = Ledger::new();
    let source = array(&ledger);
    // Destructors of thread locals run in the order of their first use or the reverse: both orders
    // are tried.
    for is_first in [true, false] {
        let source = source.clone();
        thread::spawn(move || {
            if is_first {
                AT_THE_END.with(|end| drop(end.borrow()));
            }
            let held = ours(&source);
            AT_THE_END.with(|end| end.borrow_mut().0 = Some((source, held)));
        })
        .join()
        .unwrap();
    }
    assert_eq!(ledger.base_releases(), 0);
    drop(source);
    assert_eq!(ledger.settle(1), Ok(()));
}

// Requirement: ARR-13, SAF-5
#[test]
fn an_array_is_used_by_many_threads_at_once() {
    let ledger = Ledger::new();
    let source = array(&ledger);
    let rounds = if cfg!(miri) { 3 } else { 500 };
    thread::scope(|scope| {
        for _ in 0..6 {
            let source = source.clone();
            scope.spawn(move || {
                for round in 0..rounds {
                    let part = source.slice(round % 4, 1).unwrap();
                    let view = part.on(&Queue::host()).unwrap();
                    let first = view.child(0).unwrap().buffer(1).location().address();
                    let host = source.child(0).unwrap().host().unwrap();
                    assert_eq!(host.buffer(1).unwrap().as_ptr().cast(), first);
                    release(move_out(&mut ours(&part).array)).unwrap();
                }
            });
        }
    });
    assert_eq!(ledger.base_releases(), 0);
    drop(source);
    assert_eq!(ledger.settle(1), Ok(()));
}
