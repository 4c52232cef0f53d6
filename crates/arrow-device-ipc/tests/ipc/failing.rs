//! Inputs and outputs that fail, or panic, in the middle of a message.

use std::io::{self, Read, Write};

use arrow_device::{Array, Batch, DataType, ErrorKind};
use arrow_device_ipc::{
    FileReader, FileWriter, ReadOptions, StreamReader, StreamWriter, WriteOptions,
};

use crate::support::written;

fn batch() -> Batch {
    let numbers = Array::from_values(DataType::Int64, (0..100_i64).map(Some)).unwrap();
    Batch::from_columns([("n", numbers)]).unwrap()
}

/// An output that fails once, with so many bytes still to come before.
struct FailsOnce {
    bytes: Vec<u8>,
    left: Option<usize>,
}

impl Write for FailsOnce {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = match &mut self.left {
            Some(0) => {
                self.left = None;
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            Some(left) => {
                let count = bytes.len().min(*left);
                *left -= count;
                count
            }
            None => bytes.len(),
        };
        self.bytes.extend(bytes.iter().take(count));
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn nothing_is_written_behind_half_a_message() {
    let (batch, options) = (batch(), WriteOptions::new());
    let schema = batch.schema().unwrap();
    let output = |left| FailsOnce { bytes: Vec::new(), left: Some(left) };
    let mut broken = 0;
    for left in (0..3000).step_by(100) {
        let Ok(mut writer) = StreamWriter::new(output(left), &schema, options) else { continue };
        if writer.write(&batch).is_err() {
            broken += 1;
            assert_eq!(writer.write(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
            assert!(writer.finish().is_err_and(|error| error.kind() == ErrorKind::InvalidArgument));
        }
        let Ok(mut writer) = FileWriter::new(output(left), &schema, options) else { continue };
        if writer.write(&batch).is_err() {
            broken += 1;
            assert_eq!(writer.write(&batch).unwrap_err().kind(), ErrorKind::InvalidArgument);
            assert!(writer.finish().is_err_and(|error| error.kind() == ErrorKind::InvalidArgument));
        }
    }
    assert!(broken > 10, "{broken} writers failed in the middle");
}

#[test]
fn a_file_that_is_not_there_is_no_driver_that_is_missing() {
    let path = std::env::temp_dir().join("no directory of this name/file.arrow");
    let said = std::fs::File::open(&path).unwrap_err().to_string();
    let error = FileReader::open(&path, ReadOptions::new()).unwrap_err();
    assert_eq!((error.kind(), error.message()), (ErrorKind::Peer, &*said));
}

/// An input and output that fails with an error number of the operating system.
#[cfg(unix)]
#[derive(Debug)]
struct Fails(i32);

#[cfg(unix)]
impl Read for Fails {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(self.0))
    }
}

#[cfg(unix)]
impl Write for Fails {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(io::Error::from_raw_os_error(self.0))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
#[cfg(unix)]
fn what_the_system_says_is_not_taken_for_what_a_driver_says() {
    let schema = batch().schema().unwrap();
    // `EIO`, `ENXIO` and `EFAULT`. In the C interfaces they are a driver's error, a lost device and
    // a panic.
    for errno in [5, 6, 14] {
        let said = io::Error::from_raw_os_error(errno).to_string();
        for error in [
            StreamReader::new(Fails(errno), ReadOptions::new()).unwrap_err(),
            StreamWriter::new(Fails(errno), &schema, WriteOptions::new()).unwrap_err(),
        ] {
            assert_eq!(error.kind(), ErrorKind::Peer, "{error}");
            assert!(error.message().ends_with(&said), "{error}");
        }
    }
}

/// An input that panics once, after so many reads.
#[cfg(panic = "unwind")]
struct PanicsOnce {
    bytes: io::Cursor<Vec<u8>>,
    reads: usize,
}

#[cfg(panic = "unwind")]
impl Read for PanicsOnce {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        let left = self.reads;
        self.reads = left.wrapping_sub(1);
        if left == 0 {
            std::panic::resume_unwind(Box::new("planted"));
        }
        let most = bytes.len().min(64);
        self.bytes.read(bytes.get_mut(..most).unwrap_or_default())
    }
}

#[test]
#[cfg(panic = "unwind")]
fn a_reader_whose_input_panicked_is_at_its_end() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    let batches = [batch(), batch()];
    let bytes = written(&batches[0].schema().unwrap(), &batches, WriteOptions::new());
    let mut panicked = 0;
    for reads in 0..60 {
        let input = PanicsOnce { bytes: io::Cursor::new(bytes.clone()), reads };
        let opened = catch_unwind(|| StreamReader::new(input, ReadOptions::new()));
        let Ok(Ok(mut reader)) = opened else { continue };
        let read = AssertUnwindSafe(|| reader.by_ref().map(Result::unwrap).count());
        if catch_unwind(read).is_err() {
            panicked += 1;
            assert!(reader.next().is_none());
        }
    }
    assert!(panicked > 10, "{panicked} readers");
}
