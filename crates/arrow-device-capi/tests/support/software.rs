//! The software device behind a table of C callbacks, as a program brings a device of its own.
