//! Consumers that break one rule each.

use std::ptr::NonNull;

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};

use super::{Peer, Wrong};
use crate::consumer;
use crate::judge::{self, Stage};

/// Moves both structs to the consumer.
fn take(schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) -> (ArrowSchema, ArrowDeviceArray) {
    (consumer::move_out(schema), std::mem::replace(array, ArrowDeviceArray::empty()))
}

/// Makes the queue of the stage wait for the data.
fn wait(stage: &Stage, array: &ArrowDeviceArray) {
    let driver = stage.device.driver();
    if let Some(sync_event) = NonNull::new(array.sync_event) {
        // SAFETY: the array is not released.
        let event = unsafe { driver.read_sync_event(sync_event) }.unwrap();
        // SAFETY: UNS-22: the array that shows the event is not released; the queue is the stage's.
        let _ = unsafe { driver.wait(stage.queue.raw(), event) }.unwrap();
    }
}

/// Uses the data on the queue, and waits until that is done.
fn use_and_finish(stage: &Stage, array: &ArrowDeviceArray) {
    wait(stage, array);
    stage.manual.submit(&stage.queue);
    stage.manual.complete(&stage.queue);
}

fn release(schema: ArrowSchema, array: ArrowDeviceArray) {
    consumer::release(schema).unwrap();
    consumer::release(array.array).unwrap();
}

/// A right consumer: it waits in its queue, uses the data, waits on the host, and releases.
pub fn right(stage: &Stage, schema: &mut ArrowSchema, array: &mut ArrowDeviceArray) {
    let (schema, array) = take(schema, array);
    use_and_finish(stage, &array);
    release(schema, array);
}

pub(super) fn all() -> Vec<Wrong> {
    type Consume = fn(&Stage, &mut ArrowSchema, &mut ArrowDeviceArray);
    let consumer = |id, name, complaint, consume: Consume| Wrong {
        id,
        name,
        complaint,
        crashes: false,
        peer: Peer::Consumer(consume),
    };
    vec![
        consumer(
            "SCH-6",
            "never releases the schema",
            "1 releases of 2",
            |stage, schema, array| {
                let (_, array) = take(schema, array);
                use_and_finish(stage, &array);
                consumer::release(array.array).unwrap();
            },
        ),
        consumer(
            "ARR-2",
            "uses data that is not there yet",
            "before its event",
            |stage, schema, array| {
                let (schema, array) = take(schema, array);
                stage.manual.submit(&stage.queue);
                stage.manual.complete(&stage.queue);
                release(schema, array);
            },
        ),
        consumer(
            "ARR-5",
            "waits for the event on another queue",
            "before its event",
            |stage, schema, array| {
                let (schema, array) = take(schema, array);
                let other =
                    Stage { queue: stage.device.open_queue().unwrap(), ..stage_like(stage) };
                wait(&other, &array);
                stage.manual.submit(&stage.queue);
                stage.manual.complete(&stage.queue);
                release(schema, array);
            },
        ),
        consumer(
            "ARR-12",
            "takes a copy and leaves the original",
            "was not marked",
            |stage, schema, array| {
                use_and_finish(stage, array);
                consumer::release(consumer::move_out(schema)).unwrap();
                // The judge should complain about the copy itself, and not about what the copy
                // does.
                let _copy = consumer::copy_of(&array.array);
            },
        ),
        consumer("ARR-13", "releases twice", "released twice", |stage, schema, array| {
            let (schema, array) = take(schema, array);
            use_and_finish(stage, &array);
            let again = consumer::copy_of(&array.array);
            release(schema, array);
            let _ = consumer::release(again);
        }),
        consumer("ARR-15", "writes to the data", "was written to", |stage, schema, array| {
            let (schema, array) = take(schema, array);
            use_and_finish(stage, &array);
            let numbers = judge::children(&array.array).next().unwrap();
            // SAFETY: memory of this process, whatever the device is called.
            unsafe { (*(*numbers).buffers.add(1)).cast_mut().cast::<u8>().write(0xff) };
            release(schema, array);
        }),
        consumer(
            "ARR-18",
            "releases children, then the base",
            "of a child was called",
            |stage, schema, array| {
                let (schema, array) = take(schema, array);
                use_and_finish(stage, &array);
                judge::children(&array.array).for_each(release_child);
                release(schema, array);
            },
        ),
        consumer(
            "ARR-18",
            "releases the base, then children",
            "after that of the base",
            |stage, schema, array| {
                let (schema, array) = take(schema, array);
                use_and_finish(stage, &array);
                let children: Vec<_> = judge::children(&array.array).collect();
                release(schema, array);
                children.into_iter().for_each(release_child);
            },
        ),
        consumer(
            "ARR-20",
            "releases while its queue uses the data",
            "still uses it",
            |stage, schema, array| {
                let (schema, array) = take(schema, array);
                wait(stage, &array);
                stage.manual.submit(&stage.queue);
                release(schema, array);
            },
        ),
        consumer("SYS-2", "never releases", "1 releases of 2", |stage, schema, array| {
            let (schema, array) = take(schema, array);
            use_and_finish(stage, &array);
            consumer::release(schema).unwrap();
        }),
    ]
}

fn stage_like(stage: &Stage) -> Stage {
    Stage {
        manual: stage.manual.clone(),
        device: stage.device.clone(),
        queue: stage.queue.clone(),
        ledger: stage.ledger.clone(),
    }
}

fn release_child(child: *mut ArrowArray) {
    // SAFETY: a struct of the producer's, who sees what is called. It keeps the structs of children
    // that it has released.
    if let Some(release) = unsafe { (*child).release } {
        // SAFETY: the callback of a struct of the producer's, called with it. The producer sees
        // what is called, and keeps the structs of children that it has released.
        unsafe { release(child) };
    }
}
