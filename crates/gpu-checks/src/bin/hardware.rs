//! Runs the checks on whatever CUDA and ROCm devices this machine has, measures copies, and writes one JSON report.
//!
//! `arrow-device-gpu-hardware REPORT.json [--quick]`
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::time::Instant;

use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Device, Queue, Result};
use arrow_device_cuda::{Diagnosis, Kind};
use arrow_device_gpu_checks::{calls, copies};
use arrow_device_testkit::suite::Suite;

/// A runtime: what it is called, what it says of itself, how its devices are opened, and which kinds of memory it has.
struct Runtime {
    diagnosis: Diagnosis,
    open: fn(usize, Kind) -> Result<Device>,
    kinds: &'static [Kind],
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(path) = arguments.next() else {
        eprintln!("say where the report goes");
        return ExitCode::FAILURE;
    };
    let is_quick = arguments.next().is_some_and(|word| word == "--quick");
    let runtimes = [
        Runtime {
            diagnosis: arrow_device_cuda::diagnose(),
            open: arrow_device_cuda::open_with,
            kinds: &[Kind::Device, Kind::Host, Kind::Managed],
        },
        Runtime {
            diagnosis: arrow_device_rocm::diagnose(),
            open: arrow_device_rocm::open_with,
            kinds: &[Kind::Device, Kind::Host],
        },
    ];
    let mut failures = 0;
    let parts: Vec<String> =
        runtimes.iter().map(|runtime| report_on(runtime, is_quick, &mut failures)).collect();
    let version = env!("CARGO_PKG_VERSION");
    let text = format!(
        "{{\"program\": \"arrow-device {version}\", \"quick\": {is_quick}, \"failures\": {failures}, \"runtimes\": [{}]}}\n",
        parts.join(", ")
    );
    std::fs::write(&path, text).unwrap();
    println!("{failures} failures; the report is in {path}");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn report_on(runtime: &Runtime, is_quick: bool, failures: &mut usize) -> String {
    let diagnosis = runtime.diagnosis.to_string();
    println!("{diagnosis}");
    let (mut checks, mut measures) = (Vec::new(), Vec::new());
    if runtime.diagnosis.problem.is_none() {
        let ordinals = 0..runtime.diagnosis.devices.len();
        let opened = ordinals.flat_map(|ordinal| {
            runtime.kinds.iter().map(move |kind| (runtime.open)(ordinal, *kind))
        });
        // A device without managed memory has none.
        let devices: Vec<Device> = opened.filter_map(Result::ok).collect();
        let mut check = |name: String, work: &dyn Fn() -> String| {
            let (passed, text) = run(&name, work);
            *failures += usize::from(!passed.0);
            checks.push(text);
        };
        all_checks(&devices, is_quick, &mut check);
        for device in &devices {
            measures.extend(measure(device, is_quick));
        }
    }
    format!(
        "{{\"runtime\": {}, \"diagnosis\": {}, \"checks\": [{}], \"copies\": [{}]}}",
        quoted(runtime.diagnosis.runtime),
        quoted(&diagnosis),
        checks.join(", "),
        measures.join(", ")
    )
}

struct Passed(bool);

/// Runs a check; returns whether it passed, and its part of the report.
fn run(name: &str, work: &dyn Fn() -> String) -> (Passed, String) {
    let start = Instant::now();
    let outcome = catch_unwind(AssertUnwindSafe(work));
    let seconds = start.elapsed().as_secs_f64();
    let (passed, text) = match outcome {
        Ok(text) => (true, text),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            (false, text.unwrap_or_default())
        }
    };
    println!("{} {name} ({seconds:.1} s)", if passed { "passed" } else { "FAILED" });
    let report = format!(
        "{{\"name\": {}, \"passed\": {passed}, \"seconds\": {seconds:.3}, \"text\": {}}}",
        quoted(name),
        quoted(&text)
    );
    (Passed(passed), report)
}

fn all_checks(
    devices: &[Device],
    is_quick: bool,
    check: &mut dyn FnMut(String, &dyn Fn() -> String),
) {
    let open =
        || -> Vec<Queue> { devices.iter().map(|device| device.open_queue().unwrap()).collect() };
    for device in devices {
        check(format!("suite on {}", device.id()), &|| {
            let other = devices.iter().rfind(|other| other.id() != device.id());
            let mut suite = Suite::new(device);
            if let Some(other) = other {
                suite = suite.beside(other);
            }
            if is_quick {
                suite = suite.over(arrow_device_testkit::kinds::cases().step_by(37));
            }
            let report = suite.run();
            report.assert();
            report.to_string()
        });
    }
    let samples = if is_quick { 2 } else { 40 };
    let said = |work: &dyn Fn()| {
        work();
        String::new()
    };
    check("copies between all places".into(), &|| {
        said(&|| copies::from_every_place_to_every_other(open(), samples))
    });
    check("streams".into(), &|| said(&|| copies::streams(&open())));
    check("asynchronous streams".into(), &|| said(&|| copies::async_streams(&open())));
    check("threads".into(), &|| said(&|| open().iter().for_each(copies::threads)));
    if !is_quick {
        check("every type".into(), &|| said(&|| copies::every_type(&open())));
        check("tensors".into(), &|| said(&|| copies::tensors(&open())));
    }
}

/// How long copies take: the median of some, after one that is not counted.
fn measure(device: &Device, is_quick: bool) -> Vec<String> {
    let rows: i64 = if is_quick { 1 << 12 } else { 1 << 25 };
    let large = Array::from_values(DataType::Int64, (0..rows).map(Some)).unwrap();
    let wide = calls::integers();
    let queue = device.open_queue().unwrap();
    let again = Options::new().always(true);
    let mut measures = Vec::new();
    for (shape, array, bytes) in
        [("one column", &large, rows as u64 * 8), ("1000 columns", &wide, 1000 * 1024 * 8)]
    {
        let there = array.copy_to(&queue).unwrap();
        there.wait().unwrap();
        let ways: [(&str, &dyn Fn()); 3] = [
            ("host to device", &|| array.copy_to(&queue).unwrap().wait().unwrap()),
            ("device to host", &|| drop(there.copy_with(&Queue::host(), &again).unwrap())),
            ("within", &|| there.copy_with(&queue, &again).unwrap().wait().unwrap()),
        ];
        for (way, work) in ways {
            let seconds = median(if is_quick { 3 } else { 15 }, work);
            let mut text = String::new();
            let _ = write!(
                text,
                "{{\"device\": {}, \"way\": {}, \"shape\": {}, \"bytes\": {bytes}, \"milliseconds\": {:.4}, \"gigabytes_per_second\": {:.2}}}",
                quoted(&device.id().to_string()),
                quoted(way),
                quoted(shape),
                seconds * 1e3,
                bytes as f64 / seconds / 1e9
            );
            println!("{text}");
            measures.push(text);
        }
    }
    measures
}

fn median(rounds: usize, work: &dyn Fn()) -> f64 {
    work();
    let timed = |_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    };
    let mut times: Vec<f64> = (0..rounds).map(timed).collect();
    times.sort_by(f64::total_cmp);
    times.get(rounds / 2).copied().unwrap_or_default()
}

/// A text as JSON has it.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            control if control < ' ' => {
                let _ = write!(quoted, "\\u{:04x}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}
