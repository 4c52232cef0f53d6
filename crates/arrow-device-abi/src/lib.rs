//! The C structs and constants of the Arrow C data, stream, device and asynchronous interfaces and of DLPack.
#![no_std]
