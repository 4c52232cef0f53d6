//! The two C structs for streams, with device arrays and with plain ones, as one trait.

use std::ffi::{c_char, c_int, c_void};
use std::mem::MaybeUninit;

use crate::abi::{
    ArrowArray, ArrowArrayStream, ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema,
};
use crate::array::Manner;
use crate::schema::Schema;
use crate::{Array, DeviceType, Result};

/// A C struct for streams.
pub(super) trait CStream: Sized + 'static {
    /// The struct of one array of the stream.
    type Chunk;

    /// A released struct.
    const EMPTY: Self;

    /// The released struct of an array, which marks the end of a stream.
    const END: Self::Chunk;

    /// A struct with these members.
    fn new(device_type: DeviceType, callbacks: Callbacks<Self>, private_data: *mut c_void) -> Self;

    fn device_type(&self) -> DeviceType;

    fn callbacks(&self) -> Callbacks<Self>;

    fn private_data_mut(&mut self) -> &mut *mut c_void;

    fn release_mut(&mut self) -> &mut Option<Release<Self>>;

    fn is_end(chunk: &Self::Chunk) -> bool;

    /// Imports an array.
    ///
    /// # Safety
    /// UNS-3 to UNS-6.
    unsafe fn import_chunk(chunk: &mut Self::Chunk, schema: &Schema) -> Result<Array>;

    /// Exports an array. Nothing is written if this fails.
    ///
    /// # Safety
    /// Whatever the outcome, the array is neither used nor dropped after this.
    unsafe fn export_chunk(
        array: &Array,
        manner: &Manner,
        out: &mut MaybeUninit<Self::Chunk>,
    ) -> Result<()>;
}

pub(super) type GetSchema<S> = unsafe extern "C" fn(*mut S, *mut ArrowSchema) -> c_int;
pub(super) type GetNext<S> = unsafe extern "C" fn(*mut S, *mut <S as CStream>::Chunk) -> c_int;
pub(super) type GetLastError<S> = unsafe extern "C" fn(*mut S) -> *const c_char;
pub(super) type Release<S> = unsafe extern "C" fn(*mut S);

/// The callbacks of a struct. All are mandatory, but another party may have left one out.
pub(super) struct Callbacks<S: CStream> {
    pub(super) get_schema: Option<GetSchema<S>>,
    pub(super) get_next: Option<GetNext<S>>,
    pub(super) get_last_error: Option<GetLastError<S>>,
    pub(super) release: Option<Release<S>>,
}

impl CStream for ArrowDeviceArrayStream {
    type Chunk = ArrowDeviceArray;

    const EMPTY: Self = Self::empty();
    const END: ArrowDeviceArray = ArrowDeviceArray::empty();

    fn new(device_type: DeviceType, callbacks: Callbacks<Self>, private_data: *mut c_void) -> Self {
        let Callbacks { get_schema, get_next, get_last_error, release } = callbacks;
        let device_type = device_type.0;
        Self { device_type, get_schema, get_next, get_last_error, release, private_data }
    }

    fn device_type(&self) -> DeviceType {
        DeviceType(self.device_type)
    }

    fn callbacks(&self) -> Callbacks<Self> {
        let Self { get_schema, get_next, get_last_error, release, .. } = *self;
        Callbacks { get_schema, get_next, get_last_error, release }
    }

    fn private_data_mut(&mut self) -> &mut *mut c_void {
        &mut self.private_data
    }

    fn release_mut(&mut self) -> &mut Option<Release<Self>> {
        &mut self.release
    }

    fn is_end(chunk: &ArrowDeviceArray) -> bool {
        chunk.array.is_released()
    }

    unsafe fn import_chunk(chunk: &mut ArrowDeviceArray, schema: &Schema) -> Result<Array> {
        // SAFETY: UNS-3 to UNS-6, which the caller promises, of a struct that is borrowed (UNS-1).
        unsafe { Array::import(chunk, schema) }
    }

    #[inline]
    unsafe fn export_chunk(
        array: &Array,
        manner: &Manner,
        out: &mut MaybeUninit<ArrowDeviceArray>,
    ) -> Result<()> {
        // SAFETY: the array is neither used nor dropped after this, as the caller promises.
        unsafe { array.export_and_forget(manner, out) }
    }
}

impl CStream for ArrowArrayStream {
    type Chunk = ArrowArray;

    const EMPTY: Self = Self::empty();
    const END: ArrowArray = ArrowArray::empty();

    fn new(_: DeviceType, callbacks: Callbacks<Self>, private_data: *mut c_void) -> Self {
        let Callbacks { get_schema, get_next, get_last_error, release } = callbacks;
        Self { get_schema, get_next, get_last_error, release, private_data }
    }

    fn device_type(&self) -> DeviceType {
        DeviceType::CPU
    }

    fn callbacks(&self) -> Callbacks<Self> {
        let Self { get_schema, get_next, get_last_error, release, .. } = *self;
        Callbacks { get_schema, get_next, get_last_error, release }
    }

    fn private_data_mut(&mut self) -> &mut *mut c_void {
        &mut self.private_data
    }

    fn release_mut(&mut self) -> &mut Option<Release<Self>> {
        &mut self.release
    }

    fn is_end(chunk: &ArrowArray) -> bool {
        chunk.is_released()
    }

    unsafe fn import_chunk(chunk: &mut ArrowArray, schema: &Schema) -> Result<Array> {
        // SAFETY: UNS-3 to UNS-6, which the caller promises, of a struct that is borrowed (UNS-1),
        // with the buffers in host memory (UNS-7).
        unsafe { Array::import_host(chunk, schema) }
    }

    #[inline]
    unsafe fn export_chunk(
        array: &Array,
        _: &Manner,
        out: &mut MaybeUninit<ArrowArray>,
    ) -> Result<()> {
        // SAFETY: the array is neither used nor dropped after this, as the caller promises.
        unsafe { array.export_host_and_forget(out) }
    }
}
