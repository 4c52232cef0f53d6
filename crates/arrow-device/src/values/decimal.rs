//! [`Decimal`]: an integer of up to 256 bits, and the number of digits after its point.

use std::fmt;

/// A decimal number: an integer of up to 256 bits, divided by ten to the power of a scale.
///
/// ```
/// use arrow_device::Decimal;
///
/// assert_eq!(Decimal::new(-1250, 2).to_string(), "-12.50");
/// assert_eq!(Decimal::new(5, -3).to_string(), "5E3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decimal {
    /// The integer in two's complement, the least significant word first.
    words: [u32; 8],
    scale: i32,
}

/// With more digits after the point, or zeros before it, than this, a number is written with an
/// exponent.
const MOST_PLACES: u32 = 100;

impl Decimal {
    /// The decimal number that is `number` divided by ten to the power of `scale`.
    pub fn new(number: i128, scale: i32) -> Self {
        let sign = if number < 0 { u32::MAX } else { 0 };
        let bits = number.cast_unsigned();
        let word = |index: u32| (bits >> (32 * index)) as u32;
        Self { words: [word(0), word(1), word(2), word(3), sign, sign, sign, sign], scale }
    }

    /// The decimal number of 256 bits as they lie in memory, divided by ten to the power of
    /// `scale`.
    pub(super) fn from_bytes(mut bytes: [u8; 32], scale: i32) -> Self {
        if cfg!(target_endian = "big") {
            bytes.reverse();
        }
        let mut words = [0; 8];
        for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
            *word = u32::from_le_bytes(*bytes);
        }
        Self { words, scale }
    }

    /// The integer, if it fits into 128 bits.
    pub fn number(&self) -> Option<i128> {
        let [first, second, third, fourth, ..] = self.words.map(u128::from);
        let number = (first | second << 32 | third << 64 | fourth << 96).cast_signed();
        (Self::new(number, self.scale) == *self).then_some(number)
    }

    /// How many digits follow the point.
    pub fn scale(&self) -> i32 {
        self.scale
    }

    fn is_negative(&self) -> bool {
        self.words.last().is_some_and(|word| word >> 31 == 1)
    }

    /// The digits of the integer, without a sign.
    fn digits(&self) -> String {
        let mut words = self.words;
        if self.is_negative() {
            let mut carry = true;
            for word in &mut words {
                (*word, carry) = (!*word).overflowing_add(u32::from(carry));
            }
        }
        let mut digits = Vec::new();
        while words.iter().any(|word| *word != 0) {
            let mut rest = 0_u64;
            for word in words.iter_mut().rev() {
                let dividend = rest << 32 | u64::from(*word);
                // Less than 2^32, because the remainder is less than ten.
                *word = (dividend / 10) as u32;
                rest = dividend % 10;
            }
            digits.push(b'0' + rest as u8);
        }
        digits.iter().rev().copied().map(char::from).collect()
    }
}

impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.is_negative() { "-" } else { "" };
        let digits = self.digits();
        match u32::try_from(self.scale) {
            Ok(0) => write!(f, "{sign}{digits:0>1}"),
            Ok(scale) if scale <= MOST_PLACES => {
                let places = scale as usize;
                let digits = format!("{digits:0>width$}", width = places + 1);
                let (whole, part) = digits.split_at(digits.len() - places);
                write!(f, "{sign}{whole}.{part}")
            }
            _ => write!(f, "{sign}{digits:0>1}E{}", -i64::from(self.scale)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_have_their_point() {
        for (number, scale, text) in [
            (0, 0, "0"),
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-5, 2, "-0.05"),
            (12345, 2, "123.45"),
            (-12345, 0, "-12345"),
            (7, -2, "7E2"),
            (0, -2, "0E2"),
            (1, i32::MIN, "1E2147483648"),
            (1, i32::MAX, "1E-2147483647"),
            (i128::MAX, 38, "1.70141183460469231731687303715884105727"),
            (i128::MIN, 0, "-170141183460469231731687303715884105728"),
        ] {
            let decimal = Decimal::new(number, scale);
            assert_eq!(decimal.to_string(), text);
            assert_eq!(decimal.number(), Some(number));
        }
    }

    #[test]
    fn all_256_bits_count() {
        let mut largest = [0xff; 32];
        largest[31] = 0x7f;
        let smallest = largest.map(|byte| !byte);
        let bytes = |mut bytes: [u8; 32]| {
            if cfg!(target_endian = "big") {
                bytes.reverse();
            }
            Decimal::from_bytes(bytes, 3)
        };
        assert_eq!(
            bytes(largest).to_string(),
            "57896044618658097711785492504343953926634992332820282019728792003956564819.967"
        );
        assert_eq!(
            bytes(smallest).to_string(),
            "-57896044618658097711785492504343953926634992332820282019728792003956564819.968"
        );
        assert_eq!((bytes(largest).number(), bytes([0xff; 32]).number()), (None, Some(-1)));
    }
}
