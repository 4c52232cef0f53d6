//! Types whose values the compiler checks: [`Array::of`] with the type in its name.
//!
//! ```
//! use arrow_device::types::{Float64, Int64};
//! use arrow_device::{Array, DataType};
//!
//! let ids = Array::of::<Int64>([Some(1), None])?;
//! let prices = Array::of::<Float64>([2.5, 3.0].map(Some))?;
//! assert_eq!((ids.data_type(), prices.data_type()), (&DataType::Int64, &DataType::Float64));
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! Other values do not compile:
//!
//! ```compile_fail
//! use arrow_device::Array;
//! use arrow_device::types::Int64;
//!
//! let ids = Array::of::<Int64>([Some(1_i32)]);
//! ```
//!
//! Types with parameters (times with a unit, decimals, dictionaries) are given as a [`DataType`] to
//! [`Array::from_values`], which checks the Rust type at run time.

use crate::{Array, DataType, Native, Result};

/// A type of arrays whose values are of one Rust type. The trait is sealed.
pub trait ValueType: sealed::KnownType {
    /// The Rust type of the values.
    type Value: Native;
    /// The type of the arrays.
    const DATA_TYPE: DataType;
}

mod sealed {
    pub trait KnownType {}
}

macro_rules! value_types {
    ($($name:ident, $value:ty, $words:literal;)*) => {$(
        #[doc = $words]
        #[derive(Clone, Copy, Debug)]
        pub enum $name {}

        impl sealed::KnownType for $name {}

        impl ValueType for $name {
            type Value = $value;
            const DATA_TYPE: DataType = DataType::$name;
        }
    )*};
}
value_types! {
    Int8, i8, "`int8`: values are `i8`.";
    Int16, i16, "`int16`: values are `i16`.";
    Int32, i32, "`int32`: values are `i32`.";
    Int64, i64, "`int64`: values are `i64`.";
    UInt8, u8, "`uint8`: values are `u8`.";
    UInt16, u16, "`uint16`: values are `u16`.";
    UInt32, u32, "`uint32`: values are `u32`.";
    UInt64, u64, "`uint64`: values are `u64`.";
    Float16, u16, "`float16`: values are the bits of the number, a `u16`.";
    Float32, f32, "`float32`: values are `f32`.";
    Float64, f64, "`float64`: values are `f64`.";
    Date32, i32, "`date32`: values are days, an `i32`.";
    Date64, i64, "`date64`: values are milliseconds, an `i64`.";
}

impl Array {
    /// An array of a type that the compiler knows: [`from_values`](Self::from_values), where values
    /// of another type do not compile.
    ///
    /// ```
    /// use arrow_device::Array;
    /// use arrow_device::types::Int64;
    ///
    /// let ids = Array::of::<Int64>([Some(1), None])?;
    /// assert_eq!((ids.len(), ids.null_count()), (2, Some(1)));
    /// # Ok::<(), arrow_device::Error>(())
    /// ```
    pub fn of<T: ValueType>(values: impl IntoIterator<Item = Option<T::Value>>) -> Result<Self> {
        Self::from_values(T::DATA_TYPE, values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_type_makes_arrays_of_its_values() {
        fn check<T: ValueType>(value: T::Value) {
            let array = Array::of::<T>([Some(value), None]).unwrap();
            assert_eq!(array.data_type(), &T::DATA_TYPE);
        }
        check::<Int8>(1);
        check::<Int16>(1);
        check::<Int32>(1);
        check::<Int64>(1);
        check::<UInt8>(1);
        check::<UInt16>(1);
        check::<UInt32>(1);
        check::<UInt64>(1);
        check::<Float16>(1);
        check::<Float32>(1.0);
        check::<Float64>(1.0);
        check::<Date32>(1);
        check::<Date64>(1);
    }
}
