//! Streams that copy or change their arrays, or make them ahead of their use.
//!
//! A stream with copies ([`Copies`]) keeps the copies that are on their way in a list, in the order
//! of the arrays. When an array is asked for, the first copy is taken from the list. Then further
//! copies are begun, up to the number that [`prefetch`](ArrayStream::prefetch) has set, and only
//! then is the first copy waited for. So the device already has the next copies to do meanwhile. A
//! stream without copies ([`Ahead`]) keeps arrays in such a list.
//!
//! What must stay true: arrays and errors come out in the order of the source.

use std::collections::VecDeque;

use super::{ArraySource, ArrayStream, Source};
use crate::copy::{Options, PolledCopy};
use crate::device::driver::Readiness;
use crate::schema::Schema;
use crate::{Array, DeviceType, Error, ErrorKind, Queue, Result};

impl ArrayStream {
    /// A stream of the arrays of an iterator. The first array tells the schema and the type of
    /// device. It is made by this call.
    ///
    /// ```
    /// use arrow_device::{Array, ArrayStream, DataType, DeviceType};
    ///
    /// let numbers = (0..3_i64).map(|number| Array::from_values(DataType::Int64, [Some(number)]));
    /// let stream = ArrayStream::from_first(numbers)?;
    /// assert_eq!(stream.device_type(), DeviceType::CPU);
    /// assert_eq!(stream.count(), 3);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// # Errors
    /// The error of the first array, or [`InvalidArgument`](ErrorKind::InvalidArgument) where the
    /// iterator has no array. Use [`new`](Self::new) with a schema if the stream may be empty.
    pub fn from_first<I, A>(arrays: I) -> Result<Self>
    where
        I: IntoIterator<Item = Result<A>, IntoIter: Send + 'static>,
        A: Into<Array>,
    {
        let mut arrays = arrays.into_iter().map(|array| array.map(Into::into));
        let first = arrays.next().ok_or_else(|| {
            let message = "there is no first array, which would tell the schema and the device";
            Error::new(ErrorKind::InvalidArgument, message).during("stream")
        })??;
        let (schema, device_type) = (first.schema()?, first.device().device_type);
        Ok(Self::new(schema, device_type, std::iter::once(Ok(first)).chain(arrays)))
    }

    /// A stream of these arrays on the device of this queue. Each array is copied when it is asked
    /// for, as [`Array::copy_to`] does. With [`prefetch`](Self::prefetch), the next arrays are
    /// copied while one is used.
    ///
    /// ```
    /// use arrow_device::{Array, ArrayStream, DataType, Queue};
    ///
    /// let numbers = (0..3_i64).map(|number| Array::from_values(DataType::Int64, [Some(number)]));
    /// // For a copy to a GPU, name a queue of the GPU.
    /// let there = ArrayStream::from_first(numbers)?.copy_to(&Queue::host()).prefetch(2);
    /// assert_eq!(there.to_host().count(), 3);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn copy_to(self, queue: &Queue) -> Self {
        self.copy_with(queue, &Options::new())
    }

    /// [`copy_to`](Self::copy_to) with options.
    pub fn copy_with(self, queue: &Queue, options: &Options) -> Self {
        let (schema, device_type) = (self.schema().clone(), queue.device().id().device_type);
        let copies = Copies {
            arrays: self,
            queue: queue.clone(),
            options: options.clone(),
            ahead: 0,
            under_way: VecDeque::new(),
        };
        Self::from_source(schema, device_type, copies)
    }

    /// A stream of these arrays on the host: [`copy_to`](Self::copy_to) with the host's queue.
    pub fn to_host(self) -> Self {
        self.copy_to(&Queue::host())
    }

    /// A stream of what a function makes of each array: arrays of this schema, on this type of
    /// device. The first error ends the stream.
    ///
    /// (`map` is the method of all iterators, and makes an iterator of any items.)
    ///
    /// ```
    /// use arrow_device::{Array, ArrayStream, DataType};
    ///
    /// let numbers = (0..3_i64).map(|_| Array::from_values(DataType::Int64, [Some(1_i64); 8]));
    /// let stream = ArrayStream::from_first(numbers)?;
    /// let (schema, device_type) = (stream.schema().clone(), stream.device_type());
    /// let halves = stream.map_arrays(schema, device_type, |array| array.slice(0, 4));
    /// assert_eq!(halves.map(|array| array.map_or(0, |array| array.len())).sum::<usize>(), 12);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn map_arrays<F>(self, schema: Schema, device_type: DeviceType, mut change: F) -> Self
    where
        F: FnMut(Array) -> Result<Array> + Send + 'static,
    {
        Self::new(schema, device_type, self.map(move |array| change(array?)))
    }

    /// Asks for arrays ahead: before an array is returned, up to `ahead` more are asked for. The
    /// copies of a stream that [copies](Self::copy_to) are then on their way while one array is
    /// used, as is the work that an iterator submits for its arrays.
    ///
    /// There are at most `ahead` arrays, with their memory, besides the one that is returned.
    /// Arrays that were dropped are held back until the queue has passed what was submitted before
    /// the drop. No thread is started: what the iterator itself computes, it computes when an array
    /// is asked for. ([`feed`](crate::async_stream::feed) runs an iterator on another thread.) An
    /// array that is copied to the host ahead of its use is copied by the device, as in a
    /// [`PolledCopy`], and not read through a mapping.
    pub fn prefetch(mut self, ahead: usize) -> Self {
        let is_done = self.source.as_mut().is_none_or(|source| source.0.look_ahead(ahead));
        if is_done {
            return self;
        }
        let (schema, device_type) = (self.schema().clone(), self.device_type());
        let arrays = Ahead { arrays: self, ahead, waiting: VecDeque::new() };
        Self::from_source(schema, device_type, arrays)
    }
}

/// Copies the arrays of a stream.
struct Copies {
    arrays: ArrayStream,
    queue: Queue,
    options: Options,
    ahead: usize,
    under_way: VecDeque<Result<UnderWay>>,
}

/// A copy that has begun.
enum UnderWay {
    /// All work is submitted to the queue, and the array is ready after an event.
    Submitted(Box<Array>),
    /// A copy to the host, or to a device without events, which somebody has to wait for.
    Fetched(PolledCopy),
}

impl UnderWay {
    /// Begins a copy. Waits for nothing that the copy does not need before it can begin.
    fn begin(array: &Array, queue: &Queue, options: &Options) -> Result<Self> {
        let waits =
            queue.is_the_hosts() || queue.device().properties().readiness == Readiness::HostWait;
        match waits {
            true => array.copy_polled(queue, options).map(Self::Fetched),
            false => Ok(Self::Submitted(Box::new(array.copy_with(queue, options)?))),
        }
    }

    fn end(self) -> Result<Array> {
        match self {
            Self::Submitted(array) => Ok(*array),
            Self::Fetched(copy) => copy.wait(),
        }
    }
}

impl Copies {
    /// Begins copies until `count` are on their way, or there are no more arrays.
    fn fill(&mut self, count: usize) {
        while self.under_way.len() < count {
            let Some(array) = self.arrays.next() else { return };
            let begun = array.and_then(|array| UnderWay::begin(&array, &self.queue, &self.options));
            self.under_way.push_back(begun);
        }
    }
}

impl Source for Copies {
    fn next_array(&mut self) -> Option<Result<Array>> {
        if self.ahead == 0 && self.under_way.is_empty() {
            let array = self.arrays.next()?;
            return Some(array.and_then(|array| array.copy_with(&self.queue, &self.options)));
        }
        self.fill(1);
        let first = self.under_way.pop_front()?;
        // Before the first copy is waited for, the next ones begin.
        self.fill(self.ahead);
        Some(first.and_then(UnderWay::end))
    }

    fn look_ahead(&mut self, ahead: usize) -> bool {
        self.ahead = ahead;
        true
    }
}

/// Arrays that were asked for ahead.
struct Ahead {
    arrays: ArrayStream,
    ahead: usize,
    waiting: VecDeque<Result<Array>>,
}

impl Source for Ahead {
    fn next_array(&mut self) -> Option<Result<Array>> {
        let first = self.waiting.pop_front().or_else(|| self.arrays.next())?;
        while self.waiting.len() < self.ahead {
            let Some(array) = self.arrays.next() else { break };
            self.waiting.push_back(array);
        }
        Some(first)
    }

    fn look_ahead(&mut self, ahead: usize) -> bool {
        self.ahead = ahead;
        true
    }
}

impl ArraySource {
    pub(super) fn new(source: impl Source + 'static) -> Self {
        Self(std::mem::ManuallyDrop::new(Box::new(source)))
    }
}
