//! Arrays go out through the C structs and come back.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::{Array, Batch, Buffer, DataType, DeviceId, Field, Queue, Ready, Schema};

/// Host memory that counts how many of its kind are alive.
struct Counted {
    _bytes: Arc<[u64]>,
    alive: Arc<AtomicUsize>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.alive.fetch_sub(1, Ordering::SeqCst);
    }
}

fn counted(alive: &Arc<AtomicUsize>, bytes: usize) -> Buffer {
    alive.fetch_add(1, Ordering::SeqCst);
    let words: Arc<[u64]> = (0..bytes.div_ceil(8) as u64).collect();
    let owner = Counted { _bytes: words.clone(), alive: alive.clone() };
    unsafe { Buffer::foreign(DeviceId::CPU, words.as_ptr().cast(), bytes as u64, owner) }
}

fn numbers(alive: &Arc<AtomicUsize>) -> Array {
    Array::builder(DataType::Int64)
        .len(4)
        .buffers([None, Some(counted(alive, 32))])
        .finish_ready()
        .unwrap()
}

fn batch(alive: &Arc<AtomicUsize>, columns: usize) -> Batch {
    Batch::from_columns((0..columns).map(|index| (format!("c{index}"), numbers(alive)))).unwrap()
}

fn alive(count: &AtomicUsize) -> usize {
    count.load(Ordering::SeqCst)
}

#[test]
fn a_batch_comes_back_with_the_same_addresses() {
    let count = Arc::default();
    let batch = batch(&count, 3);
    let mut c_schema = ArrowSchema::empty();
    let mut c_array = ArrowDeviceArray::empty();
    batch.schema().unwrap().export(&mut c_schema).unwrap();
    batch.export(&mut c_array).unwrap();
    let address = |array: &Array| {
        let view = array.on(&Queue::host()).unwrap();
        view.child(1).unwrap().buffer(1).location().address()
    };
    let before = address(batch.as_array());
    drop(batch);
    let schema = unsafe { Schema::import(&mut c_schema) }.unwrap();
    let again = unsafe { Batch::import(&mut c_array, &schema) }.unwrap();
    assert_eq!(again.row_count(), 4);
    assert_eq!(again.as_array().ready(), Ready::Now);
    assert_eq!(address(again.as_array()), before);
    assert_eq!(alive(&count), 3);
    drop(again);
    assert_eq!(alive(&count), 0);
}

fn move_out(slot: *mut ArrowArray) -> ArrowArray {
    unsafe { std::ptr::replace(slot, ArrowArray::empty()) }
}

fn release(mut array: ArrowArray) {
    let release = array.release.unwrap();
    unsafe { release(&mut array) };
    assert!(array.release.is_none());
}

#[test]
fn a_child_that_was_moved_out_keeps_its_own_column_and_no_other() {
    let count = Arc::default();
    let mut c_array = ArrowDeviceArray::empty();
    batch(&count, 1000).export(&mut c_array).unwrap();
    assert_eq!(alive(&count), 1000);
    let child = move_out(unsafe { *c_array.array.children.add(17) });
    let other = move_out(unsafe { *c_array.array.children.add(18) });
    release(move_out(&mut c_array.array));
    assert_eq!(alive(&count), 2);
    release(child);
    assert_eq!(alive(&count), 1);
    std::thread::spawn({
        struct Sent(ArrowArray);
        unsafe impl Send for Sent {}
        let other = Sent(other);
        move || {
            let other = other;
            release(other.0)
        }
    })
    .join()
    .unwrap();
    assert_eq!(alive(&count), 0);
}

#[test]
fn children_of_children_can_be_moved_and_released_in_any_order() {
    let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
    for order in orders {
        let count = Arc::default();
        let inner = Batch::from_columns([("x", numbers(&count)), ("y", numbers(&count))]).unwrap();
        let columns = [("inner", inner.as_array().clone()), ("z", numbers(&count))];
        let mut c_array = ArrowDeviceArray::empty();
        Batch::from_columns(columns).unwrap().export(&mut c_array).unwrap();
        drop(inner);
        let middle = move_out(unsafe { *c_array.array.children });
        let leaf = move_out(unsafe { *middle.children.add(1) });
        let mut parts = [Some(move_out(&mut c_array.array)), Some(middle), Some(leaf)];
        for (step, index) in order.into_iter().enumerate() {
            release(parts[index].take().unwrap());
            let left = match (&parts[0].is_some(), &parts[1].is_some(), &parts[2].is_some()) {
                (true, _, _) => 3,
                (false, true, true) => 2,
                (false, true, false) => {
                    if parts[2].is_none() {
                        2
                    } else {
                        1
                    }
                }
                (false, false, true) => 1,
                (false, false, false) => 0,
            };
            assert!(
                alive(&count) <= left,
                "order {order:?}, step {step}: {} alive, {left} at most",
                alive(&count)
            );
        }
        assert_eq!(alive(&count), 0, "order {order:?}");
    }
}

#[test]
fn nested_types_come_back() {
    let count = Arc::default();
    let list = DataType::list(Field::new("item", DataType::Int64, true));
    let offsets = vec![0_i32, 1, 3, 3, 4];
    let lists = Array::builder(list)
        .len(4)
        .buffers([None, Some(offsets.into())])
        .children([numbers(&count)])
        .finish_ready()
        .unwrap();
    let dictionary = Array::builder(DataType::dictionary(DataType::Int8, DataType::Int64))
        .len(4)
        .buffers([None, Some(vec![0_i8, 1, 3, 2].into())])
        .dictionary(numbers(&count))
        .finish_ready()
        .unwrap();
    let batch = Batch::from_columns([("lists", lists), ("keys", dictionary)]).unwrap();
    let schema = batch.schema().unwrap();
    let mut c_schema = ArrowSchema::empty();
    schema.export(&mut c_schema).unwrap();
    let schema_again = unsafe { Schema::import(&mut c_schema) }.unwrap();
    assert_eq!(schema, schema_again);
    for index in [0, 1] {
        let column = batch.column(index).unwrap().slice(1, 2).unwrap();
        let mut c_array = ArrowDeviceArray::empty();
        column.export(&mut c_array).unwrap();
        let again = unsafe { Array::import(&mut c_array, &column.schema().unwrap()) }.unwrap();
        assert_eq!((again.len(), again.offset()), (2, 1));
    }
    drop(batch);
    assert_eq!(alive(&count), 0);
}
