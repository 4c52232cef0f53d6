//! The devices of the simulated SYCL runtime.

use std::sync::Once;

use arrow_device::Result;

use crate::Opened;

/// Names the runtime's library, where nobody chose another one. Called before anything else looks
/// for it.
pub(crate) fn prepare() {
    const VARIABLE: &str = "ARROW_DEVICE_ONEAPI_LIBRARY";
    static NAMED: Once = Once::new();
    NAMED.call_once(|| {
        if std::env::var_os(VARIABLE).is_none() {
            // SAFETY: nobody reads the environment meanwhile but through `std::env`: whoever reads
            // this variable otherwise passed this cell first.
            unsafe { std::env::set_var(VARIABLE, simulated_sycl::path()) };
        }
    });
}

pub(crate) fn open(index: usize, kind: arrow_device_oneapi::Kind) -> Result<Opened> {
    arrow_device_oneapi::open_with(index, kind).map(Opened::one)
}
