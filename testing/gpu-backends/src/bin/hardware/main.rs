//! Runs the checks on whatever CUDA and ROCm devices this machine has, measures copies, and writes
//! one JSON report.
//!
//! `arrow-device-gpu-hardware REPORT.json [--quick] [--only PART]`, where a part is one of those
//! that `--parts` prints.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

mod by_hand;
mod cases;
mod report;
#[cfg(target_os = "linux")]
mod share;
mod speed;

use std::process::ExitCode;

use arrow_device::{Device, Queue, Result};
use arrow_device_cuda::{Diagnosis, Kind, Options, Pool};
use arrow_device_testkit::suite::Suite;
use gpu_backends::{copies, cudarc_exchange};

use by_hand::Driver;
use report::Report;

/// The parts, in the order in which a machine's time is best spent.
const PARTS: [&str; 13] = [
    "speed",
    "contexts",
    "graphs",
    "awaits",
    "peers",
    "cudarc",
    "share",
    "suite",
    "exchange",
    "types",
    "pinned suite",
    "managed suite",
    "faults",
];

/// A runtime: what it says of itself, how its devices are opened, and which kinds of memory it has.
struct Runtime {
    diagnosis: Diagnosis,
    functions: &'static speed::Names,
    open: fn(usize, Kind) -> Result<Device>,
    open_as: fn(usize, Options) -> Result<Device>,
    kinds: &'static [Kind],
}

impl Runtime {
    fn is_cuda(&self) -> bool {
        self.kinds.contains(&Kind::Managed)
    }

    /// The library that the backend has loaded.
    fn driver(&self) -> Driver {
        Driver::load(self.diagnosis.library.as_deref().unwrap_or_default(), self.is_cuda())
    }
}

fn main() -> ExitCode {
    let (mut path, mut is_quick, mut only) = (None, false, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(word) = arguments.next() {
        match word.as_str() {
            "--parts" => {
                println!("{}", PARTS.join("\n"));
                return ExitCode::SUCCESS;
            }
            #[cfg(target_os = "linux")]
            share::RECEIVE | share::TRY_OTHERS => return second_process(&word, arguments),
            "--quick" => is_quick = true,
            "--only" => only = arguments.next(),
            _ => path = Some(word),
        }
    }
    let is_known = only.as_deref().is_none_or(|only| PARTS.contains(&only));
    let (Some(path), true) = (path, is_known) else {
        eprintln!("arrow-device-gpu-hardware REPORT.json [--quick] [--only PART], or --parts");
        return ExitCode::FAILURE;
    };
    let runtimes = [
        Runtime {
            diagnosis: arrow_device_cuda::diagnose(),
            functions: &speed::CUDA,
            open: arrow_device_cuda::open_with,
            open_as: arrow_device_cuda::open_as,
            kinds: &[Kind::Device, Kind::Host, Kind::Managed],
        },
        Runtime {
            diagnosis: arrow_device_rocm::diagnose(),
            functions: &speed::HIP,
            open: arrow_device_rocm::open_with,
            open_as: arrow_device_rocm::open_as,
            kinds: &[Kind::Device, Kind::Host],
        },
    ];
    let mut report = Report::new(path.clone().into(), is_quick);
    for runtime in &runtimes {
        report.begin(runtime.diagnosis.runtime, &runtime.diagnosis.to_string());
        if runtime.diagnosis.problem.is_some() {
            continue;
        }
        for part in PARTS.iter().filter(|part| only.as_deref().is_none_or(|only| only == **part)) {
            run(part, runtime, is_quick, &mut report);
        }
    }
    println!("{} failures; the report is in {path}", report.failures);
    if report.failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What the part `share` starts this program again for.
#[cfg(target_os = "linux")]
fn second_process(what: &str, mut arguments: impl Iterator<Item = String>) -> ExitCode {
    let mut next = || arguments.next().unwrap_or_default();
    let path = if what == share::RECEIVE { next() } else { String::new() };
    let (is_cuda, ordinal) = (next() == "cuda", next().parse().unwrap());
    match what {
        share::RECEIVE => share::receive(&path, is_cuda, ordinal),
        _ => share::try_others(is_cuda, ordinal),
    }
    ExitCode::SUCCESS
}

fn run(part: &str, runtime: &Runtime, is_quick: bool, report: &mut Report) {
    let opened = |kinds: &[Kind]| -> Vec<Device> {
        let ordinals = 0..runtime.diagnosis.devices.len();
        let all = ordinals
            .flat_map(|ordinal| kinds.iter().map(move |kind| (runtime.open)(ordinal, *kind)));
        // A device without managed memory has none.
        all.filter_map(Result::ok).collect()
    };
    let all = || opened(runtime.kinds);
    let has = |kind: Kind| runtime.kinds.contains(&kind);
    match part {
        "suite" => suites(&opened(&[Kind::Device]), &all(), is_quick, report),
        "pinned suite" => suites(&opened(&[Kind::Host]), &all(), is_quick, report),
        "managed suite" if has(Kind::Managed) => {
            suites(&opened(&[Kind::Managed]), &all(), is_quick, report);
        }
        "exchange" => exchange(&all(), is_quick, report),
        "types" => types(&all(), is_quick, report),
        "speed" => speed(runtime, is_quick, report),
        "contexts" => {
            let devices = opened(&[Kind::Device]);
            report.check("streams of another context", || {
                cases::contexts(&runtime.driver(), &devices)
            });
        }
        "graphs" => {
            for device in opened(&[Kind::Device]).iter().take(1) {
                report.check("graphs that read imports", || {
                    cases::graphs(&runtime.driver(), device, is_quick)
                });
            }
        }
        "awaits" => {
            let mut kinds = opened(&[Kind::Device]);
            // The events of pinned memory are awaited by polls.
            kinds.truncate(1);
            kinds.extend(opened(&[Kind::Managed]).into_iter().take(1));
            report.check("awaited events", || cases::awaits(&runtime.driver(), &kinds, is_quick));
        }
        "peers" => peers(runtime, &opened(&[Kind::Device]), is_quick, report),
        "cudarc" if runtime.is_cuda() => {
            report.check("cudarc's streams, events and slices", || {
                cudarc_exchange::streams_events_and_slices();
                String::new()
            })
        }
        #[cfg(target_os = "linux")]
        "share" => {
            share::share(&opened(&[Kind::Device]), runtime.is_cuda(), is_quick, report);
        }
        "faults" => cases::faults(&opened(&[Kind::Device]), is_quick, report),
        _ => {}
    }
}

/// The conformance suite: of a device's own memory all of it, of other kinds every fifth array.
fn suites(devices: &[Device], all: &[Device], is_quick: bool, report: &mut Report) {
    for device in devices {
        report.check(&format!("suite on {}", device.id()), || {
            let other = all.iter().rfind(|other| other.id() != device.id());
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
}

fn queues(devices: &[Device]) -> Vec<Queue> {
    devices.iter().map(|device| device.open_queue().unwrap()).collect()
}

fn exchange(devices: &[Device], is_quick: bool, report: &mut Report) {
    let said = |work: &dyn Fn()| {
        work();
        String::new()
    };
    let samples = if is_quick { 2 } else { 40 };
    report.check("copies between all places", || {
        said(&|| copies::from_every_place_to_every_other(queues(devices), samples))
    });
    report.check("streams", || said(&|| copies::streams(&queues(devices))));
    report.check("asynchronous streams", || said(&|| copies::async_streams(&queues(devices))));
    report.check("threads", || said(&|| queues(devices).iter().for_each(copies::threads)));
}

fn types(devices: &[Device], is_quick: bool, report: &mut Report) {
    // The first of them is the device's own memory.
    let devices = if is_quick { devices.get(..1).unwrap_or_default() } else { devices };
    report.check("every type", || {
        copies::every_type(&queues(devices));
        String::new()
    });
    report.check("tensors", || {
        copies::tensors(&queues(devices));
        String::new()
    });
}

fn speed(runtime: &Runtime, is_quick: bool, report: &mut Report) {
    let open = |kind| (runtime.open)(0, kind);
    let (Ok(device), Ok(pinned)) = (open(Kind::Device), open(Kind::Host)) else { return };
    let library = runtime.diagnosis.library.clone().unwrap_or_default();
    let mut rows = Vec::new();
    report.check("speed", || {
        rows = speed::measure(&library, runtime.functions, &device, &pinned, is_quick).unwrap();
        let nothing = Options::new().with_pool(Pool::Own { keep: 0 });
        let gives_back = (runtime.open_as)(0, nothing).unwrap();
        rows.extend(speed::where_nothing_is_kept(&gives_back, &pinned, is_quick).unwrap());
        // What the pool keeps is what the last opening says.
        drop(open(Kind::Device));
        format!("{} measurements", rows.len())
    });
    for row in &rows {
        report.measured(row);
    }
}

fn peers(runtime: &Runtime, devices: &[Device], is_quick: bool, report: &mut Report) {
    report.check("several devices", || cases::peers(&runtime.driver(), devices, is_quick));
    let [device, peer, ..] = devices else { return };
    let library = runtime.diagnosis.library.clone().unwrap_or_default();
    let mut rows = Vec::new();
    report.check("speed between devices", || {
        rows = speed::to_a_peer(&library, runtime.functions, [device, peer], is_quick).unwrap();
        format!("{} measurements", rows.len())
    });
    rows.iter().for_each(|row| report.measured(row));
}
