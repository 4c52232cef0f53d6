//! The calls that give arrays away and take them back, by the C interface, DLPack and streams.

use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};

use arrow_device::abi::dlpack::DLManagedTensorVersioned;
use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream};
use arrow_device::async_stream::{AsyncProducer, AsyncStream};
use arrow_device::dlpack::{Conversion, CopyPolicy, Managed, Order, Tensor};
use arrow_device::driver::{Raw, Spot};
use arrow_device::{Array, ArrayStream, DeviceId, Error, Queue, Result, Schema};
use futures_core::Stream;

use super::values::{ExpectedRead, Values};
use super::world::{Thing, World, discard};
use crate::consumer;
use crate::generate::Choices;

const POLICIES: [CopyPolicy; 3] = [CopyPolicy::Never, CopyPolicy::IfNeeded, CopyPolicy::Always];

impl World<'_> {
    // ---- the C interface

    pub(super) fn export(&mut self, choices: &mut Choices<'_>) {
        let Some((array, values)) = self.array(choices) else { return };
        let mut out = Box::new(ArrowDeviceArray::empty());
        let exported = match choices.below(3) {
            0 => array.export(&mut out),
            1 => array.export_on(&self.queue(choices).0, &mut out),
            _ => array.export_settled(&mut out),
        };
        if self.may_fail("export", exported).is_some()
            && let Some(schema) = self.may_fail("schema", array.schema())
        {
            self.things.push(Thing::Struct(out, schema, values));
        }
    }

    pub(super) fn import(&mut self, choices: &mut Choices<'_>) {
        let is_struct = |thing: &Thing| matches!(thing, Thing::Struct(..));
        let Some(Thing::Struct(mut array, schema, values)) = self.take(choices, is_struct) else {
            return;
        };
        if choices.once_in(2)
            && let Values::Pair(both) = &values
            && array.sync_event.is_null()
            && array.array.offset == 0
        {
            // The children are moved out, which the interface allows, and become arrays of their
            // own. Only an array without an event is taken apart, because an event goes with the
            // parent.
            let children = consumer::move_out_all(&array.array);
            let (device_id, device_type) = (array.device_id, array.device_type);
            let mut parts = vec![Thing::Hull(array)];
            for (child, part) in children.into_iter().zip(both.iter()) {
                let has_all = child.length == part.len() as i64;
                let empty = ArrowDeviceArray::empty();
                let child = ArrowDeviceArray { array: child, device_id, device_type, ..empty };
                let part = Thing::Struct(Box::new(child), part.schema(), part.clone());
                // A child may be longer than the part of it that the parent uses.
                if has_all { parts.push(part) } else { discard(part) }
            }
            if choices.once_in(2) {
                parts.reverse();
            }
            self.things.extend(parts);
            return;
        }
        // SAFETY: UNS-1, UNS-3 to UNS-6: exported by this library, and not released.
        let imported = unsafe { Array::import(&raw mut *array, &schema) };
        self.keep("import", imported, values);
    }

    // ---- tensors

    pub(super) fn make_tensor(&mut self, choices: &mut Choices<'_>) {
        let Some((array, values)) = self.array(choices) else { return };
        let Some(numbers) = values.numbers() else { return };
        let (queue, _) = self.queue(choices);
        let conversion = Conversion::new().on(&queue).copying(choices.pick(&POLICIES));
        if let Some(tensor) = self.may_fail("to_tensor", array.to_tensor(&conversion)) {
            self.things.push(Thing::Tensor(tensor, numbers.to_vec()));
        }
    }

    pub(super) fn use_tensor(&mut self, choices: &mut Choices<'_>) {
        let tensors = self.things.iter().filter_map(|thing| match thing {
            Thing::Tensor(tensor, numbers) => Some((tensor.clone(), numbers.clone())),
            _ => None,
        });
        let tensors: Vec<_> = tensors.collect();
        if tensors.is_empty() {
            return;
        }
        let (tensor, numbers) = tensors[choices.below(tensors.len())].clone();
        let (queue, _) = self.queue(choices);
        match choices.below(5) {
            0 => {
                let conversion = Conversion::new().on(&queue).copying(choices.pick(&POLICIES));
                if let Some(array) = self.may_fail("to_array", tensor.to_array(&conversion)) {
                    self.things.push(Thing::Array(array, Values::Numbers(numbers)));
                }
            }
            1 => {
                let Some(view) = self.may_fail("view", tensor.on(&queue)) else { return };
                self.look_at_tensor(&view, &numbers);
                if choices.once_in(3) {
                    self.things.push(Thing::TensorView(view, numbers));
                }
            }
            2 => {
                let is_here = tensor.device() == queue.device().id();
                let is_readable = is_here && tensor.is_compact() && !numbers.is_empty();
                let order = if choices.once_in(2) { Order::On(&queue) } else { Order::Host };
                let exported =
                    tensor.export::<DLManagedTensorVersioned>(order, choices.pick(&POLICIES));
                let Some(exported) = self.may_fail("export", exported) else { return };
                if let Order::On(queue) = order
                    && choices.once_in(3)
                {
                    self.use_and_delete(exported, queue, is_readable.then_some(numbers));
                    return;
                }
                if choices.once_in(4) {
                    return;
                }
                // SAFETY: UNS-23 to UNS-25: exported by this library in the same order, and read
                // only by both sides.
                let imported = unsafe { Tensor::import(exported.into_raw(), order) };
                if let Some(imported) = self.may_fail("import", imported) {
                    // SAFETY: UNS-26: nobody writes to it.
                    let tensor = unsafe { imported.assume_frozen() };
                    self.things.push(Thing::Tensor(tensor, numbers));
                }
            }
            3 if numbers.len() > 3 => {
                let len = numbers.len();
                let (first, length, step) =
                    choices.pick(&[(1, len - 2, 1), (len - 1, len, -1), (0, len / 2, 2)]);
                let sliced = tensor.sliced(0, first as i64, length as i64, step);
                let at = |index: usize| numbers[(first as i64 + index as i64 * step) as usize];
                let numbers = (0..length).map(at).collect();
                if let Some(tensor) = self.may_fail("sliced", sliced) {
                    self.things.push(Thing::Tensor(tensor, numbers));
                }
            }
            _ => {
                let Some(copied) = self.may_fail("copy", tensor.copy_to_host(&queue)) else {
                    return;
                };
                let Some(host) = self.may_fail("host", copied.host()) else { return };
                let read = host.to_vec::<i64>();
                let is_same = read.as_ref().is_ok_and(|read| *read == numbers);
                if !is_same && !self.shared.has_faults.load(Ordering::Relaxed) {
                    self.shared.findings.add(format!("the host read {read:?} for {numbers:?}"));
                }
            }
        }
    }

    /// Uses a tensor as another library does: submits work to the queue that it named, and deletes
    /// the tensor.
    fn use_and_delete(
        &self,
        exported: Managed<DLManagedTensorVersioned>,
        queue: &Queue,
        expected: Option<Vec<i64>>,
    ) {
        // SAFETY: the tensor is alive, and its fields are read only.
        let out = unsafe { &(*exported.as_ptr()).dl_tensor };
        if let Some(expected) = expected {
            let spot = Spot { base: Raw::from_ptr(out.data.cast()), offset: out.byte_offset };
            let (len, expected) = (8 * expected.len() as u64, Some(expected));
            self.launch(queue, vec![ExpectedRead { spot, len, expected }]);
        }
        drop(exported);
    }

    // ---- streams

    pub(super) fn make_stream(&mut self, choices: &mut Choices<'_>) {
        let Some(Alike { schema, device, items }) = self.alike(choices) else { return };
        let (arrays, values): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        let stream =
            ArrayStream::new(schema, device.device_type, arrays.into_iter().map(Ok::<_, Error>));
        self.things.push(Thing::Stream(stream, values));
    }

    pub(super) fn use_stream(&mut self, choices: &mut Choices<'_>) {
        let is_stream = |thing: &Thing| matches!(thing, Thing::Stream(..) | Thing::CStream(..));
        match self.take(choices, is_stream) {
            Some(Thing::Stream(mut stream, mut values)) => {
                if choices.once_in(3) {
                    let mut out = Box::new(ArrowDeviceArrayStream::empty());
                    match choices.below(3) {
                        0 => stream.export(&mut out),
                        1 => stream.export_on(&self.queue(choices).0, &mut out),
                        _ => stream.export_settled(&mut out),
                    }
                    self.things.push(Thing::CStream(out, values));
                    return;
                }
                match stream.next() {
                    Some(array) => {
                        if values.is_empty() {
                            self.shared.findings.add("a stream has more than it was given");
                            return;
                        }
                        let has_failed = array.is_err();
                        self.keep("next", array, values.remove(0));
                        if !has_failed {
                            self.things.push(Thing::Stream(stream, values));
                        }
                    }
                    None => {
                        if !values.is_empty() && !self.shared.has_faults.load(Ordering::Relaxed) {
                            self.shared
                                .findings
                                .add(format!("a stream ended {} early", values.len()));
                        }
                    }
                }
            }
            Some(Thing::CStream(mut out, values)) => {
                // SAFETY: UNS-1, UNS-9: exported by this library, and not released.
                let imported = unsafe { ArrayStream::import(&raw mut *out) };
                if let Some(stream) = self.may_fail("import", imported) {
                    self.things.push(Thing::Stream(stream, values));
                }
            }
            _ => {}
        }
    }

    pub(super) fn make_async(&mut self, choices: &mut Choices<'_>) {
        let Some(Alike { schema, device, items }) = self.alike(choices) else { return };
        let (arrays, values): (Vec<_>, Vec<_>) = items.into_iter().unzip();
        let (stream, handler) = AsyncStream::new(choices.below(4));
        let producer = AsyncProducer::new(schema, device.device_type, Items(arrays));
        // SAFETY: UNS-10: the handler is the library's, and is given to nobody else.
        let drive = unsafe { producer.drive(handler.into_raw()) };
        if let Some(drive) = self.may_fail("drive", drive) {
            self.things.push(Thing::Async(Some(drive), stream.arrays(), values));
        }
    }

    pub(super) fn use_async(&mut self, choices: &mut Choices<'_>) {
        let is_async = |thing: &Thing| matches!(thing, Thing::Async(..));
        let Some(Thing::Async(mut drive, mut arrays, mut values)) = self.take(choices, is_async)
        else {
            return;
        };
        let mut context = Context::from_waker(Waker::noop());
        match choices.below(8) {
            // Drops one side before the end.
            6 => drop(arrays),
            7 => drop(drive),
            _ => {
                if let Some(producing) = &mut drive
                    && choices.once_in(2)
                    && Pin::new(producing).poll(&mut context).is_ready()
                {
                    drive = None;
                }
                match Pin::new(&mut arrays).poll_next(&mut context) {
                    Poll::Pending => {}
                    Poll::Ready(None) => {
                        if !values.is_empty() && !self.shared.has_faults.load(Ordering::Relaxed) {
                            self.shared
                                .findings
                                .add(format!("a stream ended {} early", values.len()));
                        }
                        return;
                    }
                    Poll::Ready(Some(array)) if !values.is_empty() => {
                        let has_failed = array.is_err();
                        self.keep("an array", array, values.remove(0));
                        if has_failed {
                            return;
                        }
                    }
                    Poll::Ready(Some(_)) => {
                        self.shared.findings.add("a stream has more than it was given");
                        return;
                    }
                }
                self.things.push(Thing::Async(drive, arrays, values));
            }
        }
    }

    /// Returns up to three arrays of one type on one type of device.
    pub(super) fn alike(&self, choices: &mut Choices<'_>) -> Option<Alike> {
        let (first, values) = self.array(choices)?;
        let schema = self.may_fail("schema", first.schema())?;
        let (data_type, device) = (first.data_type().clone(), first.device());
        let mut items = vec![(first, values)];
        for _ in 0..choices.below(3) {
            let (next, values) = self.array(choices)?;
            if *next.data_type() == data_type && next.device() == device {
                items.push((next, values));
            }
        }
        Some(Alike { schema, device, items })
    }
}

/// Arrays of one type on one device.
pub(super) struct Alike {
    schema: Schema,
    device: DeviceId,
    items: Vec<(Array, Values)>,
}

/// The arrays of an asynchronous stream.
pub(super) struct Items(Vec<Array>);

impl Stream for Items {
    type Item = Result<Array>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Array>>> {
        let is_empty = self.0.is_empty();
        Poll::Ready((!is_empty).then(|| Ok(self.0.remove(0))))
    }
}
