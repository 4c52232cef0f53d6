//! The host cannot read device memory: a read through a leaked address ends the process at that
//! line.
//!
//! Each case runs in a child process, which is this test program again.

use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};

use arrow_device_sim::{Kind, Protection, Sim};
use arrow_device_testkit::process::Child;

use crate::support::{Bench, at};

/// Names the case that a child is to run.
const CASE: &str = "ARROW_DEVICE_SIM_TEST_CASE";

/// The test that runs a case.
const TEST: &str = "guard::the_child_that_runs_a_case";

/// Runs a case in a child process; says whether the child crashed.
fn crashes(case: &str) -> bool {
    let child = Child::of(TEST).env(CASE, case).run();
    // AddressSanitizer catches the signal and exits with a code of its own. A panic exits with 101.
    let crashed = child.has_crashed() || !matches!(child.status.code(), Some(0 | 101));
    assert!(crashed || child.status.code() == Some(0), "{case}: {child:?}");
    crashed
}

#[test]
fn a_host_read_of_device_memory_ends_the_process() {
    assert_eq!(Sim::protection(), Protection::Guarded);
    assert!(crashes("read"));
    assert!(crashes("write"));
    assert!(crashes("read one past the end"));
    assert!(!crashes("nothing"));
}

#[test]
fn a_late_read_of_freed_memory_ends_the_process() {
    assert!(crashes("read after free"));
    assert!(crashes("read after the simulator is gone"));
    assert!(crashes("read mapped memory after free"));
}

#[test]
fn host_readable_memory_can_be_read_while_it_is_mapped_and_never_written() {
    assert!(!crashes("read mapped"));
    assert!(crashes("read before map"));
    assert!(crashes("read after unmap"));
    assert!(crashes("write mapped"));
}

#[test]
fn where_address_space_is_short_less_is_reserved() {
    let limited = |kilobytes: u64, arguments: &str| {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("ulimit -v {kilobytes}; exec \"$0\" {arguments}")]);
        shell.arg(std::env::current_exe().unwrap()).env(CASE, "read");
        shell.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap()
    };
    for kilobytes in [4_000_000, 900_000] {
        if !limited(kilobytes, "--list").success() {
            eprintln!("skipped: this program needs more itself, as with AddressSanitizer");
            continue;
        }
        let status = limited(kilobytes, &format!("--exact {TEST}"));
        assert!(status.signal().is_some(), "{status}");
    }
}

#[test]
fn the_child_that_runs_a_case() {
    let Ok(case) = std::env::var(CASE) else { return };
    let kind = if case.contains("map") { Kind::HostReadable } else { Kind::Discrete };
    let sim = Sim::builder().kind(kind).build();
    let bench = Bench::new(&sim);
    let memory = bench.allocate(4096);
    let address = memory.as_ptr().cast::<u8>();
    let map = || unsafe { bench.driver().map(at(memory, 0), 4096) }.unwrap();
    let unmap = |address| unsafe { bench.driver().unmap(at(memory, 0), 4096, address) };
    let read = |offset| {
        let _ = unsafe { address.wrapping_add(offset).read_volatile() };
    };
    match &*case {
        "nothing" => {}
        "read" | "read before map" => read(0),
        "write" => unsafe { address.write_volatile(1) },
        "read one past the end" => read(4096),
        "read after free" => {
            bench.free(memory, 4096);
            read(0);
        }
        "read after the simulator is gone" => {
            bench.free(memory, 4096);
            drop(bench);
            drop(sim.finish());
            read(0);
            return;
        }
        "read mapped memory after free" => {
            let _ = map();
            bench.free(memory, 4096);
            sim.take_reports();
            read(0);
            return;
        }
        "read mapped" => {
            let mapped = map();
            read(4095);
            unmap(mapped);
        }
        "read after unmap" => {
            unmap(map());
            read(0);
        }
        "write mapped" => unsafe { map().as_ptr().write_volatile(1) },
        other => unreachable!("{other}"),
    }
    bench.free(memory, 4096);
}
