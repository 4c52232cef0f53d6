//! Bits of a bitmap, many at a time.

/// Up to 64 bits of a bitmap from one of them on, the first one lowest. Behind the end are zeros.
#[inline]
pub(crate) fn word_at(bits: &[u8], first: usize) -> u64 {
    let (byte, shift) = (first / 8, first % 8);
    let rest = bits.get(byte..).unwrap_or_default();
    let (low, next) = match rest.first_chunk::<9>() {
        Some(nine) => {
            let [low @ .., next] = *nine;
            (u64::from_le_bytes(low), next)
        }
        None => {
            let mut nine = [0_u8; 9];
            nine.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
            let [low @ .., next] = nine;
            (u64::from_le_bytes(low), next)
        }
    };
    if shift == 0 { low } else { low >> shift | u64::from(next) << (64 - shift) }
}

/// A word of which so many bits from the lowest one on are set.
#[inline]
pub(crate) fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}
