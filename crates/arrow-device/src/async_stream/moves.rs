//! [`MovingArrays`] and [`MappedArrays`]: asynchronous streams whose arrays are copied or changed
//! on their way.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use futures_core::stream::FusedStream;

use crate::copy::{AwaitedCopy, Options};
use crate::stream::BeingRead;
use crate::{Array, Queue, Result};

/// Methods for asynchronous streams of arrays: for [`Arrays`](super::Arrays), [`Fed`](super::Fed),
/// and any other `Stream<Item = Result<Array>>` that is `Unpin`. (`Box::pin` makes a stream
/// `Unpin`.)
///
/// A read through more than 128 streams, each of which reads from the next, is
/// [`LimitExceeded`](crate::ErrorKind::LimitExceeded).
///
/// ```
/// use arrow_device::async_stream::{ArraysExt, Blocking, feed};
/// use arrow_device::{Array, DataType, Queue};
///
/// let numbers = (0..5_i64).map(|number| Array::from_values(DataType::Int64, [Some(number)]));
/// let (feeder, arrays) = feed(numbers, 2);
/// let thread = std::thread::spawn(|| feeder.run());
/// // For a copy to a GPU, name a queue of the GPU.
/// let there = arrays.copy_to(&Queue::host()).prefetch(2);
/// assert_eq!(Blocking::new(there.to_host()).count(), 5);
/// # thread.join().unwrap();
/// ```
pub trait ArraysExt: Stream<Item = Result<Array>> + Unpin + Sized {
    /// A stream of these arrays on the device of this queue. Each array is copied as
    /// [`Array::copy_to_async`] does, when it is asked for. With [`MovingArrays::prefetch`] the
    /// next arrays are copied while one is used.
    fn copy_to(self, queue: &Queue) -> MovingArrays<Self> {
        self.copy_with(queue, &Options::new())
    }

    /// [`copy_to`](Self::copy_to) with options.
    fn copy_with(self, queue: &Queue, options: &Options) -> MovingArrays<Self> {
        MovingArrays::new(self, Some((queue.clone(), options.clone())), 0)
    }

    /// A stream of these arrays on the host.
    fn to_host(self) -> MovingArrays<Self> {
        self.copy_to(&Queue::host())
    }

    /// A stream of what a function makes of each array. The first error ends the stream.
    ///
    /// The function runs on the thread that polls the stream, and may not block that thread: it
    /// submits work, and does not wait. [`ArrayStream::map_arrays`] needs a schema; this method
    /// does not, because a `Stream` of arrays has none.
    ///
    /// ```
    /// use arrow_device::async_stream::{ArraysExt, Blocking, feed};
    /// use arrow_device::types::Int64;
    /// use arrow_device::{Array, Queue};
    ///
    /// let numbers = (0..3_i64).map(|_| Array::of::<Int64>([Some(1); 8]));
    /// let (feeder, arrays) = feed(numbers, 2);
    /// let thread = std::thread::spawn(|| feeder.run());
    /// // For arrays on a GPU, name its queue; the function then submits work to that queue.
    /// let there = arrays.copy_to(&Queue::host()).prefetch(2);
    /// let halves = there.map_arrays(|array| array.slice(0, 4));
    /// let lengths = Blocking::new(halves.to_host()).map(|array| array.map(|array| array.len()));
    /// assert_eq!(lengths.collect::<Result<Vec<_>, _>>()?, [4, 4, 4]);
    /// # thread.join().unwrap();
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    ///
    /// [`ArrayStream::map_arrays`]: crate::ArrayStream::map_arrays
    fn map_arrays<F>(self, change: F) -> MappedArrays<Self, F>
    where
        F: FnMut(Array) -> Result<Array>,
    {
        MappedArrays { arrays: AskedArrays::new(self), change }
    }

    /// Asks for up to `ahead` arrays in advance.
    fn prefetch(self, ahead: usize) -> MovingArrays<Self> {
        MovingArrays::new(self, None, ahead)
    }
}

impl<S: Stream<Item = Result<Array>> + Unpin> ArraysExt for S {}

/// A stream that is asked until it ends, fails or panics.
struct AskedArrays<S> {
    /// The stream. `None` after its end.
    stream: Option<S>,
    /// Whether the stream was asked and has not answered, as after a panic. A stream that panicked
    /// is kept, because dropping it during the panic could panic again.
    is_asked: bool,
}

impl<S> AskedArrays<S> {
    fn new(arrays: S) -> Self {
        Self { stream: Some(arrays), is_asked: false }
    }

    /// Whether the stream has ended, failed or panicked.
    fn is_over(&self) -> bool {
        self.stream.is_none() || self.is_asked
    }
}

impl<S: Stream<Item = Result<Array>> + Unpin> AskedArrays<S> {
    /// Returns what `change` makes of the next array, or an error where too many streams read from
    /// one another.
    fn poll_next<T>(
        &mut self,
        context: &mut Context<'_>,
        change: impl FnOnce(Array) -> Result<T>,
    ) -> Poll<Option<Result<T>>> {
        let (Some(stream), false) = (&mut self.stream, self.is_asked) else {
            return Poll::Ready(None);
        };
        self.is_asked = true;
        let next = match BeingRead::begin() {
            Ok(_until_it_has_answered) => Pin::new(stream).poll_next(context),
            Err(error) => Poll::Ready(Some(Err(error))),
        };
        let changed = next.map(|next| next.map(|array| array.and_then(change)));
        self.is_asked = false;
        if matches!(changed, Poll::Ready(None | Some(Err(_)))) {
            self.stream = None;
        }
        changed
    }
}

/// A stream whose arrays are copied, or asked for ahead. [`ArraysExt`] makes it.
///
/// The first error ends the stream. So does a panic of the source, after which the stream still
/// returns what was under way. Dropping the stream gives up the copies that are under way.
pub struct MovingArrays<S> {
    arrays: AskedArrays<S>,
    to: Option<(Queue, Options)>,
    ahead: usize,
    under_way: VecDeque<Moving>,
}

/// How many of the arrays on their way are looked at by one poll. A poll returns one array, so a
/// poll of all of them would take the square of their number until all are returned.
const POLLED_AT_ONCE: usize = 64;

/// An array on its way.
enum Moving {
    Copied(AwaitedCopy),
    There(Result<Array>),
}

impl<S: Stream<Item = Result<Array>> + Unpin> MovingArrays<S> {
    fn new(arrays: S, to: Option<(Queue, Options)>, ahead: usize) -> Self {
        Self { arrays: AskedArrays::new(arrays), to, ahead, under_way: VecDeque::new() }
    }

    /// Keeps up to `ahead` arrays on their way while one is used. The memory of at most `ahead`
    /// arrays is in use besides that of the array that was returned.
    ///
    /// Every copy begins as soon as there is room for it. A copy that needs several steps, as one
    /// of strings does, takes the second step once it is among the first 64 on their way.
    #[must_use]
    pub fn prefetch(mut self, ahead: usize) -> Self {
        self.ahead = ahead;
        self
    }

    /// Begins copies until `count` are on their way, or there are no more arrays.
    fn fill(&mut self, count: usize, context: &mut Context<'_>) {
        while self.under_way.len() < count && !self.arrays.is_over() {
            let next = self.arrays.poll_next(context, |array| match &self.to {
                None => Ok(Moving::There(Ok(array))),
                Some((queue, options)) => {
                    array.copy_polled(queue, options).map(|copy| Moving::Copied(copy.into_future()))
                }
            });
            let Poll::Ready(Some(moving)) = next else { return };
            self.under_way.push_back(moving.unwrap_or_else(|error| Moving::There(Err(error))));
        }
    }

    /// Polls each of the first copies once.
    fn advance(&mut self, context: &mut Context<'_>) {
        for moving in self.under_way.iter_mut().take(POLLED_AT_ONCE) {
            if let Moving::Copied(copy) = moving
                && let Poll::Ready(result) = Pin::new(copy).poll(context)
            {
                *moving = Moving::There(result);
            }
        }
    }
}

impl<S: Stream<Item = Result<Array>> + Unpin> Stream for MovingArrays<S> {
    type Item = Result<Array>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Array>>> {
        let this = &mut *self;
        this.fill(this.ahead.max(1), context);
        this.advance(context);
        if let Some(Moving::There(Ok(_))) = this.under_way.front() {
            // The next copies begin before this array is used. The array stays in the queue
            // meanwhile, so that a panic of the source does not lose it.
            this.fill(this.ahead.saturating_add(1), context);
        }
        match this.under_way.pop_front() {
            Some(Moving::There(result)) => {
                if result.is_err() {
                    this.arrays.stream = None;
                    this.under_way.clear();
                }
                Poll::Ready(Some(result))
            }
            Some(copying) => {
                this.under_way.push_front(copying);
                Poll::Pending
            }
            None if this.arrays.is_over() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

impl<S: Stream<Item = Result<Array>> + Unpin> FusedStream for MovingArrays<S> {
    fn is_terminated(&self) -> bool {
        self.arrays.is_over() && self.under_way.is_empty()
    }
}

impl<S> fmt::Debug for MovingArrays<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = self.under_way.len();
        f.debug_struct("MovingArrays").field("under_way", &count).finish_non_exhaustive()
    }
}

/// A stream of what a function makes of arrays: see [`ArraysExt::map_arrays`].
///
/// The first error ends the stream, and so does a panic.
pub struct MappedArrays<S, F> {
    arrays: AskedArrays<S>,
    change: F,
}

/// The function is never pinned.
impl<S: Unpin, F> Unpin for MappedArrays<S, F> {}

impl<S, F> Stream for MappedArrays<S, F>
where
    S: Stream<Item = Result<Array>> + Unpin,
    F: FnMut(Array) -> Result<Array>,
{
    type Item = Result<Array>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Array>>> {
        let this = &mut *self;
        this.arrays.poll_next(context, &mut this.change)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // An error of the function may end the stream sooner.
        let arrays = self.arrays.stream.as_ref().filter(|_| !self.arrays.is_over());
        (0, arrays.map_or(Some(0), |arrays| arrays.size_hint().1))
    }
}

impl<S, F> FusedStream for MappedArrays<S, F>
where
    S: Stream<Item = Result<Array>> + Unpin,
    F: FnMut(Array) -> Result<Array>,
{
    fn is_terminated(&self) -> bool {
        self.arrays.is_over()
    }
}

impl<S, F> fmt::Debug for MappedArrays<S, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_over = self.arrays.is_over();
        f.debug_struct("MappedArrays").field("is_over", &is_over).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DataType;

    const ARRAYS: i64 = if cfg!(miri) { 80 } else { 1000 };

    struct Numbers(i64);

    impl Stream for Numbers {
        type Item = Result<Array>;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
            self.0 += 1;
            let number = Array::from_values(DataType::Int64, [Some(self.0)]);
            Poll::Ready((self.0 <= ARRAYS).then_some(number))
        }
    }

    #[test]
    fn a_poll_looks_at_few_of_the_arrays_on_their_way() {
        let mut moving = Numbers(0).to_host().prefetch(1000);
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut count = 0;
        while let Poll::Ready(Some(array)) = Pin::new(&mut moving).poll_next(&mut context) {
            assert!(array.unwrap().is_ready().unwrap());
            count += 1;
            let is_there = |moving: &&Moving| matches!(moving, Moving::There(_));
            let there = moving.under_way.iter().filter(is_there).count();
            assert!(there < POLLED_AT_ONCE, "{there} of {}", moving.under_way.len());
        }
        assert!(count == ARRAYS && moving.is_terminated());
    }
}
