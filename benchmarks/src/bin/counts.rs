//! Counts workloads: `arrow-device-counts` names all of them, `arrow-device-counts NAME` counts one.

use arrow_device_benchmarks::meter::{Counting, Meter};
use arrow_device_benchmarks::workloads;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn main() {
    let wanted = std::env::args().nth(1);
    for counted in workloads::counted() {
        match &wanted {
            None => println!("{}", counted.name),
            Some(name) if name == counted.name => {
                let mut meter = Meter::default();
                (counted.run)(&mut meter);
                meter.counts().iter().for_each(|(name, count)| println!("{name}: {count}"));
            }
            Some(_) => {}
        }
    }
}
