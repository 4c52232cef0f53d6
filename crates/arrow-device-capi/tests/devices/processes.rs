//! Memory of a device that every process which gets it can write to, sent to another process
//! through the header's functions. The second process is this program again, for the same test, and
//! has one end of the connection as its standard input.

use std::env;
use std::ffi::c_int;
use std::io;
use std::os::fd::{AsFd, IntoRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::Command;
use std::ptr;

use arrow_device::ErrorKind;
use arrow_device_capi::*;
use arrow_device_testkit::process::alone;
use arrow_device_testkit::required::skip;

use crate::support::face::{Owned, call, made};
use crate::support::objects::{copy, numbers, values_of};

/// Tells the second process the flags of its receiver.
const FLAGS: &str = "ARROW_DEVICE_TEST_RECEIVER_FLAGS";

/// "Not possible here", on Linux.
const ENOSYS: c_int = 38;

/// A device, and what has to stay as long as it is used.
struct Opened<T> {
    device: *mut ArdevDevice,
    _driver: T,
}

impl<T> Drop for Opened<T> {
    fn drop(&mut self) {
        unsafe { ardev_device_free(self.device) };
    }
}

impl<T> Opened<T> {
    fn new(driver: T, device_type: i32) -> Self {
        let device = made(|out, error| unsafe { ardev_device_open(device_type, 0, out, error) });
        Self { device: device.unwrap(), _driver: driver }
    }

    /// The three numbers that are sent, in memory of this device, unless the device shares none.
    fn shareable_numbers(&self) -> Option<Owned> {
        let shareable =
            made(|out, error| unsafe { ardev_device_shareable(self.device, out, error) }).ok()?;
        let host = numbers(7);
        let there =
            made(|out, error| unsafe { ardev_array_to_shareable(host.0, shareable, out, error) });
        unsafe { ardev_device_free(shareable) };
        Some(Owned(there.unwrap()))
    }
}

/// Memory of the device goes to a process only where the sender and the receiver say that they
/// trust each other. `driver` makes what has to be there before the device is opened, or says why
/// there is no such device.
pub(crate) fn memory_goes_only_where_both_sides_trust<T>(
    test: &str,
    name: &str,
    device_type: i32,
    driver: fn() -> Result<T, String>,
) {
    if let Ok(flags) = env::var(FLAGS) {
        let opened = Opened::new(driver().unwrap(), device_type);
        return receive(&opened, flags.parse().unwrap());
    }
    alone(|| {
        let opened = match driver() {
            Ok(driver) => Opened::new(driver, device_type),
            Err(reason) => return skip(name, &reason),
        };
        let Some(array) = opened.shareable_numbers() else {
            return skip(name, "the driver shares no memory");
        };

        let (socket, _other) = UnixStream::pair().unwrap();
        let sender = sender(socket, 0);
        let mut error = ArdevError::EMPTY;
        assert_eq!(unsafe { ardev_sender_send(sender, array.0, &mut error) }, ENOSYS);
        assert!(error.text().contains("a sender that trusts its receiver"), "{}", error.text());
        let mut ticket = 0;
        let shared =
            made(|out, error| unsafe { ardev_array_share(array.0, &mut ticket, out, error) });
        assert_eq!((shared.unwrap_err().kind(), ticket), (ErrorKind::Unsupported, -1));
        unsafe { ardev_sender_free(sender) };

        for flags in [0, ARDEV_RECEIVER_TRUSTING] {
            let (socket, other) = UnixStream::pair().unwrap();
            let mut child = Command::new(env::current_exe().unwrap())
                .args(["--exact", test, "--nocapture", "--test-threads=1"])
                .env(FLAGS, flags.to_string())
                .stdin(OwnedFd::from(other))
                .spawn()
                .unwrap();
            let sender = self::sender(socket, ARDEV_SENDER_TRUSTING);
            call(|error| unsafe { ardev_sender_send(sender, array.0, error) }).unwrap();
            call(|error| unsafe { ardev_sender_wait(sender, -1, error) }).unwrap();
            let status = child.wait().unwrap();
            assert!(status.success(), "a receiver with the flags {flags}: {status}");
            unsafe { ardev_sender_free(sender) };
        }
    });
}

fn sender(socket: UnixStream, flags: u32) -> *mut ArdevSender {
    let fd = socket.into_raw_fd();
    made(|out, error| unsafe { ardev_sender_new(fd, flags, out, error) }).unwrap()
}

/// What the second process does: it receives the array, or is refused where `flags` say so.
fn receive<T>(opened: &Opened<T>, flags: u32) {
    let fd = io::stdin().as_fd().try_clone_to_owned().unwrap().into_raw_fd();
    let devices = [opened.device.cast_const()];
    let receiver = made(|out, error| unsafe {
        ardev_receiver_new(fd, devices.as_ptr(), 1, flags, out, error)
    })
    .unwrap();
    let (mut array, mut error) = (ptr::null_mut(), ArdevError::EMPTY);
    let code = unsafe { ardev_receiver_receive(receiver, -1, &mut array, &mut error) };
    if flags == 0 {
        assert_eq!((code, array.is_null()), (ENOSYS, true));
        assert!(error.text().contains("a receiver that trusts its sender"), "{}", error.text());
    } else {
        assert_eq!(code, 0, "{}", error.text());
        let array = Owned(array);
        let queue =
            made(|out, error| unsafe { ardev_queue_open(opened.device, out, error) }).unwrap();
        assert_eq!(values_of(&copy(&array, ptr::null(), queue).unwrap()), [7, 8, 9]);
        drop(array);
        unsafe { ardev_queue_free(queue) };
    }
    unsafe { ardev_receiver_free(receiver) };
}
