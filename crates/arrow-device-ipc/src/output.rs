//! [`Output`]: where messages are written, and whether writing failed in the middle of a message.

use std::io::Write;

use arrow_device::{ErrorKind, Result};

use crate::framing::CONTINUATION;
use crate::pieces::write_zeros;
use crate::problem::{not_written, refused};
use crate::stream_writer::EncodedMessage;

/// The output of a stream or a file.
#[derive(Debug)]
pub(crate) struct Output<W> {
    to: W,
    alignment: u64,
    /// How many bytes were written.
    at: u64,
    is_broken: bool,
}

impl<W: Write> Output<W> {
    /// Returns an output to which nothing was written. Bodies will begin at multiples of the
    /// alignment.
    pub(crate) fn new(to: W, alignment: u64) -> Self {
        Self { to, alignment, at: 0, is_broken: false }
    }

    /// Refuses to go on after a message that was written only in part.
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

    /// Writes a header with so much padding that its body begins at a multiple of the alignment.
    /// Returns how many bytes were written.
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

    /// Writes messages with their bodies. Calls `written` for each message with the place where the
    /// message begins and the length of its header.
    pub(crate) fn write_messages(
        &mut self,
        messages: Vec<EncodedMessage>,
        mut written: impl FnMut(&EncodedMessage, u64, u64),
    ) -> Result<()> {
        // Broken until all is written, because an output may fail or panic.
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

    /// Writes the mark that ends a stream of messages.
    pub(crate) fn write_end(&mut self) -> Result<()> {
        self.write_bytes(&CONTINUATION)?;
        self.write_bytes(&[0; 4])
    }

    /// Flushes the output and returns it.
    pub(crate) fn finish(mut self) -> Result<W> {
        self.to.flush().map_err(not_written)?;
        Ok(self.to)
    }
}
