//! Counts workloads: `arrow-device-counts` names all of them, `arrow-device-counts NAME` counts
//! one, and `arrow-device-counts --gate FILE` counts all and compares with a file.

use std::path::Path;
use std::process::ExitCode;

use benchmarks::gate::gate;
use benchmarks::meter::{Counting, Meter};
use benchmarks::workloads;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let workloads = workloads::counted();
    let is_good = match words.as_slice() {
        [] => {
            workloads.iter().for_each(|workload| println!("{}", workload.name));
            Ok(true)
        }
        ["--gate", file] => gate(&workloads, Path::new(file)),
        [name] => match workloads.iter().find(|workload| workload.name == *name) {
            Some(workload) => {
                let mut meter = Meter::default();
                (workload.run)(&mut meter);
                meter.counts().iter().for_each(|(name, count)| println!("{name}: {count}"));
                Ok(true)
            }
            None => Err(format!("no workload is called `{name}`")),
        },
        _ => Err("arrow-device-counts [NAME | --gate FILE]".to_owned()),
    };
    is_good.map_or_else(
        |problem| {
            eprintln!("{problem}");
            ExitCode::FAILURE
        },
        |good| if good { ExitCode::SUCCESS } else { ExitCode::FAILURE },
    )
}
