//! [`UcxTransport`]: messages over UCX.
//!
//! A message with a tag is one of UCX's tagged messages, and a message without one is an active
//! message with the number 0. So the two sides need no framing, and UCX chooses how bytes travel.
//! [`engine`] has the thread of a connection, [`shared`] what the thread has in common with those
//! who use the connection, and [`api`] the functions of UCX.

mod address;
mod api;
mod context;
mod engine;
mod listener;
#[cfg(test)]
mod remote;
mod shared;

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use arrow_device::Result;

pub use self::listener::UcxListener;

use self::address::RawAddress;
use self::context::Context;
use self::engine::Engine;
use self::shared::Shared;
use crate::location::Location;
use crate::problem::{failed, of_peer, unsupported};
use crate::process::Process;
use crate::transport::{Message, Received, Transport};

/// How long a connection that is dropped waits for its thread. The thread ends without being waited
/// for where the other side does not read.
const DROPPING: Duration = Duration::from_secs(1);

/// How UCX is opened. The environment variables of UCX are settings as well.
#[derive(Clone, Debug, Default)]
pub struct UcxOptions {
    transports: Option<String>,
}

impl UcxOptions {
    /// The defaults: UCX chooses among the ways that report the death of a peer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the ways on which UCX moves bytes, by UCX's names with commas between, as `UCX_TLS`
    /// does. `tcp` has to be among them, by which connections begin.
    #[must_use]
    pub fn transports(mut self, names: impl Into<String>) -> Self {
        self.transports = Some(names.into());
        self
    }

    fn open(&self) -> Result<Arc<Context>> {
        Context::open(self.transports.as_deref())
    }
}

/// One end of a connection over UCX: over TCP, or what else UCX has and reports errors of.
///
/// A thread of its own makes the connection's progress. Bodies travel packed: no region is carried.
/// A peer that dies is noticed by UCX, at once where the system closes its sockets. Dropping a
/// transport waits at most a second for what was sent to leave, and goes on in the background for
/// half a minute where the other side does not read. In a child of `fork` every call is an error.
///
/// ```no_run
/// use arrow_device_dissociated::{Location, UcxOptions, UcxTransport};
///
/// let location: Location = "ucx://127.0.0.1:5000?want_data=1&free_data=2".parse()?;
/// // SAFETY: UNS-39: a program of ours listens there.
/// let there = unsafe { UcxTransport::connect(&location, &UcxOptions::new()) }?;
/// # let _ = there;
/// # Ok::<(), arrow_device::Error>(())
/// ```
pub struct UcxTransport {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    process: Process,
}

/// Tells that the thread has ended.
struct Over(Arc<Shared>);

impl Drop for Over {
    fn drop(&mut self) {
        self.0.is_over();
    }
}

/// Checks whether UCX is installed, and returns its version. The error says what to install.
///
/// # Errors
/// [`DriverMissing`](arrow_device::ErrorKind::DriverMissing): the library is not there, or too old.
pub fn ucx_version() -> Result<String> {
    let api = api::load()?;
    // SAFETY: the function takes nothing and returns a text that stays.
    let text = unsafe { (api.version)() };
    // SAFETY: the function returns a text that ends with a NUL.
    Ok(unsafe { std::ffi::CStr::from_ptr(text) }.to_string_lossy().into_owned())
}

impl UcxTransport {
    /// Connects to the listener of a location: `ucx://`, a host and a port. Whether somebody
    /// listens there is told by what is sent and received.
    ///
    /// # Errors
    /// [`DriverMissing`](arrow_device::ErrorKind::DriverMissing): UCX is not installed.
    /// [`Unsupported`](arrow_device::ErrorKind::Unsupported): another scheme. Errors of UCX.
    ///
    /// # Safety
    /// UNS-39: whoever answers at the address speaks UCX's own protocol as UCX does.
    pub unsafe fn connect(location: &Location, options: &UcxOptions) -> Result<Self> {
        let address = address::resolve(address::of_location(&location.address)?)?;
        let _in_use = api::enter()?;
        let (context, raw) = (options.open()?, RawAddress::of(address));
        let mut engine = Engine::new(&context)?;
        engine.connect(raw.as_ucx())?;
        Self::of(engine)
    }

    /// One end of the connection that the engine has begun.
    fn of(engine: Engine) -> Result<Self> {
        let shared = engine.shared().clone();
        let over = Over(shared.clone());
        let run = move || {
            // Dropped behind the engine, also where the thread panics.
            let _over = over;
            engine.run();
        };
        let thread = std::thread::Builder::new().name("dissociated ucx".into()).spawn(run);
        let thread = thread.map_err(|error| failed("start a thread", error))?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { shared, thread, process: Process::this() })
    }

    /// An error in a child of `fork`, which has none of the threads.
    fn enter(&self) -> Result<()> {
        if self.process.is_this() {
            return Ok(());
        }
        Err(of_peer("a child of `fork` has no connections of its parent"))
    }
}

impl Transport for UcxTransport {
    fn send(&self, message: &Message, timeout: Option<Duration>) -> Result<()> {
        self.enter()?;
        if !message.regions.is_empty() {
            return Err(unsupported("UCX carries no descriptors of memory"));
        }
        self.shared.send(message, timeout)
    }

    fn receive(&self, most: u64, timeout: Option<Duration>) -> Result<Received> {
        self.enter()?;
        self.shared.receive(most, timeout)
    }

    fn flush(&self, timeout: Option<Duration>) -> Result<()> {
        self.enter()?;
        self.shared.flush(timeout)
    }
}

impl Drop for UcxTransport {
    fn drop(&mut self) {
        let thread = self.thread.get_mut().unwrap_or_else(PoisonError::into_inner).take();
        if !self.process.is_this() {
            // The parent's thread has what UCX has. A lock may be held that nobody gives back.
            std::mem::forget((self.shared.clone(), thread));
            return;
        }
        if self.shared.stop(DROPPING)
            && let Some(thread) = thread
        {
            // A thread that has panicked has ended as well.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for UcxTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UcxTransport")
    }
}
