//! A bounded store that keeps the newest values.

/// Keeps a value that came back, and returns the values that have to go: the oldest ones, or the
/// newcomer itself where it is larger than the bound. The caller drops them without the lock of the
/// list.
pub(super) fn keep_newest<T>(
    kept: &mut Vec<T>,
    newest: T,
    len: impl Fn(&T) -> u64,
    most_bytes: u64,
    most: usize,
) -> Vec<T> {
    if len(&newest) > most_bytes {
        return vec![newest];
    }
    kept.push(newest);
    let mut bytes: u64 = kept.iter().map(&len).sum();
    let mut gone = Vec::new();
    while bytes > most_bytes || kept.len() > most {
        let oldest = kept.remove(0);
        bytes -= len(&oldest);
        gone.push(oldest);
    }
    gone
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_and_what_is_too_large_goes_at_once() {
        let mut kept = Vec::new();
        let mut keep = |len: u64| keep_newest(&mut kept, len, |len| *len, 10, 3);
        assert_eq!([keep(4), keep(6)], [vec![], vec![]]);
        assert_eq!(keep(11), [11]);
        assert_eq!(keep(5), [4, 6]);
        assert_eq!([keep(1), keep(2)], [vec![], vec![]]);
        assert_eq!(keep(0), [5]);
        assert_eq!(kept, [1, 2, 0]);
    }
}
