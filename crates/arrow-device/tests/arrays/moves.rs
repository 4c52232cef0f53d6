//! Children that are moved out of an exported array: each keeps its own data alive and no other, in
//! any order, on any thread.

use std::ffi::c_void;
use std::sync::{Arc, Barrier};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray};
use arrow_device::{Array, Batch, Buffer, DataType, DeviceId, IndexType};
use arrow_device_testkit::consumer::{move_out, move_out_all, release};
use arrow_device_testkit::ledger::{Bytes, Ledger};
use arrow_device_testkit::{Verdict, assert_complaint, require};

/// A column of numbers, whose one buffer the ledger counts.
fn numbers(ledger: &Arc<Ledger>) -> Array {
    let bytes = Bytes::new((0..32).collect(), ledger);
    let buffer = unsafe { Buffer::foreign(DeviceId::CPU, bytes.address(), bytes.len(), bytes) };
    Array::builder(DataType::Int64).len(4).buffers([None, Some(buffer)]).finish_ready().unwrap()
}

/// Keys into numbers: two buffers.
fn keys(ledger: &Arc<Ledger>) -> Array {
    let bytes = Bytes::new(vec![0, 1, 3, 2], ledger);
    let buffer = unsafe { Buffer::foreign(DeviceId::CPU, bytes.address(), bytes.len(), bytes) };
    Array::builder(DataType::dictionary(IndexType::Int8, DataType::Int64))
        .len(4)
        .buffers([None, Some(buffer)])
        .dictionary(numbers(ledger))
        .finish_ready()
        .unwrap()
}

/// Exports columns as a struct. Whoever is asked owns the columns.
type Export = dyn Fn(Vec<Array>) -> ArrowArray;

fn ours(columns: Vec<Array>) -> ArrowArray {
    let columns = columns.into_iter().map(|column| ("", column));
    let mut out = ArrowDeviceArray::empty();
    Batch::from_columns(columns).unwrap().export(&mut out).unwrap();
    out.array
}

/// A wrong exporter: every child keeps all columns, and a child that is moved keeps what `keeps`
/// says.
fn naive(columns: Vec<Array>, keeps: fn(&Arc<Vec<Array>>, usize) -> Vec<Array>) -> ArrowArray {
    struct Kept(
        #[expect(dead_code, reason = "kept and never used")] Vec<Array>,
        Vec<*mut ArrowArray>,
    );

    unsafe extern "C" fn release(node: *mut ArrowArray) {
        let kept = unsafe { Box::from_raw((*node).private_data.cast::<Kept>()) };
        for child in &kept.1 {
            if let Some(release) = unsafe { (**child).release } {
                unsafe { release(*child) };
            }
            drop(unsafe { Box::from_raw(*child) });
        }
        unsafe { (*node).release = None };
    }

    fn make(keeps: Vec<Array>, mut children: Vec<*mut ArrowArray>) -> ArrowArray {
        ArrowArray {
            length: 4,
            n_children: children.len() as i64,
            children: children.as_mut_ptr(),
            release: Some(release),
            private_data: Box::into_raw(Box::new(Kept(keeps, children))).cast::<c_void>(),
            ..ArrowArray::empty()
        }
    }

    let count = columns.len();
    let all = Arc::new(columns);
    let child = |index| Box::into_raw(Box::new(make(keeps(&all, index), vec![])));
    make(vec![], (0..count).map(child).collect())
}

/// That a child that was moved out of a released parent keeps its own column and no other.
fn check_siblings(export: &Export, columns: usize) -> Verdict {
    let ledger = Ledger::new();
    let parent = export((0..columns).map(|_| numbers(&ledger)).collect());
    require(ledger.live() == columns, || "columns were lost".into())?;
    let table = parent.children;
    let (first, last) = unsafe { (move_out(*table), move_out(*table.add(columns - 1))) };
    require(ledger.live() == columns, || "a move released something".into())?;
    release(parent)?;
    let live = ledger.live();
    require(live >= 2, || "a moved child lost its data with its parent".into())?;
    require(live == 2, || format!("two children keep {live} columns"))?;
    release(first)?;
    require(ledger.live() == 1, || "a moved child keeps its sibling".into())?;
    // At another address and on another thread.
    let sent = Sent(Box::new(last));
    std::thread::spawn(move || release(*{ sent }.0)).join().unwrap()?;
    ledger.settle(0)
}

/// What the specification lets a consumer send to another thread.
struct Sent(Box<ArrowArray>);

// SAFETY: "the release callback ... can be called from any thread" is what these tests are about.
unsafe impl Send for Sent {}

// Requirement: ARR-12, ARR-13, SAF-20
#[test]
fn a_child_that_was_moved_out_keeps_its_own_column_and_no_other() {
    let columns = if cfg!(miri) { 20 } else { 1000 };
    assert_eq!(check_siblings(&ours, columns), Ok(()));
    assert_eq!(check_siblings(&ours, 2), Ok(()));
}

#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn an_exporter_that_mixes_up_who_keeps_what_is_found_out() {
    let right = |columns| naive(columns, |all, index| vec![all[index].clone()]);
    assert_eq!(check_siblings(&right, 5), Ok(()));
    let everything = |columns| naive(columns, |all, _| all.to_vec());
    assert_complaint(check_siblings(&everything, 5), "two children keep 5 columns");
    let nothing = |columns| naive(columns, |_, _| vec![]);
    assert_complaint(check_siblings(&nothing, 5), "columns were lost");
}

/// A struct of a struct (numbers, keys) and numbers, as parts: the root, what is below it, moved
/// out from the top down.
fn parts(export: &Export, ledger: &Arc<Ledger>) -> Vec<ArrowArray> {
    let inner = Batch::from_columns([("x", numbers(ledger)), ("y", keys(ledger))]).unwrap();
    let root = export(vec![inner.as_array().clone(), numbers(ledger)]);
    drop(inner);
    let middle = move_out(unsafe { *root.children });
    let leaf = move_out(unsafe { *middle.children.add(1) });
    let dictionary = move_out(leaf.dictionary);
    vec![root, middle, leaf, dictionary]
}

/// How many buffers each of the parts has to keep for itself.
const OWN: [usize; 4] = [1, 1, 1, 1];

/// That parts of parts can be released in this order, and that nothing is kept longer than by its
/// own part and those above.
fn check_order(export: &Export, order: &[usize]) -> Verdict {
    let ledger = Ledger::new();
    let mut parts: Vec<Option<ArrowArray>> = parts(export, &ledger).into_iter().map(Some).collect();
    for index in order {
        release(parts[*index].take().unwrap())?;
        let is_held = |part: usize| parts[part].is_some();
        // While a part is not released it may keep what was below it, and it has to keep what is
        // its own.
        let highest = (0..4).find(|part| is_held(*part));
        let least: usize = (0..4).filter(|part| is_held(*part)).map(|part| OWN[part]).sum();
        let most: usize = highest.map_or(0, |part| OWN[part..].iter().sum());
        let live = ledger.live();
        require((least..=most).contains(&live), || {
            format!("{live} buffers are alive after part {index} and not {least} to {most}")
        })?;
    }
    ledger.settle(0)
}

fn orders() -> Vec<Vec<usize>> {
    (0..256_usize)
        .map(|code| (0..4).map(|place| code >> (2 * place) & 3).collect::<Vec<_>>())
        .filter(|order| (0..4).all(|part| order.contains(&part)))
        .collect()
}

// Requirement: ARR-12, ARR-13, SAF-20
#[test]
fn children_of_children_and_dictionaries_are_released_in_any_order() {
    let orders = orders();
    assert_eq!(orders.len(), 24);
    // The interpreter needs seconds for each.
    let step = if cfg!(miri) { 5 } else { 1 };
    for order in orders.into_iter().step_by(step) {
        assert_eq!(check_order(&ours, &order), Ok(()), "{order:?}");
    }
}

#[test]
#[cfg_attr(miri, ignore = "wrong peers leak, which Miri reports")]
fn an_exporter_that_keeps_everything_fails_in_some_order() {
    fn keeps_all(columns: Vec<Array>) -> ArrowArray {
        let keep = columns.clone();
        let mut array = ours(columns);
        // Wraps the release of the root: it keeps a share of all columns for ever.
        std::mem::forget(keep);
        array.length = 4;
        array
    }
    assert_complaint(check_order(&keeps_all, &[0, 1, 2, 3]), "buffers are alive after part 0");
}

/// Releases the root, the moved children and what was moved out of those, each on a thread of its
/// own, all at once.
fn check_at_once(export: &Export, rounds: usize) -> Verdict {
    for _ in 0..rounds {
        let ledger = Ledger::new();
        let mut all = parts(export, &ledger);
        all.extend(move_out_all(&all[1]));
        let all: Vec<ArrowArray> = all.into_iter().filter(|part| !part.is_released()).collect();
        let barrier = Arc::new(Barrier::new(all.len()));
        let threads: Vec<_> = all
            .into_iter()
            .map(|part| {
                let (sent, barrier) = (Sent(Box::new(part)), barrier.clone());
                std::thread::spawn(move || {
                    let sent = sent;
                    barrier.wait();
                    release(*sent.0)
                })
            })
            .collect();
        for thread in threads {
            thread.join().map_err(|_| "a release panicked")??;
        }
        ledger.settle(0)?;
    }
    Ok(())
}

// Requirement: ARR-12, ARR-13, SAF-20
#[test]
fn the_root_and_what_was_moved_out_of_it_are_released_at_once() {
    let rounds = if cfg!(miri) { 6 } else { 2000 };
    assert_eq!(check_at_once(&ours, rounds), Ok(()));
    if !cfg!(miri) {
        let leaks = |mut columns: Vec<Array>| {
            std::mem::forget(columns.clone());
            columns.truncate(2);
            ours(columns)
        };
        assert_complaint(check_at_once(&leaks, 1), "allocations leaked");
    }
}

// Requirement: ARR-13, SAF-14
#[test]
fn releasing_a_released_struct_again_does_nothing() {
    let ledger = Ledger::new();
    let mut array = ours(vec![numbers(&ledger)]);
    let callback = array.release.unwrap();
    unsafe { callback(&mut array) };
    assert!(array.is_released());
    unsafe { callback(&mut array) };
    unsafe { callback(std::ptr::null_mut()) };
    assert_eq!(ledger.settle(0), Ok(()));
}

// Requirement: ARR-13
#[test]
fn a_callback_that_a_consumer_put_into_a_child_is_called() {
    unsafe extern "C" fn of_the_consumer(child: *mut ArrowArray) {
        let original = unsafe { Box::from_raw((*child).private_data.cast::<ArrowArray>()) };
        release(*original).unwrap();
        unsafe { (*child).release = None };
    }
    let ledger = Ledger::new();
    let parent = ours(vec![numbers(&ledger), numbers(&ledger)]);
    let child = unsafe { *parent.children };
    let original = Box::into_raw(Box::new(move_out(child)));
    unsafe {
        (*child).release = Some(of_the_consumer);
        (*child).private_data = original.cast();
    }
    release(parent).unwrap();
    assert_eq!(ledger.settle(0), Ok(()));
}
