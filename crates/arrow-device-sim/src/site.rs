//! Finds out where in the user's program a function was called.
//!
//! Calls that come straight from the user know their line. Calls that come through the library, for
//! example from a drop or a view, keep return addresses instead. These become names and lines only
//! when a report is printed, because that is slow.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::ops::Range;
use std::panic::Location;
use std::path::Path;
use std::sync::Arc;

/// The most frames of the stack that are looked through for the user's own code.
const DEPTH: usize = 64;

/// A place in a program: the line that a report names.
#[derive(Clone)]
pub struct Site(SiteKind);

#[derive(Clone)]
enum SiteKind {
    Line(&'static Location<'static>),
    Stack(Arc<[usize]>),
    Unknown,
}

impl Site {
    /// Returns the caller, where it is known without looking at the stack.
    #[track_caller]
    pub(crate) fn caller() -> RawSite {
        RawSite::Line(Location::caller())
    }

    fn user_frame(stack: &[usize]) -> Option<String> {
        let mut fallback = None;
        for address in stack {
            let mut found = None;
            backtrace::resolve(
                (*address as *mut std::ffi::c_void).wrapping_byte_sub(1),
                |symbol| {
                    // The inlined functions of a frame come first, and the function that they were
                    // inlined into last.
                    let name = symbol.name().map(|name| format!("{name:#}")).unwrap_or_default();
                    let is_between =
                        is_inside(&name) || symbol.filename().is_some_and(is_file_inside);
                    if found.is_some() || name.is_empty() || is_between {
                        return;
                    }
                    found = Some(match (symbol.filename(), symbol.lineno()) {
                        (Some(file), Some(line)) => format!("{}:{line} ({name})", file.display()),
                        _ => name,
                    });
                },
            );
            fallback = fallback.or_else(|| found.clone());
            if let Some(found) = found {
                return Some(found);
            }
        }
        fallback
    }
}

/// Returns the system's number of this thread; 0 where that is not known.
pub(crate) fn thread() -> u64 {
    #[cfg(all(target_os = "linux", not(miri)))]
    // By its number, because glibc has the function since 2.30 only.
    // SAFETY: a call without arguments that cannot fail.
    return u64::try_from(unsafe { libc::syscall(libc::SYS_gettid) }).unwrap_or(0);
    #[cfg(not(all(target_os = "linux", not(miri))))]
    return 0;
}

/// Whether a function is between the user and the engine: a function of this crate, of the library,
/// or of the language's runtime.
fn is_inside(name: &str) -> bool {
    let path = name.trim_start_matches(['<', '&']).trim_start_matches("dyn ");
    [
        "arrow_device::",
        "arrow_device_sim::",
        "simulated_gpu_drivers::",
        "core::",
        "alloc::",
        "std::",
        "backtrace::",
        "__",
    ]
    .iter()
    .any(|inside| path.starts_with(inside))
}

/// Whether a source file belongs to code between the user and the engine. The name of an inlined
/// function may lack its path, so its file is asked too.
fn is_file_inside(file: &Path) -> bool {
    let names: Vec<_> = file.iter().map(|name| name.to_string_lossy()).collect();
    let package = names.windows(2).rev().find_map(|pair| match pair {
        [package, source] if source == "src" => Some(package.as_ref()),
        _ => None,
    });
    let is_ours = |package: &str| {
        // The folder is named as in a checkout, or with a version, as a package manager unpacks it.
        ["simulated-gpu-drivers", "arrow-device-sim", "arrow-device", "backtrace"].iter().any(
            |ours| {
                let rest = package.strip_prefix(ours);
                rest.is_some_and(|rest| {
                    let version = rest.strip_prefix('-').unwrap_or(rest);
                    version.is_empty() || version.starts_with(|first: char| first.is_ascii_digit())
                })
            },
        )
    };
    file.starts_with("/rustc") || package.is_some_and(is_ours)
}

impl fmt::Display for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            SiteKind::Line(line) => write!(f, "{}:{}", line.file(), line.line()),
            SiteKind::Stack(stack) => match Self::user_frame(stack) {
                Some(frame) => f.write_str(&frame),
                None => f.write_str("an unknown place"),
            },
            SiteKind::Unknown => f.write_str("an unknown place"),
        }
    }
}

impl fmt::Debug for Site {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A place as it is captured. Capturing is cheap, and the place is not kept for long.
#[expect(clippy::large_enum_variant, reason = "there are few: one for each calling line")]
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) enum RawSite {
    Line(&'static Location<'static>),
    Stack([usize; DEPTH], usize),
    Unknown,
}

impl RawSite {
    /// Captures the stack from here up, without frames at these addresses.
    #[inline(never)]
    pub(crate) fn stack(without: &Range<usize>) -> Self {
        let mut frames = [0; DEPTH];
        let mut count = 0;
        if cfg!(miri) {
            return Self::Unknown;
        }
        backtrace::trace(|frame| match frames.get_mut(count) {
            Some(_) if without.contains(&(frame.ip() as usize)) => true,
            Some(slot) => {
                *slot = frame.ip() as usize;
                count += 1;
                true
            }
            None => false,
        });
        Self::Stack(frames, count)
    }
}

/// Returns where the code of this library lies, if a program has loaded it as a library; an empty
/// range if it is part of the program.
pub(crate) fn own_library() -> Range<usize> {
    let here = (own_library as *const ()).addr();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let lines = maps.lines().filter_map(|line| {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        Some((address(start)?..address(end)?, rest.split_once('/')?.1))
    });
    let Some((_, file)) = lines.clone().find(|(range, _)| range.contains(&here)) else {
        return 0..0;
    };
    let own = lines.filter(|(_, other)| *other == file).map(|(range, _)| range);
    own.reduce(|all, range| all.start.min(range.start)..all.end.max(range.end)).unwrap_or(0..0)
}

/// The number of a place in [`Sites`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SiteId(u32);

/// All places seen so far, each kept once.
#[derive(Default)]
pub(crate) struct Sites {
    numbers: HashMap<RawSite, u32, BuildHasherDefault<Mix>>,
    list: Vec<Site>,
}

impl Sites {
    pub(crate) fn add(&mut self, raw: RawSite) -> SiteId {
        if let Some(number) = self.numbers.get(&raw) {
            return SiteId(*number);
        }
        let site = Site(match &raw {
            RawSite::Line(line) => SiteKind::Line(line),
            RawSite::Stack(frames, count) => {
                SiteKind::Stack(frames.iter().copied().take(*count).collect())
            }
            RawSite::Unknown => SiteKind::Unknown,
        });
        let number = u32::try_from(self.list.len()).unwrap_or(u32::MAX);
        self.list.push(site);
        self.numbers.insert(raw, number);
        SiteId(number)
    }

    pub(crate) fn of(&self, id: SiteId) -> Site {
        self.list.get(id.0 as usize).cloned().unwrap_or(Site(SiteKind::Unknown))
    }
}

/// Hashes return addresses, which nobody chooses to make collide.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word.iter_mut().zip(chunk).for_each(|(to, from)| *to = *from);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u64(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_function_of_the_library_is_not_the_users() {
        assert!(is_inside("arrow_device::device::queue::Queue::copy"));
        assert!(is_inside("<arrow_device_sim::driver::SimDriver as arrow_device::Driver>::copy"));
        assert!(is_inside("core::ops::function::FnOnce::call_once"));
        assert!(!is_inside("my_engine::scan::run"));
        assert!(!is_inside("arrow_device_users::run"));
    }

    #[test]
    fn a_file_of_the_library_is_not_the_users() {
        assert!(is_file_inside(Path::new(
            "/home/me/arrow-device/crates/arrow-device/src/device/queue.rs"
        )));
        assert!(is_file_inside(Path::new("/cargo/arrow-device-sim-0.1.0/src/driver.rs")));
        assert!(is_file_inside(Path::new("/cargo/backtrace-0.3.77/src/backtrace/libunwind.rs")));
        assert!(is_file_inside(Path::new("/rustc/0123/library/core/src/ops/function.rs")));
        assert!(!is_file_inside(Path::new(
            "/home/me/arrow-device/crates/arrow-device-cli/src/demo.rs"
        )));
        assert!(!is_file_inside(Path::new(
            "/home/me/arrow-device/crates/arrow-device/examples/consumer.rs"
        )));
    }

    #[test]
    fn a_place_is_kept_once() {
        let mut sites = Sites::default();
        let mut add = || sites.add(Site::caller());
        assert_eq!(add(), add());
    }
}
