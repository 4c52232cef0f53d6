//! The body of a message as a buffer, where the network has put it.

use arrow_device::{Buffer, DeviceId};
use bytes::Bytes;

/// Returns a buffer of these bytes, which keeps them. Nothing is copied.
pub(crate) fn buffer_of(bytes: Bytes) -> Buffer {
    if bytes.is_empty() {
        return Buffer::null(DeviceId::CPU);
    }
    let (base, len) = (bytes.as_ptr().cast(), bytes.len() as u64);
    // SAFETY: UNS-17. `Bytes` names `len` bytes of host memory, which nobody writes to: a `Bytes`
    // gives shared access alone, and its memory stays in place as long as one handle is there. The
    // owner is such a handle.
    unsafe { Buffer::foreign(DeviceId::CPU, base, len, bytes) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_keeps_the_bytes_and_has_their_address() {
        let whole = Bytes::from(vec![1_u8, 2, 3, 4]);
        let part = whole.slice(1..3);
        let buffer = buffer_of(part.clone());
        assert_eq!(buffer.extent().at_least(), 2);
        assert!(!whole.is_unique());
        drop((whole, part));
        drop(buffer);
        assert!(buffer_of(Bytes::new()).is_null());
    }

    #[test]
    fn the_bytes_go_when_the_buffer_does() {
        let whole = Bytes::from(vec![1_u8; 100]);
        let buffer = buffer_of(whole.slice(1..));
        assert!(!whole.is_unique());
        drop(buffer);
        assert!(whole.is_unique());
    }
}
