//! [`Dtype`]: what the elements of a tensor are, and how many bytes one takes.

use std::fmt;

use crate::abi::dlpack as c;
use crate::abi::dlpack::DLDataType;
use crate::{Error, ErrorKind, Plain, Result};

/// The type of an element, as DLPack has it: a kind of number, its width, and how many of them make
/// an element.
///
/// Open, like [`DeviceType`](crate::DeviceType): any value can be written down. Import refuses what
/// it does not know.
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
    /// What kind of number it is: DLPack's `DLDataTypeCode`.
    pub code: u8,
    /// The width of one in bits.
    pub bits: u8,
    /// How many make an element; 1 unless it is a vector.
    pub lanes: u16,
}

impl Dtype {
    /// A byte that is 0 or 1.
    pub const BOOL: Self = Self::new(c::kDLBool, 8, 1);
    /// Signed, 8 bits.
    pub const INT8: Self = Self::new(c::kDLInt, 8, 1);
    /// Signed, 16 bits.
    pub const INT16: Self = Self::new(c::kDLInt, 16, 1);
    /// Signed, 32 bits.
    pub const INT32: Self = Self::new(c::kDLInt, 32, 1);
    /// Signed, 64 bits.
    pub const INT64: Self = Self::new(c::kDLInt, 64, 1);
    /// Unsigned, 8 bits.
    pub const UINT8: Self = Self::new(c::kDLUInt, 8, 1);
    /// Unsigned, 16 bits.
    pub const UINT16: Self = Self::new(c::kDLUInt, 16, 1);
    /// Unsigned, 32 bits.
    pub const UINT32: Self = Self::new(c::kDLUInt, 32, 1);
    /// Unsigned, 64 bits.
    pub const UINT64: Self = Self::new(c::kDLUInt, 64, 1);
    /// Floating point, 16 bits.
    pub const FLOAT16: Self = Self::new(c::kDLFloat, 16, 1);
    /// Floating point, 32 bits.
    pub const FLOAT32: Self = Self::new(c::kDLFloat, 32, 1);
    /// Floating point, 64 bits.
    pub const FLOAT64: Self = Self::new(c::kDLFloat, 64, 1);
    /// The upper half of a `FLOAT32`.
    pub const BFLOAT16: Self = Self::new(c::kDLBfloat, 16, 1);
    /// Two `FLOAT16`, the real part first.
    pub const COMPLEX32: Self = Self::new(c::kDLComplex, 32, 1);
    /// Two `FLOAT32`, the real part first.
    pub const COMPLEX64: Self = Self::new(c::kDLComplex, 64, 1);
    /// Two `FLOAT64`, the real part first.
    pub const COMPLEX128: Self = Self::new(c::kDLComplex, 128, 1);

    /// Any type.
    pub const fn new(code: u8, bits: u8, lanes: u16) -> Self {
        Self { code, bits, lanes }
    }

    /// How many bytes an element takes; `None` where elements are packed and do not begin at whole
    /// bytes.
    pub fn byte_width(self) -> Option<u64> {
        let bits = u64::from(self.bits) * u64::from(self.lanes);
        bits.is_multiple_of(8).then_some(bits / 8)
    }

    /// The type, where it is one that DLPack has: a code, with a width that numbers of this kind
    /// have, and a lane or more.
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
    /// * [`Malformed`](ErrorKind::Malformed), where there are no bits or no lanes,
    /// * [`Unsupported`](ErrorKind::Unsupported), where nothing here knows what the code is, or a
    ///   number of this kind and width.
    pub fn checked(self) -> Result<Self> {
        self.check().map(|()| self)
    }

    pub(crate) fn from_c(dtype: DLDataType) -> Self {
        Self::new(dtype.code, dtype.bits, dtype.lanes)
    }

    pub(crate) fn to_c(self) -> DLDataType {
        DLDataType { code: self.code, bits: self.bits, lanes: self.lanes }
    }

    /// How elements lie, where this is a type that DLPack has. `padded` is what the tensor's flag
    /// says.
    #[inline]
    pub(crate) fn width(self, padded: bool) -> Result<Width> {
        match self.frequent_width() {
            Some(bytes) => Ok(Width::Bytes(bytes)),
            None => self.any_width(padded),
        }
    }

    /// The width of the types that most tensors have; `None` says nothing.
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
        let message = format!("nothing here knows what {self} of {} bits is", self.bits);
        Err(Error::new(ErrorKind::Unsupported, message))
    }
}

/// How elements lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    /// So many bytes each.
    Bytes(u64),
    /// So many bits each, one behind the other.
    Packed { bits: u64 },
}

impl Width {
    /// How many bytes so many elements in a row take; `None` where that is more than there is.
    pub(crate) fn bytes(self, elements: u64) -> Option<u64> {
        match self {
            Self::Bytes(width) => elements.checked_mul(width),
            Self::Packed { bits } => Some(elements.checked_mul(bits)?.div_ceil(8)),
        }
    }
}

/// Bits and name of the floats that have codes of their own.
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

/// The Rust types that are elements of a tensor as they are: numbers of 8 to 64 bits.
///
/// Nobody else can implement it, because memory is read by the size of the type:
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
    /// The type of such an element.
    const DTYPE: Dtype;
}

mod sealed {
    /// A type that has the size of its `DTYPE`.
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
