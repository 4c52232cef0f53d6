//! What another process shares at a socket.

use std::path::Path;

use arrow_device::Array;

use crate::backends::Opened;
use crate::failure::Outcome;

/// The first arrays that come. Memory of the host can be opened, and that of the device. The other
/// process is trusted where the user says so.
#[cfg(target_os = "linux")]
pub(super) fn arrays(
    socket: &Path,
    opened: Option<&Opened>,
    most: usize,
    trusts: bool,
) -> Outcome<Vec<Array>> {
    use std::os::unix::net::UnixStream;

    use arrow_device::Device;
    use arrow_device_share::Receiver;

    let devices = opened.map(|opened| opened.device.clone()).into_iter().chain([Device::host()]);
    let receiver = Receiver::new(UnixStream::connect(socket)?, devices);
    let receiver = match trusts {
        // SAFETY: UNS-38: whoever says `--trust` answers for the process at the socket. The
        // connection was made here, and nothing else has it.
        true => unsafe { receiver.trusting() },
        false => receiver,
    };
    Ok(receiver.into_stream(most)?.take(most).collect::<Result<Vec<_>, _>>()?)
}

#[cfg(not(target_os = "linux"))]
pub(super) fn arrays(_: &Path, _: Option<&Opened>, _: usize, _: bool) -> Outcome<Vec<Array>> {
    Err(crate::share::elsewhere())
}
