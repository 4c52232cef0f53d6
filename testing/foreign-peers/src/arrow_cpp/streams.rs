//! Streams of Arrow C++. `cpp/streams.h` says what the functions do.

use std::ffi::c_int;

use arrow_device::abi::{ArrowArrayStream, ArrowDeviceArrayStream};

use super::{ArrowCpp, Place};
use crate::Said;

type Stream = ArrowDeviceArrayStream;
type Export = unsafe extern "C" fn(usize, c_int, *mut Stream) -> c_int;
type Plain = unsafe extern "C" fn(usize, *mut ArrowArrayStream) -> c_int;
type Counted = unsafe extern "C" fn(usize, *mut Stream) -> c_int;
type TwoStreams = unsafe extern "C" fn(*mut Stream, *mut Stream) -> c_int;

/// How many cases a type has.
const SHAPES: usize = 8;

impl ArrowCpp {
    /// How many streams are of arrays, and how many of batches. Batches follow arrays.
    pub fn stream_counts(&self) -> (usize, usize) {
        let (arrays, batches) = self.counts();
        (arrays / SHAPES, batches / SHAPES)
    }

    /// The number of a stream's first case.
    pub fn first_case(&self, stream: usize) -> usize {
        stream * SHAPES
    }

    /// Exports a stream.
    pub fn export_stream(&self, number: usize, place: Place) -> Result<Stream, String> {
        let mut out = Stream::empty();
        // SAFETY: as declared.
        let export = unsafe { self.get::<Export>("adf_cpp_export_stream") };
        // SAFETY: the struct may be written, and holds nothing that has to be released.
        let code = unsafe { export(number, place as c_int, &mut out) };
        self.said(code).map(|()| out)
    }

    /// Exports a stream without a device.
    pub fn export_plain_stream(&self, number: usize) -> Result<ArrowArrayStream, String> {
        let mut out = ArrowArrayStream::empty();
        // SAFETY: as declared.
        let export = unsafe { self.get::<Plain>("adf_cpp_export_plain_stream") };
        // SAFETY: the struct may be written, and holds nothing that has to be released.
        let code = unsafe { export(number, &mut out) };
        self.said(code).map(|()| out)
    }

    /// Reads a stream to its end, and compares it with what is exported to that place.
    ///
    /// # Safety
    /// The stream is good as the C data interface has it.
    pub unsafe fn compare_stream(&self, number: usize, place: Place, mut stream: Stream) -> Said {
        // SAFETY: as declared.
        let compare = unsafe { self.get::<Export>("adf_cpp_compare_stream") };
        // SAFETY: the stream is good as the C data interface has it, as the caller promises.
        self.said(unsafe { compare(number, place as c_int, &mut stream) })
    }

    /// The same without a device.
    ///
    /// # Safety
    /// As for [`Self::compare_stream`].
    pub unsafe fn compare_plain_stream(&self, number: usize, mut stream: ArrowArrayStream) -> Said {
        // SAFETY: as declared.
        let compare = unsafe { self.get::<Plain>("adf_cpp_compare_plain_stream") };
        // SAFETY: what `Self::compare_stream` asks for, which the caller promises.
        self.said(unsafe { compare(number, &mut stream) })
    }

    /// Imports a stream and exports it: as `"chunks"`, read at once, or as `"batches"`, read when
    /// asked.
    ///
    /// # Safety
    /// As for [`Self::compare_stream`].
    pub unsafe fn relay_stream(&self, manner: &str, mut stream: Stream) -> Result<Stream, String> {
        let mut out = Stream::empty();
        // SAFETY: as declared.
        let relay = unsafe { self.get::<TwoStreams>(&format!("adf_cpp_relay_{manner}")) };
        // SAFETY: what `Self::compare_stream` asks for, which the caller promises; the output holds
        // nothing.
        let code = unsafe { relay(&mut stream, &mut out) };
        self.said(code).map(|()| out)
    }

    /// Reads so many batches at most, releases the stream, and then looks at what it has.
    ///
    /// # Safety
    /// As for [`Self::compare_stream`].
    pub unsafe fn read_batches(&self, count: usize, mut stream: Stream) -> Said {
        // SAFETY: as declared.
        let read = unsafe { self.get::<Counted>("adf_cpp_read_batches") };
        // SAFETY: what `Self::compare_stream` asks for, which the caller promises.
        self.said(unsafe { read(count, &mut stream) })
    }

    /// Reads two streams to the end and compares their chunks.
    ///
    /// # Safety
    /// As for [`Self::compare_stream`].
    pub unsafe fn equal_streams(&self, mut left: Stream, mut right: Stream) -> Said {
        // SAFETY: as declared.
        let equal = unsafe { self.get::<TwoStreams>("adf_cpp_equal_streams") };
        // SAFETY: what `Self::compare_stream` asks for, which the caller promises.
        self.said(unsafe { equal(&mut left, &mut right) })
    }

    /// A stream that fails after so many batches of numbers; `status` says with what, as in
    /// `cpp/streams.h`.
    pub fn export_failing_stream(&self, good: usize, status: c_int) -> Result<Stream, String> {
        let mut out = Stream::empty();
        // SAFETY: as declared.
        let export = unsafe { self.get::<Export>("adf_cpp_export_failing_stream") };
        // SAFETY: the struct may be written, and holds nothing that has to be released.
        let code = unsafe { export(good, status, &mut out) };
        self.said(code).map(|()| out)
    }
}
