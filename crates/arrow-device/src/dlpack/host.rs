//! Tensors that the host may read.

use std::fmt;

use super::copy::room;
use super::dtype::Width;
use super::memory::ELEMENTS;
use super::{Element, Tensor};
use crate::{Error, ErrorKind, HostArray, Result};

/// A tensor that is ready and that the host may read where it lies.
#[derive(Clone)]
pub struct HostTensor {
    tensor: Tensor,
    memory: HostArray,
}

impl Tensor {
    /// Waits until the data is ready, and lets the host read it where it lies.
    ///
    /// # Errors
    /// * [`Unsupported`](ErrorKind::Unsupported): the host cannot read this memory, or its producer
    ///   may still write to it (see [`assume_frozen`](Self::assume_frozen)). Copy it.
    pub fn host(&self) -> Result<HostTensor> {
        self.require_frozen("read on the host")?;
        HostTensor::new(self)
    }
}

impl HostTensor {
    pub(crate) fn new(tensor: &Tensor) -> Result<Self> {
        let memory = tensor.memory().host()?;
        Ok(Self { tensor: tensor.clone(), memory })
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// Copies all elements, in row-major order and without gaps.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let tensor = &self.tensor;
        if tensor.is_empty() {
            return Ok(Vec::new());
        }
        let memory = self.memory.buffer(ELEMENTS)?;
        let outside = || {
            let message = "an element lies outside of the memory of the tensor";
            Error::new(ErrorKind::InvalidData, message).on_device(tensor.device())
        };
        let size =
            |elements| tensor.width().bytes(elements).and_then(|bytes| usize::try_from(bytes).ok());
        let total = size(tensor.len()).ok_or_else(outside)?;
        let runs = tensor.dims().runs();
        let run = size(runs.length).ok_or_else(outside)?;
        let mut bytes = room(total)?;
        for place in runs {
            let begin = tensor.start_of(place).and_then(|begin| usize::try_from(begin).ok());
            let piece = begin.and_then(|begin| memory.part(begin..begin.checked_add(run)?));
            bytes.extend_from_slice(piece.ok_or_else(outside)?);
        }
        Ok(bytes)
    }

    /// Copies all elements in row-major order. An error where the elements have another type.
    /// [`elements`](Self::elements) borrows them instead.
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.check_type::<T>()?;
        let read = |bytes: &[u8]| {
            // SAFETY: the chunk has the size of `T`, of which any bytes are a value (`Plain`); the
            // read needs no alignment.
            unsafe { bytes.as_ptr().cast::<T>().read_unaligned() }
        };
        Ok(self.to_bytes()?.chunks_exact(size_of::<T>()).map(read).collect())
    }

    /// An error where the elements have another type.
    pub(super) fn check_type<T: Element>(&self) -> Result<()> {
        if self.tensor.dtype() == T::DTYPE {
            return Ok(());
        }
        let message = format!("the elements are {}, not {}", self.tensor.dtype(), T::DTYPE);
        Err(Error::new(ErrorKind::InvalidArgument, message))
    }

    /// The memory of the elements.
    pub(super) fn memory(&self) -> &HostArray {
        &self.memory
    }
}

impl Tensor {
    /// Where an element begins in the memory, in bytes; `None` before the start.
    pub(crate) fn start_of(&self, place: i64) -> Option<u64> {
        match self.width() {
            Width::Bytes(width) => {
                let step = i64::try_from(width).ok()?.checked_mul(place)?;
                self.start().checked_add_signed(step)
            }
            // Packed tensors are always compact, so their one run begins at the start.
            Width::Packed { .. } => (place == 0).then_some(self.start()),
        }
    }
}

impl fmt::Debug for HostTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostTensor({:?})", self.tensor)
    }
}
