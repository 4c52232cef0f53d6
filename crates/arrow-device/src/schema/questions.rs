//! Questions about a type that users often ask.

use super::DataType;

impl DataType {
    /// Whether the type has children: lists, structs, maps, unions and run-end encoding.
    pub fn is_nested(&self) -> bool {
        self.children().next().is_some() || matches!(self, Self::Struct(_) | Self::Union { .. })
    }

    /// Whether this is an integer type, signed or not.
    pub fn is_integer(&self) -> bool {
        self.is_signed_integer() || self.is_unsigned_integer()
    }

    /// Whether this is a signed integer type.
    pub fn is_signed_integer(&self) -> bool {
        matches!(self, Self::Int8 | Self::Int16 | Self::Int32 | Self::Int64)
    }

    /// Whether this is an unsigned integer type.
    pub fn is_unsigned_integer(&self) -> bool {
        matches!(self, Self::UInt8 | Self::UInt16 | Self::UInt32 | Self::UInt64)
    }

    /// Whether this is a floating point type.
    pub fn is_floating(&self) -> bool {
        matches!(self, Self::Float16 | Self::Float32 | Self::Float64)
    }

    /// Whether this is a decimal type of any size.
    pub fn is_decimal(&self) -> bool {
        self.decimal().is_some()
    }

    /// Whether elements are dates, times, timestamps, durations or intervals.
    pub fn is_temporal(&self) -> bool {
        matches!(
            self,
            Self::Date32
                | Self::Date64
                | Self::Time32(_)
                | Self::Time64(_)
                | Self::Timestamp(..)
                | Self::Duration(_)
                | Self::Interval(_)
        )
    }

    /// Whether elements are text: UTF-8 in any of the three layouts.
    pub fn is_text(&self) -> bool {
        matches!(self, Self::Utf8 | Self::LargeUtf8 | Self::Utf8View)
    }

    /// Whether elements are bytes without a fixed size, in any of the three layouts.
    pub fn is_binary(&self) -> bool {
        matches!(self, Self::Binary | Self::LargeBinary | Self::BinaryView)
    }

    /// Whether elements differ in size and lie one after the other: text and bytes with offsets,
    /// lists with offsets, maps.
    pub fn has_offsets(&self) -> bool {
        matches!(
            self,
            Self::Binary
                | Self::LargeBinary
                | Self::Utf8
                | Self::LargeUtf8
                | Self::List(_)
                | Self::LargeList(_)
                | Self::Map { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::examples::examples;
    use super::*;
    use crate::IndexType;

    #[test]
    fn every_type_differs_from_every_other() {
        let mut all: Vec<DataType> = examples().into_iter().map(|it| it.data_type).collect();
        let DataType::Map { entries, .. } = DataType::map(DataType::Utf8, DataType::Int64) else {
            panic!("a map is made by `map`");
        };
        all.push(DataType::Map { entries, keys_sorted: true });
        all.push(DataType::dictionary(IndexType::Int8, DataType::Utf8));
        all.push(DataType::dictionary(IndexType::Int8, DataType::Binary));
        for (index, one) in all.iter().enumerate() {
            for (other_index, other) in all.iter().enumerate() {
                let same = index == other_index;
                assert_eq!(one.equals_ignoring_metadata(other), same, "{one} and {other}");
            }
        }
    }

    #[test]
    fn the_questions_part_the_types() {
        let formats = |holds: fn(&DataType) -> bool| {
            let those = examples().into_iter().filter(|example| holds(&example.data_type));
            those.map(|example| example.format).collect::<Vec<_>>()
        };
        assert_eq!(formats(DataType::is_signed_integer), ["c", "s", "i", "l"]);
        assert_eq!(formats(DataType::is_unsigned_integer), ["C", "S", "I", "L"]);
        assert_eq!(formats(DataType::is_floating), ["e", "f", "g"]);
        assert_eq!(formats(DataType::is_binary), ["z", "Z", "vz"]);
        assert_eq!(formats(DataType::is_text), ["u", "U", "vu"]);
        assert_eq!(formats(DataType::has_offsets), ["z", "Z", "u", "U", "+l", "+L", "+m"]);
        assert!(formats(DataType::is_decimal).iter().all(|format| format.starts_with("d:")));
        let temporal = examples().iter().filter(|it| it.format.starts_with('t')).count();
        assert_eq!(formats(DataType::is_temporal).len(), temporal);
    }
}
