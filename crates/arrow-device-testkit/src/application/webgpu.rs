//! The library for WebGPU that tests use.
