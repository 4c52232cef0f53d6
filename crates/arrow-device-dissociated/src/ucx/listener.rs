//! [`UcxListener`]: where clients connect to.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::fmt;
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use arrow_device::Result;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::address::{self, RawAddress};
use super::api::{self, Handle, ListenerAttributes, ListenerParams};
use super::context::{Context, Worker};
use super::engine::Engine;
use super::{UcxOptions, UcxTransport};
use crate::location::Location;
use crate::problem::{failed, of_peer, too_late};
use crate::process::Process;

/// The most clients that wait to be accepted. More are refused.
const MOST_WAITING: usize = 64;

/// Waits for clients that connect over UCX.
///
/// ```no_run
/// use arrow_device_dissociated::{Location, UcxListener, UcxOptions};
///
/// // SAFETY: UNS-39: only programs of ours reach the address.
/// let listener = unsafe { UcxListener::bind("127.0.0.1:0", &UcxOptions::new()) }?;
/// let location = Location::new(listener.address());
/// assert!(location.address.starts_with("ucx://127.0.0.1:"));
/// let here = listener.accept(None)?;
/// # let _ = here;
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub struct UcxListener {
    inner: Mutex<Inner>,
    context: Arc<Context>,
    address: SocketAddr,
    process: Process,
}

struct Inner {
    worker: Worker,
    handle: Handle,
    waiting: Box<Waiting>,
}

/// The clients that have connected and were not accepted.
type Waiting = Mutex<VecDeque<Handle>>;

// SAFETY: the worker was made for several threads that use it one after the other, and the listener
// and the requests are of this worker.
unsafe impl Send for Inner {}

impl UcxListener {
    /// Listens at an address, such as `127.0.0.1:5000`. With port 0 the system chooses one.
    ///
    /// # Errors
    /// [`DriverMissing`](arrow_device::ErrorKind::DriverMissing): UCX is not installed.
    ///
    /// # Safety
    /// UNS-39: whoever can connect to the address speaks UCX's own protocol as UCX does.
    pub unsafe fn bind(address: &str, options: &UcxOptions) -> Result<Self> {
        let context = {
            let _in_use = api::enter()?;
            options.open()?
        };
        // SAFETY: UNS-39, which the caller promises.
        unsafe { Self::listen(context, address) }
    }

    /// Listens at an address, with this context.
    ///
    /// # Safety
    /// UNS-39: whoever can connect to the address speaks UCX's own protocol as UCX does.
    pub(super) unsafe fn listen(context: Arc<Context>, address: &str) -> Result<Self> {
        let raw = RawAddress::of(address::resolve(address)?);
        let _in_use = api::enter()?;
        let mut inner = Inner {
            worker: Worker::new(&context)?,
            handle: ptr::null_mut(),
            waiting: Box::default(),
        };
        let argument = (&raw const *inner.waiting).cast_mut().cast::<c_void>();
        let params = ListenerParams::new(raw.as_ucx(), on_connection, argument);
        let (api, worker) = (context.api(), inner.worker.handle());
        // SAFETY: the worker lives, and the parameters, with the address in them, are read during
        // the call. The argument lives as long as the listener.
        let status =
            unsafe { (api.listener_create)(worker, &raw const params, &raw mut inner.handle) };
        api.check(&format!("listen at {address}"), status)?;
        // The address.
        let mut attributes = ListenerAttributes { field_mask: 1 << 0, sockaddr: [0; 128] };
        // SAFETY: the listener lives, and the call writes to the struct.
        let status = unsafe { (api.listener_query)(inner.handle, &raw mut attributes) };
        api.check(&format!("listen at {address}"), status)?;
        let address = address::read(&attributes.sockaddr)
            .ok_or_else(|| failed("listen", "the listener has no address"))?;
        Ok(Self { inner: Mutex::new(inner), context, address, process: Process::this() })
    }

    /// The address for a [`Location`]: `ucx://`, the host and the port.
    pub fn address(&self) -> String {
        format!("ucx://{}", self.address)
    }

    /// A [`Location`] with the tags 1 and 2.
    pub fn location(&self) -> Location {
        Location::new(self.address())
    }

    /// Waits for a client. UCX answers clients only during this call. Of several threads that call
    /// this, one waits for clients, and the others wait for that thread, also beyond their own
    /// timeouts.
    ///
    /// # Errors
    /// [`TimedOut`](arrow_device::ErrorKind::TimedOut): none came in time. Errors of UCX and of the
    /// system, such as too many open files: a client that has connected goes on waiting then.
    pub fn accept(&self, timeout: Option<Duration>) -> Result<UcxTransport> {
        if !self.process.is_this() {
            return Err(of_peer("a child of `fork` has no connections of its parent"));
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let (api, worker) = (self.context.api(), inner.worker.handle());
        loop {
            // This thread may go on while the process ends, and UCX with it.
            let in_use = api::enter()?;
            // SAFETY: the worker lives, and is used under the lock alone.
            let events = unsafe { (api.worker_progress)(worker) };
            if !inner.waiting().is_empty() {
                // A client goes on waiting where there is nothing to serve it with.
                let mut engine = Engine::new(&self.context)?;
                let next = inner.waiting().pop_front();
                if let Some(request) = next {
                    engine.accept(request)?;
                    return UcxTransport::of(engine);
                }
            }
            inner.refuse_some();
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if left == Some(Duration::ZERO) {
                return Err(too_late("no client has connected"));
            }
            // SAFETY: the worker lives, and is used under the lock alone.
            if events > 0 || unsafe { (api.worker_arm)(worker) } == api::BUSY {
                continue;
            }
            drop(in_use);
            let left = left.and_then(|left| Timespec::try_from(left).ok());
            // SAFETY: the descriptor is the worker's, and stays open as long as the worker lives.
            let of_ucx = unsafe { BorrowedFd::borrow_raw(inner.worker.descriptor()) };
            let mut polled = [PollFd::from_borrowed_fd(of_ucx, PollFlags::IN)];
            // A failed wait, such as one that a signal ended, is one that was short.
            let _ = rustix::event::poll(&mut polled, left.as_ref());
        }
    }
}

impl Inner {
    fn waiting(&self) -> MutexGuard<'_, VecDeque<Handle>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses the clients that are too many, or all of them.
    fn refuse(&self, beyond: usize) {
        let mut waiting = self.waiting();
        let first = beyond.min(waiting.len());
        for request in waiting.split_off(first) {
            // SAFETY: the request came to this listener, and was not answered.
            let _ = unsafe { (self.worker.api().listener_reject)(self.handle, request) };
        }
    }

    fn refuse_some(&self) {
        self.refuse(MOST_WAITING);
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if !self.handle.is_null()
            && let Ok(_in_use) = api::enter()
        {
            self.refuse(0);
            // SAFETY: the listener was made and not destroyed, and is not used afterwards.
            unsafe { (self.worker.api().listener_destroy)(self.handle) };
        }
        self.worker.destroy();
    }
}

impl Drop for UcxListener {
    fn drop(&mut self) {
        if !self.process.is_this() {
            // What UCX has belongs to the parent.
            let inner = self.inner.get_mut().unwrap_or_else(PoisonError::into_inner);
            inner.handle = ptr::null_mut();
            inner.worker.forget();
            std::mem::forget(self.context.clone());
        }
    }
}

impl fmt::Debug for UcxListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UcxListener({})", self.address)
    }
}

/// Called by UCX where a client has connected.
unsafe extern "C" fn on_connection(request: Handle, argument: *mut c_void) {
    // SAFETY: the argument is the list of the listener, which lives as long as the listener.
    let waiting = unsafe { &*argument.cast::<Waiting>() };
    waiting.lock().unwrap_or_else(PoisonError::into_inner).push_back(request);
}
