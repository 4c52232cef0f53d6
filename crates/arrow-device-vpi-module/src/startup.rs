//! The module's beginning: what the simulator calls when it loads the module, and the callbacks.
//!
//! All of this runs on the simulator's one thread. The server is a value of that thread, which one
//! callback uses at a time: a callback that comes while the server is at work, as the simulator
//! runs some callbacks inside `vpi_put_value`, only asks for a call at the end of the moment.

use std::cell::{Cell, RefCell};

use crate::peer::Place;
use crate::server::{Callbacks, Server};
use crate::vpi::{CallbackData, Vpi, When};

/// The variable that says where the host is.
const SOCKET: &str = "ARROW_DEVICE_VPI_SOCKET";

thread_local! {
    /// The server, on the simulator's thread.
    static SERVER: RefCell<Option<Server>> = const { RefCell::new(None) };
    /// The simulator's functions, for callbacks that come while the server is at work.
    static VPI: Cell<Option<Vpi>> = const { Cell::new(None) };
}

/// The table that a simulator looks for in a module: functions, and a null behind the last one.
#[unsafe(no_mangle)]
#[allow(non_upper_case_globals, reason = "the name is the standard's")]
pub(crate) static vlog_startup_routines: [Option<unsafe extern "C" fn()>; 2] = [Some(start), None];

/// Runs code of the module. A panic ends the simulator, as everything that unwinds to C does.
fn with_server(work: impl FnOnce(&mut Server)) {
    let run = std::panic::AssertUnwindSafe(|| {
        SERVER.with(|server| {
            if let Ok(mut server) = server.try_borrow_mut()
                && let Some(server) = server.as_mut()
            {
                work(server);
            }
        });
    });
    if std::panic::catch_unwind(run).is_err() {
        std::process::abort();
    }
}

unsafe extern "C" fn start() {
    let Some(name) = std::env::var_os(SOCKET) else { return };
    let Some(vpi) = Vpi::load() else { return };
    let place = match Place::named(&name) {
        Ok(place) => place,
        Err(error) => {
            eprintln!("arrow-device: {SOCKET}={}: {error}", name.display());
            return;
        }
    };
    VPI.set(Some(vpi));
    let callbacks = Callbacks { look, step, changed };
    vpi.call_back(When::Starts, begins);
    vpi.call_back(When::Ends, ends);
    SERVER.with(|server| *server.borrow_mut() = Some(Server::new(vpi, place, callbacks)));
}

/// The design is there. What it does at time 0 is done at the end of that moment.
unsafe extern "C" fn begins(_: *mut CallbackData) -> i32 {
    ask_for_step();
    0
}

/// Something has changed that the server waits for.
unsafe extern "C" fn changed(_: *mut CallbackData) -> i32 {
    ask_for_step();
    0
}

fn ask_for_step() {
    if let Some(vpi) = VPI.get() {
        vpi.call_back(When::Settled, step);
    }
}

unsafe extern "C" fn step(_: *mut CallbackData) -> i32 {
    with_server(Server::step);
    0
}

unsafe extern "C" fn look(_: *mut CallbackData) -> i32 {
    with_server(Server::look);
    0
}

unsafe extern "C" fn ends(_: *mut CallbackData) -> i32 {
    with_server(Server::end);
    // Removes the socket.
    let _ = SERVER.with(|server| server.try_borrow_mut().map(|mut server| server.take()));
    0
}
