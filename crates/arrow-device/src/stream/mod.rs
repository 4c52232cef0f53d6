//! Streams: arrays of one type on one type of device, one after the other.
//!
//! An [`ArrayStream`] is an iterator, whoever makes the arrays: another party behind a C struct
//! ([`foreign`]), or an iterator of this program. A stream can be exported as a C struct
//! ([`producer`]). The two C structs, of device arrays and of plain ones, share [`c_stream`].
//!
//! Every array goes through [`ArrayStream::next`], the one place where its type and its type of
//! device are checked. To compare types is slow, so the stream keeps the schema of the last array
//! that fitted: most arrays of a stream share one schema, and for these the check compares
//! pointers. A stream keeps its source until the end or the first error, and not longer. Arrays
//! that were taken out do not need the source. A source that panicked is kept until the stream is
//! dropped.

mod c_stream;
mod foreign;
mod moves;
mod producer;

use std::cell::Cell;
use std::fmt;
use std::iter::FusedIterator;
use std::mem::ManuallyDrop;

use crate::device::nesting;
use crate::schema::Schema;
use crate::{Array, Batch, DeviceType, Error, ErrorKind, Result};

/// Arrays of one type on one type of device, one after the other: an iterator of [`Result`]s of
/// [`Array`]s.
///
/// Made by [`import`](Self::import) from a C struct, or by [`new`](Self::new) from any iterator.
/// The schema and the type of device are known before the first array. The arrays need not be
/// structs, and may lie on several devices of the one type.
///
/// # The end, and errors
///
/// After the last array, and after the first error, the iterator is at its end, and what made the
/// arrays is dropped or released at once. The specification does not say what state a stream is in
/// after an error, so a stream does not go on after one. An array on another type of device, or of
/// another type than the schema's, is such an error. That array is released.
///
/// # Threads
///
/// A stream can be sent to another thread. To read a stream from several threads, share it in a
/// `Mutex`. Calls of C streams have to come one after the other, so taking an array out needs
/// `&mut`.
///
/// ```
/// use std::sync::Mutex;
///
/// use arrow_device::{Array, ArrayStream, DataType, DeviceType, Result};
///
/// let numbers =
///     (0..100).map(|number| Array::from_values(DataType::Int32, [Some(number)]));
/// let stream = ArrayStream::new(DataType::Int32.try_into()?, DeviceType::CPU, numbers);
/// let stream = Mutex::new(stream);
/// let take = || stream.lock().ok().and_then(|mut stream| stream.next());
/// let count = || -> Result<usize> {
///     std::iter::from_fn(take).try_fold(0, |all, array| Ok(all + array?.len()))
/// };
/// let counts = std::thread::scope(|threads| {
///     let threads = [threads.spawn(count), threads.spawn(count)];
///     threads.map(|thread| thread.join().unwrap())
/// });
/// let [one, other] = counts;
/// assert_eq!(one? + other?, 100);
/// # Ok::<(), arrow_device::Error>(())
/// ```
///
/// A stream that is exported and then imported again reads from the exported stream. At most 128
/// streams may read from one another. Beyond that the answer is an error of the kind
/// [`LimitExceeded`](ErrorKind::LimitExceeded).
pub struct ArrayStream {
    schema: Schema,
    device_type: DeviceType,
    /// The source of the arrays. `None` after the end.
    source: Option<ArraySource>,
    /// Whether the stream is at its end, or its source panicked.
    is_at_end: bool,
    /// The schema of the last array that was seen to fit.
    fitting: Option<Schema>,
}

/// The source of a stream's arrays, which may itself own another stream, and so on.
struct ArraySource(ManuallyDrop<Box<dyn Source>>);

/// Makes the arrays of a stream.
trait Source: Send {
    fn next_array(&mut self) -> Option<Result<Array>>;

    /// Makes `ahead` arrays ahead from now on. Returns false where the source cannot do that.
    fn look_ahead(&mut self, ahead: usize) -> bool {
        let _ = ahead;
        false
    }
}

/// An iterator as a source.
struct Iterated<I>(I);

impl<I: Iterator<Item = Result<Array>> + Send> Source for Iterated<I> {
    #[inline]
    fn next_array(&mut self) -> Option<Result<Array>> {
        self.0.next()
    }
}

impl Drop for ArraySource {
    fn drop(&mut self) {
        // SAFETY: dropped once, here.
        unsafe { nesting::drop_bounded(&mut self.0) }
    }
}

/// How many streams may read from one another. Each takes some of the stack.
const MOST_NESTED: usize = 128;

thread_local! {
    /// How many streams this thread reads from at the moment, one inside the other.
    static NESTED: Cell<usize> = const { Cell::new(0) };
}

/// Counts a stream that is being read, synchronous or asynchronous, until it is dropped.
pub(crate) struct BeingRead;

impl BeingRead {
    #[inline(always)]
    pub(crate) fn begin() -> Result<Self> {
        let nested = NESTED.get();
        if nested >= MOST_NESTED {
            return Err(too_deep());
        }
        NESTED.set(nested + 1);
        Ok(Self)
    }
}

impl Drop for BeingRead {
    #[inline(always)]
    fn drop(&mut self) {
        NESTED.set(NESTED.get() - 1);
    }
}

#[cold]
fn too_deep() -> Error {
    let message = format!("more than {MOST_NESTED} streams read from one another");
    Error::new(ErrorKind::LimitExceeded, message).during("stream")
}

// SAFETY: with a shared reference to a source nothing can be done.
unsafe impl Sync for ArraySource {}

impl ArrayStream {
    /// A stream of the arrays or batches of an iterator. All have this schema and lie on this type
    /// of device.
    ///
    /// An error of another library becomes one of this crate with [`Error::other`].
    ///
    /// ```
    /// use arrow_device::abi::ArrowDeviceArrayStream;
    /// use arrow_device::{Array, ArrayStream, Batch, DataType, DeviceType, Field, Schema};
    ///
    /// let schema = Schema::batch([Field::new("id", DataType::Int64, false)])?;
    /// let batches = (0..3_i64).map({
    ///     let schema = schema.clone();
    ///     move |id| {
    ///         Batch::new(schema.clone(), [Array::from_values(DataType::Int64, [Some(id)])?])
    ///     }
    /// });
    /// let stream = ArrayStream::new(schema, DeviceType::CPU, batches);
    ///
    /// let mut c_stream = ArrowDeviceArrayStream::empty();
    /// stream.export(&mut c_stream);
    ///
    /// // The other party.
    /// let stream = unsafe { ArrayStream::import(&mut c_stream) }?;
    /// assert_eq!(stream.schema().columns()[0].name(), "id");
    /// assert_eq!(stream.into_batches().count(), 3);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn new<I, A>(schema: Schema, device_type: DeviceType, arrays: I) -> Self
    where
        I: IntoIterator<Item = Result<A>, IntoIter: Send + 'static>,
        A: Into<Array>,
    {
        let arrays = arrays.into_iter().map(|array| array.map(Into::into));
        Self::from_source(schema, device_type, Iterated(arrays))
    }

    fn from_source(schema: Schema, device_type: DeviceType, source: impl Source + 'static) -> Self {
        let source = Some(ArraySource::new(source));
        Self { schema, device_type, source, is_at_end: false, fitting: None }
    }

    /// The schema of every array, which is known before the first array.
    pub fn schema(&self) -> &Schema {
        &self.schema
    }

    /// The type of device that every array is on.
    pub fn device_type(&self) -> DeviceType {
        self.device_type
    }

    /// The arrays as [`Batch`]es. An array that is no batch is an error, and does not end the
    /// stream.
    pub fn into_batches(self) -> impl FusedIterator<Item = Result<Batch>> + Send + Sync {
        self.map(|array| Batch::try_from(array?))
    }

    /// An error where the array does not belong into this stream.
    fn check(&mut self, array: &Array) -> Result<()> {
        let is_here = array.device().device_type == self.device_type;
        let is_known = |fitting: &Schema| fitting.is_same(&array.tree().schema);
        if is_here && array.is_whole() && self.fitting.as_ref().is_some_and(is_known) {
            return Ok(());
        }
        self.check_thoroughly(array)
    }

    #[inline(never)]
    fn check_thoroughly(&mut self, array: &Array) -> Result<()> {
        let device = array.device();
        if device.device_type != self.device_type {
            let message = format!(
                "an array of the stream lies on {device}, and the stream is one of {}",
                self.device_type
            );
            return Err(Error::new(ErrorKind::Malformed, message).during("stream"));
        }
        if !array.fits(&self.schema) {
            let [given, expected] = array.told_apart_from(&self.schema);
            let message = format!(
                "an array of the stream has the type {given}, and the schema says {expected}"
            );
            return Err(Error::new(ErrorKind::SchemaMismatch, message).during("stream"));
        }
        // The next arrays usually share this array's schema. Comparing pointers is faster than
        // comparing types.
        self.fitting = array.is_whole().then(|| array.tree().schema.clone());
        Ok(())
    }
}

impl Iterator for ArrayStream {
    type Item = Result<Array>;

    fn next(&mut self) -> Option<Result<Array>> {
        // The stream counts as ended until the source has answered. If the source panics, it stays
        // where it is: a drop now could panic again.
        if std::mem::replace(&mut self.is_at_end, true) { None } else { self.advance() }
    }
}

impl ArrayStream {
    /// Asks the source for the next array, and records whether there may be more.
    fn advance(&mut self) -> Option<Result<Array>> {
        // One place from the source to the caller. An array is large, so it is returned where it
        // was written.
        let mut next = match (&mut self.source, BeingRead::begin()) {
            (Some(source), Ok(_until_it_has_answered)) => source.0.next_array(),
            (Some(_), Err(error)) => Some(Err(error)),
            (None, _) => None,
        };
        match &next {
            Some(Ok(array)) => match self.check(array) {
                Ok(()) => self.is_at_end = false,
                Err(error) => {
                    self.source = None;
                    next = Some(Err(error));
                }
            },
            _ => self.source = None,
        }
        next
    }
}

impl FusedIterator for ArrayStream {}

impl fmt::Debug for ArrayStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = if self.is_at_end { ", at its end" } else { "" };
        write!(f, "ArrayStream({} on {}{end})", self.schema.data_type(), self.device_type)
    }
}

const _: () = {
    const fn thread_safe<T: Send + Sync>() {}
    thread_safe::<ArrayStream>();
};
