//! Tables of functions that an engine gives in place of dpctl's library.

use std::ffi::c_int;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow_device::{Array, DataType, ErrorKind};
use arrow_device_oneapi::{Functions, Object, use_functions};
use arrow_device_testkit::process;
use arrow_device_testkit::suite::Suite;

use crate::support::{self, Runtime, runtime};

/// A table of the runtime's functions, as an engine has one.
pub(crate) fn table(runtime: &Runtime) -> Functions {
    Functions {
        size: size_of::<Functions>(),
        list_devices: runtime.function("DPCTLDeviceMgr_GetDevices"),
        list_length: runtime.function("DPCTLDeviceVector_Size"),
        list_device: runtime.function("DPCTLDeviceVector_GetAt"),
        list_delete: runtime.function("DPCTLDeviceVector_Delete"),
        device_position: runtime.function("DPCTLDeviceMgr_GetPositionInDevices"),
        device_context: runtime.function("DPCTLDeviceMgr_GetCachedContext"),
        device_name: runtime.function("DPCTLDevice_GetName"),
        device_version: runtime.function("DPCTLDevice_GetDriverVersion"),
        text_delete: runtime.function("DPCTLCString_Delete"),
        device_memory: runtime.function("DPCTLDevice_GetGlobalMemSize"),
        device_has: runtime.function("DPCTLDevice_HasAspect"),
        device_backend: runtime.function("DPCTLDevice_GetBackend"),
        device_delete: runtime.function("DPCTLDevice_Delete"),
        context_equals: runtime.function("DPCTLContext_AreEq"),
        context_delete: runtime.function("DPCTLContext_Delete"),
        queue_create: runtime.function("DPCTLQueue_Create"),
        queue_context: runtime.function("DPCTLQueue_GetContext"),
        queue_device: runtime.function("DPCTLQueue_GetDevice"),
        queue_is_in_order: runtime.function("DPCTLQueue_IsInOrder"),
        queue_copy: runtime.function("DPCTLQueue_Copy"),
        queue_hash: runtime.function("DPCTLQueue_Hash"),
        queue_delete: runtime.function("DPCTLQueue_Delete"),
        copy: runtime.function("DPCTLQueue_MemcpyWithEvents"),
        barrier: runtime.function("DPCTLQueue_SubmitBarrier"),
        barrier_for: runtime.function("DPCTLQueue_SubmitBarrierForEvents"),
        event_status: runtime.function("DPCTLEvent_GetCommandExecutionStatus"),
        event_copy: runtime.function("DPCTLEvent_Copy"),
        event_delete: runtime.function("DPCTLEvent_Delete"),
        allocate_device: runtime.function("DPCTLaligned_alloc_device"),
        allocate_host: runtime.function("DPCTLaligned_alloc_host"),
        allocate_shared: runtime.function("DPCTLaligned_alloc_shared"),
        free: runtime.function("DPCTLfree_with_context"),
        memory_kind: runtime.function("DPCTLUSM_GetPointerType"),
    }
}

#[test]
fn an_engines_table_takes_the_place_of_the_library() {
    process::alone(|| {
        let given = table(runtime());
        // SAFETY: the process runs this test alone.
        unsafe { std::env::set_var("ARROW_DEVICE_ONEAPI_LIBRARY", "/nonexistent") };
        unsafe { use_functions(given) }.unwrap();
        unsafe { use_functions(given) }.unwrap();
        let other = Functions { barrier: given.queue_context, ..given };
        let refused = unsafe { use_functions(other) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        assert!(refused.message().contains("another SYCL runtime"), "{refused}");
        if arrow_device_oneapi::is_available().is_ok() {
            let queue = arrow_device_oneapi::open(0).unwrap().open_queue().unwrap();
            let array = Array::from_values(DataType::Int32, [Some(1), None]).unwrap();
            assert!(array.copy_to(&queue).unwrap().to_host().unwrap().equals(&array).unwrap());
        }
    });
}

#[test]
fn a_table_that_comes_too_late_or_has_another_size_is_refused() {
    process::alone(|| {
        if !support::is_there() {
            return;
        }
        let given = table(runtime());
        // The library that was loaded is the same runtime.
        unsafe { use_functions(given) }.unwrap();
        let other = Functions { barrier: given.queue_context, ..given };
        let refused = unsafe { use_functions(other) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::InvalidArgument, "{refused}");
        let smaller = Functions { size: size_of::<Functions>() - 8, ..given };
        let refused = unsafe { use_functions(smaller) }.unwrap_err();
        assert!(refused.message().contains("another size"), "{refused}");
    });
}

static STATUS_OF_FAILED: AtomicBool = AtomicBool::new(false);

/// An engine's status, which tells failed work from work of which nothing is known.
pub(crate) unsafe extern "C" fn status(event: Object) -> c_int {
    let ask: unsafe extern "C" fn(Object) -> c_int =
        runtime().function("DPCTLEvent_GetCommandExecutionStatus");
    match unsafe { ask(event) } {
        0 => {
            STATUS_OF_FAILED.store(true, Ordering::SeqCst);
            -1
        }
        other => other,
    }
}

// Requirement: SAF-39, DRV-19, DRV-27
#[test]
fn an_engines_table_tells_that_work_has_failed() {
    process::alone(|| {
        let Some(runtime) = support::simulated() else { return };
        let given = Functions { event_status: status, ..table(runtime) };
        unsafe { use_functions(given) }.unwrap();
        let device = arrow_device_oneapi::open(0).unwrap();
        // What comes behind failed work fails as well, or the runtime says that it went well.
        for name in ["simulated_sycl_fail_next", "simulated_sycl_fail_next_alone"] {
            let fail: unsafe extern "C" fn() = runtime.function(name);
            let fail = || unsafe { fail() };
            let report = Suite::new(&device).over([]).failing(&fail).run();
            report.assert();
            assert!(STATUS_OF_FAILED.swap(false, Ordering::SeqCst), "{name}");
        }
        runtime.assert_no_mistakes();
    });
}

#[test]
fn the_shims_table_is_the_one_of_the_header() {
    process::alone(|| {
        let Some(fill) =
            runtime().of_shim::<unsafe extern "C" fn(*mut Functions) -> usize>("shim_table")
        else {
            return println!("skipped: there is no shim");
        };
        let mut filled = table(runtime());
        assert_eq!(unsafe { fill(&mut filled) }, size_of::<Functions>());
        assert_eq!(filled.size, size_of::<Functions>());
        assert_ne!(filled.barrier as usize, table(runtime()).barrier as usize);
        let dpctl = arrow_device_testkit::process::is_child();
        assert!(dpctl);
        unsafe { use_functions(filled) }.unwrap();
        let listed = arrow_device_oneapi::devices().unwrap();
        assert!(!listed.is_empty() && !listed[0].name.is_empty(), "{listed:?}");
        for kind in &listed[0].kinds {
            let device = arrow_device_oneapi::open_with(0, *kind).unwrap();
            Suite::new(&device).run().assert();
        }
    });
}
