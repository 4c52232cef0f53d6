//! [`Dtype`]: the type of a tensor's elements, and how many bytes an element takes.

use std::fmt;

use crate::abi::dlpack as c;
use crate::abi::dlpack::DLDataType;
use crate::{Error, ErrorKind, Plain, Result};

/// The type of an element in DLPack: a kind of number, its width, and how many of them are one
/// element.
///
/// Any value can be written down, as with [`DeviceType`](crate::DeviceType). Import refuses types
/// that it does not know.
///
/// ```
/// use arrow_device::dlpack::Dtype;
///
/// assert_eq!(Dtype::FLOAT32.to_string(), "float32");
/// assert_eq!(Dtype::FLOAT32.byte_width(), Some(4));
/// assert_eq!(Dtype::new(17, 4, 2).to_string(), "float4_e2m1fnx2");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct Dtype {
    /// The kind of number: DLPack's `DLDataTypeCode`.
    pub code: u8,
    /// The width of one number in bits.
    pub bits: u8,
    /// How many numbers are one element; 1 unless the element is a vector.
    pub lanes: u16,
}

impl Dtype {
    /// A boolean: a byte that is 0 or 1.
    pub const BOOL: Self = Self::new(c::kDLBool, 8, 1);
    /// A signed integer of 8 bits.
    pub const INT8: Self = Self::new(c::kDLInt, 8, 1);
    /// A signed integer of 16 bits.
    pub const INT16: Self = Self::new(c::kDLInt, 16, 1);
    /// A signed integer of 32 bits.
    pub const INT32: Self = Self::new(c::kDLInt, 32, 1);
    /// A signed integer of 64 bits.
    pub const INT64: Self = Self::new(c::kDLInt, 64, 1);
    /// An unsigned integer of 8 bits.
    pub const UINT8: Self = Self::new(c::kDLUInt, 8, 1);
    /// An unsigned integer of 16 bits.
    pub const UINT16: Self = Self::new(c::kDLUInt, 16, 1);
    /// An unsigned integer of 32 bits.
    pub const UINT32: Self = Self::new(c::kDLUInt, 32, 1);
    /// An unsigned integer of 64 bits.
    pub const UINT64: Self = Self::new(c::kDLUInt, 64, 1);
    /// A floating-point number of 16 bits.
    pub const FLOAT16: Self = Self::new(c::kDLFloat, 16, 1);
    /// A floating-point number of 32 bits.
    pub const FLOAT32: Self = Self::new(c::kDLFloat, 32, 1);
    /// A floating-point number of 64 bits.
    pub const FLOAT64: Self = Self::new(c::kDLFloat, 64, 1);
    /// A floating-point number of 16 bits: the upper half of a `FLOAT32`.
    pub const BFLOAT16: Self = Self::new(c::kDLBfloat, 16, 1);
    /// A complex number: two `FLOAT16`, the real part first.
    pub const COMPLEX32: Self = Self::new(c::kDLComplex, 32, 1);
    /// A complex number: two `FLOAT32`, the real part first.
    pub const COMPLEX64: Self = Self::new(c::kDLComplex, 64, 1);
    /// A complex number: two `FLOAT64`, the real part first.
    pub const COMPLEX128: Self = Self::new(c::kDLComplex, 128, 1);

    /// A type of any code, width in bits and number of lanes.
    pub const fn new(code: u8, bits: u8, lanes: u16) -> Self {
        Self { code, bits, lanes }
    }

    /// How many bytes an element takes; `None` where elements are packed and do not begin at whole
    /// bytes.
    pub fn byte_width(self) -> Option<u64> {
        let bits = u64::from(self.bits) * u64::from(self.lanes);
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// This type, if DLPack has it: a known code, with a width that numbers of this kind have, and
    /// at least one lane.
    ///
    /// ```
    /// use arrow_device::dlpack::Dtype;
    ///
    /// assert!(Dtype::FLOAT32.checked().is_ok());
    /// assert!(Dtype::new(0, 0, 1).checked().is_err());
    /// assert!(Dtype::new(99, 8, 1).checked().is_err());
    /// ```
    ///
    /// # Errors
    /// * [`Malformed`](ErrorKind::Malformed): there are no bits or no lanes.
    /// * [`Unsupported`](ErrorKind::Unsupported): the code is not known, or there are no numbers of
    ///   this kind and width.
    pub fn checked(self) -> Result<Self> {
        self.check().map(|()| self)
    }

    pub(crate) fn from_c(dtype: DLDataType) -> Self {
        Self::new(dtype.code, dtype.bits, dtype.lanes)
    }

    pub(crate) fn to_c(self) -> DLDataType {
        DLDataType { code: self.code, bits: self.bits, lanes: self.lanes }
    }

    /// How elements lie in memory, if DLPack has this type. `padded` is the tensor's flag of that
    /// name.
    #[inline]
    pub(crate) fn width(self, padded: bool) -> Result<Width> {
        match self.frequent_width() {
            Some(bytes) => Ok(Width::Bytes(bytes)),
            None => self.any_width(padded),
        }
    }

    /// The width of the types that most tensors have; `None` for all other types.
    #[inline(always)]
    pub(crate) fn frequent_width(self) -> Option<u64> {
        let is_number = matches!(self.code, c::kDLInt | c::kDLUInt | c::kDLFloat);
        let is_frequent = is_number && self.lanes == 1 && matches!(self.bits, 32 | 64);
        is_frequent.then_some(u64::from(self.bits) / 8)
    }

    fn any_width(self, padded: bool) -> Result<Width> {
        self.check()?;
        match self.byte_width() {
            _ if padded && self.bits < 8 => Ok(Width::Bytes(u64::from(self.lanes))),
            Some(bytes) => Ok(Width::Bytes(bytes)),
            None => Ok(Width::Packed { bits: u64::from(self.bits) * u64::from(self.lanes) }),
        }
    }

    fn check(self) -> Result<()> {
        if self.bits == 0 || self.lanes == 0 {
            let message = format!("{self} has {} bits and {} lanes", self.bits, self.lanes);
            return Err(Error::new(ErrorKind::Malformed, message));
        }
        let is_known = match self.code {
            c::kDLInt | c::kDLUInt => self.bits.is_power_of_two() && self.bits <= 128,
            c::kDLFloat => matches!(self.bits, 16 | 32 | 64 | 128),
            c::kDLOpaqueHandle => self.bits.is_multiple_of(8),
            c::kDLBfloat => self.bits == 16,
            c::kDLComplex => matches!(self.bits, 32 | 64 | 128),
            c::kDLBool => self.bits == 8,
            code => narrow_float(code).is_some_and(|(bits, _)| bits == self.bits),
        };
        if is_known {
            return Ok(());
        }
        let message =
            format!("{self} of {} bits is no element type that this library knows", self.bits);
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// How elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// Each element takes so many bytes.
    Bytes(u64),
    /// Each element takes so many bits, and elements lie one behind the other.
    Packed { bits: u64 },
}

impl Width {
    /// How many bytes a row of elements takes; `None` where the number overflows.
    pub(crate) fn bytes(self, elements: u64) -> Option<u64> {
        match self {
            Self::Bytes(width) => elements.checked_mul(width),
            Self::Packed { bits } => Some(elements.checked_mul(bits)?.div_ceil(8)),
        }
    }
}

/// The number of bits and the name of the narrow floats, each of which has a code of its own.
fn narrow_float(code: u8) -> Option<(u8, &'static str)> {
    Some(match code {
        c::kDLFloat8_e3m4 => (8, "float8_e3m4"),
        c::kDLFloat8_e4m3 => (8, "float8_e4m3"),
        c::kDLFloat8_e4m3b11fnuz => (8, "float8_e4m3b11fnuz"),
        c::kDLFloat8_e4m3fn => (8, "float8_e4m3fn"),
        c::kDLFloat8_e4m3fnuz => (8, "float8_e4m3fnuz"),
        c::kDLFloat8_e5m2 => (8, "float8_e5m2"),
        c::kDLFloat8_e5m2fnuz => (8, "float8_e5m2fnuz"),
        c::kDLFloat8_e8m0fnu => (8, "float8_e8m0fnu"),
        c::kDLFloat6_e2m3fn => (6, "float6_e2m3fn"),
        c::kDLFloat6_e3m2fn => (6, "float6_e3m2fn"),
        c::kDLFloat4_e2m1fn => (4, "float4_e2m1fn"),
        _ => return None,
    })
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = self.bits;
        match self.code {
            c::kDLInt => write!(f, "int{bits}"),
            c::kDLUInt => write!(f, "uint{bits}"),
            c::kDLFloat => write!(f, "float{bits}"),
            c::kDLOpaqueHandle => write!(f, "handle{bits}"),
            c::kDLBfloat => write!(f, "bfloat{bits}"),
            c::kDLComplex => write!(f, "complex{bits}"),
            c::kDLBool => f.write_str("bool"),
            code => match narrow_float(code) {
                Some((_, name)) => f.write_str(name),
                None => write!(f, "dtype({code})"),
            },
        }?;
        if self.lanes != 1 { write!(f, "x{}", self.lanes) } else { Ok(()) }
    }
}

impl fmt::Debug for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Rust types that are elements of a tensor: numbers of 8 to 64 bits.
///
/// The trait is sealed, because memory is read by the size of the type:
///
/// ```compile_fail,E0277
/// # use arrow_device::Plain;
/// # use arrow_device::dlpack::{Dtype, Element};
/// #[derive(Clone, Copy)]
/// struct Wide([u64; 8]);
///
/// // SAFETY: every pattern of 64 bytes is a value, and the type has no padding.
/// unsafe impl Plain for Wide {}
///
/// impl Element for Wide {
///     const DTYPE: Dtype = Dtype::UINT8;
/// }
/// ```
pub trait Element: Plain + sealed::SizedAsItsDtype {
    /// The type of the elements in DLPack.
    const DTYPE: Dtype;
}

mod sealed {
    /// A type whose size is that of its `DTYPE`.
    pub trait SizedAsItsDtype {}
}

macro_rules! element {
    ($($type:ty: $dtype:ident),*) => {$(
        impl sealed::SizedAsItsDtype for $type {}

        impl Element for $type {
            const DTYPE: Dtype = Dtype::$dtype;
        }
    )*};
}
element!(i8: INT8, i16: INT16, i32: INT32, i64: INT64, u8: UINT8, u16: UINT16, u32: UINT32, u64: UINT64);
element!(f32: FLOAT32, f64: FLOAT64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_types_that_dlpack_has_are_known() {
        let known = |code, bits, lanes| Dtype::new(code, bits, lanes).width(false);
        assert_eq!(known(0, 4, 2).unwrap(), Width::Bytes(1));
        assert_eq!(known(0, 4, 1).unwrap(), Width::Packed { bits: 4 });
        assert_eq!(known(5, 128, 1).unwrap(), Width::Bytes(16));
        assert_eq!(Dtype::new(17, 4, 3).width(true).unwrap(), Width::Bytes(3));
        assert_eq!(known(15, 6, 1).unwrap().bytes(3), Some(3));
        for (code, bits) in [(0, 12), (2, 8), (4, 8), (5, 16), (6, 1), (7, 4), (15, 8), (17, 8)] {
            assert_eq!(known(code, bits, 1).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        for code in 18..=u8::MAX {
            assert_eq!(known(code, 8, 1).unwrap_err().kind(), ErrorKind::Unsupported);
        }
        assert_eq!(known(0, 0, 1).unwrap_err().kind(), ErrorKind::Malformed);
        assert_eq!(known(0, 8, 0).unwrap_err().kind(), ErrorKind::Malformed);
    }
}
