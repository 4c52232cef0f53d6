//! The other side of a connection, made by hand: bytes and descriptors as they are.

use std::io::{IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;

use arrow_device_testkit::shared_memory::file_of_memory;
use rustix::fs::SealFlags;
use rustix::io::Errno;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags,
};

/// The bytes and the descriptors that wait in a ticket.
pub(crate) fn taken_apart(ticket: &OwnedFd) -> (Vec<u8>, Vec<OwnedFd>) {
    let (mut all, mut descriptors) = (Vec::new(), Vec::new());
    loop {
        let mut bytes = vec![0; 1 << 16];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
        let mut beside = RecvAncillaryBuffer::new(&mut space);
        let mut parts = [IoSliceMut::new(&mut bytes)];
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        let Ok(came) = rustix::net::recvmsg(ticket, &mut parts, &mut beside, flags) else {
            return (all, descriptors);
        };
        for message in beside.drain() {
            if let RecvAncillaryMessage::ScmRights(some) = message {
                descriptors.extend(some);
            }
        }
        if came.bytes == 0 {
            return (all, descriptors);
        }
        all.extend(&bytes[..came.bytes]);
    }
}

/// A connection on which these bytes and descriptors came, and then the end.
pub(crate) fn sent(bytes: &[u8], descriptors: &[OwnedFd]) -> UnixStream {
    connection_after(bytes, descriptors).1
}

/// The ends of a connection: that of the peer that sent these bytes and descriptors, and the other
/// one, on which they came.
pub(crate) fn connection_after(bytes: &[u8], descriptors: &[OwnedFd]) -> (UnixStream, UnixStream) {
    let (one, other) = UnixStream::pair().unwrap();
    let borrowed: Vec<_> = descriptors.iter().map(AsFd::as_fd).collect();
    put(&one, bytes, &borrowed).unwrap();
    (one, other)
}

/// Sends these bytes and descriptors.
pub(crate) fn put(
    to: &UnixStream,
    bytes: &[u8],
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), Errno> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(253))];
    let mut beside = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() {
        assert!(beside.push(SendAncillaryMessage::ScmRights(descriptors)));
    }
    let flags = SendFlags::DONTWAIT;
    let sent = rustix::net::sendmsg(to, &[IoSlice::new(bytes)], &mut beside, flags)?;
    assert_eq!(sent, bytes.len());
    Ok(())
}

/// Memory of this many bytes with these seals.
pub(crate) fn memory(len: u64, seals: SealFlags) -> OwnedFd {
    file_of_memory(len, seals.bits().cast_signed())
}

/// A frame of a receiver.
pub(crate) fn frame(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = b"ADS1".to_vec();
    bytes.extend([kind, 0, 0, 0]);
    bytes.extend(u32::try_from(body.len()).unwrap().to_le_bytes());
    bytes.extend([0; 4]);
    bytes.extend(body);
    bytes
}
