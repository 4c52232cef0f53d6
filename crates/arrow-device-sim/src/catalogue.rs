//! Each mistake that the software device knows.
