//! The consumer's callbacks, as C sees them.
//!
//! Each callback reads what the producer passes once, checks it, and then lets the protocol decide.
//! Nothing of the producer is kept but what was moved or copied.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::sync::Arc;

use super::failure::Failure;
use super::foreign::{ForeignProducer, ForeignTask};
use super::protocol::consumer::{CallFault, Refusal, Verdict};
use super::state::{StreamInfo, StreamState};
use super::this_thread::this_thread;
use super::tickets::{Pinned, Places, Tickets};
use crate::abi::{ArrowAsyncDeviceStreamHandler, ArrowAsyncTask, ArrowSchema};
use crate::ffi::guard;
use crate::process::PerProcess;
use crate::{DeviceType, Error, ErrorKind, Metadata, Result, Schema};

static HANDLERS: PerProcess<Tickets<Arc<StreamState>>> = PerProcess::new(Tickets::new());
static PLACES: PerProcess<Places<ArrowAsyncDeviceStreamHandler>> = PerProcess::new(Places::new());

/// The handler of an [`AsyncStream`](super::AsyncStream), to be given to one producer.
///
/// A handler that is dropped and not given away ends the stream with an error, as if a producer had
/// released it at once.
pub struct StreamHandler {
    place: Option<Pinned<ArrowAsyncDeviceStreamHandler>>,
}

impl StreamHandler {
    pub(super) fn new(shared: Arc<StreamState>) -> Self {
        let handler = ArrowAsyncDeviceStreamHandler {
            on_schema: Some(on_schema),
            on_next_task: Some(on_next_task),
            on_error: Some(on_error),
            release: Some(release),
            private_data: HANDLERS.get().issue(shared),
            ..ArrowAsyncDeviceStreamHandler::empty()
        };
        Self { place: Some(PLACES.get().put(handler)) }
    }

    /// The C struct, to be given to a producer. The producer calls `release` on it in the end.
    ///
    /// Callers through the pointer have to keep to what the Arrow C device interface says of memory
    /// (UNS-11):
    ///
    /// * `producer` is null or points to a producer until `release` is entered, and its callbacks,
    ///   where they are not null, can be called on any thread;
    /// * `on_schema` gets null or a struct as [`Schema::import`] wants it;
    /// * `on_next_task` gets null or a task whose callback can be called once on any thread and
    ///   writes a struct as [`Array::import`](crate::Array::import) wants it, or returns an error
    ///   and writes nothing;
    /// * texts end with a NUL byte and metadata is encoded as in an `ArrowSchema`, or they are
    ///   null.
    ///
    /// The order and number of calls may be wrong: a wrong call ends the stream with an error. A
    /// call after the release does nothing, as long as fewer than 64 other streams have ended
    /// since.
    pub fn into_raw(mut self) -> *mut ArrowAsyncDeviceStreamHandler {
        match self.place.take() {
            Some(place) => place.as_ptr(),
            None => std::ptr::null_mut(),
        }
    }
}

impl Drop for StreamHandler {
    fn drop(&mut self) {
        if let Some(place) = self.place.take() {
            // SAFETY: the handler was given to nobody, so this is the first and last call.
            unsafe { release(place.as_ptr()) };
        }
    }
}

impl fmt::Debug for StreamHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamHandler")
    }
}

unsafe extern "C" fn on_schema(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    schema: *mut ArrowSchema,
) -> c_int {
    answer(|| {
        // The schema is taken and released whatever else is wrong.
        // SAFETY: UNS-11: null, or a schema as UNS-1, UNS-2 and UNS-6 say.
        let schema = unsafe { Schema::import(schema) };
        // SAFETY: UNS-11: it is our handler, or was.
        let shared = unsafe { find(handler) }?;
        // SAFETY: UNS-11: it is our handler, and this is its call of `on_schema`.
        let opened = unsafe { open(handler, schema) };
        let producer = opened.map(|(producer, info)| {
            // A second schema changes nothing: the protocol refuses it.
            let _ = shared.info.set(Arc::new(info));
            producer
        });
        let outcome = match producer {
            Ok(producer) => shared.consumer.opened(producer).map_err(refused),
            Err(error) => Err(refuse(&shared, error.during("on_schema"))),
        };
        shared.consumer.pump(this_thread());
        outcome
    })
}

/// Reads the producer's struct, which comes with the schema.
///
/// # Safety
/// UNS-11; this is the call of `on_schema`.
unsafe fn open(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    schema: Result<Schema>,
) -> Result<(ForeignProducer, StreamInfo)> {
    let schema = schema?;
    let malformed = |message: &'static str| Error::new(ErrorKind::Malformed, message);
    // SAFETY: UNS-11, which the caller promises; the producer has set the member by now, and nobody
    // writes to it meanwhile.
    let address = unsafe { (*handler).producer };
    // SAFETY: UNS-11, which the caller promises.
    let Some(producer) = (unsafe { address.as_ref() }) else {
        return Err(malformed("`producer` of the handler is null"));
    };
    let request = producer.request.ok_or_else(|| malformed("`request` of the producer is null"))?;
    let cancel = producer.cancel.ok_or_else(|| malformed("`cancel` of the producer is null"))?;
    // SAFETY: UNS-11, which the caller promises.
    let metadata = unsafe { Metadata::copy(producer.additional_metadata) }?;
    let info = StreamInfo { schema, device_type: DeviceType(producer.device_type), metadata };
    Ok((ForeignProducer { address, request, cancel }, info))
}

unsafe extern "C" fn on_next_task(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    task: *mut ArrowAsyncTask,
    metadata: *const c_char,
) -> c_int {
    answer(|| {
        // SAFETY: UNS-11: it is our handler, or was.
        let shared = unsafe { find(handler) }?;
        // SAFETY: UNS-11: null, or a task that is good during this call.
        match unsafe { task.as_ref() } {
            None => shared.consumer.ended().map_err(refused),
            // SAFETY: UNS-11: the metadata is null or encoded as in a schema, and this is the
            // handler's call of `on_next_task`.
            Some(task) => match unsafe { take(task, metadata) } {
                Ok(task) => match shared.consumer.arrived(task) {
                    Verdict::Kept => Ok(()),
                    Verdict::Discard(task) => {
                        drop(task);
                        Ok(())
                    }
                    Verdict::Refuse(task, refusal) => {
                        task.leave();
                        Err(refused(refusal))
                    }
                },
                Err(error) => Err(refuse(&shared, error.during("on_next_task"))),
            },
        }
    })
}

/// Moves a task out. "If the consumer wants to use the task beyond the scope of this method, it
/// must copy or move its contents".
///
/// # Safety
/// UNS-11; this is the call of `on_next_task`.
unsafe fn take(task: &ArrowAsyncTask, metadata: *const c_char) -> Result<ForeignTask> {
    let ArrowAsyncTask { extract_data, private_data } = *task;
    if extract_data.is_none() {
        return Err(Error::new(ErrorKind::Malformed, "`extract_data` of the task is null"));
    }
    // SAFETY: UNS-11, which the caller promises.
    let metadata = unsafe { Metadata::copy(metadata) }?;
    Ok(ForeignTask::new(ArrowAsyncTask { extract_data, private_data }, metadata))
}

unsafe extern "C" fn on_error(
    handler: *mut ArrowAsyncDeviceStreamHandler,
    code: c_int,
    message: *const c_char,
    metadata: *const c_char,
) {
    guard::silent(|| {
        // SAFETY: UNS-11: it is our handler, or was.
        let Ok(shared) = (unsafe { find(handler) }) else { return };
        // SAFETY: UNS-11: null, or a text that is good during this call.
        let text = (!message.is_null()).then(|| unsafe { CStr::from_ptr(message) });
        let text = text.map(|text| text.to_string_lossy().into_owned());
        // The error is worth more than what is wrong with its metadata.
        // SAFETY: UNS-11: null, or encoded as in a schema.
        let metadata = unsafe { Metadata::copy(metadata) }.unwrap_or_default();
        let error = Error::from_peer(code, text.filter(|text| !text.is_empty()));
        shared.consumer.failed(Failure { error, metadata });
    });
}

unsafe extern "C" fn release(handler: *mut ArrowAsyncDeviceStreamHandler) {
    guard::silent(|| {
        // SAFETY: UNS-11: it is our handler, or was.
        let Some(ticket) = (unsafe { ticket_of(handler) }) else { return };
        // The second release finds nothing.
        let Some(shared) = HANDLERS.get().take(ticket) else { return };
        shared.consumer.released(this_thread());
        // SAFETY: the handler is ours, in its place, and this is the one call that got the ticket.
        // Nobody reads the member meanwhile: this is the last call.
        unsafe { (*handler).release = None };
        // SAFETY: it was put there, and rests once since the ticket was taken once.
        unsafe { PLACES.get().rest_at(handler) };
    });
}

/// # Safety
/// A handler that [`StreamHandler::into_raw`] gave, whether or not it is released, or null.
unsafe fn ticket_of(handler: *mut ArrowAsyncDeviceStreamHandler) -> Option<*mut std::ffi::c_void> {
    // SAFETY: the place of a handler is never freed, and the member is written only where the place
    // is used again, which is after 64 others have come to rest behind it. A call comes before that
    // (UNS-11).
    (!handler.is_null()).then(|| unsafe { (*handler).private_data })
}

/// # Safety
/// A handler that [`StreamHandler::into_raw`] gave, whether or not it is released, or null
/// (UNS-11).
unsafe fn find(handler: *mut ArrowAsyncDeviceStreamHandler) -> Result<Arc<StreamState>> {
    // SAFETY: UNS-11, which the caller promises.
    let ticket = unsafe { ticket_of(handler) };
    ticket.and_then(|ticket| HANDLERS.get().find(ticket)).ok_or_else(|| refused(Refusal::Late))
}

/// Ends the stream with an error, which is also the answer to the producer.
fn refuse(shared: &StreamState, error: Error) -> Error {
    let answer = Error::new(error.kind(), "");
    shared.consumer.failed(error.into());
    answer
}

/// The answer to a producer.
fn refused(refusal: Refusal) -> Error {
    match refusal {
        Refusal::Fault(fault) => Failure::from(fault).error,
        Refusal::Cancelled => Error::new(ErrorKind::Cancelled, "the consumer dropped the stream"),
        Refusal::Late => Error::new(ErrorKind::Released, "the stream is over"),
    }
}

fn answer(body: impl FnOnce() -> Result<()>) -> c_int {
    guard::or_panicked(body).map_or_else(|error| error.errno(), |()| 0)
}

impl From<CallFault> for Failure {
    fn from(fault: CallFault) -> Self {
        let (operation, message) = match fault {
            CallFault::SchemaTwice => ("on_schema", "the producer gave a second schema"),
            CallFault::TaskBeforeSchema => {
                ("on_next_task", "the producer gave a task before the schema")
            }
            CallFault::TaskWithoutRequest => {
                ("on_next_task", "the producer gave more tasks than it was asked for")
            }
            CallFault::TaskAfterEnd => ("on_next_task", "the producer gave a task after the end"),
            CallFault::EndBeforeSchema => {
                ("on_next_task", "the producer ended the stream before it gave the schema")
            }
            CallFault::EndTwice => ("on_next_task", "the producer ended the stream twice"),
            CallFault::ReleaseBeforeSchema => {
                ("release", "the producer released the handler before it gave the schema")
            }
            CallFault::ReleaseBeforeEnd => {
                ("release", "the producer released the handler before the end of the stream")
            }
        };
        Error::new(ErrorKind::Malformed, message).during(operation).into()
    }
}
