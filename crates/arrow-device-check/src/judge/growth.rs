//! Measures how much memory stays in use after something that should leave nothing behind.

/// A block of the allocator has at least this many bytes, so forgetting one leaves as many.
const LEAST: u64 = 16;

/// How often something is done in a round.
const TIMES: u64 = 64;

/// Returns how many bytes are left behind each time, 0 where none are, `None` where that cannot be
/// measured.
///
/// Only growth in each of several rounds counts, so caches and tables that are filled once do not
/// count.
pub(super) fn of(body: impl Fn()) -> Option<u64> {
    if crate::under::is_on() {
        // The tool's allocator keeps freed memory, to see who still reads there.
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
    // glibc has the function since 2.33 only.
    // SAFETY: `RTLD_DEFAULT` is a handle of dlsym, and the name is nul-terminated.
    let function = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"mallinfo2".as_ptr()) };
    if function.is_null() {
        return None;
    }
    // SAFETY: the pointer is not null, and glibc's function of this name has this type.
    let mallinfo2: extern "C" fn() -> libc::mallinfo2 = unsafe { std::mem::transmute(function) };
    let told = mallinfo2();
    Some((told.uordblks + told.hblkhd) as u64)
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn in_use() -> Option<u64> {
    None
}
