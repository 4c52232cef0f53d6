//! [`Tensor`]: elements of one type in any number of dimensions, somewhere in the memory of an
//! array.

use std::alloc::Layout;
use std::fmt;

use super::Dtype;
use super::dims::Dims;
use super::dtype::Width;
use super::memory::{ELEMENTS, TensorMemory, array_of};
use crate::device::driver::{Addressing, Raw};
use crate::device::{Arrival, Location, location};
use crate::pool::shared::{Shared, Vacancy};
use crate::{
    Array, ArrayBuilder, Buffer, Device, DeviceId, DeviceType, Error, ErrorKind, Extent, Queue,
    Result, View,
};

/// A strided tensor on a device: immutable, shared, ready now or after an event.
///
/// A tensor is made from an array ([`Array::to_tensor`]), from C ([`import`](Self::import)), or
/// from a buffer ([`from_buffer`](Self::from_buffer)). A tensor itself shows no address. A
/// [`TensorView`], for which the queue is named that will use the address, tells where the elements
/// are, and so does [`host`](Self::host), which waits for the data. A clone of a tensor shares the
/// memory.
///
/// ```
/// use arrow_device::dlpack::{Conversion, Dtype};
/// use arrow_device::{Array, DataType};
///
/// let numbers = Array::from_values(DataType::Int16, [Some(1_i16), Some(2), Some(3)])?;
/// let tensor = numbers.to_tensor(&Conversion::new())?;
/// assert_eq!(
///     (tensor.shape(), tensor.strides(), tensor.dtype()),
///     (&[3][..], &[1][..], Dtype::INT16)
/// );
/// assert_eq!(tensor.host()?.to_vec::<i16>()?, [1, 2, 3]);
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone)]
pub struct Tensor {
    parts: Shared<TensorParts>,
}

/// The parts of a tensor, which its clones share.
#[derive(Clone)]
pub(crate) struct TensorParts {
    pub(crate) memory: TensorMemory,
    /// The number of bytes from the base of the memory to the first element.
    pub(crate) start: u64,
    pub(crate) dtype: Dtype,
    pub(crate) width: Width,
    /// Whether elements of less than a byte take a byte each.
    pub(crate) padded: bool,
    pub(crate) dims: Dims,
    pub(crate) origin: Origin,
}

/// Who else may have the memory, and what they may do to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Others may read the memory, and nobody writes to it.
    Shared,
    /// The memory was copied for this tensor, and nobody else has it unless the tensor was cloned.
    Own,
    /// The tensor was imported, and its producer may still write to the memory.
    Writable,
}

impl Tensor {
    /// A compact tensor in row-major order over a buffer of one's own, which is ready.
    ///
    /// ```
    /// use arrow_device::Buffer;
    /// use arrow_device::dlpack::{Dtype, Tensor};
    ///
    /// let matrix = Tensor::from_buffer(
    ///     Buffer::from(vec![1_u8, 2, 3, 4, 5, 6]),
    ///     Dtype::UINT8,
    ///     &[2, 3],
    /// )?;
    /// let turned = matrix.permuted(&[1, 0])?;
    /// assert_eq!((turned.shape(), turned.strides()), (&[3, 2][..], &[1, 3][..]));
    /// assert_eq!(turned.host()?.to_vec::<u8>()?, [1, 4, 2, 5, 3, 6]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn from_buffer(buffer: Buffer, dtype: Dtype, shape: &[i64]) -> Result<Self> {
        let dims = Dims::compact(shape)?;
        let width = dtype.width(false)?;
        let needed = width.bytes(dims.count());
        if needed.is_none_or(|needed| needed > buffer.extent().at_least()) {
            let message = format!("{} {dtype} do not fit into {}", dims.count(), buffer.extent());
            return Err(Error::new(ErrorKind::InvalidArgument, message).during("build a tensor"));
        }
        let memory = array_of(buffer, Some(dtype), ArrayBuilder::finish_ready)?;
        Ok(Self::new(TensorMemory::of(memory), 0, dtype, width, dims, Origin::Shared))
    }

    pub(crate) fn new(
        memory: TensorMemory,
        start: u64,
        dtype: Dtype,
        width: Width,
        dims: Dims,
        origin: Origin,
    ) -> Self {
        Self::of(|| TensorParts { memory, start, dtype, width, padded: false, dims, origin })
    }

    #[inline(always)]
    pub(crate) fn of(make: impl FnOnce() -> TensorParts) -> Self {
        // The constructors of tensors cannot return an error, so a lack of memory ends the process,
        // as in `Box::new`.
        let Ok(place) = Vacancy::new() else {
            std::alloc::handle_alloc_error(Layout::new::<TensorParts>())
        };
        Self::within(place, make)
    }

    /// A tensor whose parts are made in a place that was allocated before.
    #[inline(always)]
    pub(crate) fn within(place: Vacancy<TensorParts>, make: impl FnOnce() -> TensorParts) -> Self {
        Self { parts: place.fill_with(make) }
    }

    pub(super) fn has_no_clone(&self) -> bool {
        Shared::is_alone(&self.parts)
    }

    /// Calls `visit` with the imported tensors: see [`TensorMemory::for_each_import`].
    pub(super) fn for_each_import(&self, visit: &mut dyn FnMut(&super::Exported)) {
        self.parts.memory.for_each_import(visit);
    }

    /// The tensor with a change. The parts are changed in place if the tensor has no clone.
    pub(crate) fn changed(mut self, change: impl FnOnce(&mut TensorParts)) -> Self {
        if let Some(parts) = Shared::get_mut(&mut self.parts) {
            change(parts);
            return self;
        }
        let mut parts = TensorParts::clone(&self.parts);
        change(&mut parts);
        Self::of(|| parts)
    }

    pub(crate) fn with_padding(self, padded: bool) -> Self {
        self.changed(|parts| parts.padded = padded)
    }

    /// The length of each dimension. A single number has no dimension.
    #[inline]
    pub fn shape(&self) -> &[i64] {
        self.parts.dims.shape()
    }

    /// How many elements lie between neighbours in each dimension. The number means nothing for a
    /// dimension with fewer than two elements.
    #[inline]
    pub fn strides(&self) -> &[i64] {
        self.parts.dims.strides()
    }

    /// The type of the elements.
    #[inline]
    pub fn dtype(&self) -> Dtype {
        self.parts.dtype
    }

    /// How many elements.
    pub fn len(&self) -> u64 {
        self.parts.dims.count()
    }

    /// Whether there is no element.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.parts.dims.count() == 0
    }

    /// The device that the elements are on.
    #[inline]
    pub fn device(&self) -> DeviceId {
        self.parts.memory.device()
    }

    /// Whether the elements lie one behind the other, in row-major order.
    pub fn is_compact(&self) -> bool {
        self.parts.dims.is_compact()
    }

    /// Whether elements of less than a byte take a byte each.
    #[inline]
    pub fn is_padded(&self) -> bool {
        self.parts.padded
    }

    /// Whether nobody writes to the memory. The answer is no for a tensor that was imported without
    /// a flag that says so.
    pub fn is_frozen(&self) -> bool {
        self.parts.origin != Origin::Writable
    }

    /// Whether the elements may be used by now. Asks the device if there is an event. Never waits.
    pub fn is_ready(&self) -> Result<bool> {
        self.parts.memory.shared().map_or(Ok(true), Array::is_ready)
    }

    /// Waits on the host until the elements may be used.
    pub fn wait(&self) -> Result<()> {
        self.parts.memory.shared().map_or(Ok(()), Array::wait)
    }

    /// Orders a queue behind the data and tells where the data is. The memory is kept until the
    /// queue has passed what is submitted before the view is dropped.
    pub fn on(&self, queue: &Queue) -> Result<TensorView> {
        Ok(TensorView { view: self.memory().on(queue)?, tensor: self.clone() })
    }

    /// Declares that nobody writes to the memory.
    ///
    /// # Safety
    /// Nobody writes to the memory as long as anything made of the result lives (UNS-26).
    pub unsafe fn assume_frozen(self) -> Self {
        if self.is_frozen() {
            return self;
        }
        self.changed(|parts| parts.origin = Origin::Shared)
    }

    pub(crate) fn require_frozen(&self, operation: &'static str) -> Result<()> {
        if self.is_frozen() {
            return Ok(());
        }
        let message = "its producer may still write to this memory; copy it, or promise that nobody does (`assume_frozen`)";
        Err(Error::new(ErrorKind::Unsupported, message).during(operation).on_device(self.device()))
    }

    /// This tensor with its dimensions in another order: the first dimension of the result is
    /// dimension `axes[0]` of this tensor.
    pub fn permuted(&self, axes: &[usize]) -> Result<Self> {
        let dims = self.dims().permuted(axes)?;
        Ok(self.clone().changed(|parts| parts.dims = dims))
    }

    /// Every `step`-th element of a dimension, from `first` on, `length` of them in all. Copies
    /// nothing.
    ///
    /// ```
    /// # use arrow_device::{Buffer, dlpack::{Dtype, Tensor}};
    /// let row =
    ///     Tensor::from_buffer(Buffer::from(vec![0_i64, 1, 2, 3, 4]), Dtype::INT64, &[5])?;
    /// assert_eq!(row.sliced(0, 4, 3, -2)?.host()?.to_vec::<i64>()?, [4, 2, 0]);
    /// assert_eq!(row.sliced(0, 1, 2, 1)?.host()?.to_vec::<i64>()?, [1, 2]);
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn sliced(&self, axis: usize, first: i64, length: i64, step: i64) -> Result<Self> {
        let refused = |message: String| Error::new(ErrorKind::InvalidArgument, message);
        let (Some(have), Some(stride)) = (self.shape().get(axis), self.strides().get(axis)) else {
            return Err(refused(format!("there is no dimension {axis}")));
        };
        let last = length.checked_sub(1).and_then(|steps| steps.checked_mul(step));
        let last = last.and_then(|span| span.checked_add(first));
        let inside = |place: i64| (0..*have).contains(&place);
        let fits = length == 0 || (length > 0 && inside(first) && last.is_some_and(inside));
        if !fits {
            let message = format!("{length} elements from {first} by {step} are not inside {have}");
            return Err(refused(message));
        }
        let mut shape = self.shape().to_vec();
        let mut strides = self.strides().to_vec();
        if let (Some(a), Some(b)) = (shape.get_mut(axis), strides.get_mut(axis)) {
            *a = length;
            *b = stride.wrapping_mul(step);
        }
        let dims = Dims::new(&shape, &strides)?;
        let start = match self.parts.width {
            _ if dims.count() == 0 => self.parts.start,
            Width::Bytes(width) => {
                // The place is inside the reach of this tensor, and so inside its memory. In a
                // dimension with one element `first` is 0.
                let places = if first == 0 { 0 } else { first.wrapping_mul(*stride) };
                self.parts.start.wrapping_add_signed(places.wrapping_mul(width.cast_signed()))
            }
            Width::Packed { .. } => {
                let message = "packed elements of less than a byte cannot be sliced";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
        };
        Ok(self.clone().changed(|parts| (parts.dims, parts.start) = (dims, start)))
    }

    /// The arrival of memory on a device. `None` for host memory.
    pub(super) fn arrival(&self) -> Option<Arrival> {
        self.parts.memory.arrival()
    }

    /// The memory as an array.
    pub(crate) fn memory(&self) -> &Array {
        self.parts.memory.array()
    }

    /// Whether the memory is named by addresses, to which a number can be added.
    #[inline(always)]
    pub(crate) fn addressing(&self) -> Addressing {
        if self.device().device_type == DeviceType::CPU {
            return Addressing::Address;
        }
        self.addressing_on_device()
    }

    #[inline(never)]
    fn addressing_on_device(&self) -> Addressing {
        Device::addressing_of(self.device(), || self.memory().tree().open_device())
    }

    /// Whether a buffer of an array begins where its allocation does, however far from there the
    /// first element is: memory is named by handles, or each buffer of an array needs an allocation
    /// of its own.
    #[inline]
    pub(crate) fn has_separate_buffers(&self) -> bool {
        self.device().device_type != DeviceType::CPU && self.has_separate_buffers_on_device()
    }

    #[cold]
    fn has_separate_buffers_on_device(&self) -> bool {
        let device = || self.memory().tree().open_device();
        self.addressing_on_device() == Addressing::Handle
            || device().is_some_and(|device| device.properties().separate)
    }

    /// The memory as an array, if it was ever shared, read or used on a queue.
    #[inline]
    pub(crate) fn shared_memory(&self) -> Option<&Array> {
        self.parts.memory.shared()
    }

    #[inline]
    pub(crate) fn base(&self) -> Raw<crate::Memory> {
        self.parts.memory.base()
    }

    /// Whether this tensor has no clone, and nobody else here has a share of its memory or still
    /// reads it.
    pub(crate) fn is_alone(&self) -> bool {
        let is_unshared = |array: &Array| {
            let tree = array.tree();
            Shared::is_alone(tree) && tree.is_unused()
        };
        Shared::is_alone(&self.parts) && self.shared_memory().is_none_or(is_unshared)
    }

    #[inline]
    pub(crate) fn start(&self) -> u64 {
        self.parts.start
    }

    pub(crate) fn width(&self) -> Width {
        self.parts.width
    }

    pub(crate) fn dims(&self) -> &Dims {
        &self.parts.dims
    }

    #[inline]
    pub(crate) fn origin(&self) -> Origin {
        self.parts.origin
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (dtype, shape, strides) = (self.parts.dtype, self.shape(), self.strides());
        write!(f, "Tensor({dtype} {shape:?} by {strides:?} on {})", self.device())
    }
}

/// A tensor as work on one queue uses it: the view tells where the elements are.
///
/// Dropping the view declares that all work that uses the place has been submitted, as with
/// [`View`].
pub struct TensorView {
    view: View,
    tensor: Tensor,
}

impl TensorView {
    /// Where the first element is. Other elements may lie before it, if a stride is negative.
    pub fn location(&self) -> Location<'_> {
        let base = self.view.buffer(ELEMENTS).location().spot().base;
        location(base, self.tensor.start())
    }

    /// The tensor.
    pub fn tensor(&self) -> &Tensor {
        &self.tensor
    }

    /// The queue that was named.
    pub fn queue(&self) -> &Queue {
        self.view.queue()
    }

    /// How many bytes the memory has, as far as that is known without asking the device.
    pub fn extent(&self) -> Extent {
        self.view.buffer(ELEMENTS).extent()
    }
}

impl fmt::Debug for TensorView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TensorView({:?} for {:?})", self.tensor, self.queue())
    }
}
