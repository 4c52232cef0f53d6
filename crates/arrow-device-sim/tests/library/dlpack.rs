//! Tensors on the software device: order that is kept, memory that stays, every kind of device.
//!
//! Each wrong way is reported by the simulator, so that the right way is seen to matter.

use arrow_device_testkit::trips::imported;
use arrow_device_testkit::{consumer, process, tensors};

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::abi::dlpack::{DLManagedTensor, DLManagedTensorVersioned};
use arrow_device::dlpack::{
    Conversion, CopyPolicy, Dtype, Managed, Order, Tensor, device_id, dl_device,
};
use arrow_device::{Array, Batch, DataType, ErrorKind, Queue};
use arrow_device_sim::{Call, Kind, Mistake, Schedule, Sim, sweep};
use tensors::matrix;

// Requirement: DLP-4
#[test]
fn every_type_comes_back_in_every_layout_on_every_kind_of_device() {
    let mut cases = 0;
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        cases += matrix::run(&queue, &matrix::DTYPES);
    }
    // 20 types, 9 layouts, 2 forms.
    assert_eq!(cases, Kind::ALL.len() * 20 * 9 * 2);
}

// Requirement: DLP-4, DLP-5
#[test]
fn arrays_and_tensors_have_the_same_values_on_every_kind_of_device() {
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).backtraces(false).build();
        tensors::conversions::run(&sim.device().open_queue().unwrap());
    }
}

/// An array that a kernel on this queue is still writing.
fn being_written(sim: &Sim, queue: &Queue) -> Array {
    let mut memory = queue.allocate(64).unwrap();
    let spot = memory.spot(queue).unwrap();
    let fill = |memory: &mut arrow_device_sim::KernelMemory| memory.output(0).fill(3);
    sim.kernel("produce").writes(spot, 64).launch(queue, fill).unwrap();
    unsafe { memory.assume_written(64) };
    let buffers = [None, Some(memory.into_buffer())];
    Array::builder(DataType::UInt8).len(64).buffers(buffers).finish_on(queue).unwrap()
}

/// The array as another party hands it back that has waited for it: with no event.
fn settled(array: &Array) -> Array {
    let (mut settled, schema) = (ArrowDeviceArray::empty(), array.schema().unwrap());
    array.export_settled(&mut settled).unwrap();
    // SAFETY: UNS-1, UNS-3 to UNS-6: it was exported just now, and is imported once.
    unsafe { Array::import(&raw mut settled, &schema) }.unwrap()
}

/// What a consumer does that knows only the struct: reads at its data on its queue.
fn consume(sim: &Sim, queue: &Queue, managed: &Managed<DLManagedTensorVersioned>) {
    // SAFETY: an exported tensor.
    let tensor = unsafe { managed.as_ptr().read() }.dl_tensor;
    let base = arrow_device::driver::Raw::from_ptr(tensor.data);
    let spot = arrow_device::driver::Spot { base, offset: tensor.byte_offset };
    sim.kernel("consume")
        .reads(spot, 60)
        .launch(queue, |memory| assert_eq!(memory.input(0), [3; 60]))
        .unwrap();
}

// Requirement: DLP-8, SAF-7
#[test]
fn on_export_the_consumers_queue_waits_and_no_host_does() {
    for kind in Kind::ALL {
        Sim::builder().kind(kind).schedule(Schedule::Late).sweep(0..10, |sim| {
            let [producer, consumer] = [(); 2].map(|()| sim.device().open_queue().unwrap());
            let array = being_written(sim, &producer).slice(4, 60).unwrap();
            let tensor = array.to_tensor(&Conversion::new()).unwrap();
            let managed = tensor.clone().export(Order::On(&consumer), CopyPolicy::Never).unwrap();
            assert!(!tensor.is_ready().unwrap(), "somebody waited on the host");
            consume(sim, &consumer, &managed);
            consumer.synchronize().unwrap();
            assert!(sim.reports().is_empty());
        });
    }
    // A producer that forgets is reported.
    sweep(0..10, |sim| {
        let [producer, consumer] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let array = being_written(sim, &producer);
        let tensor = array.to_tensor(&Conversion::new()).unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            tensor.export(Order::Unordered, CopyPolicy::Never).unwrap();
        // SAFETY: an exported tensor.
        let raw = unsafe { managed.as_ptr().read() }.dl_tensor;
        let base = arrow_device::driver::Raw::from_ptr(raw.data);
        let spot = arrow_device::driver::Spot { base, offset: 0 };
        sim.kernel("consume").reads(spot, 64).launch(&consumer, |_| {}).unwrap();
        consumer.synchronize().unwrap();
        producer.synchronize().unwrap();
        let reports = sim.take_reports();
        assert!(reports.iter().any(|report| report.kind == Mistake::UnorderedRead), "{reports:?}");
    });
}

// Requirement: DLP-8
#[test]
fn the_event_of_an_array_from_c_becomes_a_wait_too() {
    sweep(0..10, |sim| {
        let [producer, consumer] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let made = being_written(sim, &producer).slice(4, 60).unwrap();
        let mut c_array = arrow_device::abi::ArrowDeviceArray::empty();
        made.export(&mut c_array).unwrap();
        assert!(!c_array.sync_event.is_null());
        // SAFETY: an array that was just exported.
        let array = unsafe { Array::import(&mut c_array, &made.schema().unwrap()) }.unwrap();
        drop(made);
        // There and back: the event stays with whatever is made of the array.
        let tensor = array.to_tensor(&Conversion::new()).unwrap();
        let array = tensor.to_array(&Conversion::new()).unwrap();
        assert_eq!(array.ready(), arrow_device::Ready::AfterEvent);
        let tensor = array.to_tensor(&Conversion::new()).unwrap();
        let managed = tensor.export(Order::On(&consumer), CopyPolicy::Never).unwrap();
        consume(sim, &consumer, &managed);
        drop(array);
        consumer.synchronize().unwrap();
    });
}

// Requirement: DLP-8
#[test]
fn without_a_queue_the_host_waits() {
    sweep(0..10, |sim| {
        let [producer, consumer] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        let tensor = being_written(sim, &producer).to_tensor(&Conversion::new()).unwrap();
        let managed = tensor.clone().export(Order::Host, CopyPolicy::Never).unwrap();
        assert!(tensor.is_ready().unwrap());
        consume(sim, &consumer, &managed);
        consumer.synchronize().unwrap();
    });
}

// Requirement: DLP-8
#[test]
fn on_import_what_comes_later_waits_for_the_queue_that_was_named() {
    let import = |sim: &Sim, says_ready: bool| {
        let [stream, other] = [(); 2].map(|()| sim.device().open_queue().unwrap());
        // A producer that ordered the consumer's stream behind its work, as it was asked to.
        let managed: Managed<DLManagedTensorVersioned> = being_written(sim, &stream)
            .to_tensor(&Conversion::new())
            .unwrap()
            .export(Order::On(&stream), CopyPolicy::Never)
            .unwrap();
        let order = if says_ready { Order::Host } else { Order::On(&stream) };
        // SAFETY: a tensor that was just exported.
        let tensor = unsafe { Tensor::import(managed.into_raw(), order) }.unwrap();
        let view = tensor.on(&other).unwrap();
        let spot = view.location().spot();
        sim.kernel("read").reads(spot, 64).launch(&other, |_| {}).unwrap();
        drop(view);
        other.synchronize().unwrap();
        stream.synchronize().unwrap();
        sim.take_reports()
    };
    sweep(0..10, |sim| assert!(import(sim, false).is_empty()));
    sweep(0..10, |sim| {
        let reports = import(sim, true);
        assert!(reports.iter().any(|report| report.kind == Mistake::UnorderedRead), "{reports:?}");
    });
}

// Requirement: DLP-10, SAF-13
#[test]
fn memory_is_not_given_back_while_a_queue_still_uses_it() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let freed = tensors::Count::default();
    let made = matrix::upload(&queue, Dtype::FLOAT32, &freed);
    let managed: Managed<DLManagedTensorVersioned> =
        made.export(Order::Host, CopyPolicy::Never).unwrap();
    // SAFETY: a tensor that was just exported.
    let tensor = unsafe { Tensor::import(managed.into_raw(), Order::On(&queue)) }.unwrap();
    let array = tensor.to_array(&Conversion::new()).unwrap();
    let view = array.on(&queue).unwrap();
    let spot = view.child(0).unwrap().buffer(1).location().spot();
    sim.kernel("read").reads(spot, 96).launch(&queue, |_| {}).unwrap();
    drop((view, array, tensor));
    arrow_device::deferred::release_finished();
    assert_eq!(freed.get(), 0, "the queue has not run yet");
    queue.synchronize().unwrap();
    assert!(freed.reaches(1));
}

// Requirement: DLP-12
#[test]
fn a_consumer_may_write_to_its_copy_and_to_nothing_else() {
    let write = |sim: &Sim, copying| {
        let queue = sim.device().open_queue().unwrap();
        let tensor = being_written(sim, &queue).to_tensor(&Conversion::new()).unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            tensor.export(Order::On(&queue), copying).unwrap();
        // SAFETY: an exported tensor.
        let whole = unsafe { managed.as_ptr().read() };
        let base = arrow_device::driver::Raw::from_ptr(whole.dl_tensor.data);
        let spot = arrow_device::driver::Spot { base, offset: 0 };
        sim.fill(&queue, spot, 64, 9).unwrap();
        queue.synchronize().unwrap();
        (whole.flags, sim.take_reports())
    };
    sweep(0..4, |sim| {
        let (flags, reports) = write(sim, CopyPolicy::Always);
        assert_eq!((flags, reports.len()), (2, 0), "{reports:?}");
    });
    sweep(0..4, |sim| {
        let (flags, reports) = write(sim, CopyPolicy::Never);
        assert_eq!(flags, 1);
        assert!(reports.iter().any(|report| report.kind == Mistake::WriteToShared), "{reports:?}");
    });
}

#[test]
fn a_handle_travels_with_its_offset_and_an_address_without() {
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).build();
        let queue = sim.device().open_queue().unwrap();
        let array = being_written(&sim, &queue);
        let part = array.slice(5, 7).unwrap().to_tensor(&Conversion::new()).unwrap();
        let managed: Managed<DLManagedTensorVersioned> =
            part.export(Order::On(&queue), CopyPolicy::Never).unwrap();
        // SAFETY: an exported tensor.
        let tensor = unsafe { managed.as_ptr().read() }.dl_tensor;
        let view = array.on(&queue).unwrap();
        let base = view.buffer(1).location().handle().0;
        let moved = tensor.data.addr() - base.addr();
        let has_handles = matches!(kind, Kind::Handles | Kind::OneQueue | Kind::WholeUnits);
        let expected = if has_handles { (0, 5) } else { (5, 0) };
        assert_eq!((moved as u64, tensor.byte_offset), expected, "{kind:?}");
        assert_eq!(tensor.device, dl_device(sim.device().id()).unwrap());
        assert_eq!(device_id(tensor.device).unwrap(), sim.device().id());
    }
}

#[test]
fn every_call_that_fails_is_an_error_and_nothing_is_lost() {
    process::alone(each_call_fails);
}

fn each_call_fails() {
    let runs = arrow_device_sim::for_each_fault(|sim| {
        let work = || -> arrow_device::Result<()> {
            let queue = sim.device().open_queue()?;
            let array = Array::from_values(DataType::Float64, [Some(1.0), None, Some(3.0)])?;
            let array = array.copy_to(&queue)?;
            let conversion = Conversion::new().copying(CopyPolicy::IfNeeded).on(&queue);
            let filled = conversion.nulls(arrow_device::dlpack::Nulls::NaN);
            let tensor = array.to_tensor(&filled)?;
            let managed: Managed<DLManagedTensor> =
                tensor.export(Order::On(&queue), CopyPolicy::Always)?;
            // SAFETY: a tensor that was just exported.
            let tensor = unsafe { Tensor::import(managed.into_raw(), Order::On(&queue)) }?;
            tensor.sliced(0, 2, 2, -1)?.to_array(&filled)?.wait()?;
            tensor.copy_to_host(&queue).map(drop)
        };
        let _ = work();
        sim.run_until_idle();
        // What waits for a queue goes when that is idle. The list is the process's: no other test
        // may have work on it.
        arrow_device_testkit::release_what_has_passed();
    });
    assert!(runs > 40, "{runs} runs");
}

#[test]
fn a_queue_of_another_device_is_refused() {
    let sim = Sim::builder().devices(2).build();
    let [one, other] = [0, 1].map(|number| sim.device_number(number).open_queue().unwrap());
    let tensor = being_written(&sim, &one).to_tensor(&Conversion::new()).unwrap();
    let refused =
        tensor.clone().export::<DLManagedTensorVersioned>(Order::On(&other), CopyPolicy::Never);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotReachable);
    assert_eq!(tensor.copy(&other).unwrap_err().kind(), ErrorKind::NotReachable);
}

#[test]
fn an_error_names_the_device_that_is_lost_and_not_the_one_of_the_tensor() {
    let sim = Sim::builder().peers(2).build();
    let [one, other] = [0, 1].map(|number| sim.device_number(number).open_queue().unwrap());
    let tensor = being_written(&sim, &one).to_tensor(&Conversion::new()).unwrap();
    tensor.copy_to_host(&other).unwrap();
    sim.lose_device_in(Call::Submit, 1);
    let lost = tensor.copy_to_host(&other).unwrap_err();
    assert_eq!((lost.kind(), lost.device()), (ErrorKind::DeviceLost, Some(other.device().id())));
    let conversion = Conversion::new().on(&other).copying(CopyPolicy::Always);
    let errors = [
        tensor.copy(&other).unwrap_err(),
        tensor.to_array(&conversion).unwrap_err(),
        tensor
            .clone()
            .export::<DLManagedTensorVersioned>(Order::On(&other), CopyPolicy::Always)
            .unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.device(), Some(other.device().id()), "{error}");
    }
    tensor.copy_to_host(&one).unwrap();
}

// Requirement: SAF-12
#[test]
fn a_tensor_is_not_exported_for_a_queue_of_another_runtime_that_has_the_same_id() {
    process::alone(|| {
        let sim = Sim::builder().build();
        let twin = Sim::builder().ids_of(&sim).build();
        let [queue, other] = [&sim, &twin].map(|sim| sim.device().open_queue().unwrap());
        // Ready, with no event that a queue would have to wait for.
        let array = settled(&being_written(&sim, &queue));
        let tensor = array.to_tensor(&Conversion::new()).unwrap();
        for order in [Order::On(&queue), Order::Host] {
            tensor.clone().export::<DLManagedTensorVersioned>(order, CopyPolicy::Never).unwrap();
        }
        let refused =
            tensor.export::<DLManagedTensorVersioned>(Order::On(&other), CopyPolicy::Never);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::NotReachable);
    });
}

/// Others know memory by the address at which its allocation begins. A column of numbers is a part
/// of the array that the tensor's memory is, and a column of booleans is an array of another type.
#[test]
fn columns_of_a_tensor_begin_where_their_allocation_does_where_buffers_are_separate() {
    for dtype in [Dtype::INT32, Dtype::BOOL] {
        let sim = Sim::builder().separate(true).build();
        let queue = sim.device().open_queue().unwrap();
        let mut memory = queue.allocate(800).unwrap();
        memory.write(&queue, &[1; 800]).unwrap();
        let tensor = Tensor::from_buffer(memory.into_buffer(), dtype, &[2, 100]).unwrap();
        let tensor = tensor.permuted(&[1, 0]).unwrap();
        let shared = Conversion::new().copying(CopyPolicy::Never).on(&queue);
        let batch = tensor.to_batch(["a", "b"], &shared).unwrap();
        let place = |column: usize| {
            let mut c_array = ArrowDeviceArray::empty();
            batch.column(column).unwrap().export_on(&queue, &mut c_array).unwrap();
            // SAFETY: an array of numbers or of booleans of a byte each has two buffers.
            let address = unsafe { *c_array.array.buffers.add(1) };
            let place = (address.addr(), c_array.array.offset);
            consumer::release(consumer::move_out(&mut c_array.array)).unwrap();
            place
        };
        assert_eq!(place(1), (place(0).0, 100), "{dtype}");
        assert_eq!(batch.to_tensor(&shared).unwrap().strides(), [1, 100], "{dtype}");
    }
}

/// One array keeps many allocations there, and an address of one leads to no other.
#[test]
fn columns_of_separate_allocations_are_no_tensor_without_a_copy() {
    for builder in [Sim::builder().separate(true), Sim::builder().kind(Kind::Handles)] {
        let sim = builder.build();
        let queue = sim.device().open_queue().unwrap();
        let column = |first| {
            let values = (first..first + 100).map(Some);
            Array::from_values(DataType::Int32, values).unwrap()
        };
        let batch = Batch::from_columns([("a", column(0)), ("b", column(500))]).unwrap();
        let there = batch.copy_to(&queue).unwrap();
        let shared = Conversion::new().copying(CopyPolicy::Never);
        assert!(there.to_tensor(&shared).is_err());
        let gathered = Conversion::new().copying(CopyPolicy::IfNeeded).on(&queue);
        let host = there.to_tensor(&gathered).unwrap().copy_to_host(&queue).unwrap();
        let found = host.host().unwrap().to_vec::<i32>().unwrap();
        let expected: Vec<i32> = (0..100).flat_map(|row| [row, row + 500]).collect();
        assert_eq!(found, expected);
    }
}

/// The struct of an array has an event, which lives as long as the struct. A tensor without
/// elements, and what is made of the tensor, have no memory that would keep the struct.
// Requirement: SAF-19
#[test]
fn what_has_no_elements_waits_for_no_event_of_a_struct_that_is_released() {
    for kind in Kind::ALL {
        let sim = Sim::builder().kind(kind).schedule(Schedule::Late).backtraces(false).build();
        let queue = sim.device().open_queue().unwrap();
        let array = imported(&being_written(&sim, &queue));
        let batch = Batch::from_columns([("a", array.clone()), ("b", array.clone())]).unwrap();
        let of_array = array.slice(3, 0).unwrap().to_tensor(&Conversion::new()).unwrap();
        let of_batch = batch.slice(3, 0).unwrap().to_tensor(&Conversion::new()).unwrap();
        drop((array, batch));
        let arrays = [
            of_array.to_array(&Conversion::new()).unwrap(),
            of_batch.to_array(&Conversion::new()).unwrap(),
            of_batch.to_batch(["a", "b"], &Conversion::new()).unwrap().into(),
        ];
        drop((of_array, of_batch));
        // The struct is released here, and the event with it.
        sim.run_until_idle();
        arrow_device::deferred::release_finished();
        for array in arrays {
            array.on(&queue).unwrap();
            array.wait().unwrap();
            assert!(array.is_ready().unwrap(), "{kind:?}");
        }
        drop(queue);
        sim.finish();
    }
}
