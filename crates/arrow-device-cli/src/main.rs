//! The command `arrow-device`.

fn main() {}
