//! Numbers as people read them.

use std::time::Duration;

const STEPS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];

/// Bytes, with three digits and a unit.
pub(crate) fn bytes(bytes: u64) -> String {
    with_unit(bytes as f64, &STEPS, 1024.0)
}

/// Bytes in this time.
pub(crate) fn rate(bytes: u64, time: Duration) -> String {
    let per_second = bytes as f64 / time.as_secs_f64().max(1e-9);
    format!("{}/s", with_unit(per_second, &["B", "kB", "MB", "GB", "TB"], 1000.0))
}

/// A time, with three digits and a unit.
pub(crate) fn time(time: Duration) -> String {
    let nanoseconds = time.as_secs_f64() * 1e9;
    with_unit(nanoseconds, &["ns", "µs", "ms", "s"], 1000.0)
}

/// Whole numbers with thousands apart.
pub(crate) fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// How many there are of something, with its name for one or for many.
pub(crate) fn counted(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), if number == 1 { one } else { many })
}

fn with_unit(mut value: f64, units: &[&str], step: f64) -> String {
    let mut units = units.iter();
    let mut unit = units.next().copied().unwrap_or_default();
    // What would be rounded up to the next unit is told in that unit.
    while value >= step - 0.5 {
        let Some(next) = units.next() else { break };
        value /= step;
        unit = next;
    }
    let digits = if value.fract() == 0.0 || value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    format!("{value:.digits$} {unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_three_digits_and_a_unit() {
        assert_eq!(
            [0, 64, 1023, 1024, 1536, 25 << 30].map(bytes),
            ["0 B", "64 B", "1023 B", "1 KiB", "1.50 KiB", "25 GiB"]
        );
        assert_eq!(rate(3_200_000_000, Duration::from_secs(2)), "1.60 GB/s");
        assert_eq!(time(Duration::from_nanos(12_345)), "12.3 µs");
        assert_eq!(time(Duration::from_nanos(999_900)), "1.00 ms");
        assert_eq!([7, 1234, 1_234_567].map(count), ["7", "1,234", "1,234,567"]);
    }
}
