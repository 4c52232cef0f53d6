//! A simulator that somebody else has started, with the module at a socket: it serves one host
//! after the other, and its memory stays.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use arrow_device::ErrorKind;
use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device_vpi::Options;

use crate::support;

/// A simulator that ends with this value.
struct Started(Child, PathBuf);

impl Drop for Started {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

fn module() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libarrow_device_vpi_module.so")
}

fn start() -> (Started, PathBuf) {
    let folder =
        std::env::temp_dir().join(format!("arrow-device-listening-{}", std::process::id()));
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(module(), folder.join("module.vpi")).unwrap();
    let design = folder.join("design");
    let mut compiler = Command::new("iverilog");
    compiler.arg("-g2012").arg("-o").arg(&design);
    compiler.args([support::file("design/ram_with_dma.v"), support::file("design/top.v")]);
    assert!(compiler.status().unwrap().success());
    let socket = folder.join("socket");
    let mut simulator = Command::new("vvp");
    simulator.arg("-n").arg("-M").arg(&folder).args(["-m", "module"]).arg(&design);
    simulator.env("ARROW_DEVICE_VPI_SOCKET", &socket).stdin(Stdio::null());
    let started = Started(simulator.spawn().unwrap(), folder);
    // The file is there a moment before somebody listens. This host hangs up at once.
    while std::os::unix::net::UnixStream::connect(&socket).is_err() {
        std::thread::yield_now();
    }
    (started, socket)
}

#[test]
fn a_simulator_that_listens_serves_one_host_after_the_other() {
    if !support::is_there() {
        return;
    }
    let (started, socket) = start();
    let mut bytes = [0_u8; 5];
    let host =
        |bytes: &mut [u8; 5]| Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    let there = Spot { base: Raw::from_bits(4096), offset: 0 };
    for round in 0..3_u8 {
        let device = arrow_device_vpi::open_with(&Options::socket(&socket)).unwrap();
        let queue = device.open_queue().unwrap();
        support::assert_numbers(&support::numbers().copy_to(&queue).unwrap());
        if round > 0 {
            let region = Region { from: there, to: host(&mut bytes), len: 5 };
            // SAFETY: UNS-21: the address is one of the memory, which nobody else uses, and the
            // queue is waited for below.
            unsafe { queue.copy(Route::ToHost, &[region]) }.unwrap();
            queue.synchronize().unwrap();
            assert_eq!(bytes, [round; 5]);
        }
        bytes = [round + 1; 5];
        let region = Region { from: host(&mut bytes), to: there, len: 5 };
        // SAFETY: UNS-21: as for the other copy: the address is one of the memory that nobody uses.
        unsafe { queue.copy(Route::FromHost, &[region]) }.unwrap();
        queue.synchronize().unwrap();
        let simulator = support::simulator(&device);
        assert_eq!(simulator.process(), None);
        drop((queue, device));
        assert!(arrow_device_testkit::release_until(|| simulator.is_lost()));
    }
    drop(started);
    let refused = arrow_device_vpi::open_with(&Options::socket(&socket)).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DeviceMissing);
}

/// What is no request ends the connection, and the simulator waits for the next host.
#[test]
fn a_host_that_sends_garbage_is_refused() {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    arrow_device_testkit::process::alone(|| {
        if !support::is_there() {
            return;
        }
        let (_started, socket) = start();
        let steps = [2_u32.to_le_bytes(), 4_u32.to_le_bytes(), 0_u32.to_le_bytes()].concat();
        let long = [2_u32.to_le_bytes(), u32::MAX.to_le_bytes()].concat();
        let garbage: Vec<u8> = (0..4096_u32).map(|at| (at * 7919 % 251) as u8).collect();
        for sent in [Vec::new(), vec![1], steps, long, garbage] {
            let mut stream = UnixStream::connect(&socket).unwrap();
            let _ = stream.write_all(&sent);
            stream.shutdown(std::net::Shutdown::Write).unwrap();
            let mut answer = Vec::new();
            let _ = stream.read_to_end(&mut answer);
            // Nothing, or a farewell.
            assert!(answer.is_empty() || answer[0] == 104, "{answer:?}");
        }
        let device = arrow_device_vpi::open_with(&Options::socket(&socket)).unwrap();
        let queue = device.open_queue().unwrap();
        support::assert_numbers(&support::numbers().copy_to(&queue).unwrap());
    });
}
