//! Bytes per second between each two devices: one column, several sizes, first of memory that was
//! used before.

use std::cell::OnceCell;
use std::rc::Rc;

use arrow_device::copy::Options;
use arrow_device::{Array, Queue, Recycler};
use arrow_device_sim::Sim;

use super::{integers, settle};
use crate::case::{Case, Peer};

/// Bytes.
const SIZES: [u64; 4] = [4 << 10, 64 << 10, 1 << 20, 16 << 20];

/// Where data can be: what it is called, and a queue there.
type End = (&'static str, Queue);

pub(super) fn cases() -> Vec<Case> {
    let ends = ends();
    let pairs = ends.iter().flat_map(|from| ends.iter().map(move |to| (from, to)));
    pairs.flat_map(|(from, to)| SIZES.map(|size| case(from, to, size))).collect()
}

/// The host, and one of each kind of device that is there.
fn ends() -> Vec<End> {
    let software = Rc::new(Sim::builder().backtraces(false).build());
    let mut ends = vec![("host", Queue::host())];
    let opened = [
        ("OpenCL", arrow_device_opencl::open(0)),
        ("Vulkan", arrow_device_vulkan::open(0)),
        ("software", Ok(software.device())),
    ];
    // The software device lives as long as its cases, which is to the end.
    std::mem::forget(software);
    for (name, device) in opened {
        if let Ok(device) = device {
            ends.push((name, device.open_queue().unwrap()));
        }
    }
    ends
}

fn case((from, source): &End, (to, target): &End, size: u64) -> Case {
    let shape: &'static str = format!("{from} to {to}").leak();
    let options = Options::new().always(true).allocator(Recycler::new(64 << 20));
    let there: Rc<OnceCell<Array>> = Rc::default();
    let (source, target) = (source.clone(), target.clone());
    let before = move || {
        let made = || {
            let array = integers(1, size as usize / 8).column(0).unwrap();
            let there = array.copy_to(&source).unwrap();
            there.wait().unwrap();
            there
        };
        there.get_or_init(made).clone()
    };
    let timed = move |array: Array| {
        let copied = array.copy_with(&target, &options).unwrap();
        copied.wait().unwrap();
        copied
    };
    let after = |copied| {
        drop(copied);
        settle();
    };
    let what = ("copy between devices", shape, size);
    Case::step(what, Peer::ArrowDevice, before, timed, after).moving(size)
}
