//! Nothing but a place for the tests beside it, which exchange tensors with other Rust implementations of DLPack. They are in
//! a crate of their own because those bring dependencies that `arrow-device` has no use for, and change often.
