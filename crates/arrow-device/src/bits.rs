//! Bits of a bitmap, many at a time.

/// Up to 64 bits of a bitmap from bit `first` on, which becomes the lowest bit. Bits behind the end
/// are zeros.
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

/// A word whose lowest `count` bits are set.
#[inline]
pub(crate) fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

/// How many of `count` bits from bit `start` on are set. Bits past the end of the bytes count as
/// not set.
pub(crate) fn count_ones(bytes: &[u8], start: usize, count: usize) -> usize {
    let end = start.saturating_add(count).min(bytes.len().saturating_mul(8));
    if start >= end {
        return 0;
    }
    let bytes = bytes.get(start / 8..end.div_ceil(8)).unwrap_or_default();
    let (words, rest) = bytes.as_chunks::<8>();
    let of_words: usize =
        words.iter().map(|word| u64::from_ne_bytes(*word).count_ones() as usize).sum();
    let of_rest: usize = rest.iter().map(|byte| byte.count_ones() as usize).sum();
    let first = bytes.first().copied().unwrap_or(0);
    let last = bytes.last().copied().unwrap_or(0);
    let before = (first & !(u8::MAX << (start % 8))).count_ones() as usize;
    let after = match end % 8 {
        0 => 0,
        bits => (last & (u8::MAX << bits)).count_ones() as usize,
    };
    of_words + of_rest - before - after
}

#[cfg(test)]
mod tests {
    use super::count_ones;

    #[test]
    fn the_bits_of_a_range_are_counted_and_no_others() {
        let bytes: Vec<u8> = (0..40).map(|byte: u8| byte.wrapping_mul(37) ^ 0x5a).collect();
        let one_by_one = |start: usize, count: usize| {
            (start..start + count)
                .filter(|bit| bytes.get(bit / 8).is_some_and(|byte| byte >> (bit % 8) & 1 == 1))
                .count()
        };
        let (starts, counts) = if cfg!(miri) { (3, 20) } else { (30, 310) };
        for start in 0..starts {
            for count in 0..counts {
                assert_eq!(
                    count_ones(&bytes, start, count),
                    one_by_one(start, count),
                    "{start} {count}"
                );
            }
        }
        assert_eq!(count_ones(&[], 3, usize::MAX), 0);
    }
}
