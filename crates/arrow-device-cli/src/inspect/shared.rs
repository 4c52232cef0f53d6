//! What another process shares at a socket.

use std::path::Path;

use arrow_device::Array;

use crate::backends::Opened;
use crate::failure::Outcome;

/// The first arrays that come. Memory of the host can be opened, and that of the device.
#[cfg(target_os = "linux")]
pub(super) fn arrays(socket: &Path, opened: Option<&Opened>, most: usize) -> Outcome<Vec<Array>> {
    use std::os::unix::net::UnixStream;

    use arrow_device::Device;
    use arrow_device_share::Receiver;

    let devices = opened.map(|opened| opened.device.clone()).into_iter().chain([Device::host()]);
    let receiver = Receiver::new(UnixStream::connect(socket)?, devices);
    Ok(receiver.into_stream(most)?.take(most).collect::<Result<Vec<_>, _>>()?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn arrays(_: &Path, _: Option<&Opened>, _: usize) -> Outcome<Vec<Array>> {
    Err(crate::share::elsewhere())
}
