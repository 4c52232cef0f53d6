//! The C asynchronous device stream interface: a producer pushes arrays, as many as the consumer
//! has asked for.
//!
//! The declarations are those of `abi.h` under `ARROW_C_ASYNC_STREAM_INTERFACE`. The specification
//! marks them as experimental. Here the *consumer* provides the object with the callbacks, the
//! [`ArrowAsyncDeviceStreamHandler`].

use core::ffi::{c_char, c_int, c_void};
use core::ptr::null_mut;

use crate::{ArrowDeviceArray, ArrowDeviceType, ArrowSchema};

/// One array that a producer has ready, and that is not decoded yet.
///
/// Who allocates: the producer. A pointer to a task is valid only during `on_next_task`. A consumer
/// that wants it longer copies the bytes to a structure of its own.
///
/// Who owns: the consumer, from `on_next_task` on. It calls [`extract_data`](Self::extract_data)
/// exactly once, on the copy it kept, on any thread; a null `out` says that the data is not wanted.
/// There is no release callback, because that call also cleans up.
///
/// Released: nothing in the structure says so. Once `extract_data` was called, both fields are
/// meaningless.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowAsyncTask {
    /// Writes the array to `out`, unless `out` is null, and frees the task. Returns 0, or an
    /// `errno` value; after an error `out` holds nothing, and the producer goes on to call
    /// `on_error`.
    pub extract_data: Option<
        unsafe extern "C" fn(task: *mut ArrowAsyncTask, out: *mut ArrowDeviceArray) -> c_int,
    >,
    /// For the producer's own use.
    pub private_data: *mut c_void,
}

impl ArrowAsyncTask {
    /// A structure with every field zero: no task.
    pub const fn empty() -> Self {
        Self { extract_data: None, private_data: null_mut() }
    }
}

/// The producer's side of one asynchronous stream: how its consumer asks for more arrays, or for
/// the end.
///
/// Who allocates, who owns: the producer does both. It puts a pointer into
/// [`ArrowAsyncDeviceStreamHandler::producer`] before its first callback other than `release`, and
/// frees the structure after the handler's `release` has returned. A consumer never frees it, never
/// copies it, and does not touch it once the handler's `release` was entered.
///
/// Released: the structure has no such state, and no `release` field. See below.
///
/// # Where the specification disagrees with itself
///
/// Three declarations of this interface appear in two forms. The `abi.h` that Arrow ships has one
/// form of each, and compiled programs agree on these. This crate has the same forms:
/// * The code block has a field `release` between `cancel` and `additional_metadata`. The prose,
///   `abi.h` and this crate do not have it: the structure has 40 bytes and not 48.
/// * The code block has a field `release` between `cancel` and `additional_metadata`. The prose and
///   `abi.h` do not. Here it is not there either: the structure has 40 bytes and not 48.
/// * The count that `request` takes is a `uint64_t` in the prose. In the code block, in `abi.h` and
///   in this crate it is an `int64_t`. Zero or less is an error.
/// * The type that `extract_data` takes is called `ArrowArrayTask`, which is defined nowhere. In
///   `abi.h` and in this crate it is [`ArrowAsyncTask`].
///
/// The first difference is more than a name: with `release` in place, a consumer reads
/// `additional_metadata` 8 bytes too far.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowAsyncProducer {
    /// The device type of every array of the stream.
    pub device_type: ArrowDeviceType,
    /// Allows `n` more calls of `on_next_task`. May be called inside `on_schema` and
    /// `on_next_task`; must not itself call `on_next_task` or `on_error` before it returns. Does
    /// nothing after `cancel`.
    pub request: Option<unsafe extern "C" fn(producer: *mut ArrowAsyncProducer, n: i64)>,
    /// Tells the producer to stop at some time, and then to call `release`. May be called on any
    /// thread, any number of times.
    pub cancel: Option<unsafe extern "C" fn(producer: *mut ArrowAsyncProducer)>,
    /// Key-value pairs about the stream, encoded as [`ArrowSchema::metadata`]. Null means none.
    pub additional_metadata: *const c_char,
    /// For the producer's own use.
    pub private_data: *mut c_void,
}

impl ArrowAsyncProducer {
    /// A structure with every field zero. Zero is not a device type.
    pub const fn empty() -> Self {
        Self {
            device_type: 0,
            request: None,
            cancel: None,
            additional_metadata: null_mut(),
            private_data: null_mut(),
        }
    }
}

/// The consumer's side of one asynchronous stream: the callbacks that a producer calls.
///
/// Who allocates: the consumer. It sets every field but [`producer`](Self::producer) before it
/// hands over a pointer.
///
/// Who owns: the producer may use it until it calls `release`, which it always does once, as its
/// last call. The consumer frees the structure in `release` or after it.
///
/// Released: the producer has called `release`, and calls nothing after that. Callbacks never
/// overlap, though they are not always called on the same thread.
#[repr(C)]
#[derive(Debug)]
pub struct ArrowAsyncDeviceStreamHandler {
    /// Called first and once, unless `on_error` is called first. The handler takes the schema's
    /// content by moving it. Returns 0, or an `errno` value, after which the producer calls only
    /// `release`.
    pub on_schema: Option<
        unsafe extern "C" fn(
            handler: *mut ArrowAsyncDeviceStreamHandler,
            stream_schema: *mut ArrowSchema,
        ) -> c_int,
    >,
    /// Called for each array, and with a null `task` at the end. `metadata`, which may be null, is
    /// encoded as [`ArrowSchema::metadata`] and valid during the call. Returns 0, or an `errno`
    /// value, after which the producer calls only `release`.
    pub on_next_task: Option<
        unsafe extern "C" fn(
            handler: *mut ArrowAsyncDeviceStreamHandler,
            task: *mut ArrowAsyncTask,
            metadata: *const c_char,
        ) -> c_int,
    >,
    /// Called when the producer has failed; `release` follows. `message` and `metadata` may be null
    /// and are valid during the call, which must not call the producer.
    pub on_error: Option<
        unsafe extern "C" fn(
            handler: *mut ArrowAsyncDeviceStreamHandler,
            code: c_int,
            message: *const c_char,
            metadata: *const c_char,
        ),
    >,
    /// Called last. It must not call the producer.
    pub release: Option<unsafe extern "C" fn(handler: *mut ArrowAsyncDeviceStreamHandler)>,
    /// Set by the producer before its first callback other than `release`. Null until then.
    pub producer: *mut ArrowAsyncProducer,
    /// For the consumer's own use.
    pub private_data: *mut c_void,
}

impl ArrowAsyncDeviceStreamHandler {
    /// A structure with every field zero.
    pub const fn empty() -> Self {
        Self {
            on_schema: None,
            on_next_task: None,
            on_error: None,
            release: None,
            producer: null_mut(),
            private_data: null_mut(),
        }
    }

    /// Whether `release` is null: this handler is not, or no longer, in a producer's hands.
    pub const fn is_released(&self) -> bool {
        self.release.is_none()
    }
}

#[cfg(target_pointer_width = "64")]
const _: () = {
    use core::mem::{align_of, offset_of, size_of};

    assert!(size_of::<ArrowAsyncTask>() == 16);
    assert!(align_of::<ArrowAsyncTask>() == 8);
    assert!(offset_of!(ArrowAsyncTask, extract_data) == 0);
    assert!(offset_of!(ArrowAsyncTask, private_data) == 8);

    assert!(size_of::<ArrowAsyncProducer>() == 40);
    assert!(align_of::<ArrowAsyncProducer>() == 8);
    assert!(offset_of!(ArrowAsyncProducer, device_type) == 0);
    assert!(offset_of!(ArrowAsyncProducer, request) == 8);
    assert!(offset_of!(ArrowAsyncProducer, cancel) == 16);
    assert!(offset_of!(ArrowAsyncProducer, additional_metadata) == 24);
    assert!(offset_of!(ArrowAsyncProducer, private_data) == 32);

    assert!(size_of::<ArrowAsyncDeviceStreamHandler>() == 48);
    assert!(align_of::<ArrowAsyncDeviceStreamHandler>() == 8);
    assert!(offset_of!(ArrowAsyncDeviceStreamHandler, on_schema) == 0);
    assert!(offset_of!(ArrowAsyncDeviceStreamHandler, on_next_task) == 8);
    assert!(offset_of!(ArrowAsyncDeviceStreamHandler, on_error) == 16);
    assert!(offset_of!(ArrowAsyncDeviceStreamHandler, release) == 24);
    assert!(offset_of!(ArrowAsyncDeviceStreamHandler, producer) == 32);
    assert!(offset_of!(ArrowAsyncDeviceStreamHandler, private_data) == 40);
};
