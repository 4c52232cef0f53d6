//! The test of this package compares the public items of the published crates with the listings in
//! `docs/interface`.
