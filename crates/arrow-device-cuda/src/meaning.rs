//! The meanings of the codes that only CUDA has, and what to do about them.

use arrow_device::ErrorKind;
use arrow_device_gpu::Code;

/// Returns the meaning of a code. `None` for codes that HIP has too, and for those that no call of
/// this crate can return.
pub(crate) fn meaning(code: Code) -> Option<(ErrorKind, &'static str)> {
    Some(match code {
        34 => (
            ErrorKind::DriverMissing,
            "the library that was found is a stub of the CUDA toolkit: take the toolkit's folder `stubs` out of the search path",
        ),
        36 => (ErrorKind::DriverMissing, "the driver is too old for what was asked of it"),
        46 => (
            ErrorKind::Driver,
            "the device is not available now: another process has it for itself, or its compute mode forbids all; end that process, or set the mode with `nvidia-smi -c DEFAULT`",
        ),
        101 => (
            ErrorKind::DeviceMissing,
            "the driver finds no such device: look what `nvidia-smi -L` lists, whether the kernel module is loaded, and what CUDA_VISIBLE_DEVICES hides; with MIG, a process sees one instance, which that variable names",
        ),
        102 => (
            ErrorKind::Driver,
            "the device has no licence: a virtual GPU needs one from its licence server",
        ),
        220 => (
            ErrorKind::DeviceLost,
            "an NVLink has a fault that cannot be corrected: start the process anew, and have the machine looked at where that comes again",
        ),
        226 | 714..=718 | 721 => (
            ErrorKind::DeviceLost,
            "the device's context is broken by a fault of work that ran on it, for this process and for good: find the faulty kernel, for example with compute-sanitizer, and start the process anew",
        ),
        800 => (
            ErrorKind::Driver,
            "the driver does not permit this here: a function that a stream calls may not call CUDA",
        ),
        802 => (
            ErrorKind::Driver,
            "the system is not ready for CUDA yet: look whether the driver's daemons run, such as nvidia-fabricmanager on machines with NVSwitch, whose version has to be that of the driver",
        ),
        803 => (
            ErrorKind::DriverMissing,
            "the driver's library and its kernel module are of different versions: load the module anew, or restart the machine, after an update",
        ),
        804 => (
            ErrorKind::DriverMissing,
            "a package for forward compatibility is installed, and this device does not support that: take its folder `compat` out of the search path",
        ),
        805 => (
            ErrorKind::Driver,
            "the control daemon of MPS cannot be reached: start it with `nvidia-cuda-mps-control -d`, or unset CUDA_MPS_PIPE_DIRECTORY",
        ),
        806 | 807 => (
            ErrorKind::Driver,
            "the server of MPS has failed or is about to start again: try later, and look at its log",
        ),
        808 | 809 => (
            ErrorKind::Driver,
            "the server of MPS has no room for another client or connection: end other programs that use the device",
        ),
        810 => (
            ErrorKind::DeviceLost,
            "the server of MPS has ended what this process had on the device: start the process anew",
        ),
        909 => (ErrorKind::TimedOut, "the driver has waited for too long"),
        911 => (
            ErrorKind::DeviceLost,
            "a device outside of CUDA has said that its data is not valid: start the process anew",
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    // Everything on a lost device is given up, so no code may mean a lost device if the device
    // still works afterwards.
    #[test]
    fn only_what_ends_a_context_is_a_lost_device() {
        let is_lost =
            |code: &Code| meaning(*code).is_some_and(|(kind, _)| kind == ErrorKind::DeviceLost);
        let lost: Vec<Code> = (0..2000).filter(is_lost).collect();
        assert_eq!(lost, [220, 226, 714, 715, 716, 717, 718, 721, 810, 911]);
    }
}
