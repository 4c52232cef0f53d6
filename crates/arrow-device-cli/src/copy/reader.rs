//! Reading ahead: a thread reads the file and sums up each batch, while the one before is on its
//! way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;

use arrow_device::{Array, ArrayStream, DeviceType, Error, ErrorKind, Result};

use super::checksum;
use crate::files::OpenedFile;

/// How often somebody looks whether there was an interruption, while nothing comes.
const PATIENCE: Duration = Duration::from_millis(50);

/// The sums of the batches that went into the stream, in their order.
pub(super) struct Sums(Receiver<u64>);

impl Sums {
    /// That of the next batch; `None` if there was none more.
    pub(super) fn next(&self) -> Option<u64> {
        self.0.try_recv().ok()
    }

    #[cfg(test)]
    pub(super) fn of(sums: impl IntoIterator<Item = u64>) -> Self {
        let (send, receive) = mpsc::channel();
        sums.into_iter().for_each(|sum| send.send(sum).unwrap());
        Self(receive)
    }
}

/// What the thread says. After `None` there is nothing more.
type Message = Option<Result<(Array, u64)>>;

/// Begins to read. The stream ends with an error after an interruption, also where the file is a
/// pipe that says nothing.
pub(super) fn start(source: OpenedFile, interrupted: Arc<AtomicBool>) -> (ArrayStream, Sums) {
    let (send, messages) = mpsc::sync_channel(1);
    let (send_sum, sums) = mpsc::channel();
    let schema = source.schema.clone();
    // Not waited for: after an interruption it may be held up by a pipe.
    std::thread::spawn(move || read(source, &send));
    let arrays = std::iter::from_fn(move || {
        next(&messages, &interrupted).map(|next| {
            let (array, sum) = next?;
            // Nobody listens after a failure, when it does not matter.
            let _ = send_sum.send(sum);
            Ok(array)
        })
    });
    (ArrayStream::new(schema, DeviceType::CPU, arrays), Sums(sums))
}

fn read(source: OpenedFile, send: &SyncSender<Message>) {
    for batch in source.batches {
        let summed = batch.and_then(|batch| {
            let array = Array::from(batch);
            let (sum, _) = checksum::of(&array)?;
            Ok((array, sum))
        });
        if send.send(Some(summed)).is_err() {
            return;
        }
    }
    let _ = send.send(None);
}

fn next(messages: &Receiver<Message>, interrupted: &AtomicBool) -> Message {
    loop {
        if interrupted.load(Ordering::Relaxed) {
            return Some(Err(Error::new(ErrorKind::Cancelled, "interrupted")));
        }
        match messages.recv_timeout(PATIENCE) {
            Ok(message) => return message,
            Err(RecvTimeoutError::Timeout) => {}
            // It ends with a message, unless it panics.
            Err(RecvTimeoutError::Disconnected) => {
                let message = "the reader of the file failed on what is in it";
                return Some(Err(Error::new(ErrorKind::InvalidData, message)));
            }
        }
    }
}
