//! The module in the program that runs the simulator: the functions of
//! `include/arrow_device/vpi_module.h`.
//!
//! A simulator such as Verilator is a part of the user's program, which has the main loop, loads no
//! modules, and calls back only where the program says. So the program asks the module at the end
//! of each moment of simulated time, and no callback is used: [`ardev_vpi_step`] does everything
//! that needs no simulated time, and returns when simulated time has to go on.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::os::fd::FromRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use crate::peer::Place;
use crate::server::{Callbacks, LOOK, Server};
use crate::vpi::{CallbackData, Table, Vpi};

/// `ArdevVpiServer` of the header.
pub(crate) struct InProgram {
    server: Server,
    last_look: Instant,
}

unsafe extern "C" fn never(_: *mut CallbackData) -> i32 {
    0
}

/// Begins to serve hosts.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ardev_vpi_serve(
    functions: *const Table,
    descriptor: c_int,
    path: *const c_char,
    server: *mut *mut InProgram,
) -> c_int {
    let begin = || {
        if server.is_null() {
            return Err(libc::EINVAL);
        }
        // SAFETY: the header asks for null or a table that can be read during the call.
        let functions = unsafe { functions.as_ref() }.ok_or(libc::EINVAL)?;
        // SAFETY: the header asks for the simulator's functions, and for calls on its one thread.
        let vpi = unsafe { Vpi::given(functions) }.ok_or(libc::EINVAL)?;
        let place = if path.is_null() {
            if descriptor < 0 {
                return Err(libc::EINVAL);
            }
            // SAFETY: the header asks for a connected socket that becomes the module's.
            Place::Connected(Some(unsafe { UnixStream::from_raw_fd(descriptor) }))
        } else {
            // SAFETY: the header asks for a text that ends with a zero.
            let path = unsafe { CStr::from_ptr(path) };
            let place = Place::listening(OsStr::from_bytes(path.to_bytes()).into());
            place.map_err(|error| error.raw_os_error().unwrap_or(libc::EIO))?
        };
        let callbacks = Callbacks { look: never, step: never, changed: never };
        let served = Server::new(vpi, place, callbacks);
        Ok(InProgram { server: served, last_look: Instant::now() })
    };
    match catch_unwind(AssertUnwindSafe(begin)) {
        Ok(Ok(begun)) => {
            // SAFETY: not null, as was looked at above, and so the header asks for room for a
            // pointer.
            unsafe { server.write(Box::into_raw(Box::new(begun))) };
            0
        }
        Ok(Err(code)) => code,
        Err(_) => libc::ENOTRECOVERABLE,
    }
}

/// Does everything that needs no simulated time. 1 where simulated time has to go on, and 0 where
/// no host comes any more.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ardev_vpi_step(server: *mut InProgram) -> c_int {
    // SAFETY: the header asks for null or a server that nobody else uses and that has not ended.
    let Some(one) = (unsafe { server.as_mut() }) else { return 0 };
    let stepped = catch_unwind(AssertUnwindSafe(|| {
        if one.last_look.elapsed() >= LOOK {
            one.server.look();
            one.last_look = Instant::now();
        } else {
            one.server.step();
        }
    }));
    if stepped.is_err() {
        // What the server knows may be half of the truth: nothing is served any more.
        one.server.is_over = true;
    }
    c_int::from(!one.server.is_over)
}

/// Tells the host that the simulation has ended, and takes the server back.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C" fn ardev_vpi_end(server: *mut InProgram) {
    if server.is_null() {
        return;
    }
    // SAFETY: the header asks for a server that `ardev_vpi_serve` made and that has not ended.
    let mut one = unsafe { Box::from_raw(server) };
    let _ = catch_unwind(AssertUnwindSafe(|| {
        one.server.end();
        drop(one);
    }));
}
