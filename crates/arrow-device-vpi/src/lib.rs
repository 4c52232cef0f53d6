//! VPI devices for [`arrow_device`]: Arrow data in the memory of simulated hardware, moved by the
//! simulated hardware itself.
//!
//! An accelerator is simulated long before there is silicon. With this crate a program
//! that uses Arrow data runs on the simulation: arrays lie in a memory of the Verilog design,
//! copies inside the device are made by the design's own DMA engine, in simulated time, and the
//! design's units are started on the arrays. The simulator is [Icarus Verilog](Options::verilog),
//! started as a child process, [any simulator](Options::socket) that loads VPI modules (IEEE 1364),
//! or a design of Verilator's that [this process runs](#a-design-in-this-process).
//!
//! Nothing is linked. A machine without Icarus gets an error that says what to install.
//!
//! ```
//! if let Err(why) = arrow_device_vpi::is_available() {
//!     println!("no simulator here: {why}");
//!     return Ok(());
//! }
//! let device = arrow_device_vpi::open(0)?;
//! let queue = device.open_queue()?;
//! let array =
//!     arrow_device::Array::from_values(arrow_device::DataType::Int32, [Some(1), None])?;
//! let there = array.copy_to(&queue)?;
//! assert_eq!(there.device(), device.id());
//! # Ok::<(), arrow_device::Error>(())
//! ```
//!
//! # What both sides agree on
//!
//! | member of `ArrowDeviceArray` | what it is |
//! |---|---|
//! | `device_type` | `ARROW_DEVICE_VPI`, 9 |
//! | `buffers[i]` | an address in the simulated memory: the number of a byte. 0 is null, so byte 0 belongs to no buffer |
//! | `device_id` | the number of the simulator in this process |
//! | `sync_event` | always null: the exporter waits before it exports |
//!
//! Both sides use one simulator, and so one open device: [`Device::find`] gives it to all of this
//! process. Several simulators are several devices. Data goes from one to another through the host.
//!
//! # The design
//!
//! The design has an array of words, which is the memory, and may have three more things. The
//! [`Options`] name them by their paths in the design.
//!
//! * **An engine that copies** ([`Dma`]), with registers for a source, a destination and a length
//!   in bytes, one that starts it, and a counter of what it has completed. Without one
//!   ([`Options::without_dma`]) the module copies.
//! * **Accelerators**, which work on addresses of arrays: see [`Simulator::submit`] and [`Job`].
//! * **A register for faults** ([`Options::error`]). Work behind which it is not 0 has failed.
//!
//! [`RAM_WITH_DMA`] is such a memory with such an engine, to begin with. `examples/accelerator` of
//! this crate is a whole test of an accelerator that sums a column with nulls: the design in
//! Verilog, Arrow data, and the comparison with what the host says. It runs with
//! `cargo run -p arrow-device-vpi --example accelerator`.
//!
//! # Time
//!
//! Simulated time goes on only while a copy of the engine, a job or a [`Simulator::run`] is under
//! way. Otherwise it stands still, and the simulator sleeps. Copies between the host and the
//! simulated memory are made through the VPI and take no simulated time. So one test takes the same
//! simulated time in each run, and a testbench may look at all signals as usual.
//!
//! Unknown bits (`x`, `z`) read as 0, and [`Simulator::unknown_bytes`] counts the bytes that had
//! some: a unit that forgets to write a part of its result is found in this way.
//!
//! # What goes wrong
//!
//! | what | what the program gets |
//! |---|---|
//! | the design reports a fault behind a copy or a job | the queue has failed ([`WorkFailed`]), with the design's number of the fault |
//! | a job names what the design does not have, or a value does not fit a register | the queue has failed ([`WorkFailed`]), and no register was set |
//! | a job does not end within [`Options::time_limit`] or [`Options::wall_limit`] | [`DeviceLost`], because the job may go on writing |
//! | the simulation ends (`$finish`), the simulator crashes, is killed or says nothing for [`Options::patience`] | [`DeviceLost`]; waits that are under way end |
//! | the simulator sends what does not belong to the protocol | [`DeviceLost`]; nothing that it says is relied on |
//! | the names are not those of the design | an error of [`open_with`], which says the name |
//! | an earlier host of a simulator at a socket was killed in the middle of a job | [`open_with`] waits for the end of the job, as long as this host's limits of a job allow, and is then an error |
//!
//! [`WorkFailed`]: arrow_device::ErrorKind::WorkFailed
//! [`DeviceLost`]: arrow_device::ErrorKind::DeviceLost
//! [`Device::find`]: arrow_device::Device::find
//!
//! # The module
//!
//! The simulator loads a VPI module, the shared library of the crate `arrow-device-vpi-module`.
//! Cargo builds it beside every program that uses this crate, and it is found there. It is looked
//! for in this order:
//!
//! 1. `ARROW_DEVICE_VPI_MODULE` in the environment is the file, if it is set.
//! 2. Around the program, and then around the library that has this code: beside it, in `deps` and
//!    `arrow-device` there, and in `lib` and `lib/arrow-device` there and one folder up.
//!
//! So an installed program, such as one that `cargo install` has put elsewhere, has a copy beside
//! it or in `../lib`. The library for C is installed with the module in the folder `arrow-device`
//! beside the library.
//!
//! To use a simulator of your own, load the module there, with `ARROW_DEVICE_VPI_SOCKET` naming a
//! socket for the module to make, and open the device with [`Options::socket`]:
//!
//! ```text
//! ln -s .../libarrow_device_vpi_module.so arrow_device.vpi
//! ARROW_DEVICE_VPI_SOCKET=/tmp/simulator vvp -M. -marrow_device design.vvp
//! ```
//!
//! Whoever can open the socket can use the simulator, one host after the other; a folder that only
//! its owner can enter keeps others out.
//!
//! `ARROW_DEVICE_VPI_CONNECT=/tmp/simulator` has [`open`] use that simulator, and
//! `ARROW_DEVICE_VPI_DESIGN=a.v:b.v` these sources, for programs that only name a device's number.
//!
//! # A design in this process
//!
//! Verilator makes a library of C++ of a design, and the program that uses the library has the main
//! loop. Such a program links the module, and asks it at the end of each moment of simulated time,
//! by the functions of `arrow_device/vpi_module.h` in the crate `arrow-device-vpi-module`
//! ([`module`] says where the module is). The device is opened by the other end of a socket pair:
//! [`Options::connection`]. `examples/verilated` is the example of an accelerator in this form:
//! `cargo run -p arrow-device-vpi --example verilated`.
//!
//! The design is verilated with `--vpi` and `--public-flat-rw`. All bits are known, so
//! [`Simulator::unknown_bytes`] stays 0. The main loop ends when the device has gone, which is
//! after the last deferred release of its memory: whoever joins the loop's thread calls
//! [`deferred::release_finished`](arrow_device::deferred::release_finished) until then.
//!
//! On systems without Unix sockets every call is an error.

#[cfg(unix)]
mod connection;
#[cfg(unix)]
mod driver;
#[cfg(unix)]
mod engine;
#[cfg(unix)]
mod lanes;
#[cfg(unix)]
mod memory;
mod options;
#[cfg(unix)]
mod simulator;
#[cfg(unix)]
mod start;

use arrow_device::driver::LibraryUse;
use arrow_device::{Device, DeviceId, DeviceType, Error, ErrorKind, Result};

pub use options::{Dma, Options, RAM_WITH_DMA, TOP};
#[cfg(unix)]
pub use simulator::{Hold, Job, Simulator};

/// Guards the simulators of a process from its children.
static LIBRARY: LibraryUse = LibraryUse::new();

fn enter() -> Result<()> {
    LIBRARY.enter().map_err(|error| error.during("use a simulator"))
}

/// A device that can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Listed {
    /// The index for [`open`]. More simulators can be opened by higher numbers.
    pub index: usize,
    /// The name of the simulator, for people.
    pub name: String,
    /// The version of the simulator, in its own words.
    pub driver_version: String,
}

/// Checks whether a simulator can be started. The error says what is missing and what to install.
pub fn is_available() -> Result<()> {
    devices().map(drop)
}

/// Lists the simulators that can be started without a design of the application: one.
pub fn devices() -> Result<Vec<Listed>> {
    enter()?;
    #[cfg(unix)]
    {
        start::module()?;
        let version = start::version()?;
        let name = "Icarus Verilog, a memory with an engine that copies".to_owned();
        Ok(vec![Listed { index: 0, name, driver_version: version }])
    }
    #[cfg(not(unix))]
    Err(no_sockets())
}

/// The file of the VPI module, which a simulator loads, or with which a program is linked that runs
/// a verilated design. The error says where the module was looked for.
#[cfg(unix)]
pub fn module() -> Result<std::path::PathBuf> {
    start::module()
}

/// Opens the simulator with this number, from 0 to 255: the one that is open, or else a new one as
/// [`Options::from_environment`] says.
pub fn open(index: usize) -> Result<Device> {
    enter()?;
    let number = i64::try_from(index).ok().filter(|number| *number <= 255).ok_or_else(|| {
        let message = format!("there is no simulator {index}: numbers go from 0 to 255");
        Error::new(ErrorKind::DeviceMissing, message).during("open")
    })?;
    let id = DeviceId::new(DeviceType::VPI, number);
    // Threads that open one number get one device.
    #[cfg(unix)]
    let _opening = simulator::Opening::by(number);
    #[cfg(unix)]
    if simulator::is_open(id)
        && let Some(device) = Device::find(id)
    {
        return Ok(device);
    }
    open_as(id, &Options::from_environment())
}

/// Opens a new simulator, by the lowest number that no simulator of this process has had.
pub fn open_with(options: &Options) -> Result<Device> {
    enter()?;
    #[cfg(unix)]
    let opening = simulator::Opening::by_a_new_number();
    #[cfg(unix)]
    let number = opening.0;
    #[cfg(not(unix))]
    let number = 0;
    open_as(DeviceId::new(DeviceType::VPI, number), options)
}

#[cfg(unix)]
fn open_as(id: DeviceId, options: &Options) -> Result<Device> {
    let (stream, process) = start::reach(options)?;
    open_on(id, stream, process, options)
}

/// Opens a simulator whose module is at the other end of a connection.
#[cfg(unix)]
fn open_on(
    id: DeviceId,
    stream: std::os::unix::net::UnixStream,
    mut process: Option<start::Process>,
    options: &Options,
) -> Result<Device> {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use arrow_device_vpi_protocol::Outcome;

    /// The number of bytes to which buffers are aligned at least.
    const ALIGNMENT: u64 = 64;
    /// The largest memory: addresses are positive and fit into a pointer.
    const LARGEST: u64 = if usize::BITS < 64 { i32::MAX as u64 } else { i64::MAX as u64 };
    static INSTANCE: AtomicUsize = AtomicUsize::new(1);

    let mut connection = connection::Connection::new(stream, options.patience, options.wall_limit);
    let welcome = connection.greet(options.hello());
    if let (Ok(_), Some(process)) = (&welcome, &mut process) {
        process.has_started();
    }
    let welcome = welcome.and_then(|welcome| {
        if options.run_first > 0 {
            let step = arrow_device_vpi_protocol::Step::Run { time: options.run_first };
            match connection.run(vec![step])?.outcome {
                Outcome::Well => {}
                Outcome::Refused { reason, .. } => return Err(reason),
                outcome => return Err(format!("no simulated time goes by: {outcome:?}")),
            }
        }
        Ok(welcome)
    });
    let welcome = match welcome {
        Ok(welcome) => welcome,
        Err(reason) => {
            connection.close();
            let reason = process.map_or(reason.clone(), |process| process.end(&reason));
            let message = format!("the simulator cannot be used: {reason}");
            return Err(Error::new(ErrorKind::Driver, message).during("open").on_device(id));
        }
    };
    let word = u64::from(welcome.word);
    let size = word.checked_mul(welcome.words).filter(|size| word > 0 && *size <= LARGEST);
    let Some(size) = size else {
        let message = "the simulator speaks of a memory that cannot be";
        return Err(Error::new(ErrorKind::Driver, message).during("open").on_device(id));
    };
    let alignment = word.next_power_of_two().max(ALIGNMENT).max(options.copy_unit);
    let child = process.as_ref().map(start::Process::id);
    let engine = engine::Engine::start(id, size, alignment, connection, process)?;
    let instance = INSTANCE.fetch_add(1, Ordering::Relaxed);
    let precision = welcome.precision;
    let kept = Arc::new(simulator::Kept { engine, instance, process: child, precision });
    simulator::remember(&kept);
    let name = format!("{} ({} KiB)", welcome.simulator, size / 1024);
    let driver = driver::VpiDriver::new(kept, name, alignment as usize, options.copy_unit);
    Ok(Device::new(driver))
}

#[cfg(not(unix))]
fn open_as(id: DeviceId, _options: &Options) -> Result<Device> {
    Err(no_sockets().on_device(id))
}

#[cfg(not(unix))]
fn no_sockets() -> Error {
    let message = "simulators are reached by Unix sockets, which this system does not have";
    Error::new(ErrorKind::Unsupported, message).during("open")
}
