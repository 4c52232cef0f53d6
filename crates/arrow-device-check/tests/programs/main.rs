//! Peers in shared libraries and in Python, checked by the program as users run it; and the page
//! about the checker.
#![allow(clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]

#[cfg(all(target_os = "linux", not(miri)))]
mod libraries;
mod page;
#[cfg(all(target_os = "linux", not(miri)))]
mod python;
#[cfg(all(target_os = "linux", not(miri)))]
mod twins;
