//! [`Output`]: where messages are written, and whether the output failed in the middle of one.

use std::io::Write;

use arrow_device::{ErrorKind, Result};

use crate::framing::CONTINUATION;
use crate::pieces::write_zeros;
use crate::problem::{not_written, refused};
use crate::stream_writer::EncodedMessage;

/// What a stream or a file is written to.
#[derive(Debug)]
pub(crate) struct Output<W> {
    to: W,
    alignment: u64,
    /// How many bytes were written.
    at: u64,
    is_broken: bool,
}

impl<W: Write> Output<W> {
    /// An output to which nothing was written, with bodies at multiples of the alignment.
    pub(crate) fn new(to: W, alignment: u64) -> Self {
        Self { to, alignment, at: 0, is_broken: false }
    }

    /// Refuses to go on behind a message that was broken off.
    pub(crate) fn check(&self) -> Result<()> {
        if self.is_broken {
            let message =
                "the output failed in the middle of a message, and what was written is broken";
            return Err(refused(ErrorKind::InvalidArgument, message));
        }
        Ok(())
    }

    pub(crate) fn write_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.to.write_all(bytes).map_err(not_written)?;
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Writes a header so that its body begins at a multiple of the alignment. Returns how many
    /// bytes that took.
    pub(crate) fn write_header(&mut self, header: &[u8]) -> Result<u64> {
        let end = self.at + 8 + header.len() as u64;
        let padding = end.next_multiple_of(self.alignment) - end;
        let len = header.len() as u64 + padding;
        let len = i32::try_from(len).map_err(|_| {
            let message = format!("a header of {len} bytes; IPC has 2 GiB at most");
            refused(ErrorKind::LimitExceeded, message)
        })?;
        self.write_bytes(&CONTINUATION)?;
        self.write_bytes(&len.to_le_bytes())?;
        self.write_bytes(header)?;
        write_zeros(&mut self.to, padding)?;
        self.at += padding;
        Ok(8 + u64::from(len.unsigned_abs()))
    }

    /// Writes messages with their bodies. `written` is told of each, with the place where it
    /// begins and the length of its header.
    pub(crate) fn write_messages(
        &mut self,
        messages: Vec<EncodedMessage>,
        mut written: impl FnMut(&EncodedMessage, u64, u64),
    ) -> Result<()> {
        // Until all is written: an output may fail, or panic.
        self.is_broken = true;
        for message in messages {
            let start = self.at;
            let header = self.write_header(message.header())?;
            message.write_body(&mut self.to)?;
            self.at += message.body_len();
            written(&message, start, header);
        }
        self.is_broken = false;
        Ok(())
    }

    /// Writes what ends a stream of messages.
    pub(crate) fn write_end(&mut self) -> Result<()> {
        self.write_bytes(&CONTINUATION)?;
        self.write_bytes(&[0; 4])
    }

    /// Gives back what was written to, flushed.
    pub(crate) fn finish(mut self) -> Result<W> {
        self.to.flush().map_err(not_written)?;
        Ok(self.to)
    }
}
