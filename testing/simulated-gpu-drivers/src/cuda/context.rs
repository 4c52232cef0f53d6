//! Contexts: the primary one of each device, those that programs make, and which one each thread
//! has current.

use std::ffi::{c_int, c_uint, c_void};

use crate::call::{Then, call, call_then, give};
use crate::code::{Answer, Code};
use crate::machine::{Context, Machine};
use crate::thread::{self, Current};

/// Makes the context where there is none; it is not made current.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRetain(out: *mut usize, device: c_int) -> c_int {
    call("cuDevicePrimaryCtxRetain", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        machine.alive(number)?;
        let context = machine.context(number);
        // SAFETY: as the module says.
        unsafe { give(out, context) }?;
        machine.device(number)?.retained += 1;
        machine.registers_its_end();
        Ok(())
    })
}

/// Giving back what nobody holds is an invalid context.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int {
    call("cuDevicePrimaryCtxRelease_v2", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        let state = machine.device(number)?;
        state.retained = state.retained.checked_sub(1).ok_or(Code::INVALID_CONTEXT)?;
        Ok(())
    })
}

/// All that the context has is gone, and whoever retained it has a context that was destroyed.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxReset_v2(device: c_int) -> c_int {
    call("cuDevicePrimaryCtxReset_v2", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        machine.lose(number, Code::CONTEXT_IS_DESTROYED.0);
        Ok(())
    })
}

/// The same, by the name that it had first.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxRelease(device: c_int) -> c_int {
    // SAFETY: as the module says.
    unsafe { cuDevicePrimaryCtxRelease_v2(device) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuDevicePrimaryCtxGetState(
    device: c_int,
    flags: *mut c_uint,
    active: *mut c_int,
) -> c_int {
    call("cuDevicePrimaryCtxGetState", &[("device", device as u64)], |machine| {
        machine.must_be_initialised()?;
        let number = machine.device_number(device)?;
        let is_active = machine.device(number)?.retained > 0;
        // SAFETY: as the module says.
        unsafe { give(flags, 0) }?;
        // SAFETY: as the module says.
        unsafe { give(active, c_int::from(is_active)) }
    })
}

/// With no context current that is null, and success.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetCurrent(out: *mut usize) -> c_int {
    call("cuCtxGetCurrent", &[], |machine| {
        let device = machine.current_if_any()?;
        // SAFETY: as the module says.
        unsafe { give(out, device.map_or(0, |device| machine.context_here(device))) }
    })
}

/// Replaces the top of the thread's stack; null takes the top away.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSetCurrent(context: usize) -> c_int {
    call("cuCtxSetCurrent", &[("context", context as u64)], |machine| {
        machine.must_be_initialised()?;
        let current = match context {
            0 => None,
            _ => Some(Current { device: machine.device_of_context(context)?, context }),
        };
        thread::with(|thread| {
            thread.contexts.pop();
            thread.contexts.extend(current);
        });
        Ok(())
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPushCurrent_v2(context: usize) -> c_int {
    call("cuCtxPushCurrent_v2", &[("context", context as u64)], |machine| {
        machine.must_be_initialised()?;
        let device = machine.device_of_context(context)?;
        thread::with(|thread| thread.contexts.push(Current { device, context }));
        Ok(())
    })
}

/// With nothing on the stack, an invalid context. The caller may not want to know which it was.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxPopCurrent_v2(out: *mut usize) -> c_int {
    call("cuCtxPopCurrent_v2", &[], |machine| {
        machine.must_be_initialised()?;
        let Some(popped) = thread::with(|thread| thread.contexts.pop()).flatten() else {
            return Err(machine.misuse(
                "NoContext",
                Code::INVALID_CONTEXT,
                "A context is taken off this thread's stack, and there is none on it.",
            ));
        };
        if out.is_null() {
            return Ok(());
        }
        // SAFETY: as the module says.
        unsafe { give(out, popped.context) }
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxGetDevice(out: *mut c_int) -> c_int {
    call("cuCtxGetDevice", &[], |machine| {
        let device = machine.current()?;
        // SAFETY: as the module says.
        unsafe { give(out, device as c_int) }
    })
}

/// Waits for all streams of the current context.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxSynchronize() -> c_int {
    call_then("cuCtxSynchronize", &[], |machine| {
        let device = machine.current()?;
        machine.must_be_safe()?;
        Ok(Then::ForDevice(device))
    })
}

/// The current context gets access to the memory of the other one, all of it and from now on.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxEnablePeerAccess(peer: usize, flags: c_uint) -> c_int {
    call("cuCtxEnablePeerAccess", &[("peer", peer as u64)], |machine| {
        let device = machine.current()?;
        let peer = machine.device_of_context(peer)?;
        if flags != 0 {
            return Err(Code::INVALID_VALUE);
        }
        machine.enable_peer(device, peer)
    })
}

/// A context beside the primary one, which becomes current.
///
/// # Safety
/// `out` is null or may be written.
unsafe fn make(machine: &mut Machine, out: *mut usize, device: c_int) -> Answer {
    machine.must_be_initialised()?;
    let device = machine.device_number(device)?;
    machine.alive(device)?;
    let context = machine.new_handle();
    // SAFETY: `out` is null or may be written, as the caller promises.
    unsafe { give(out, context) }?;
    machine.contexts.insert(context, Context { device, destroyed: None });
    machine.registers_its_end();
    thread::with(|thread| thread.contexts.push(Current { device, context }));
    Ok(())
}

/// The flags say how the host waits.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxCreate_v2(out: *mut usize, _flags: c_uint, device: c_int) -> c_int {
    // SAFETY: as the module says.
    call("cuCtxCreate_v2", &[("device", device as u64)], |machine| unsafe {
        make(machine, out, device)
    })
}

/// Parameters, which may be null, are those of contexts that have a part of the device only.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxCreate_v4(
    out: *mut usize,
    parameters: *const c_void,
    _flags: c_uint,
    device: c_int,
) -> c_int {
    call("cuCtxCreate_v4", &[("device", device as u64)], |machine| {
        if !parameters.is_null() {
            return Err(Code::NOT_SUPPORTED);
        }
        // SAFETY: as the module says.
        unsafe { make(machine, out, device) }
    })
}

/// Streams and events of the context end with it; it is taken off this thread's stack.
#[unsafe(no_mangle)]
unsafe extern "C" fn cuCtxDestroy_v2(context: usize) -> c_int {
    call("cuCtxDestroy_v2", &[("context", context as u64)], |machine| {
        machine.must_be_initialised()?;
        machine.device_of_context(context)?;
        machine.destroy_context(context)?;
        thread::with(|thread| {
            if thread.contexts.last().is_some_and(|current| current.context == context) {
                thread.contexts.pop();
            }
        });
        Ok(())
    })
}
