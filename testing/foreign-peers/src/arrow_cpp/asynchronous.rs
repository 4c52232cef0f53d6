//! Asynchronous streams of Arrow C++. `cpp/async.h` says what the functions do.

use std::ffi::{c_int, c_void};

use arrow_device::abi::ArrowAsyncDeviceStreamHandler;

use super::{ArrowCpp, Place};
use crate::Said;

type Handler = *mut ArrowAsyncDeviceStreamHandler;
type Open = unsafe extern "C" fn(u64, *mut *mut c_void) -> c_int;
type HandlerOf = unsafe extern "C" fn(*mut c_void) -> Handler;
type Compare = unsafe extern "C" fn(*mut c_void, usize, c_int, f64) -> c_int;
type Read = unsafe extern "C" fn(*mut c_void, usize, f64, *mut usize) -> c_int;
type Produce = unsafe extern "C" fn(usize, c_int, usize, f64, Handler) -> c_int;

/// So many seconds are too many.
const SECONDS: f64 = 30.0;

/// A handler on its way to a thread.
#[derive(Clone, Copy, Debug)]
pub struct SentHandler(pub Handler);

// SAFETY: callbacks of a handler may come from any thread.
unsafe impl Send for SentHandler {}

/// A consumer of Arrow C++.
#[derive(Debug)]
pub struct Reader<'a> {
    peer: &'a ArrowCpp,
    reader: *mut c_void,
}

// SAFETY: Arrow C++ does not care which thread reads.
unsafe impl Send for Reader<'_> {}

impl ArrowCpp {
    /// A consumer that asks for so many batches ahead.
    pub fn reader(&self, window: u64) -> Reader<'_> {
        let mut reader = std::ptr::null_mut();
        // SAFETY: as declared.
        let open = unsafe { self.get::<Open>("adf_reader_open") };
        // SAFETY: the pointer may be written.
        self.said(unsafe { open(window, &mut reader) }).expect("a consumer");
        Reader { peer: self, reader }
    }

    /// Gives a stream of batches to a handler on this thread, until it is over; with `good`, one
    /// that fails after so many.
    ///
    /// # Safety
    /// The handler is good as the C device interface has it.
    pub unsafe fn produce(
        &self,
        number: usize,
        place: Place,
        good: Option<usize>,
        handler: SentHandler,
    ) -> Said {
        let good = good.unwrap_or(usize::MAX);
        // SAFETY: as declared.
        let produce = unsafe { self.get::<Produce>("adf_produce") };
        // SAFETY: the handler is good as the C device interface has it, as the caller promises.
        self.said(unsafe { produce(number, place as c_int, good, SECONDS, handler.0) })
    }

    /// Gives a batch that cannot be exported to a handler.
    ///
    /// # Safety
    /// The handler is good as the C device interface has it.
    pub unsafe fn produce_broken(&self, handler: SentHandler) -> Said {
        // SAFETY: the handler is good as the C device interface has it, as the caller promises.
        unsafe { self.produce_as("adf_produce_broken", handler) }
    }

    /// Gives a stream without batches to a handler.
    ///
    /// # Safety
    /// The handler is good as the C device interface has it.
    pub unsafe fn produce_nothing(&self, handler: SentHandler) -> Said {
        // SAFETY: the handler is good as the C device interface has it, as the caller promises.
        unsafe { self.produce_as("adf_produce_nothing", handler) }
    }

    /// # Safety
    /// The handler is good as the C device interface has it, and the function one that takes the
    /// seconds and it.
    unsafe fn produce_as(&self, name: &str, handler: SentHandler) -> Said {
        type Produce = unsafe extern "C" fn(f64, Handler) -> c_int;
        // SAFETY: as declared.
        let produce = unsafe { self.get::<Produce>(name) };
        // SAFETY: the handler is good as the C device interface has it, and the function one that
        // takes the seconds and it, as the caller promises.
        self.said(unsafe { produce(SECONDS, handler.0) })
    }
}

impl Reader<'_> {
    /// For a producer. Stays until the reader is [freed](Self::free).
    pub fn handler(&self) -> SentHandler {
        // SAFETY: as declared.
        let handler = unsafe { self.peer.get::<HandlerOf>("adf_reader_handler") };
        // SAFETY: not freed.
        SentHandler(unsafe { handler(self.reader) })
    }

    /// Reads to the end, and compares with the batches of that stream in that place.
    pub fn compare(&self, number: usize, place: Place) -> Said {
        // SAFETY: as declared.
        let compare = unsafe { self.peer.get::<Compare>("adf_reader_compare") };
        // SAFETY: not freed.
        self.peer.said(unsafe { compare(self.reader, number, place as c_int, SECONDS) })
    }

    /// Reads so many batches at most, within so many seconds each. Says how many there were, and
    /// what went wrong.
    pub fn read_within(&self, count: usize, seconds: f64) -> (usize, Said) {
        let mut done = 0;
        // SAFETY: as declared.
        let read = unsafe { self.peer.get::<Read>("adf_reader_read") };
        // SAFETY: not freed; the number may be written.
        let code = unsafe { read(self.reader, count, seconds, &mut done) };
        (done, self.peer.said(code))
    }

    /// The same with time enough.
    pub fn read(&self, count: usize) -> (usize, Said) {
        self.read_within(count, SECONDS)
    }

    /// Drops the generator and the executor; the handler stays.
    pub fn drop_stream(&self) {
        type Drop = unsafe extern "C" fn(*mut c_void) -> c_int;
        // SAFETY: as declared.
        let drop = unsafe { self.peer.get::<Drop>("adf_reader_drop") };
        // SAFETY: not freed, and called once.
        self.peer.said(unsafe { drop(self.reader) }).expect("a pool shuts down");
    }

    /// Frees all of it. One that is not freed stays.
    ///
    /// # Safety
    /// The stream is dropped, and the handler released.
    pub unsafe fn free(self) {
        // SAFETY: as declared.
        let free = unsafe { self.peer.get::<unsafe extern "C" fn(*mut c_void)>("adf_reader_free") };
        // SAFETY: not freed.
        unsafe { free(self.reader) }
    }
}
