//! How arrays and tensors are converted into each other: what the caller allows and asks for.

use super::{Dtype, Element};
use crate::{Error, ErrorKind, Queue, Result};

/// Whether data may be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyPolicy {
    /// Share the memory. Where that is not possible, the conversion is
    /// [`Unsupported`](ErrorKind::Unsupported).
    #[default]
    Never,
    /// Share where possible, and copy otherwise.
    IfNeeded,
    /// Copy, so that nobody else has the memory.
    Always,
}

/// How the receiver of a tensor knows that its data is complete.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// The data is complete in the order of this queue, the consumer's. The producer makes the
    /// queue wait, and no host blocks.
    On(&'a Queue),
    /// The data is complete at once: the host has waited.
    Host,
    /// The two sides have another agreement, such as a wait that the consumer makes itself. Nothing
    /// is waited for, and an import counts as complete. An advertised queue is no such agreement:
    /// for what is exchanged in the order of that queue, name the queue by [`On`](Self::On).
    Unordered,
}

/// What becomes of nulls, since tensors have none.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Nulls {
    /// Nulls are an error.
    #[default]
    Refused,
    /// Nulls become "not a number", in types that have this value. This is a copy.
    NaN,
    /// Nulls become this value, whose type is that of the tensor. This is a copy. See
    /// [`Nulls::fill`].
    Fill {
        /// The type of the value.
        dtype: Dtype,
        /// The bytes of one element.
        value: Vec<u8>,
    },
}

impl Nulls {
    /// Every null becomes this value.
    pub fn fill<T: Element>(value: T) -> Self {
        let value = std::slice::from_ref(&value);
        // SAFETY: a value of a `Plain` type is that many initialised bytes, without padding.
        let bytes =
            unsafe { std::slice::from_raw_parts(value.as_ptr().cast::<u8>(), size_of_val(value)) };
        Self::Fill { dtype: T::DTYPE, value: bytes.to_vec() }
    }

    pub(crate) fn refusal() -> Error {
        let message = "there are nulls, and a tensor has none; say what shall stand for them, or take the validity beside it";
        Error::new(ErrorKind::InvalidData, message)
    }

    /// The bytes that stand for a null.
    pub(crate) fn pattern(&self, of: Dtype) -> Result<Vec<u8>> {
        match self {
            Self::Refused => Err(Self::refusal()),
            Self::Fill { dtype, value } => {
                if *dtype == of && Some(value.len() as u64) == of.byte_width() {
                    return Ok(value.clone());
                }
                let message = format!("{} bytes of {dtype} cannot stand for a {of}", value.len());
                Err(Error::new(ErrorKind::InvalidArgument, message))
            }
            Self::NaN => nan(of).ok_or_else(|| {
                let message = format!("{of} has no \"not a number\"; fill with a value");
                Error::new(ErrorKind::InvalidArgument, message)
            }),
        }
    }
}

fn nan(of: Dtype) -> Option<Vec<u8>> {
    let half = 0x7e00_u16.to_ne_bytes();
    Some(match of {
        Dtype::FLOAT16 => half.to_vec(),
        Dtype::BFLOAT16 => 0x7fc0_u16.to_ne_bytes().to_vec(),
        Dtype::FLOAT32 => f32::NAN.to_ne_bytes().to_vec(),
        Dtype::FLOAT64 => f64::NAN.to_ne_bytes().to_vec(),
        Dtype::COMPLEX32 => half.repeat(2),
        Dtype::COMPLEX64 => f32::NAN.to_ne_bytes().repeat(2),
        Dtype::COMPLEX128 => f64::NAN.to_ne_bytes().repeat(2),
        _ => return None,
    })
}

/// Options of a conversion between arrays and tensors. By default a conversion shares memory or
/// fails, and refuses nulls.
///
/// ```
/// use arrow_device::dlpack::{Conversion, CopyPolicy, Nulls};
/// use arrow_device::{Array, DataType};
///
/// let gaps = Array::from_values(DataType::Float64, [Some(1.0), None])?;
/// let filled =
///     Conversion::new().copying(CopyPolicy::IfNeeded).nulls(Nulls::fill(-1.0_f64));
/// assert_eq!(gaps.to_tensor(&filled)?.host()?.to_vec::<f64>()?, [1.0, -1.0]);
/// assert!(gaps.to_tensor(&Conversion::new()).is_err());
/// # Ok::<(), arrow_device::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Conversion {
    pub(crate) copying: CopyPolicy,
    pub(crate) nulls: Nulls,
    pub(crate) queue: Option<Queue>,
    pub(crate) as_integers: bool,
    pub(crate) trust_bools: bool,
    pub(crate) pack_bools: bool,
    pub(crate) as_lists: bool,
}

impl Conversion {
    /// The defaults: share or fail, and refuse nulls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether data may be copied.
    pub fn copying(mut self, copying: CopyPolicy) -> Self {
        self.copying = copying;
        self
    }

    /// Sets what becomes of nulls.
    pub fn nulls(mut self, nulls: Nulls) -> Self {
        self.nulls = nulls;
        self
    }

    /// Sets the queue for copies and reads. By default a queue is opened where one is needed.
    pub fn on(mut self, queue: &Queue) -> Self {
        self.queue = Some(queue.clone());
        self
    }

    /// Sets whether dates, times, durations, small decimals and the keys of dictionaries become the
    /// integers that they are in memory. Elements that Arrow has no type for, such as 8-bit floats,
    /// then become unsigned integers of their width.
    pub fn as_integers(mut self, yes: bool) -> Self {
        self.as_integers = yes;
        self
    }

    /// Sets whether the bytes of an `arrow.bool8` are trusted to be 0 or 1. Arrow allows any other
    /// byte for true, and consumers of DLPack do not. By default the bytes are read, and copied
    /// where one is neither 0 nor 1.
    pub fn trust_bools(mut self, yes: bool) -> Self {
        self.trust_bools = yes;
        self
    }

    /// Sets whether a tensor of booleans becomes an array of bits, which is a copy, instead of an
    /// `arrow.bool8`.
    pub fn pack_bools(mut self, yes: bool) -> Self {
        self.pack_bools = yes;
        self
    }

    /// Sets whether a tensor of several dimensions becomes nested fixed-size lists instead of an
    /// `arrow.fixed_shape_tensor`.
    pub fn as_lists(mut self, yes: bool) -> Self {
        self.as_lists = yes;
        self
    }

    /// An error that says why a copy is needed, unless copies are allowed.
    pub(crate) fn may_copy(&self, reason: impl FnOnce() -> String) -> Result<()> {
        if self.copying != CopyPolicy::Never {
            return Ok(());
        }
        let message = format!("{}; allow a copy", reason());
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    pub(crate) fn queue_for(&self, array: &crate::Array) -> Result<Queue> {
        match &self.queue {
            Some(queue) if array.device().device_type != crate::DeviceType::CPU => {
                Ok(queue.clone())
            }
            _ => array.any_queue(),
        }
    }
}
