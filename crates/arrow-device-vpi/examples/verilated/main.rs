//! The design of the example `accelerator` in the process of its host: Verilator makes a library of
//! the Verilog, this program loads the library and runs it on a thread, and shares Arrow data in
//! the memory of the design.
//!
//! 1. `verilator` and a C++ compiler make a shared library of the Verilog and of `model.cpp`, which
//!    has the main loop. The library is linked with the module of `arrow-device-vpi`.
//! 2. A thread runs the main loop. It has one end of a pair of sockets, and the host the other one.
//! 3. The device is opened, and used as any other one. The check is that of `accelerator`.
//! 4. The main loop ends when the device has gone.
//!
//! `cargo run -p arrow-device-vpi --example verilated`

#[cfg(not(unix))]
fn main() {
    println!("skipped: simulators are reached by Unix sockets");
}

#[cfg(unix)]
#[path = "../accelerator/sums.rs"]
mod sums;
#[cfg(unix)]
mod verilate;

#[cfg(unix)]
fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    if let Err(why) = verilate::is_available() {
        println!("skipped: {why}");
        return Ok(());
    }
    let sources = ["design/ram_with_dma.v", "examples/accelerator/sum.v"];
    let folder = std::env::current_exe()?.with_extension("verilated");
    let design = verilate::Design::build(&sources, &folder, &[])?;
    let (socket, model) = design.run()?;
    let device = arrow_device_vpi::open_with(&arrow_device_vpi::Options::connection(socket))?;
    println!("opened {device:?}: {}", device.properties().name);
    sums::check(&device)?;
    drop(device);
    // The device goes with the last buffer whose use was not over when the buffer was dropped.
    while !model.is_finished() {
        arrow_device::deferred::release_finished();
        std::thread::yield_now();
    }
    match model.join() {
        Ok(0) => Ok(()),
        _ => Err("the model has not ended well".into()),
    }
}
