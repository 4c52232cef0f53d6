//! Arrays.
