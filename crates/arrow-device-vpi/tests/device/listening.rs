//! A simulator that somebody else has started, with the module at a socket: it serves one host
//! after the other, and its memory stays.

use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use arrow_device::driver::{Raw, Region, Route, Spot};
use arrow_device::{ErrorKind, Queue};
use arrow_device_vpi::{Job, Options};
use arrow_device_vpi_protocol::{Answer, Hello, LONGEST, Request, Step, Unit};

use crate::support::{self, top};

/// A simulator that ends with this value.
struct Started(Child, PathBuf);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        self.0.wait().unwrap();
        let _ = std::fs::remove_dir_all(&self.1);
    }
}

/// The module that is tested, or the one that the environment names.
fn module() -> PathBuf {
    if let Some(named) = std::env::var_os("ARROW_DEVICE_VPI_MODULE") {
        return named.into();
    }
    let test = std::env::current_exe().unwrap();
    test.parent().unwrap().join("libarrow_device_vpi_module.so")
}

/// Starts the design with units for tests, and says where its socket is.
fn start() -> (Started, PathBuf) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("arrow-device-listening-{}-{number}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir(&folder).unwrap();
    std::os::unix::fs::symlink(module(), folder.join("module.vpi")).unwrap();
    let design = folder.join("design");
    let mut compiler = Command::new("iverilog");
    compiler.arg("-g2012").arg("-o").arg(&design);
    compiler.args(["design/ram_with_dma.v", "tests/designs/units.v"].map(support::file));
    assert!(compiler.status().unwrap().success());
    let socket = folder.join("socket");
    let mut simulator = Command::new("vvp");
    simulator.arg("-n").arg("-M").arg(&folder).args(["-m", "module"]).arg(&design);
    simulator.env("ARROW_DEVICE_VPI_SOCKET", &socket).stdin(Stdio::null());
    let started = Started(simulator.spawn().unwrap(), folder);
    // The file is there a moment before somebody listens. This host hangs up at once.
    while UnixStream::connect(&socket).is_err() {
        std::thread::yield_now();
    }
    (started, socket)
}

/// A host that knows the protocol, and is gone with this value, whatever it has asked for.
struct Host(UnixStream);

impl Host {
    /// A host that was welcomed.
    fn connect(socket: &PathBuf) -> Self {
        let mut host = Self(UnixStream::connect(socket).unwrap());
        let ram = |name: &str| format!("arrow_device_top.ram.{name}");
        host.ask(&Request::Hello(Hello {
            memory: ram("mem"),
            dma: Unit { start: ram("start"), done: ram("done") },
            dma_registers: ["src", "dst", "len"].map(ram),
            error: ram("error"),
            time_limit: 0,
            wall_limit: 0,
        }));
        let answer = arrow_device_vpi_protocol::receive(&mut host.0, LONGEST.into()).unwrap();
        let (kind, body) = answer.unwrap();
        assert!(matches!(Answer::decode(kind, &body), Ok(Answer::Welcome(_))));
        host
    }

    fn ask(&mut self, request: &Request) {
        arrow_device_vpi_protocol::send(&mut self.0, &request.encode()).unwrap();
    }
}

/// The keyboard and whoever stops services end a simulator while it waits: for a host, and for a
/// request.
#[test]
fn a_simulator_that_waits_is_ended_by_a_signal() {
    if !support::is_there() {
        return;
    }
    for is_connected in [false, true] {
        let (mut started, socket) = start();
        let device = arrow_device_vpi::open_with(&Options::socket(&socket)).unwrap();
        let simulator = support::simulator(&device);
        let device = is_connected.then_some(device);
        let process = started.0.id() as i32;
        // A signal that comes a moment before the wait begins does not end the wait.
        let mut tries = 0;
        while started.0.try_wait().unwrap().is_none() {
            tries += 1;
            assert!(tries < 1000, "the simulator goes on waiting");
            // SAFETY: the process is a child of this one that nobody has waited for (POSIX,
            // `kill`).
            assert_eq!(unsafe { libc::kill(process, libc::SIGTERM) }, 0);
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        while !simulator.is_lost() {
            std::thread::yield_now();
        }
        assert!(!socket.exists());
        drop(device);
    }
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
}

/// Copies 64 bytes by the engine of the design, and reads the copy.
fn copied(queue: &Queue, byte: u8) -> [u8; 64] {
    let mut memory = queue.allocate(128).unwrap();
    memory.write(queue, &[byte; 64]).unwrap();
    let base = memory.spot(queue).unwrap().base;
    let [from, to] = [0, 64].map(|offset| Spot { base, offset });
    let mut bytes = [0_u8; 64];
    let host = Spot { base: Raw::from_ptr(bytes.as_mut_ptr().cast()), offset: 0 };
    // SAFETY: UNS-21: all places have as many bytes, and the queue is waited for below.
    unsafe { queue.copy(Route::Within, &[Region { from, to, len: 64 }]) }.unwrap();
    // SAFETY: UNS-21: as for the first copy.
    unsafe { queue.copy(Route::ToHost, &[Region { from: to, to: host, len: 64 }]) }.unwrap();
    queue.synchronize().unwrap();
    bytes
}

/// The engine goes on with the copy of the first host, and the end of that copy is not the end of
/// the copy of the second host.
#[test]
fn a_job_that_a_host_has_left_is_not_taken_for_a_job_of_the_next_host() {
    if !support::is_there() {
        return;
    }
    let (_started, socket) = start();
    let late = Unit { start: top("late_start"), done: top("late_done") };
    let registers = vec![(top("delay"), 20_000)];
    let left = [
        ("nothing", Vec::new()),
        ("a copy", vec![Step::Copy { from: 0, to: 16 << 20, len: 1 << 20 }]),
        ("a job", vec![Step::Job { unit: late, registers }]),
        ("time", vec![Step::Run { time: 1 << 20 }]),
        ("a long answer", vec![Step::Read { at: 0, len: 16 << 20 }]),
    ];
    for (byte, (name, steps)) in (1..).zip(left) {
        println!("{name}");
        let mut host = Host::connect(&socket);
        host.ask(&Request::Steps(steps));
        drop(host);
        let device = arrow_device_vpi::open_with(&Options::socket(&socket)).unwrap();
        let (queue, simulator) = (device.open_queue().unwrap(), support::simulator(&device));
        assert_eq!(copied(&queue, byte), [byte; 64], "{name}");
        if name == "a job" {
            let job = Job::new(top("late_start"), top("late_done")).register(top("delay"), 5);
            // SAFETY: UNS-15 and UNS-16: the unit touches no memory.
            unsafe { simulator.submit(&queue, job) }.unwrap();
            queue.synchronize().unwrap();
            // That of the first host, and that of this one.
            assert_eq!(simulator.value(&top("late_done")).unwrap(), 2);
        }
        drop((queue, device));
        assert!(arrow_device_testkit::release_until(|| simulator.is_lost()));
    }
}

/// A unit that does not end may write to the memory at any time. Each host is told, in its own
/// time.
#[test]
fn a_host_is_refused_where_a_job_of_an_earlier_host_does_not_end() {
    if !support::is_there() {
        return;
    }
    let (_started, socket) = start();
    let options = Options::socket(&socket).time_limit(5000);
    let device = arrow_device_vpi::open_with(&options).unwrap();
    let queue = device.open_queue().unwrap();
    let job = Job::new(top("stuck_start"), top("stuck_done"));
    // SAFETY: UNS-15 and UNS-16: the unit touches no memory.
    unsafe { support::simulator(&device).submit(&queue, job) }.unwrap();
    assert_eq!(queue.synchronize().unwrap_err().kind(), ErrorKind::DeviceLost);
    let on_the_wall = Options::socket(&socket).wall_limit(std::time::Duration::from_millis(20));
    for options in [&options, &on_the_wall, &options] {
        let refused = arrow_device_vpi::open_with(options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Driver);
        let text = "a job that an earlier host has begun does not end";
        assert!(refused.to_string().contains(text), "{refused}");
    }
}
