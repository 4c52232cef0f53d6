//! The CUDA devices on a simulated driver that has everything.

use arrow_device_cuda::Kind;
use gpu_backends::{Bench, calls, copies, deleters, faults, memory, mistakes};
use simulated_gpu_drivers::Vendor;

// Requirement: SYS-1
#[test]
fn exchanging_calls_nothing() {
    calls::exchanging_calls_nothing(&Bench::cuda());
}

#[test]
fn releasing_waits_for_nothing() {
    calls::releasing_waits_for_nothing(&Bench::cuda());
}

#[test]
fn a_thousand_columns_take_few_calls() {
    let bench = Bench::cuda();
    for batch in [calls::integers(), calls::texts()] {
        let [first, later] = calls::calls_of_a_copy(&bench, &batch);
        assert!(later.len() <= 12, "{later:#?}");
        assert!(first.len() <= 20, "{first:#?}");
    }
}

#[test]
fn memory_of_a_queue_waits_for_the_queue() {
    calls::memory_of_a_queue_waits_for_the_queue(&Bench::cuda());
}

#[test]
fn a_list_of_copies_is_one_call() {
    calls::copies_are_batched(&Bench::cuda());
}

#[test]
fn threads_keep_what_is_current() {
    calls::threads_keep_what_is_current(&Bench::cuda());
}

#[test]
fn addresses_are_located() {
    memory::addresses_are_located(&Bench::cuda());
}

#[test]
fn host_kinds_are_read_in_place() {
    memory::host_kinds_are_read_in_place(&Bench::cuda());
}

#[test]
fn numbers_that_stand_for_all_devices_are_understood() {
    memory::numbers_that_stand_for_all_devices(&Bench::cuda());
}

// Requirement: DLP-1
#[test]
fn tensors_have_dlpacks_numbers() {
    memory::tensors_have_dlpacks_numbers(&Bench::cuda());
}

#[test]
fn a_capturing_stream_is_refused() {
    memory::a_capturing_stream_is_refused(&Bench::cuda());
}

#[test]
fn an_import_that_a_graph_reads_is_kept() {
    memory::an_import_that_a_graph_reads_is_kept(&Bench::cuda());
}

#[test]
fn default_streams_are_adopted() {
    memory::default_streams_are_adopted(&Bench::cuda());
}

#[test]
fn default_streams_of_threads_wait_for_each_other() {
    memory::default_streams_of_threads_wait_for_each_other(&Bench::cuda());
}

#[test]
fn streams_of_another_context_are_refused() {
    memory::streams_of_another_context_are_refused(&Bench::cuda());
}

#[test]
fn streams_of_a_context_beside_the_primary_one_are_refused() {
    memory::streams_of_a_context_beside_the_primary_one_are_refused(&Bench::cuda());
}

// Requirement: SAF-8
#[test]
fn memory_of_an_allocator_is_filled_in_the_order_of_its_queue() {
    memory::memory_of_an_allocator_is_filled_in_the_order_of_its_queue(&Bench::cuda());
}

#[test]
fn mixed_copies_reuse_pinned_memory() {
    memory::mixed_copies_reuse_pinned_memory(&Bench::cuda());
}

// Requirement: SAF-22
#[test]
fn recycled_memory_is_given_back() {
    memory::recycled_memory_is_given_back(&Bench::cuda());
}

#[test]
fn sizes_of_views_may_lie_on_the_device() {
    memory::sizes_of_views_may_lie_on_the_device(&Bench::cuda());
}

#[test]
fn what_is_right_is_not_reported() {
    mistakes::right(&Bench::cuda());
}

// Requirement: ARR-5, ARR-20
#[test]
fn a_wait_that_is_left_out_is_reported() {
    mistakes::no_wait(&Bench::cuda());
}

#[test]
fn a_record_that_is_left_out_is_reported() {
    mistakes::no_record(&Bench::cuda());
}

#[test]
fn work_on_the_wrong_stream_is_reported() {
    mistakes::wrong_stream(&Bench::cuda());
}

#[test]
fn memory_that_is_freed_early_is_reported() {
    mistakes::early_free(&Bench::cuda());
}

#[test]
fn a_call_without_the_device_current_is_reported() {
    mistakes::no_current_device(&Bench::cuda());
}

#[test]
fn an_event_that_is_destroyed_early_is_reported() {
    mistakes::event_destroyed_early(&Bench::cuda());
}

#[test]
fn whatever_call_fails_the_error_is_the_vendors() {
    let bench = Bench::cuda();
    for kind in bench.kinds() {
        faults::every_call_fails_once(&bench, *kind);
    }
}

#[test]
fn a_code_without_a_name_keeps_its_number() {
    faults::a_code_without_a_name(&Bench::cuda());
}

#[test]
fn arbitrary_arrays_go_from_every_place_to_every_other() {
    let bench = Bench::cuda();
    copies::from_every_place_to_every_other(bench.queues(), 12);
}

#[test]
fn every_type_in_every_window_goes_there_and_back() {
    let bench = Bench::cuda();
    copies::every_type(&bench.queues_of(0));
}

#[test]
fn threads_share_a_device() {
    let bench = Bench::cuda();
    copies::threads(&bench.queues_of(0)[0]);
}

// Requirement: STR-1, STR-6
#[test]
fn streams_go_through_the_c_struct() {
    let bench = Bench::cuda();
    copies::streams(&bench.queues_of(0));
}

#[test]
fn asynchronous_streams_keep_order() {
    let bench = Bench::cuda();
    copies::async_streams(&bench.queues_of(0));
}

// Requirement: DLP-4, DLP-5
#[test]
fn tensors_come_back_in_every_layout() {
    let bench = Bench::cuda();
    copies::tensors(&bench.queues_of(0));
    // DLPack has one number for pinned memory of all devices.
    copies::tensors(&bench.queues_of(1)[1..2]);
}

#[test]
fn more_than_there_is_is_out_of_memory() {
    let bench = Bench::cuda();
    for kind in bench.kinds() {
        let device = bench.open(0, *kind);
        let queue = device.open_queue().unwrap();
        for error in [device.allocate(1 << 50).unwrap_err(), queue.allocate(1 << 50).unwrap_err()] {
            assert_eq!(error.kind(), arrow_device::ErrorKind::OutOfMemory, "{error}");
        }
    }
}

#[test]
fn a_device_that_is_not_there_is_missing() {
    let bench = Bench::cuda();
    let error = bench.try_open(2, Kind::Device).unwrap_err();
    assert_eq!(error.kind(), arrow_device::ErrorKind::DeviceMissing, "{error}");
}

#[test]
fn the_diagnosis_names_the_devices() {
    let _bench = Bench::cuda();
    let diagnosis = arrow_device_cuda::diagnose();
    let text = diagnosis.to_string();
    assert_eq!(diagnosis.devices.len(), 2, "{text}");
    assert!(diagnosis.problem.is_none() && text.contains("it can be used"), "{text}");
    assert!(text.contains("device 1"), "{text}");
    println!("{text}");
}

#[test]
fn columns_go_over_in_many_chunks() {
    let bench = Bench::cuda();
    copies::columns_in_many_chunks(&bench.queues_of(0)[0]);
}

// Requirement: SAF-13, SAF-35
#[test]
fn a_tensor_is_kept_for_the_stream_that_its_consumer_named() {
    deleters::on_a_stream_that_was_named(&Bench::cuda());
}

// Requirement: SAF-13, SAF-35
#[test]
fn a_tensor_is_kept_for_the_default_stream_where_none_was_named() {
    deleters::on_the_default_stream(&Bench::cuda());
}

// Requirement: SAF-13, SAF-35
#[test]
fn a_tensor_is_kept_for_the_default_stream_of_another_thread_than_its_deleters() {
    deleters::on_the_default_stream_of_another_thread(&Bench::cuda());
}

// Requirement: SAF-19, SAF-35
#[test]
fn a_tensor_is_kept_for_a_stream_that_is_destroyed_after_it() {
    deleters::on_a_stream_that_is_destroyed_after_the_tensor(&Bench::cuda());
}

// Requirement: SAF-16, SAF-35
#[test]
fn a_tensor_is_kept_for_good_where_its_stream_is_gone() {
    arrow_device_testkit::process::alone(|| deleters::on_a_stream_that_is_gone(&Bench::cuda()));
}

// Requirement: SAF-17, SAF-35
#[test]
fn a_tensor_that_dies_in_a_capture_does_not_end_it() {
    deleters::in_a_capture(&Bench::cuda());
}

#[test]
fn an_executor_waits_for_chunks() {
    let bench = Bench::cuda();
    copies::an_executor_waits_for_chunks(&bench.queues_of(0)[0]);
}

// Requirement: SAF-2
#[test]
fn a_column_of_more_than_four_gib_is_copied() {
    arrow_device_testkit::process::alone(|| {
        let bench = Bench::with(Vendor::Cuda, |builder| builder.memory(8 << 30));
        memory::a_column_of_more_than_four_gib_is_copied(&bench);
    });
}
