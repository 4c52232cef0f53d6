//! Numbers as arrays have them in memory: integers for decimals, and 16-bit floats.

use crate::leaf::{Digits, Leaf};

/// The digits of a number times ten to the power of `scale`, where that is a whole number of no
/// more digits than `precision`; the outer `None` for what is no number.
pub(crate) fn unscaled(
    leaf: &Leaf<'_>,
    precision: u8,
    scale: i32,
) -> Option<Option<(bool, String)>> {
    let from_int;
    let (negative, digits, exponent) = match leaf {
        Leaf::Decimal(Digits { negative, digits, exponent }) => {
            (*negative, digits.as_slice(), *exponent)
        }
        Leaf::Int(number) => {
            from_int = number
                .unsigned_abs()
                .to_string()
                .bytes()
                .map(|digit| digit - b'0')
                .collect::<Vec<_>>();
            (*number < 0, from_int.as_slice(), 0)
        }
        _ => return None,
    };
    let first = digits.iter().position(|digit| *digit != 0).unwrap_or(digits.len());
    let digits = digits.get(first..).unwrap_or_default();
    let zeros = exponent.saturating_add(scale.into());
    if digits.is_empty() {
        return Some(Some((false, "0".into())));
    }
    let length = i64::try_from(digits.len()).unwrap_or(i64::MAX).saturating_add(zeros);
    if length > precision.into() || length < 1 {
        return Some(None);
    }
    let kept = usize::try_from(length).unwrap_or(0);
    let (kept_digits, lost) = digits.split_at_checked(kept).unwrap_or((digits, &[]));
    if lost.iter().any(|digit| *digit != 0) {
        return Some(None);
    }
    let mut text: String = kept_digits.iter().map(|digit| char::from(b'0' + digit % 10)).collect();
    text.extend(std::iter::repeat_n('0', kept.saturating_sub(text.len())));
    Some(Some((negative, text)))
}

/// The same as 256 bits, as they lie in memory.
pub(crate) fn wide(leaf: &Leaf<'_>, precision: u8, scale: i32) -> Option<Option<[u8; 32]>> {
    let Some((negative, digits)) = unscaled(leaf, precision, scale)? else { return Some(None) };
    let mut words = [0_u32; 8];
    for digit in digits.bytes() {
        let mut carry = u64::from(digit - b'0');
        for word in &mut words {
            let product = u64::from(*word) * 10 + carry;
            (*word, carry) = (product as u32, product >> 32);
        }
    }
    if negative {
        let mut carry = true;
        for word in &mut words {
            (*word, carry) = (!*word).overflowing_add(u32::from(carry));
        }
    }
    let mut bytes = [0; 32];
    for (to, word) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(words) {
        *to = word.to_le_bytes();
    }
    if cfg!(target_endian = "big") {
        bytes.reverse();
    }
    Some(Some(bytes))
}

/// The bits of the nearest 16-bit float; of two that are as near, the even one.
pub(crate) fn half(number: f64) -> u16 {
    let bits = number.to_bits();
    let sign = ((bits >> 48) & 0x8000) as u16;
    let magnitude = number.abs();
    if number.is_nan() {
        return sign | 0x7e00;
    }
    if magnitude >= 65520.0 {
        return sign | 0x7c00;
    }
    // Multiples of the smallest step that numbers of this size have. Both factors are powers of
    // two, so that only the rounding to an integer rounds.
    let exponent = ((bits >> 52) & 0x7ff) as i32 - 1023;
    let step = exponent.max(-14) - 10;
    let steps = (magnitude * 2.0_f64.powi(-step)).round_ties_even() as u32;
    let base = (step + 24) as u32;
    // Steps beyond 2^11 carry into the exponent, as they should.
    sign | (base * 1024 + steps) as u16
}
