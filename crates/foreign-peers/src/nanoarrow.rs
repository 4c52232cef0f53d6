//! nanoarrow's C library.
