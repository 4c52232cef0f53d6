//! The functions of UCX that this crate calls, found in its library at run time.
//!
//! The library is loaded once and stays until the process ends. The declarations are those of the
//! headers of UCX 1.13, whose structs only grow at their end. `field_mask` of a struct says which
//! fields the caller has set, so a library that knows more fields does not read them.
//! `ARROW_DEVICE_UCX_LIBRARY` names another library to load.

use std::ffi::{CStr, OsString, c_char, c_int, c_uint, c_ulong, c_void};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};
use std::time::Duration;

use arrow_device::driver::LibraryUse;
use arrow_device::{Error, ErrorKind, Result};
use libloading::Library;

/// Any of UCX's handles.
pub(super) type Handle = *mut c_void;
/// `ucs_status_t`, an enumeration that is packed into one byte.
pub(super) type Status = i8;
/// `ucs_status_ptr_t`: null, a negative status, or a request.
pub(super) type Request = *mut c_void;

pub(super) const OK: Status = 0;
pub(super) const IN_PROGRESS: Status = 1;
pub(super) const NO_MEMORY: Status = -4;
pub(super) const BUSY: Status = -15;
const NOT_CONNECTED: Status = -24;
const CONNECTION_RESET: Status = -25;
const ENDPOINT_TIMEOUT: Status = -80;
/// `UCS_ERR_LAST`: a pointer of a status is no less than this one.
const LAST: isize = -100;

pub(super) const FEATURE_TAG: u64 = 1 << 0;
#[cfg(test)]
pub(super) const FEATURE_REMOTE_MEMORY: u64 = 1 << 1;
pub(super) const FEATURE_WAKEUP: u64 = 1 << 4;
pub(super) const FEATURE_AM: u64 = 1 << 6;
/// `UCS_THREAD_MODE_SERIALIZED`: any thread, one at a time.
pub(super) const SERIALIZED: c_int = 1;
/// `UCP_ERR_HANDLING_MODE_PEER`
pub(super) const OF_PEER: c_int = 1;
/// `UCP_EP_PARAMS_FLAGS_CLIENT_SERVER`
pub(super) const CLIENT_SERVER: c_uint = 1;
/// `UCP_AM_SEND_FLAG_RNDV`
pub(super) const AM_RENDEZVOUS: u32 = 1 << 2;
/// `UCP_AM_RECV_ATTR_FLAG_RNDV`
pub(super) const AM_COMES_LATER: u64 = 1 << 17;
/// `UCP_AM_FLAG_WHOLE_MSG`
pub(super) const AM_WHOLE: u32 = 1;
/// `UCP_EP_CLOSE_FLAG_FORCE`
pub(super) const CLOSE_AT_ONCE: u32 = 1;
/// `UCP_OP_ATTR_FIELD_FLAGS`
pub(super) const ATTR_FLAGS: u32 = 1 << 4;

/// `ucp_params_t`
#[repr(C)]
pub(super) struct Params {
    /// Which of the fields are set.
    pub(super) field_mask: u64,
    pub(super) features: u64,
    request_size: usize,
    request_init: *const c_void,
    request_cleanup: *const c_void,
    tag_sender_mask: u64,
    mt_workers_shared: c_int,
    estimated_num_eps: usize,
    estimated_num_ppn: usize,
    name: *const c_char,
}

impl Params {
    /// Parameters with these features, for workers on several threads.
    pub(super) fn new(features: u64) -> Self {
        Self {
            // The features, and whether workers are shared.
            field_mask: 1 << 0 | 1 << 5,
            features,
            request_size: 0,
            request_init: std::ptr::null(),
            request_cleanup: std::ptr::null(),
            tag_sender_mask: 0,
            mt_workers_shared: 1,
            estimated_num_eps: 0,
            estimated_num_ppn: 0,
            name: std::ptr::null(),
        }
    }
}

/// `ucp_worker_params_t`
#[repr(C)]
pub(super) struct WorkerParams {
    field_mask: u64,
    thread_mode: c_int,
    cpu_mask: [c_ulong; 1024 / c_ulong::BITS as usize],
    events: c_uint,
    user_data: *mut c_void,
    event_fd: c_int,
    flags: u64,
    name: *const c_char,
    am_alignment: usize,
    client_id: u64,
}

impl WorkerParams {
    /// Parameters of a worker that is used on one thread at a time.
    pub(super) fn new() -> Self {
        Self {
            // The mode.
            field_mask: 1 << 0,
            thread_mode: SERIALIZED,
            cpu_mask: [0; 1024 / c_ulong::BITS as usize],
            events: 0,
            user_data: std::ptr::null_mut(),
            event_fd: 0,
            flags: 0,
            name: std::ptr::null(),
            am_alignment: 0,
            client_id: 0,
        }
    }
}

/// `ucs_sock_addr_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct SocketAddress {
    pub(super) address: *const c_void,
    pub(super) len: u32,
}

impl SocketAddress {
    const NONE: Self = Self { address: std::ptr::null(), len: 0 };
}

pub(super) type OnConnection = unsafe extern "C" fn(Handle, *mut c_void);

/// `ucp_listener_params_t`
#[repr(C)]
pub(super) struct ListenerParams {
    field_mask: u64,
    sockaddr: SocketAddress,
    accept_callback: *const c_void,
    accept_argument: *mut c_void,
    connection_callback: Option<OnConnection>,
    connection_argument: *mut c_void,
}

impl ListenerParams {
    pub(super) fn new(at: SocketAddress, callback: OnConnection, argument: *mut c_void) -> Self {
        Self {
            // The address and the handler of connections.
            field_mask: 1 << 0 | 1 << 2,
            sockaddr: at,
            accept_callback: std::ptr::null(),
            accept_argument: std::ptr::null_mut(),
            connection_callback: Some(callback),
            connection_argument: argument,
        }
    }
}

/// `ucp_listener_attr_t`, which has a `struct sockaddr_storage`.
#[repr(C, align(8))]
pub(super) struct ListenerAttributes {
    pub(super) field_mask: u64,
    pub(super) sockaddr: [u8; 128],
}

pub(super) type OnError = unsafe extern "C" fn(*mut c_void, Handle, Status);

/// `ucp_ep_params_t`
#[repr(C)]
pub(super) struct EndpointParams {
    field_mask: u64,
    address: *const c_void,
    error_mode: c_int,
    error_callback: Option<OnError>,
    error_argument: *mut c_void,
    user_data: *mut c_void,
    flags: c_uint,
    sockaddr: SocketAddress,
    connection: Handle,
    name: *const c_char,
    local_sockaddr: SocketAddress,
}

impl EndpointParams {
    fn new(fields: u64, callback: OnError, argument: *mut c_void) -> Self {
        Self {
            // Besides: the mode, and the handler, of errors.
            field_mask: fields | 1 << 1 | 1 << 2,
            address: std::ptr::null(),
            error_mode: OF_PEER,
            error_callback: Some(callback),
            error_argument: argument,
            user_data: std::ptr::null_mut(),
            flags: 0,
            sockaddr: SocketAddress::NONE,
            connection: std::ptr::null_mut(),
            name: std::ptr::null(),
            local_sockaddr: SocketAddress::NONE,
        }
    }

    /// The parameters of a client's end.
    pub(super) fn to(at: SocketAddress, callback: OnError, argument: *mut c_void) -> Self {
        // The address and the flags.
        let params = Self::new(1 << 4 | 1 << 5, callback, argument);
        Self { flags: CLIENT_SERVER, sockaddr: at, ..params }
    }

    /// The parameters of a server's end.
    pub(super) fn of(connection: Handle, callback: OnError, argument: *mut c_void) -> Self {
        // The request for a connection.
        Self { connection, ..Self::new(1 << 6, callback, argument) }
    }
}

/// `ucp_am_recv_param_t`
#[repr(C)]
pub(super) struct AmReceived {
    pub(super) attributes: u64,
    reply_endpoint: Handle,
}

pub(super) type OnAm = unsafe extern "C" fn(
    *mut c_void,
    *const c_void,
    usize,
    *mut c_void,
    usize,
    *const AmReceived,
) -> Status;

/// `ucp_am_handler_param_t`
#[repr(C)]
pub(super) struct AmHandler {
    field_mask: u64,
    id: c_uint,
    flags: u32,
    callback: Option<OnAm>,
    argument: *mut c_void,
}

impl AmHandler {
    /// The handler of all active messages with this number, which come whole.
    pub(super) fn new(id: c_uint, callback: OnAm, argument: *mut c_void) -> Self {
        // All four fields.
        Self { field_mask: 0xf, id, flags: AM_WHOLE, callback: Some(callback), argument }
    }
}

/// `ucp_tag_recv_info_t`
#[repr(C)]
#[derive(Default)]
pub(super) struct TagInfo {
    pub(super) tag: u64,
    pub(super) len: usize,
}

/// `ucp_request_param_t`
#[repr(C)]
pub(super) struct RequestParams {
    attributes: u32,
    flags: u32,
    request: *mut c_void,
    callback: *const c_void,
    datatype: u64,
    user_data: *mut c_void,
    reply_buffer: *mut c_void,
    memory_type: c_int,
    info: *mut c_void,
    memory: Handle,
}

impl RequestParams {
    /// Parameters of an operation on bytes, whose request is asked for its state.
    pub(super) fn new(flags: u32) -> Self {
        Self {
            attributes: if flags == 0 { 0 } else { ATTR_FLAGS },
            flags,
            request: std::ptr::null_mut(),
            callback: std::ptr::null(),
            datatype: 0,
            user_data: std::ptr::null_mut(),
            reply_buffer: std::ptr::null_mut(),
            memory_type: 0,
            info: std::ptr::null_mut(),
            memory: std::ptr::null_mut(),
        }
    }
}

/// What the headers of UCX 1.13 say, on machines of 64 bits.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use std::mem::{offset_of, size_of};

    assert!(size_of::<Params>() == 80 && offset_of!(Params, mt_workers_shared) == 48);
    assert!(size_of::<WorkerParams>() == 200 && offset_of!(WorkerParams, thread_mode) == 8);
    assert!(size_of::<ListenerParams>() == 56 && offset_of!(ListenerParams, sockaddr) == 8);
    assert!(offset_of!(ListenerParams, connection_callback) == 40);
    assert!(size_of::<ListenerAttributes>() == 136);
    assert!(offset_of!(ListenerAttributes, sockaddr) == 8);
    assert!(size_of::<EndpointParams>() == 104 && offset_of!(EndpointParams, error_mode) == 16);
    assert!(offset_of!(EndpointParams, error_callback) == 24);
    assert!(offset_of!(EndpointParams, flags) == 48);
    assert!(offset_of!(EndpointParams, sockaddr) == 56);
    assert!(offset_of!(EndpointParams, connection) == 72);
    assert!(size_of::<AmHandler>() == 32 && offset_of!(AmHandler, id) == 8);
    assert!(offset_of!(AmHandler, flags) == 12 && offset_of!(AmHandler, callback) == 16);
    assert!(size_of::<AmReceived>() == 16 && offset_of!(AmReceived, attributes) == 0);
    assert!(size_of::<TagInfo>() == 16 && offset_of!(TagInfo, len) == 8);
    assert!(size_of::<RequestParams>() == 72 && offset_of!(RequestParams, flags) == 4);
    assert!(offset_of!(RequestParams, datatype) == 24);
    assert!(offset_of!(RequestParams, memory_type) == 48);
    assert!(offset_of!(RequestParams, info) == 56);
};

macro_rules! functions {
    ($($(#[$when:meta])? $name:ident: $symbol:literal, fn($($of:ty),*) $(-> $to:ty)?;)*) => {
        /// The functions.
        pub(super) struct Api {
            $($(#[$when])? pub(super) $name: unsafe extern "C" fn($($of),*) $(-> $to)?,)*
            /// Kept here so that tools which look for leaks find the library.
            _library: &'static Library,
        }

        impl Api {
            fn find(library: &'static Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    $(
                        $(#[$when])?
                        // SAFETY: UNS-31: the type is that of the declaration in UCX's headers.
                        $name: *unsafe { library.get($symbol) }?,
                    )*
                    _library: library,
                })
            }
        }
    };
}

functions! {
    init: b"ucp_init_version", fn(c_uint, c_uint, *const Params, Handle, *mut Handle) -> Status;
    cleanup: b"ucp_cleanup", fn(Handle);
    config_read: b"ucp_config_read", fn(*const c_char, *const c_char, *mut Handle) -> Status;
    config_modify: b"ucp_config_modify", fn(Handle, *const c_char, *const c_char) -> Status;
    config_release: b"ucp_config_release", fn(Handle);
    version: b"ucp_get_version_string", fn() -> *const c_char;
    status_text: b"ucs_status_string", fn(Status) -> *const c_char;
    worker_create: b"ucp_worker_create", fn(Handle, *const WorkerParams, *mut Handle) -> Status;
    worker_destroy: b"ucp_worker_destroy", fn(Handle);
    worker_progress: b"ucp_worker_progress", fn(Handle) -> c_uint;
    worker_descriptor: b"ucp_worker_get_efd", fn(Handle, *mut c_int) -> Status;
    worker_arm: b"ucp_worker_arm", fn(Handle) -> Status;
    listener_create: b"ucp_listener_create",
        fn(Handle, *const ListenerParams, *mut Handle) -> Status;
    listener_destroy: b"ucp_listener_destroy", fn(Handle);
    listener_query: b"ucp_listener_query", fn(Handle, *mut ListenerAttributes) -> Status;
    listener_reject: b"ucp_listener_reject", fn(Handle, Handle) -> Status;
    endpoint_create: b"ucp_ep_create", fn(Handle, *const EndpointParams, *mut Handle) -> Status;
    endpoint_close: b"ucp_ep_close_nbx", fn(Handle, *const RequestParams) -> Request;
    endpoint_flush: b"ucp_ep_flush_nbx", fn(Handle, *const RequestParams) -> Request;
    am_handler: b"ucp_worker_set_am_recv_handler", fn(Handle, *const AmHandler) -> Status;
    am_send: b"ucp_am_send_nbx",
        fn(Handle, c_uint, *const c_void, usize, *const c_void, usize, *const RequestParams)
            -> Request;
    am_receive: b"ucp_am_recv_data_nbx",
        fn(Handle, *mut c_void, *mut c_void, usize, *const RequestParams) -> Request;
    am_release: b"ucp_am_data_release", fn(Handle, *mut c_void);
    tag_send: b"ucp_tag_send_nbx",
        fn(Handle, *const c_void, usize, u64, *const RequestParams) -> Request;
    tag_probe: b"ucp_tag_probe_nb", fn(Handle, u64, u64, c_int, *mut TagInfo) -> Handle;
    tag_receive: b"ucp_tag_msg_recv_nbx",
        fn(Handle, *mut c_void, usize, Handle, *const RequestParams) -> Request;
    request_status: b"ucp_request_check_status", fn(Request) -> Status;
    request_free: b"ucp_request_free", fn(Request);
    // What a test tries on the other side of a connection.
    #[cfg(test)]
    key_unpack: b"ucp_ep_rkey_unpack", fn(Handle, *const c_void, *mut Handle) -> Status;
    #[cfg(test)]
    remote_read: b"ucp_get_nbx",
        fn(Handle, *mut c_void, usize, u64, Handle, *const RequestParams) -> Request;
    #[cfg(test)]
    remote_write: b"ucp_put_nbx",
        fn(Handle, *const c_void, usize, u64, Handle, *const RequestParams) -> Request;
}

/// What became of an operation that was begun.
pub(super) enum Begun {
    /// It is over.
    Done,
    /// It goes on: the request has to be freed once it is over.
    Going(Request),
    Failed(Status),
}

impl Begun {
    pub(super) fn of(request: Request) -> Self {
        match request.addr() as isize {
            0 => Self::Done,
            status @ LAST..0 => Self::Failed(status as Status),
            _ => Self::Going(request),
        }
    }
}

impl Api {
    pub(super) fn text(&self, status: Status) -> String {
        // SAFETY: the function takes any number and returns a text that stays.
        let text = unsafe { (self.status_text)(status) };
        // SAFETY: the function returns a text that ends with a NUL.
        unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
    }

    /// `Ok` where a call succeeded, and otherwise an error that names what failed.
    pub(super) fn check(&self, what: &str, status: Status) -> Result<()> {
        match status {
            OK => Ok(()),
            status => Err(crate::problem::failed(what, self.text(status))),
        }
    }
}

/// Whether an error of a connection says that the other side has ended it. UCX has several names
/// for a socket that was closed, by which lane of the connection notices first: a lane of shared
/// memory has no socket, and says of a process that has ended that it does not answer in time.
pub(super) fn is_end(status: Status) -> bool {
    matches!(status, NOT_CONNECTED | CONNECTION_RESET | ENDPOINT_TIMEOUT)
}

static LIBRARY: LibraryUse = LibraryUse::new();

/// How many threads call UCX.
static CALLING: AtomicUsize = AtomicUsize::new(0);

/// The number of the process that has loaded UCX.
static PROCESS: AtomicU32 = AtomicU32::new(0);

/// The leave to call UCX. The end of the process waits for whoever has it, because at the end UCX
/// takes apart what all its functions use.
#[derive(Debug)]
pub(super) struct InUse(());

/// Returns the leave to call UCX, which is held as long as UCX is called and no longer. An error
/// after the end of the process has begun, and in a child of `fork`.
pub(super) fn enter() -> Result<InUse> {
    CALLING.fetch_add(1, Ordering::SeqCst);
    // Either this sees that the end has begun, or the end sees that UCX is called.
    fence(Ordering::SeqCst);
    let in_use = InUse(());
    LIBRARY.enter()?;
    Ok(in_use)
}

impl Drop for InUse {
    fn drop(&mut self) {
        CALLING.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Called when the process ends, after calls were forbidden: waits until nobody calls UCX. The wait
/// is bounded, because UCX may never return.
extern "C" fn ending() {
    const LOOKS: u32 = 20_000;
    const PAUSE: Duration = Duration::from_micros(100);
    fence(Ordering::SeqCst);
    // In a child of `fork` there are no threads of the parent.
    let is_parent = PROCESS.load(Ordering::Relaxed) == std::process::id();
    let mut looks = if is_parent { LOOKS } else { 0 };
    while looks > 0 && CALLING.load(Ordering::SeqCst) > 0 {
        std::thread::sleep(PAUSE);
        looks -= 1;
    }
}

unsafe extern "C" {
    /// The C library's function.
    fn atexit(handler: extern "C" fn()) -> c_int;
}

/// Returns the functions. The first call loads them. In a child of `fork` whose parent has called
/// this, every call is an error, because UCX's connections belong to the parent.
pub(super) fn load() -> Result<&'static Api> {
    const OPERATION: &str = "load UCX";
    static LOADED: OnceLock<Result<Api, String>> = OnceLock::new();
    // Comes first: a thread of the parent may have been in the middle of what follows.
    LIBRARY.enter().map_err(|error| error.during(OPERATION))?;
    let first = || {
        let api = open()?;
        PROCESS.store(std::process::id(), Ordering::Relaxed);
        // SAFETY: the handler uses statics alone, and can be called at any time. Where it cannot be
        // registered there is no memory left, and the end does not wait.
        let _ = unsafe { atexit(ending) };
        // Handlers run in the opposite order: the one that forbids calls before the one that waits,
        // and both before those that UCX has registered.
        LIBRARY.loaded();
        Ok(api)
    };
    LOADED
        .get_or_init(first)
        .as_ref()
        .map_err(|message| Error::new(ErrorKind::DriverMissing, message.clone()).during(OPERATION))
}

fn open() -> Result<Api, String> {
    let names = match std::env::var_os("ARROW_DEVICE_UCX_LIBRARY") {
        Some(name) => vec![name],
        None => ["libucp.so.0", "libucp.so"].map(OsString::from).to_vec(),
    };
    let mut problem = String::new();
    for name in names {
        // SAFETY: `Library::new` asks that the library's initialisers are sound; these names are
        // those of UCX, or were given by whoever runs the program.
        match unsafe { Library::new(&name) } {
            Ok(library) => {
                let library: &'static Library = Box::leak(Box::new(library));
                return Api::find(library)
                    .map_err(|error| format!("UCX is older than version 1.10: {error}"));
            }
            Err(error) => problem = format!("{}: {error}", name.to_string_lossy()),
        }
    }
    Err(format!("UCX was not found: install it (Debian: libucx0) ({problem})"))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::mem::{offset_of, size_of};
    use std::process::{Command, Stdio};

    use arrow_device_testkit::process::{Child, is_child};
    use arrow_device_testkit::required::skip;

    use super::*;

    #[test]
    fn the_end_of_the_process_waits_until_nobody_calls_ucx() {
        let child = Child::of_this_test();
        if let Err(error) = load() {
            return skip("ucx", &error.to_string());
        }
        if !is_child() {
            let ended = child.run().expect_success();
            assert!(ended.stderr.contains("UCX was called until now"), "{}", ended.stderr);
            return;
        }
        let in_use = enter().unwrap();
        std::thread::spawn(move || {
            while enter().is_ok() {
                std::thread::yield_now();
            }
            // The end has begun.
            std::thread::sleep(Duration::from_millis(20));
            let _ = writeln!(std::io::stderr(), "UCX was called until now");
            drop(in_use);
        });
        std::process::exit(0);
    }

    /// The claims of a C compiler about UCX's headers that a layout has to be true for.
    fn claims() -> String {
        let mut claims = String::from("#include <stddef.h>\n#include <ucp/api/ucp.h>\n");
        let mut claim = |what: String| claims += &format!("_Static_assert({what}, \"layout\");\n");
        macro_rules! layout {
            ($rust:ty, $c:literal, $($field:ident $name:literal),*) => {
                claim(format!("sizeof({}) == {}", $c, size_of::<$rust>()));
                $(claim(format!("offsetof({}, {}) == {}", $c, $name, offset_of!($rust, $field)));)*
            };
        }
        layout!(Params, "ucp_params_t", field_mask "field_mask", features "features",
            request_size "request_size", mt_workers_shared "mt_workers_shared", name "name");
        layout!(WorkerParams, "ucp_worker_params_t", thread_mode "thread_mode",
            cpu_mask "cpu_mask", events "events", user_data "user_data", event_fd "event_fd",
            flags "flags", name "name", am_alignment "am_alignment", client_id "client_id");
        layout!(SocketAddress, "ucs_sock_addr_t", address "addr", len "addrlen");
        layout!(ListenerParams, "ucp_listener_params_t", sockaddr "sockaddr",
            accept_callback "accept_handler.cb", accept_argument "accept_handler.arg",
            connection_callback "conn_handler.cb", connection_argument "conn_handler.arg");
        layout!(ListenerAttributes, "ucp_listener_attr_t", sockaddr "sockaddr");
        layout!(EndpointParams, "ucp_ep_params_t", address "address", error_mode "err_mode",
            error_callback "err_handler.cb", error_argument "err_handler.arg",
            user_data "user_data", flags "flags", sockaddr "sockaddr",
            connection "conn_request", name "name", local_sockaddr "local_sockaddr");
        layout!(AmReceived, "ucp_am_recv_param_t", attributes "recv_attr",
            reply_endpoint "reply_ep");
        layout!(AmHandler, "ucp_am_handler_param_t", field_mask "field_mask", id "id",
            flags "flags", callback "cb", argument "arg");
        layout!(TagInfo, "ucp_tag_recv_info_t", tag "sender_tag", len "length");
        layout!(RequestParams, "ucp_request_param_t", attributes "op_attr_mask", flags "flags",
            request "request", callback "cb", datatype "datatype", user_data "user_data",
            reply_buffer "reply_buffer", memory_type "memory_type", info "recv_info",
            memory "memh");
        claim(format!("sizeof(ucs_status_t) == {}", size_of::<Status>()));
        claim("sizeof(ucp_datatype_t) == 8 && sizeof(ucp_tag_t) == 8".into());
        for (name, value) in [
            ("UCP_FEATURE_TAG", FEATURE_TAG),
            ("UCP_FEATURE_RMA", FEATURE_REMOTE_MEMORY),
            ("UCP_FEATURE_WAKEUP", FEATURE_WAKEUP),
            ("UCP_FEATURE_AM", FEATURE_AM),
            ("UCS_THREAD_MODE_SERIALIZED", SERIALIZED as u64),
            ("UCP_ERR_HANDLING_MODE_PEER", OF_PEER as u64),
            ("UCP_EP_PARAMS_FLAGS_CLIENT_SERVER", CLIENT_SERVER.into()),
            ("UCP_AM_SEND_FLAG_RNDV", AM_RENDEZVOUS.into()),
            ("UCP_AM_RECV_ATTR_FLAG_RNDV", AM_COMES_LATER),
            ("UCP_AM_FLAG_WHOLE_MSG", AM_WHOLE.into()),
            ("UCP_EP_CLOSE_FLAG_FORCE", CLOSE_AT_ONCE.into()),
            ("UCP_OP_ATTR_FIELD_FLAGS", ATTR_FLAGS.into()),
            ("UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED", 1 | 1 << 5),
            ("UCP_WORKER_PARAM_FIELD_THREAD_MODE", 1),
            ("UCP_LISTENER_PARAM_FIELD_SOCK_ADDR | UCP_LISTENER_PARAM_FIELD_CONN_HANDLER", 5),
            ("UCP_LISTENER_ATTR_FIELD_SOCKADDR", 1),
            ("UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER", 6),
            ("UCP_EP_PARAM_FIELD_SOCK_ADDR | UCP_EP_PARAM_FIELD_FLAGS", 3 << 4),
            ("UCP_EP_PARAM_FIELD_CONN_REQUEST", 1 << 6),
        ] {
            claim(format!("({name}) == {value}"));
        }
        for (name, value) in [
            ("UCS_INPROGRESS", isize::from(IN_PROGRESS)),
            ("UCS_ERR_NO_MEMORY", NO_MEMORY.into()),
            ("UCS_ERR_BUSY", BUSY.into()),
            ("UCS_ERR_NOT_CONNECTED", NOT_CONNECTED.into()),
            ("UCS_ERR_CONNECTION_RESET", CONNECTION_RESET.into()),
            ("UCS_ERR_ENDPOINT_TIMEOUT", ENDPOINT_TIMEOUT.into()),
            ("UCS_ERR_LAST", LAST),
        ] {
            claim(format!("{name} == {value}"));
        }
        claims
    }

    /// Whether a C compiler finds these claims true. Prints what it says.
    fn is_true(claims: &str) -> bool {
        let folder = std::env::var_os("ARROW_DEVICE_UCX_HEADERS");
        let mut compiler = Command::new("cc");
        compiler.args(["-fsyntax-only", "-x", "c", "-"]).stdin(Stdio::piped());
        if let Some(folder) = folder {
            compiler.arg("-I").arg(folder);
        }
        let mut compiler = compiler.spawn().unwrap();
        compiler.stdin.take().unwrap().write_all(claims.as_bytes()).unwrap();
        compiler.wait().unwrap().success()
    }

    #[test]
    fn the_layouts_are_those_of_the_headers_of_ucx() {
        if !is_true("#include <ucp/api/ucp.h>\n") {
            return skip("ucx", "the headers of UCX are not installed (Debian: libucx-dev)");
        }
        let claims = claims();
        assert!(is_true(&claims), "{claims}");
        assert!(!is_true(&claims.replace("sizeof(ucp_params_t) == ", "sizeof(ucp_params_t) == 1")));
    }

    #[test]
    fn a_pointer_of_ucx_is_a_request_or_a_status() {
        let pointer = |number: isize| std::ptr::without_provenance_mut(number as usize);
        assert!(matches!(Begun::of(pointer(0)), Begun::Done));
        assert!(matches!(Begun::of(pointer(-1)), Begun::Failed(-1)));
        assert!(matches!(Begun::of(pointer(-100)), Begun::Failed(-100)));
        assert!(matches!(Begun::of(pointer(-101)), Begun::Going(_)));
        assert!(matches!(Begun::of(pointer(8)), Begun::Going(_)));
    }
}
