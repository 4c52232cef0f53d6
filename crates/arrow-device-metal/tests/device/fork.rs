//! Metal in a child of `fork`: what the parent has opened is refused, and a child whose parent has
//! not used Metal opens devices as any process does.

use arrow_device_metal::{NamedBuffer, buffer_of};
use arrow_device_testkit::forks;
use arrow_device_testkit::process::{alone, forked};
use metal_stand_in::StandIn;

#[test]
fn what_the_parent_opened_is_refused_in_a_child() {
    alone(|| {
        if StandIn::load().is_some() {
            forks::a_child_refuses_what_its_parent_opened(
                || arrow_device_metal::open(0),
                &[
                    ("a list of devices", || arrow_device_metal::devices().map(drop)),
                    ("whether there is a device", || arrow_device_metal::is_available()),
                ],
            );
        }
    });
}

#[test]
fn a_child_of_a_process_that_did_not_use_it_opens_devices() {
    alone(|| {
        forks::a_child_opens_devices(|| StandIn::load().is_some(), || arrow_device_metal::open(0));
    });
}

/// Metal is asked for the place and the length of a buffer when the buffer gets its name.
// Requirement: DRV-8
#[test]
fn a_child_reads_the_place_of_a_named_buffer_without_metal() {
    alone(|| {
        let Some(stand_in) = StandIn::load() else { return };
        let device = arrow_device_metal::open(0).unwrap();
        let queue = device.open_queue().unwrap();
        let mut memory = queue.allocate(64).unwrap();
        let address = memory.spot(&queue).unwrap().base.as_ptr();
        let (buffer, _) = buffer_of(address).unwrap();
        let named = unsafe { NamedBuffer::new(&device, buffer) }.unwrap();
        let objects = stand_in.objects();
        // Whoever asks Metal on a thread without a pool is noted.
        forked(|| {
            let found = (named.address(), named.len(), buffer_of(address));
            drop(named);
            let said = (stand_in.mistakes(), stand_in.objects());
            let is_right = found == (address, 4096, None) && said == (String::new(), objects);
            if is_right { Ok(()) } else { Err(format!("{found:?} {said:?}")) }
        });
    });
}
