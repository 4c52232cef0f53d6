//! Streams that move: arrays that are copied, changed, and made ahead of their use.

use std::collections::VecDeque;

use super::{ArraySource, ArrayStream, Source};
use crate::copy::{Options, PolledCopy};
use crate::device::driver::Readiness;
use crate::schema::Schema;
use crate::{Array, DeviceType, Error, ErrorKind, Queue, Result};

impl ArrayStream {
    /// The arrays of an iterator, of which the first one tells the schema and the type of device.
    /// It is made here.
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
    /// That of the first array; and [`InvalidArgument`](ErrorKind::InvalidArgument) where there is
    /// none, and nothing that tells a schema: [`new`](Self::new) is told it.
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

    /// The same arrays on the device of this queue: each is copied when it is asked for, as
    /// [`Array::copy_to`] does. With [`prefetch`](Self::prefetch), the next ones are copied while
    /// one is used.
    ///
    /// ```
    /// use arrow_device::{Array, ArrayStream, DataType, Queue};
    ///
    /// let numbers = (0..3_i64).map(|number| Array::from_values(DataType::Int64, [Some(number)]));
    /// // On a GPU the queue is another.
    /// let there = ArrayStream::from_first(numbers)?.copy_to(&Queue::host()).prefetch(2);
    /// assert_eq!(there.to_host().count(), 3);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn copy_to(self, queue: &Queue) -> Self {
        self.copy_with(queue, &Options::new())
    }

    /// [`copy_to`](Self::copy_to) with choices.
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

    /// The same arrays on the host: [`copy_to`](Self::copy_to) with the host's queue.
    pub fn to_host(self) -> Self {
        self.copy_to(&Queue::host())
    }

    /// What a function makes of each array: arrays of this schema, on this type of device. After
    /// the first error there is nothing more.
    ///
    /// (`map` is that of all iterators, and makes anything.)
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

    /// Asks for arrays before they are wanted: whenever one is taken out, up to `ahead` more are
    /// asked for first. The copies of a stream that [copies](Self::copy_to) are then on their way
    /// while one array is used; so is the work that an iterator submits for its arrays.
    ///
    /// There are at most `ahead` arrays besides the one that is taken out, and their memory; what
    /// was dropped is held back until the queue has passed what was submitted before the drop. No
    /// thread is started: what the iterator itself computes, it computes when an array is asked
    /// for. ([`feed`](crate::async_stream::feed) has an iterator run on another thread.) An array
    /// that is fetched ahead from a device is copied by the device, as one of a [`PolledCopy`] is.
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

/// The copies of the arrays of a stream.
struct Copies {
    arrays: ArrayStream,
    queue: Queue,
    options: Options,
    ahead: usize,
    under_way: VecDeque<Result<UnderWay>>,
}

/// A copy that has begun.
enum UnderWay {
    Submitted(Box<Array>),
    Fetched(PolledCopy),
}

impl UnderWay {
    /// Begins a copy, and waits for nothing that the copy can do meanwhile.
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
    /// Begins copies until there are so many, as far as there are arrays.
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
        // Before the first one is waited for.
        self.fill(self.ahead);
        Some(first.and_then(UnderWay::end))
    }

    fn look_ahead(&mut self, ahead: usize) -> bool {
        self.ahead = ahead;
        true
    }
}

/// Arrays that are asked for ahead.
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
