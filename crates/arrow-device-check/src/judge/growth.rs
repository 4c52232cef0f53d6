//! How much memory stays in use after something that should leave nothing behind.

/// What is forgotten each time is at least a block of the allocator.
const LEAST: u64 = 16;

/// How often something is done in a round.
const TIMES: u64 = 64;

/// Bytes that are left behind each time, 0 where it is none; `None` where nobody can say.
///
/// Only what grows in each of several rounds counts, so that caches and tables that are filled once
/// do not.
pub(super) fn of(body: impl Fn()) -> Option<u64> {
    if crate::under::is_on() {
        // Its allocator keeps what is freed, to see who still reads there.
        return None;
    }
    let round = || (0..TIMES).for_each(|_| body());
    round();
    round();
    let mut least = u64::MAX;
    for _ in 0..4 {
        let before = in_use()?;
        round();
        least = least.min(in_use()?.saturating_sub(before));
    }
    let each = least / TIMES;
    Some(if each < LEAST { 0 } else { each })
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn in_use() -> Option<u64> {
    // SAFETY: takes nothing and looks at the allocator's own books.
    let told = unsafe { libc::mallinfo2() };
    Some((told.uordblks + told.hblkhd) as u64)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_use() -> Option<u64> {
    None
}
