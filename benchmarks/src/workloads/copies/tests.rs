//! Every case is right before it is fast.

use std::collections::HashSet;

use arrow_device::Queue;
use arrow_device::copy::Options;

use super::*;
use crate::meter::Meter;

#[test]
fn every_counted_copy_keeps_what_was_promised() {
    for counted in COUNTED {
        let mut meter = Meter::default();
        (counted.run)(&mut meter);
        for (name, most) in counted.promised {
            let found = meter.counts().iter().find(|(found, _)| found == name);
            // Without a device nothing is noted, and without a counting allocator no calls of it.
            if let Some((_, found)) = found {
                assert!(found <= most, "{}: {name}: {found}, promised {most}", counted.name);
            }
        }
    }
}

#[test]
fn batches_have_no_memory_in_common() {
    for batch in [integers(20, 16), texts(20, 16)] {
        let plan =
            batch.as_array().plan_copy(&Queue::host(), &Options::new().always(true)).unwrap();
        assert_eq!(plan.shared_bytes(), 0);
    }
    let sources = by_hand::Sources::of(&integers(20, 16));
    let places: HashSet<*const u8> = sources.buffers.iter().map(|(at, _)| *at).collect();
    assert_eq!(places.len(), 20);
    assert!(sources.buffers.iter().all(|(_, len)| *len == 128));
}

#[test]
fn every_case_of_few_bytes_runs() {
    for mut case in cases().into_iter().filter(|case| case.bytes <= 5 << 20) {
        (case.run)(1);
    }
}
