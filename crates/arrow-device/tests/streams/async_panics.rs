//! Asynchronous streams of arrays whose source panics, or the function that changes the arrays.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use arrow_device::async_stream::ArraysExt as _;
use arrow_device::types::Int8;
use arrow_device::{Array, Queue, Result};
use futures_core::Stream;
use futures_core::stream::FusedStream;

fn panics() -> ! {
    resume_unwind(Box::new("planted"))
}

/// Gives two arrays, panics, gives more arrays and ends.
struct PanicsOnce(usize);

impl Stream for PanicsOnce {
    type Item = Result<Array>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Array>>> {
        self.0 += 1;
        if self.0 == 3 {
            panics();
        }
        Poll::Ready((self.0 < 20).then(|| Array::of::<Int8>([Some(1)])))
    }
}

/// Polls until the end, through at most one panic. Returns how many arrays came, and whether the
/// stream panicked.
fn read(mut stream: impl FusedStream<Item = Result<Array>> + Unpin) -> (usize, bool) {
    let (mut count, mut has_panicked) = (0, false);
    loop {
        let mut context = Context::from_waker(Waker::noop());
        let poll = AssertUnwindSafe(|| Pin::new(&mut stream).poll_next(&mut context));
        match catch_unwind(poll) {
            Ok(Poll::Ready(Some(array))) => {
                array.unwrap();
                count += 1;
            }
            Ok(Poll::Ready(None)) => break,
            Ok(Poll::Pending) => {}
            Err(_) => {
                assert!(!has_panicked);
                has_panicked = true;
            }
        }
    }
    assert!(stream.is_terminated());
    (count, has_panicked)
}

// Requirement: SAF-30
#[test]
fn a_stream_whose_source_panicked_gives_what_was_on_its_way_and_ends() {
    assert_eq!(read(PanicsOnce(0).map_arrays(Ok)), (2, true));
    for ahead in [0, 1, 2, 5] {
        assert_eq!(read(PanicsOnce(0).prefetch(ahead)), (2, true), "{ahead}");
        let there = PanicsOnce(0).copy_to(&Queue::host()).prefetch(ahead);
        assert_eq!(read(there), (2, true), "{ahead}");
    }
}

// Requirement: SAF-30
#[test]
fn a_stream_whose_function_panicked_is_at_its_end() {
    let mut left = 2;
    let change = |array| {
        left -= 1;
        if left == 0 { panics() } else { Ok(array) }
    };
    assert_eq!(read(PanicsOnce(10).map_arrays(change)), (1, true));
}
