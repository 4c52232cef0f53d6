//! Compares `arrow-device-abi` with its C headers, and compiles the headers beside other copies.
//! Everything is in the tests; this library is the declarations that they must refuse.
pub mod wrong;
