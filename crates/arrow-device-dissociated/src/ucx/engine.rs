//! [`Engine`]: the thread that has a connection over UCX to itself.
//!
//! UCX moves nothing by itself: somebody calls its progress function. A thread of each connection
//! does, and nobody else uses the connection's worker. Each turn of the thread
//!
//! 1. gives UCX the messages that others have put into the outbox;
//! 2. lets UCX make progress, unless it [rests](Engine::is_gated);
//! 3. takes back the bytes of what was sent;
//! 4. begins to receive the next message, where there is room for it, and puts what has come into
//!    the inbox;
//! 5. sleeps, when nothing moved, until UCX's descriptor or that of others wakes it.
//!
//! Small messages are received ahead, up to a limit. A long one is received once somebody has said
//! how long it may be, one at a time, so that a length that is only claimed costs no memory. Where
//! nothing can be received and nothing is sent, the thread makes no progress: then UCX reads
//! nothing from the other side, which has to wait. Where the small messages have reached their
//! limit, the thread makes no progress for what is sent either, by which UCX would read more of
//! them.
//!
//! What must stay true: the bytes of a request stay where they are until the request is over; and
//! what UCX calls finds its [`Mailbox`] as long as the worker lives.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;
use std::ptr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use arrow_device::Result;
use rustix::event::{PollFd, PollFlags, Timespec};

use super::api::{
    self, AmHandler, AmReceived, Begun, EndpointParams, Handle, Request, RequestParams,
};
use super::api::{SocketAddress, Status, TagInfo};
use super::context::{Context, Worker};
use super::shared::{Ended, Out, Room, Shared};
use crate::transport::Message;

/// The number of the active messages that have no tag.
const UNTAGGED: u32 = 0;

/// How long a connection that was dropped goes on to send what was sent before.
const LINGER: Duration = Duration::from_secs(30);

/// How long the end of a connection waits for the other side.
const CLOSING: Duration = Duration::from_secs(1);

/// How long the thread sleeps at most. UCX looks after connections that are silent meanwhile.
const NAP: Duration = Duration::from_secs(1);

/// What UCX tells while it makes progress.
#[derive(Default)]
struct Mailbox {
    arrived: RefCell<VecDeque<Arrived>>,
    failed: Cell<Option<Status>>,
}

/// A message without a tag.
enum Arrived {
    Whole(Vec<u8>),
    /// The bytes that were before the others, and what the others, of this length, are asked by.
    Later(Vec<u8>, *mut c_void, usize),
}

/// What is being sent.
struct Sending {
    request: Request,
    bytes: Vec<u8>,
}

/// What is being received: room for so many bytes more than there are.
struct Receiving {
    request: Request,
    tag: Option<u64>,
    bytes: Vec<u8>,
    len: usize,
}

pub(super) struct Engine {
    worker: Worker,
    endpoint: Handle,
    mailbox: Box<Mailbox>,
    sending: VecDeque<Sending>,
    receiving: Option<Receiving>,
    /// Something has come that there is no room for.
    is_stalled: bool,
    /// There is no room for small messages.
    is_full: bool,
    failed: Option<Status>,
    /// When UCX was let make progress last.
    looked: Instant,
    shared: Arc<Shared>,
}

// SAFETY: the worker was made for several threads that use it one after the other; all other
// pointers are of this worker, and the engine has them to itself.
unsafe impl Send for Engine {}

impl Engine {
    /// An engine without a connection, with all else that a connection needs.
    pub(super) fn new(context: &Arc<Context>) -> Result<Self> {
        let shared = Arc::new(Shared::new()?);
        let worker = Worker::new(context)?;
        let (sending, mailbox) = (VecDeque::new(), Box::<Mailbox>::default());
        let engine = Self {
            worker,
            endpoint: ptr::null_mut(),
            mailbox,
            sending,
            receiving: None,
            is_stalled: false,
            is_full: false,
            failed: None,
            looked: Instant::now(),
            shared,
        };
        let api = engine.worker.api();
        let handler = AmHandler::new(UNTAGGED, on_message, engine.argument());
        // SAFETY: the worker lives, and the parameters are read during the call. The argument is
        // the mailbox, which lives until the worker was destroyed.
        let status = unsafe { (api.am_handler)(engine.worker.handle(), &raw const handler) };
        api.check("receive active messages", status)?;
        Ok(engine)
    }

    /// What the engine has in common with those who use the connection.
    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Begins to connect.
    pub(super) fn connect(&mut self, to: SocketAddress) -> Result<()> {
        self.open(&EndpointParams::to(to, on_error, self.argument()))
    }

    /// Takes a connection, which is not used afterwards, also where this fails.
    pub(super) fn accept(&mut self, request: Handle) -> Result<()> {
        self.open(&EndpointParams::of(request, on_error, self.argument()))
    }

    /// The mailbox, for what UCX calls.
    fn argument(&self) -> *mut c_void {
        (&raw const *self.mailbox).cast_mut().cast()
    }

    fn open(&mut self, params: &EndpointParams) -> Result<()> {
        let (api, worker) = (self.worker.api(), self.worker.handle());
        let (params, endpoint) = (ptr::from_ref(params), &raw mut self.endpoint);
        // SAFETY: the worker lives, and the parameters, with the address in them, are read during
        // the call. The argument is the mailbox, which lives until the worker was destroyed.
        let status = unsafe { (api.endpoint_create)(worker, params, endpoint) };
        api.check("connect", status)
    }

    /// Works until the connection was dropped.
    pub(super) fn run(mut self) {
        let mut end = None;
        loop {
            let Ok(in_use) = api::enter() else {
                // The process ends, and UCX with it.
                std::mem::forget(self);
                return;
            };
            let mut moved = self.submit();
            // The end of the other side is noticed also where this side only waits to send.
            let is_due = !self.sending.is_empty() && self.looked.elapsed() >= NAP;
            if !self.is_gated() || is_due {
                moved |= self.progress();
            }
            moved |= self.take_back();
            moved |= self.receive();
            if self.shared.is_stopping() {
                let end = *end.get_or_insert_with(|| Instant::now() + LINGER);
                let is_sent = self.sending.is_empty() && self.shared.has_sent_all();
                if is_sent || self.failed.is_some() || Instant::now() >= end {
                    break;
                }
            }
            if !moved && self.may_sleep() {
                drop(in_use);
                self.sleep();
            }
        }
    }

    /// Whether UCX makes no progress, so that the other side has to wait.
    fn is_gated(&self) -> bool {
        self.is_stalled && (self.is_full || self.sending.is_empty()) && self.receiving.is_none()
    }

    fn progress(&mut self) -> bool {
        self.looked = Instant::now();
        // SAFETY: the worker lives, and is used by this thread alone.
        let events = unsafe { (self.worker.api().worker_progress)(self.worker.handle()) };
        let mut moved = events > 0;
        if let Some(status) = self.mailbox.failed.get() {
            // What was sent before the connection failed is not lost.
            moved |= self.take_back();
            self.fail(status);
        }
        moved
    }

    /// Notes that nothing can be sent any more. What UCX says of the connection tells more than how
    /// a request of the connection has ended.
    fn fail(&mut self, status: Status) {
        if self.failed.is_none() {
            let status = self.mailbox.failed.get().unwrap_or(status);
            self.failed = Some(status);
            self.shared.no_longer_sends(self.worker.api().text(status));
        }
    }

    /// Gives UCX what is to be sent.
    fn submit(&mut self) -> bool {
        let outbox = self.shared.take_outbox();
        let is_some = !outbox.is_empty();
        for message in outbox {
            if self.failed.is_some() {
                self.shared.lost(message.bytes.len());
                continue;
            }
            match self.send(&message) {
                Begun::Going(request) => {
                    self.sending.push_back(Sending { request, bytes: message.bytes });
                }
                Begun::Done => self.shared.sent(message.bytes.len()),
                Begun::Failed(status) => {
                    self.fail(status);
                    self.shared.lost(message.bytes.len());
                }
            }
        }
        is_some
    }

    fn send(&self, Out { tag, bytes }: &Out) -> Begun {
        let (api, data, len) = (self.worker.api(), bytes.as_ptr().cast(), bytes.len());
        Begun::of(match *tag {
            Some(tag) => {
                let params = RequestParams::new(0);
                // SAFETY: the endpoint is open. The bytes stay in place until the request is over:
                // they are kept beside the request.
                unsafe { (api.tag_send)(self.endpoint, data, len, tag, &raw const params) }
            }
            None => {
                // The end of a stream is over only when the other side has received it, and with it
                // all that came before: the connection may be closed then.
                let is_end = len == 5 && bytes.first() == Some(&0);
                let params = RequestParams::new(if is_end { api::AM_RENDEZVOUS } else { 0 });
                let (none, params) = (ptr::null(), &raw const params);
                // SAFETY: the endpoint is open. The bytes stay in place until the request is over:
                // they are kept beside the request. The header has no bytes.
                unsafe { (api.am_send)(self.endpoint, UNTAGGED, none, 0, data, len, params) }
            }
        })
    }

    /// The state of a request that has not been freed. Frees it once it is over.
    fn poll(&self, request: Request) -> Status {
        let api = self.worker.api();
        // SAFETY: the request was begun on this worker, and not freed.
        let status = unsafe { (api.request_status)(request) };
        if status != api::IN_PROGRESS {
            // SAFETY: the request is over, and whoever gave it drops it now.
            unsafe { (api.request_free)(request) };
        }
        status
    }

    /// Takes back the bytes of what was sent, in the order of sending.
    fn take_back(&mut self) -> bool {
        let mut moved = false;
        while let Some(sending) = self.sending.front() {
            let (request, len) = (sending.request, sending.bytes.len());
            let status = self.poll(request);
            if status == api::IN_PROGRESS {
                break;
            }
            self.sending.pop_front();
            moved = true;
            if status == api::OK {
                self.shared.sent(len);
            } else {
                self.fail(status);
                self.shared.lost(len);
            }
        }
        moved
    }

    /// Receives what has come, as far as there is room.
    fn receive(&mut self) -> bool {
        let mut moved = false;
        if let Some(receiving) = self.receiving.take_if(|_| true) {
            match self.poll(receiving.request) {
                api::IN_PROGRESS => {
                    self.receiving = Some(receiving);
                    // UCX may never say that the request is over. The room stays where it is.
                    if self.failed.is_some() {
                        self.shared.ended(self.how_it_ended());
                    }
                    return false;
                }
                status => self.received(receiving, status),
            }
            moved = true;
        }
        (self.is_stalled, self.is_full) = (false, false);
        while self.receiving.is_none() {
            let Some(len) = self.next_len() else {
                if self.failed.is_some() {
                    self.shared.ended(self.how_it_ended());
                }
                return moved;
            };
            let room = self.shared.room_for(len);
            self.is_full = matches!(room, Room::Full);
            match room {
                Room::Some if self.begin() => {}
                // Without memory for a message, the message stays where it is.
                Room::Some | Room::Later | Room::Full => {
                    self.is_stalled = true;
                    return moved;
                }
                Room::Never(most) => {
                    self.shared.ended(Ended::TooLong { len: len as u64, most });
                    self.is_stalled = true;
                    return moved;
                }
            }
            moved = true;
        }
        moved
    }

    fn how_it_ended(&self) -> Ended {
        match self.failed {
            Some(status) if !api::is_end(status) => Ended::Failed(self.worker.api().text(status)),
            _ => Ended::Closed,
        }
    }

    /// Returns how long the next message is.
    fn next_len(&self) -> Option<usize> {
        match self.mailbox.arrived.borrow().front() {
            Some(Arrived::Whole(bytes)) => return Some(bytes.len()),
            Some(Arrived::Later(first, _, len)) => return Some(first.len().saturating_add(*len)),
            None => {}
        }
        self.probe(false).map(|(_, info)| info.len)
    }

    /// Looks for a message with any tag, and takes it out of UCX's list if it is to be removed.
    fn probe(&self, removes: bool) -> Option<(Handle, TagInfo)> {
        let (mut info, removes) = (TagInfo::default(), c_int::from(removes));
        let (worker, to) = (self.worker.handle(), &raw mut info);
        // SAFETY: the worker lives, and the call writes to the struct.
        let message = unsafe { (self.worker.api().tag_probe)(worker, 0, 0, removes, to) };
        (!message.is_null()).then_some((message, info))
    }

    /// Begins to receive the message that [`Self::next_len`] has looked at. Returns whether there
    /// was memory for the message.
    fn begin(&mut self) -> bool {
        let arrived = self.mailbox.arrived.borrow_mut().pop_front();
        let (tag, mut bytes, len) = match &arrived {
            Some(Arrived::Whole(_)) => (None, Vec::new(), 0),
            Some(Arrived::Later(first, _, len)) => (None, first.clone(), *len),
            None => match self.probe(false) {
                Some((_, info)) => (Some(info.tag), Vec::new(), info.len),
                None => return true,
            },
        };
        if let Some(Arrived::Whole(bytes)) = arrived {
            self.shared.deliver(Message::untagged(bytes));
            return true;
        }
        if let Err(error) = bytes.try_reserve_exact(len) {
            self.shared.ended(Ended::Failed(error.to_string()));
            if let Some(Arrived::Later(_, descriptor, _)) = arrived {
                self.release(descriptor);
            }
            self.fail(api::NO_MEMORY);
            return false;
        }
        let to = bytes.spare_capacity_mut().as_mut_ptr().cast::<c_void>();
        let (api, worker, params) =
            (self.worker.api(), self.worker.handle(), RequestParams::new(0));
        let begun = match arrived {
            Some(Arrived::Later(_, descriptor, _)) => {
                // SAFETY: the descriptor came with a message of the worker, and is used once. The
                // room has `len` bytes, and stays in place until the request is over: the vector is
                // kept beside the request, and does not grow.
                unsafe { (api.am_receive)(worker, descriptor, to, len, &raw const params) }
            }
            _ => match self.probe(true) {
                // SAFETY: the message was taken out of the worker's list just now, and is used
                // once. The room has `len` bytes, and stays in place until the request is over:
                // the vector is kept beside the request, and does not grow. A message that is
                // longer than the room is cut off by UCX.
                Some((message, _)) => unsafe {
                    (api.tag_receive)(worker, to, len, message, &raw const params)
                },
                None => return true,
            },
        };
        let mut receiving = Receiving { request: ptr::null_mut(), tag, bytes, len };
        match Begun::of(begun) {
            Begun::Going(request) => {
                receiving.request = request;
                self.receiving = Some(receiving);
            }
            Begun::Done => self.received(receiving, api::OK),
            Begun::Failed(status) => self.received(receiving, status),
        }
        true
    }

    /// Delivers a message that has come whole. One that did not is lost: its sender has gone.
    fn received(&mut self, receiving: Receiving, status: Status) {
        let Receiving { tag, mut bytes, len, .. } = receiving;
        if status != api::OK {
            return self.fail(status);
        }
        // SAFETY: the room was reserved, and the request that is over has filled it: UCX reports an
        // error for a message of another length than its sender announced.
        unsafe { bytes.set_len(bytes.len() + len) };
        self.shared.deliver(Message { tag, bytes, regions: Vec::new() });
    }

    /// Gives back what a message that is not received was to be asked by.
    fn release(&self, descriptor: *mut c_void) {
        // SAFETY: the descriptor came with a message of the worker, and was not used.
        unsafe { (self.worker.api().am_release)(self.worker.handle(), descriptor) };
    }

    /// Whether nothing is to be done. UCX's descriptor, and that of others, tell from then on.
    fn may_sleep(&self) -> bool {
        if !self.is_gated() {
            // SAFETY: the worker lives, and is used by this thread alone.
            let status = unsafe { (self.worker.api().worker_arm)(self.worker.handle()) };
            if status == api::BUSY {
                return false;
            }
        }
        self.shared.falls_asleep()
    }

    /// Sleeps until something is to be done. Calls nothing of UCX.
    fn sleep(&self) {
        let nap = Timespec::try_from(NAP).ok();
        let wake = PollFd::new(self.shared.wakes(), PollFlags::IN);
        // SAFETY: the descriptor is the worker's, and stays open as long as the worker lives.
        let of_ucx = unsafe { BorrowedFd::borrow_raw(self.worker.descriptor()) };
        let mut polled = [wake, PollFd::from_borrowed_fd(of_ucx, PollFlags::IN)];
        let count = if self.is_gated() { 1 } else { 2 };
        // A failed wait, such as one that a signal ended, is one that was short.
        let _ = rustix::event::poll(polled.get_mut(..count).unwrap_or_default(), nap.as_ref());
        self.shared.wakes_up();
    }

    /// Lets UCX make progress until a request is over, or for as long as a connection may close.
    fn settle(&self, request: Request) -> bool {
        let end = Instant::now() + CLOSING;
        while self.poll(request) == api::IN_PROGRESS {
            // The end of the process waits for whoever uses UCX, and only for a short time.
            if Instant::now() >= end || api::enter().is_err() {
                return false;
            }
            // SAFETY: the worker lives, and is used by this thread alone.
            if unsafe { (self.worker.api().worker_progress)(self.worker.handle()) } == 0 {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
        true
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let Ok(_in_use) = api::enter() else {
            // The process ends, and UCX with it. UCX may still use the bytes.
            std::mem::forget(std::mem::take(&mut self.sending));
            std::mem::forget(self.receiving.take());
            std::mem::forget(std::mem::take(&mut self.mailbox));
            return;
        };
        let api = self.worker.api();
        if !self.endpoint.is_null() {
            if self.failed.is_none() {
                let params = RequestParams::new(0);
                // SAFETY: the endpoint is open, and the parameters are read during the call.
                let flushed = unsafe { (api.endpoint_flush)(self.endpoint, &raw const params) };
                if let Begun::Going(request) = Begun::of(flushed) {
                    self.settle(request);
                }
            }
            let params = RequestParams::new(api::CLOSE_AT_ONCE);
            // SAFETY: the endpoint is open, and is not used afterwards.
            let closed = unsafe { (api.endpoint_close)(self.endpoint, &raw const params) };
            if let Begun::Going(request) = Begun::of(closed) {
                self.settle(request);
            }
        }
        // What was not over before ends with the endpoint.
        for sending in std::mem::take(&mut self.sending) {
            if !self.settle(sending.request) {
                // UCX may still read the bytes.
                std::mem::forget(sending.bytes);
            }
        }
        if let Some(receiving) = self.receiving.take()
            && !self.settle(receiving.request)
        {
            // UCX may still write to the room.
            std::mem::forget(receiving.bytes);
        }
        for arrived in self.mailbox.arrived.take() {
            if let Arrived::Later(_, descriptor, _) = arrived {
                self.release(descriptor);
            }
        }
        self.worker.destroy();
    }
}

/// Called by UCX where a connection has failed, or was closed by the other side.
unsafe extern "C" fn on_error(argument: *mut c_void, _endpoint: Handle, status: Status) {
    // SAFETY: the argument is the mailbox of the engine, which lives as long as the worker, and is
    // only ever borrowed shared.
    let mailbox = unsafe { &*argument.cast::<Mailbox>() };
    mailbox.failed.set(Some(status));
}

/// Called by UCX where a message without a tag has come.
unsafe extern "C" fn on_message(
    argument: *mut c_void,
    header: *const c_void,
    header_len: usize,
    data: *mut c_void,
    len: usize,
    param: *const AmReceived,
) -> Status {
    // SAFETY: the argument is the mailbox of the engine, which lives as long as the worker, and is
    // only ever borrowed shared.
    let mailbox = unsafe { &*argument.cast::<Mailbox>() };
    // SAFETY: UCX gives the parameters during the call.
    let attributes = unsafe { (*param).attributes };
    let bytes_at = |place: *const c_void, len: usize| match len {
        0 => &[][..],
        // SAFETY: UCX gives so many bytes there during the call.
        _ => unsafe { std::slice::from_raw_parts(place.cast::<u8>(), len) },
    };
    // Nobody else borrows the list: this is called only while the engine's thread lets UCX make
    // progress.
    let Ok(mut arrived) = mailbox.arrived.try_borrow_mut() else { return api::NO_MEMORY };
    let mut bytes = bytes_at(header, header_len).to_vec();
    if attributes & api::AM_COMES_LATER != 0 {
        arrived.push_back(Arrived::Later(bytes, data, len));
        return api::IN_PROGRESS;
    }
    bytes.extend(bytes_at(data, len));
    arrived.push_back(Arrived::Whole(bytes));
    api::OK
}
