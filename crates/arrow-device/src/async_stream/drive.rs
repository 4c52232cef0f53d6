//! The producer's side: a future that takes arrays out of a stream and pushes them into a handler.
//!
//! The future makes all calls of the handler, one after the other:
//!
//! 1. `on_schema`, at the first poll.
//! 2. Once the consumer has asked for a first array, the next array is taken out of the source
//!    without a look at the credit, which is the number of arrays that the consumer has asked for
//!    and not got. So the end of the source is seen without a further request.
//! 3. `on_next_task` for this array as soon as there is credit, and then step 2 again. After
//!    [`MOST_IN_A_POLL`] arrays in one poll, the future wakes itself and lets others run.
//! 4. `on_next_task` with null at the end of the source, or `on_error`.
//! 5. `release`: the last call on every path, the drop of the future included.
//!
//! The consumer's own calls, `request` and `cancel`, only record a wish (`protocol/producer.rs`)
//! and wake the future, on whatever thread they come.
//!
//! Why this is fast: an array that is there and has credit costs two short looks at the wishes,
//! each under one lock, and the call of the consumer. The waker is cloned only where the future has
//! to wait.
//!
//! What must stay true: a consumer is never called from inside a call of a consumer, nothing is
//! called after `release`, and a child of `fork` calls nothing.

use std::ffi::{CString, c_char, c_int};
use std::fmt;
use std::mem::ManuallyDrop;
use std::pin::Pin;
use std::ptr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::thread;

use futures_core::Stream;

use super::failure::Failure;
use super::outgoing::{Outgoing, Sending};
use super::outlet::{
    Outlet, ProducerCredit, StreamPromise, is_waking, refuse_poll, wake_elsewhere, with_waking,
};
use super::protocol::producer::{Need, Next};
use super::tickets::{Pinned, Places, Tickets};
use crate::abi::{ArrowAsyncDeviceStreamHandler, ArrowAsyncProducer, ArrowAsyncTask, ArrowSchema};
use crate::device::nesting;
use crate::ffi::guard;
use crate::process::{self, MadeIn, PerProcess};
use crate::stream::BeingRead;
use crate::{DeviceType, Error, ErrorKind, Metadata, Result, Schema};

static PRODUCERS: PerProcess<Tickets<Arc<Outlet>>> = PerProcess::new(Tickets::new());
static PLACES: PerProcess<Places<ArrowAsyncProducer>> = PerProcess::new(Places::new());

/// How many tasks are sent before other futures of the executor get their turn.
const MOST_IN_A_POLL: usize = 32;

/// A stream of arrays that is about to be produced for another party.
///
/// The source is any [`Stream`] of results of [`Array`](crate::Array)s, [`Batch`](crate::Batch)es
/// or [`Outgoing`]s, all of this schema and on this type of device. Its errors are [`Error`]s or
/// [`Failure`]s.
#[derive(Debug)]
pub struct AsyncProducer<S> {
    source: S,
    promise: StreamPromise,
    metadata: Metadata,
}

impl<S> AsyncProducer<S> {
    /// Makes a producer of what the source gives.
    pub fn new(schema: Schema, device_type: DeviceType, source: S) -> Self {
        let promise = StreamPromise { schema, device_type };
        Self { source, promise, metadata: Metadata::EMPTY }
    }

    /// Sets the metadata of the stream as a whole, such as the number of its rows.
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = metadata;
        self
    }

    /// Takes a consumer's handler over, and makes the future that fills it.
    ///
    /// Nothing happens until the future is polled. It calls the handler from the threads that poll
    /// it. It calls `release` when the source ends, fails or panics, when the consumer cancels or
    /// refuses something, or when the future is dropped.
    ///
    /// # Errors
    /// [`Malformed`](ErrorKind::Malformed), if a callback of the handler is missing. The handler is
    /// then released before this returns, if it has a `release`.
    ///
    /// # Safety
    /// UNS-10: `handler` is null, or points to a handler that
    ///
    /// * stays where it is until its `release` is called, and was given to nobody else,
    /// * has callbacks that can be called on any thread, one at a time, where they are not null,
    /// * calls `request` and `cancel` on the producer only between `on_schema` and `release`, or
    ///   later while the process has this library and fewer than 64 other streams have ended since,
    ///   and extracts tasks that are copies of those it was shown.
    pub unsafe fn drive(self, handler: *mut ArrowAsyncDeviceStreamHandler) -> Result<Drive<S>>
    where
        S: 'static,
    {
        // SAFETY: UNS-10, which the caller promises.
        let handler = unsafe { Handler::new(handler) }?;
        let additional_metadata = encoded(&self.metadata);
        let (made_in, credit) = (MadeIn::watched(), ProducerCredit::new());
        let outlet = Outlet { made_in, promise: self.promise, credit };
        let outlet = Arc::new(outlet);
        let place = PLACES.get().put(ArrowAsyncProducer {
            device_type: outlet.promise.device_type.0,
            request: Some(request),
            cancel: Some(cancel),
            additional_metadata,
            private_data: PRODUCERS.get().issue(outlet.clone()),
        });
        handler.show(&place);
        let calls = HandlerCalls { handler, place: Some(place), outlet, _metadata: self.metadata };
        Ok(Drive {
            calls,
            source: Some(DriveSource(ManuallyDrop::new(Box::pin(self.source)))),
            ahead: None,
            stage: DriveStage::Start,
        })
    }
}

/// How a stream that did not fail came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The source ended, and the consumer was told.
    Finished,
    /// The consumer cancelled.
    Cancelled,
}

/// The future that fills a consumer's handler. [`AsyncProducer::drive`] makes it.
///
/// The result of the future says how the stream ended. An error is that of the source, or says
/// which error the consumer returned from a call. In a child of `fork` the future ends with
/// [`ErrorKind::Unsupported`], and calls nobody: the consumer belongs to the parent.
///
/// Once the consumer has asked for its first array, the future reads one array ahead, so that the
/// consumer learns of the end without asking for more.
///
/// The future is woken from inside the consumer's calls. No consumer is called back from inside the
/// call of any consumer, so a poll in such a waker does nothing. Few executors poll in their
/// wakers; for these, a short-lived thread wakes the future once more. A future that is dropped in
/// such a call tells its consumer the end from a short-lived thread.
///
/// A waker must not wait for a poll of this future or of another `Drive`: the poll may be about to
/// release the consumer, and would wait for the call that the waker runs in. A waker must not wait
/// for all [releases](crate::deferred::wait_until_released) either, because one of them may drop a
/// `Drive`. [`block_on`](super::block_on) and [`Blocking`](super::Blocking) panic where they would
/// wait for a `Drive` in a waker.
///
/// The source may read from another `Drive`, and that one from a third. Through more than 128
/// streams, the stream ends with an error of the kind [`LimitExceeded`](ErrorKind::LimitExceeded).
pub struct Drive<S: 'static> {
    calls: HandlerCalls,
    /// The source. `None` after the end.
    source: Option<DriveSource<S>>,
    /// An array that was taken out of the source and waits for credit.
    ahead: Option<Outgoing>,
    stage: DriveStage,
}

/// The source of a stream, which may own another stream, and so on.
struct DriveSource<S: 'static>(ManuallyDrop<Pin<Box<S>>>);

impl<S: 'static> Drop for DriveSource<S> {
    fn drop(&mut self) {
        // SAFETY: dropped once, here.
        unsafe { nesting::drop_bounded(&mut self.0) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DriveStage {
    Start,
    Open,
    Over,
}

impl<S, T, E> Future for Drive<S>
where
    S: Stream<Item = Result<T, E>> + 'static,
    T: Into<Outgoing>,
    E: Into<Failure>,
{
    type Output = Result<Ending>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Ending>> {
        let this = &mut *self;
        if this.stage == DriveStage::Over {
            let message = "the stream is over, and was polled again";
            return Poll::Ready(Err(Error::new(ErrorKind::InvalidArgument, message)));
        }
        let outlet = &this.calls.outlet;
        if outlet.made_in.is_this() && is_waking() {
            refuse_poll();
            outlet.credit.poll_again(context.waker(), wake_elsewhere);
            return Poll::Pending;
        }
        let mut left = MOST_IN_A_POLL;
        loop {
            // Checked each time, because a callback of the consumer may have forked.
            if !this.calls.outlet.made_in.is_this() {
                this.stage = DriveStage::Over;
                return Poll::Ready(Err(process::of_the_parent()));
            }
            let need = match (this.stage, &this.ahead) {
                (DriveStage::Start, _) => Need::Leave,
                (_, None) => Need::Request,
                (_, Some(_)) if left == 0 => Need::Leave,
                (_, Some(_)) => Need::Credit,
            };
            match this.calls.look(context, need) {
                Next::Fail(failure) => return Poll::Ready(this.fail(failure)),
                Next::Stop => return Poll::Ready(this.finish(Ok(Ending::Cancelled))),
                Next::Wait => return Poll::Pending,
                Next::Go => {}
            }
            if this.stage == DriveStage::Start {
                this.stage = DriveStage::Open;
                let schema = this.calls.outlet.promise.schema.clone();
                match this.calls.on_schema(&schema) {
                    Ok(0) => continue,
                    Ok(code) => return Poll::Ready(this.refused(code, "on_schema")),
                    Err(error) => return Poll::Ready(this.fail(error.into())),
                }
            }
            let Some(next) = this.ahead.take() else {
                match this.poll_source(context) {
                    // Credit and cancelling do not come from the source, so they need a waker of
                    // their own.
                    Poll::Pending => match this.calls.look(context, Need::Waking) {
                        Next::Fail(failure) => return Poll::Ready(this.fail(failure)),
                        Next::Stop => return Poll::Ready(this.finish(Ok(Ending::Cancelled))),
                        Next::Go | Next::Wait => return Poll::Pending,
                    },
                    Poll::Ready(Some(Ok(next))) => this.ahead = Some(next),
                    Poll::Ready(Some(Err(failure))) => return Poll::Ready(this.fail(failure)),
                    Poll::Ready(None) => {
                        // No error may follow the end, so an error that came meanwhile goes first.
                        if let Next::Fail(failure) = this.calls.look(context, Need::Leave) {
                            return Poll::Ready(this.fail(failure));
                        }
                        let end = match this.calls.on_next_task(None, &Metadata::EMPTY) {
                            0 => this.finish(Ok(Ending::Finished)),
                            code => this.refused(code, "on_next_task"),
                        };
                        return Poll::Ready(end);
                    }
                }
                continue;
            };
            if left == 0 {
                this.ahead = Some(next);
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            left -= 1;
            let code = this.send(next);
            if code != 0 {
                return Poll::Ready(this.refused(code, "on_next_task"));
            }
        }
    }
}

impl<S, T, E> Drive<S>
where
    S: Stream<Item = Result<T, E>> + 'static,
    T: Into<Outgoing>,
    E: Into<Failure>,
{
    /// The next array of the source. An error where the array is not what the stream has promised.
    fn poll_source(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Outgoing, Failure>>> {
        let Some(source) = &mut self.source else { return Poll::Ready(None) };
        let promise = &self.calls.outlet.promise;
        let polled = guard::or_panicked(|| {
            let _until_it_has_answered = BeingRead::begin()?;
            let item = source.0.as_mut().poll_next(context);
            let checked = |next: T| -> Result<Outgoing, Failure> {
                let next = next.into();
                next.check(promise)?;
                Ok(next)
            };
            Ok(item.map(|item| item.map(|next| next.map_err(Into::into).and_then(checked))))
        });
        polled.unwrap_or_else(|panicked| Poll::Ready(Some(Err(panicked.into()))))
    }
}

impl<S: 'static> Drive<S> {
    fn send(&mut self, next: Outgoing) -> c_int {
        let metadata = next.metadata.clone();
        let mut sending = Sending::new(next, &self.calls.outlet);
        let code = self.calls.on_next_task(Some(&mut sending.c_task), &metadata);
        if code != 0 {
            sending.withdraw();
        }
        code
    }

    /// Reports an error and ends the stream with it.
    fn fail(&mut self, failure: Failure) -> Result<Ending> {
        self.calls.on_error(&failure);
        self.finish(Err(failure.error))
    }

    /// Ends the stream, because the consumer answered with an error.
    fn refused(&mut self, code: c_int, callback: &'static str) -> Result<Ending> {
        let message = format!("the consumer returned {code}");
        self.finish(Err(Error::from_peer(code, Some(message)).during(callback)))
    }

    /// Ends the stream: the last step on every path.
    fn finish(&mut self, ending: Result<Ending>) -> Result<Ending> {
        self.stage = DriveStage::Over;
        self.calls.release();
        // The drop of the source may panic. Everything else is done by then.
        self.ahead = None;
        self.source = None;
        ending
    }
}

impl<S: 'static> Drop for Drive<S> {
    fn drop(&mut self) {
        let outlet = &self.calls.outlet;
        if !outlet.made_in.is_this() {
            // A share that is never given back: the child must not drop the parent's waker.
            std::mem::forget(outlet.clone());
            return;
        }
        if self.stage == DriveStage::Over {
            return;
        }
        let last_calls = LastCalls(self.calls.take());
        if is_waking() {
            // This drop is inside a call of a consumer, which must not be called back. If no thread
            // can be started, the consumer is called back nevertheless: it would never be released
            // otherwise.
            let thread = thread::Builder::new().name("arrow-device release".into());
            let _ = thread.spawn(move || drop(last_calls));
        }
    }
}

/// The calls that end a stream that is dropped before its end. Made in the process of the consumer.
struct LastCalls(HandlerCalls);

impl Drop for LastCalls {
    fn drop(&mut self) {
        let Self(calls) = self;
        if !calls.outlet.credit.is_cancelled() {
            let message = "the producer was dropped before the end of the stream";
            calls.on_error(&Error::new(ErrorKind::Cancelled, message).into());
        }
        calls.release();
    }
}

impl<S: 'static> fmt::Debug for Drive<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drive")
            .field("promise", &self.calls.outlet.promise)
            .field("stage", &self.stage)
            .finish_non_exhaustive()
    }
}

/// A consumer's handler, and the producer that was shown to it.
struct HandlerCalls {
    handler: Handler,
    /// The producer's struct. `None` after the release.
    place: Option<Pinned<ArrowAsyncProducer>>,
    outlet: Arc<Outlet>,
    /// The metadata that the producer's `additional_metadata` points to.
    _metadata: Metadata,
}

/// The callbacks of a handler, read once.
#[derive(Clone, Copy)]
struct Handler {
    address: *mut ArrowAsyncDeviceStreamHandler,
    on_schema: unsafe extern "C" fn(*mut ArrowAsyncDeviceStreamHandler, *mut ArrowSchema) -> c_int,
    on_next_task: unsafe extern "C" fn(
        *mut ArrowAsyncDeviceStreamHandler,
        *mut ArrowAsyncTask,
        *const c_char,
    ) -> c_int,
    on_error: unsafe extern "C" fn(
        *mut ArrowAsyncDeviceStreamHandler,
        c_int,
        *const c_char,
        *const c_char,
    ),
    release: unsafe extern "C" fn(*mut ArrowAsyncDeviceStreamHandler),
}

// SAFETY: handler callbacks "should only be called in a serialized manner, but are not guaranteed
// to be called from the same thread every time"; `&mut` serialises them.
unsafe impl Send for Handler {}
// SAFETY: with a shared reference none is called.
unsafe impl Sync for Handler {}

impl Handler {
    /// Reads a handler. A handler that cannot be used is released.
    ///
    /// # Safety
    /// UNS-10.
    unsafe fn new(address: *mut ArrowAsyncDeviceStreamHandler) -> Result<Self> {
        let missing = |name: &str| {
            Error::new(ErrorKind::Malformed, format!("`{name}` of the handler is null"))
                .during("drive")
        };
        // SAFETY: UNS-10, which the caller promises.
        let Some(handler) = (unsafe { address.as_ref() }) else {
            let message = "no handler: a null pointer";
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("drive"));
        };
        let release = handler.release.ok_or_else(|| missing("release"))?;
        let read = || {
            Ok(Self {
                address,
                on_schema: handler.on_schema.ok_or_else(|| missing("on_schema"))?,
                on_next_task: handler.on_next_task.ok_or_else(|| missing("on_next_task"))?,
                on_error: handler.on_error.ok_or_else(|| missing("on_error"))?,
                release,
            })
        };
        let read: Result<Self> = read();
        if read.is_err() {
            // SAFETY: "it is valid for this to be called by a producer with or without" anything
            // before; it is the last call.
            unsafe { release(address) };
        }
        read
    }

    /// Writes the producer's address into the handler.
    fn show(&self, place: &Pinned<ArrowAsyncProducer>) {
        // SAFETY: the producer "must be populated by the producer"; the handler stays until its
        // release.
        unsafe { (*self.address).producer = place.as_ptr() };
    }
}

impl HandlerCalls {
    fn look(&self, context: &Context<'_>, need: Need) -> Next<Failure> {
        self.outlet.credit.look(context.waker(), need)
    }

    fn on_schema(&mut self, schema: &Schema) -> Result<c_int> {
        let mut c_schema = ArrowSchema::empty();
        schema.export(&mut c_schema)?;
        // SAFETY: the handler is not released, and `&mut` keeps other callbacks away.
        let code = unsafe { (self.handler.on_schema)(self.handler.address, &raw mut c_schema) };
        if let Some(release) = c_schema.release {
            // SAFETY: the consumer did not move it, so it is ours still, and not released.
            unsafe { release(&raw mut c_schema) };
        }
        Ok(code)
    }

    fn on_next_task(&mut self, task: Option<&mut ArrowAsyncTask>, metadata: &Metadata) -> c_int {
        let task = task.map_or(ptr::null_mut(), ptr::from_mut);
        // SAFETY: the handler is not released, and `&mut` keeps other callbacks away (UNS-10). The
        // task and the metadata are good during the call.
        unsafe { (self.handler.on_next_task)(self.handler.address, task, encoded(metadata)) }
    }

    fn on_error(&mut self, Failure { error, metadata }: &Failure) {
        let mut text = error.to_string();
        text.retain(|letter| letter != '\0');
        let text = CString::new(text).unwrap_or_default();
        let (code, metadata) = (error.errno(), encoded(metadata));
        // SAFETY: the handler is not released, and `&mut` keeps other callbacks away (UNS-10). The
        // text and the metadata are good during the call.
        unsafe { (self.handler.on_error)(self.handler.address, code, text.as_ptr(), metadata) };
    }

    /// Takes the right to make calls out of this value.
    fn take(&mut self) -> Self {
        let (handler, place) = (self.handler, self.place.take());
        Self { handler, place, outlet: self.outlet.clone(), _metadata: self._metadata.clone() }
    }

    /// Calls `release`, once.
    fn release(&mut self) {
        let Some(place) = self.place.take() else { return };
        if !self.outlet.made_in.is_this() {
            return;
        }
        self.outlet.credit.close();
        // SAFETY: the last call on the handler, and the only one of this, since the place was
        // taken.
        unsafe { (self.handler.release)(self.handler.address) };
        // The producer is cleaned up "after calling the release callback".
        // SAFETY: the place holds our struct, which the handler's side does not use after its
        // `release` (UNS-10), except for `private_data` in late calls, which only read.
        let ticket = unsafe { (*place.as_ptr()).private_data };
        drop(PRODUCERS.get().take(ticket));
        // SAFETY: the place holds our struct. The handler's side reads this member only before the
        // end of its `release`, which has returned.
        unsafe { (*place.as_ptr()).additional_metadata = ptr::null() };
        PLACES.get().rest(place);
    }
}

fn encoded(metadata: &Metadata) -> *const c_char {
    metadata.as_encoded_bytes().map_or(ptr::null(), |bytes| bytes.as_ptr().cast())
}

unsafe extern "C" fn request(producer: *mut ArrowAsyncProducer, count: i64) {
    guard::silent(|| {
        // SAFETY: a producer of ours, or null (UNS-10).
        let Some(outlet) = (unsafe { find(producer) }) else { return };
        let credit = &outlet.credit;
        let refused = || {
            let message = format!("{count} tasks were requested; at least one must be");
            Error::new(ErrorKind::InvalidArgument, message).during("request").into()
        };
        with_waking(|| credit.request(count, refused));
    });
}

unsafe extern "C" fn cancel(producer: *mut ArrowAsyncProducer) {
    guard::silent(|| {
        // SAFETY: a producer of ours, or null (UNS-10).
        let Some(outlet) = (unsafe { find(producer) }) else { return };
        let credit = &outlet.credit;
        with_waking(|| credit.cancel());
    });
}

/// # Safety
/// Null, or a producer that a handler was shown, whether or not it is released by now.
unsafe fn find(producer: *mut ArrowAsyncProducer) -> Option<Arc<Outlet>> {
    if producer.is_null() {
        return None;
    }
    // SAFETY: the place of a producer is never freed, and the member is written only where the
    // place is used again, which is after 64 others have come to rest behind it. A call comes
    // before that (UNS-10).
    PRODUCERS.get().find(unsafe { (*producer).private_data })
}
