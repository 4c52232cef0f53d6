//! How arrays and tensors are turned into each other: what the caller allows and asks for.

use super::{Dtype, Element};
use crate::{Error, ErrorKind, Queue, Result};

/// Whether data may be copied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyPolicy {
    /// Share, or fail. What cannot be shared is [`Unsupported`](ErrorKind::Unsupported).
    #[default]
    Never,
    /// Share where possible, copy where not.
    IfNeeded,
    /// Copy, so that nobody else has the memory.
    Always,
}

/// How the other side knows, or we know, that data is complete.
#[derive(Clone, Copy, Debug)]
pub enum Order<'a> {
    /// In the order of this queue, the consumer's: the producer makes it wait, and no host blocks.
    On(&'a Queue),
    /// At once: the host has waited.
    Host,
    /// By some agreement of the two sides, such as a wait that the consumer makes itself. Nothing
    /// is waited for, and an import counts as complete. To advertise a queue is no such agreement:
    /// what is exchanged in its order is [`On`](Self::On) that queue.
    Unordered,
}

/// What becomes of nulls, which tensors do not have.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub enum Nulls {
    /// They are an error.
    #[default]
    Refused,
    /// "Not a number", in types that have it. A copy.
    NaN,
    /// This value, whose type is that of the tensor. A copy. See [`Nulls::fill`].
    Fill {
        /// The type.
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

/// What a conversion between arrays and tensors may and shall do. As it comes it shares or fails,
/// and refuses nulls.
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
    /// Shares or fails, and refuses nulls.
    pub fn new() -> Self {
        Self::default()
    }

    /// Whether data may be copied.
    pub fn copying(mut self, copying: CopyPolicy) -> Self {
        self.copying = copying;
        self
    }

    /// What becomes of nulls.
    pub fn nulls(mut self, nulls: Nulls) -> Self {
        self.nulls = nulls;
        self
    }

    /// Copies, and what has to be read first, are done on this queue. Without it a queue is opened
    /// where one is needed.
    pub fn on(mut self, queue: &Queue) -> Self {
        self.queue = Some(queue.clone());
        self
    }

    /// Whether dates, times, durations, small decimals and the keys of dictionaries become the
    /// integers that they are in memory; and whether elements that Arrow has no type for, such as
    /// 8-bit floats, become unsigned integers of their width.
    pub fn as_integers(mut self, yes: bool) -> Self {
        self.as_integers = yes;
        self
    }

    /// Whether the bytes of an `arrow.bool8` are taken as 0 or 1 without a look. Arrow allows any
    /// other byte for true, and consumers of DLPack do not; so they are read, and where one is
    /// neither, they are copied.
    pub fn trust_bools(mut self, yes: bool) -> Self {
        self.trust_bools = yes;
        self
    }

    /// Whether a tensor of booleans becomes an array of bits, which is a copy, and not an
    /// `arrow.bool8`.
    pub fn pack_bools(mut self, yes: bool) -> Self {
        self.pack_bools = yes;
        self
    }

    /// Whether a tensor of several dimensions becomes fixed-size lists in each other, and not an
    /// `arrow.fixed_shape_tensor`.
    pub fn as_lists(mut self, yes: bool) -> Self {
        self.as_lists = yes;
        self
    }

    /// That something has to be copied, if it may be.
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
