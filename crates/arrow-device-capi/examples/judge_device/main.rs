//! Judges a device of C: runs the conformance suite on the device of a shared library.
//!
//! ```sh
//! cargo run -p arrow-device-capi --example judge_device -- ./libmine.so:my_device
//! ```
//!
//! `my_device` is a function `int my_device(struct ardev_driver* out)`, which writes the table of a
//! device as for `ardev_device_register`, and returns 0 or an errno value. The `struct_size` of the
//! table tells how much of a struct the function knows. Where the library also has a function
//! `void my_device_lose(void* context)`, which breaks the device, the suite ends with the checks of
//! a lost device. `custom_device.c` is such a library.

use std::error::Error;
use std::ffi::{CString, c_int, c_void};
use std::process::ExitCode;

use arrow_device::{Device, DeviceId, DeviceType};
use arrow_device_capi::{ArdevDriver, ArdevError, ardev_device_free, ardev_device_register};
use arrow_device_testkit::kinds::Case;
use arrow_device_testkit::suite::{Report, Suite};

/// Writes a table.
type Make = unsafe extern "C" fn(out: *mut ArdevDriver) -> c_int;
/// Breaks a device, which is named by the context of its table.
type Lose = unsafe extern "C" fn(context: *mut c_void);

pub(crate) fn main() -> ExitCode {
    let named = std::env::args().nth(1);
    let Some((library, name)) = named.as_deref().and_then(|named| named.rsplit_once(':')) else {
        eprintln!("usage: judge_device LIBRARY:FUNCTION");
        return ExitCode::from(2);
    };
    // SAFETY: whoever runs this program names a library with such functions.
    match unsafe { Judged::open(library, name) } {
        Ok(judged) => {
            let report = judged.report(None);
            println!("{report}");
            if report.failures().is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            eprintln!("{library}:{name}: {error}");
            ExitCode::from(2)
        }
    }
}

/// A table, and room for members that a later header adds.
#[repr(C)]
struct Room {
    table: ArdevDriver,
    _later: [usize; 64],
}

/// A device of a library, which is open.
pub(crate) struct Judged {
    pub(crate) device: Device,
    context: *mut c_void,
    lose: Option<Lose>,
}

impl Judged {
    /// Loads a library, which stays, and registers the device of a function in it.
    ///
    /// # Safety
    /// The functions of these names are what this page says, and the table keeps to `driver.h`.
    pub(crate) unsafe fn open(library: &str, name: &str) -> Result<Self, Box<dyn Error>> {
        // SAFETY: the library is the caller's.
        let library = Box::leak(Box::new(unsafe { libloading::Library::new(library) }?));
        let name_lose = CString::new(format!("{name}_lose"))?;
        // SAFETY: the function of this name has this type, as the caller promises.
        let make = unsafe { library.get::<Make>(name.as_bytes()) }?;
        // SAFETY: the function of this name has this type, as the caller promises.
        let lose = unsafe { library.get::<Lose>(name_lose.as_bytes_with_nul()) }.ok();
        // SAFETY: zeros are values of all members: numbers, pointers that may be null, and options
        // of functions.
        let mut room = unsafe { std::mem::zeroed::<Room>() };
        // SAFETY: the function writes a table, which begins the room.
        let code = unsafe { make((&raw mut room).cast()) };
        if code != 0 {
            return Err(format!("it returned {code}").into());
        }
        let (mut out, mut error) = (std::ptr::null_mut(), ArdevError::EMPTY);
        // SAFETY: the table keeps to `driver.h`, as the caller promises; both places are ours.
        if unsafe { ardev_device_register((&raw const room).cast(), &raw mut out, &raw mut error) }
            != 0
        {
            return Err(error.text().into());
        }
        let table = room.table;
        let id = DeviceId::new(DeviceType(table.device_type), table.device_id);
        let device = Device::find(id).ok_or("the device is not open")?;
        // SAFETY: the object was just made, and is not used any more.
        unsafe { ardev_device_free(out) };
        Ok(Self { device, context: table.context, lose: lose.map(|function| *function) })
    }

    /// Runs the suite, over some arrays or over all. The device is lost then, if it can be.
    pub(crate) fn report(&self, cases: Option<Vec<Case>>) -> Report {
        let suite = Suite::new(&self.device);
        let suite = match cases {
            Some(cases) => suite.over(cases),
            None => suite,
        };
        let Some(lose) = self.lose else { return suite.run() };
        // SAFETY: the device is open, so its context is there.
        let losing = || unsafe { lose(self.context) };
        suite.losing(&losing).run()
    }
}
