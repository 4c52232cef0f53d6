//! What `arrow-device-abi` and its C headers declare.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

mod constants;
mod headers;
mod layout;
