//! Memory that other devices and processes can open: exported from one `VkDevice` and imported into
//! another one, under the validation layer.

use std::os::fd::OwnedFd;

use arrow_device::driver::{MemoryHandle, Raw, SharedPlace, Spot};
use arrow_device::{Buffer, Device, ErrorKind, Result};
use arrow_device_testkit::process::{alone, descriptors};
use arrow_device_testkit::release_until;
use arrow_device_testkit::shared_memory::{array_of, bytes_of, file_of_memory, filled};
use arrow_device_vulkan::{Handles, Placement, handles_of};

use crate::support::Bench;

/// Two devices, each with a `VkDevice` of its own, which ends after the device.
struct Pair {
    here: Device,
    there: Device,
    _ends: [Bench; 2],
}

impl Pair {
    fn new(placement: Placement) -> Option<Self> {
        let (one, here) = Bench::shareable(placement)?;
        let (other, there) = Bench::shareable(placement)?;
        Some(Self { here, there, _ends: [one, other] })
    }
}

fn exported(device: &Device, place: SharedPlace) -> MemoryHandle {
    // SAFETY: UNS-36: the memory is there, and this process writes to it no more.
    unsafe { device.export_shared(place.memory, false) }.unwrap()
}

fn opened(device: &Device, handle: MemoryHandle, len: u64) -> Result<Buffer> {
    // SAFETY: UNS-37: nobody writes to the memory. Handles that no export gave are of things of
    // which the driver is known to tell that they are no memory of its own.
    unsafe { device.open_shared(handle, len, ()) }.map(|opened| opened.buffer)
}

#[test]
fn what_one_device_exports_another_one_reads() {
    for placement in [Placement::HostVisible, Placement::DeviceOnly] {
        let Some(pair) = Pair::new(placement) else { return };
        assert_eq!(pair.here.sharing_domain(), pair.there.sharing_domain());
        assert!(pair.here.sharing_needs_trust());
        let bytes: Vec<u8> = (0..10_000).map(|index| (index % 251) as u8).collect();
        let (memory, place) = filled(&pair.here, &bytes);
        assert_eq!((place.offset, place.len, place.can_be_fixed), (0, 10_000, false));
        let buffer = opened(&pair.there, exported(&pair.here, place), place.len).unwrap();
        let step = pair.there.properties().alignment;
        let part = buffer.slice(step as u64, 100).unwrap();
        assert_eq!(bytes_of(&array_of(part, 100, &pair.there)), bytes[step..step + 100]);
        // What was opened stays when the exporter has freed it.
        drop(memory);
        assert_eq!(bytes_of(&array_of(buffer, bytes.len(), &pair.there)), bytes);
    }
}

#[test]
fn a_part_is_found_in_its_allocation_and_opened_memory_is_not() {
    let Some(pair) = Pair::new(Placement::Automatic) else { return };
    let (driver, step) = (pair.here.driver(), pair.here.properties().alignment as u64);
    let (_memory, place) = filled(&pair.here, &vec![3; 4 * step as usize]);
    let outer = unsafe { driver.part(place.memory, step, 3 * step) }.unwrap();
    let inner = unsafe { driver.part(outer, step, step) }.unwrap();
    for (part, offset) in [(place.memory, 0), (outer, step), (inner, 2 * step)] {
        assert_eq!(pair.here.find_shared(part), Some(SharedPlace { offset, ..place }));
    }
    unsafe { driver.free_part(inner) };
    unsafe { driver.free_part(outer) };
    assert_eq!(pair.here.find_shared(inner), None);

    let buffer = opened(&pair.there, exported(&pair.here, place), place.len).unwrap();
    let queue = pair.there.open_queue().unwrap();
    let array = array_of(buffer, 10, &pair.there);
    let base = array.on(&queue).unwrap().buffer(1).location().spot().base;
    assert_eq!(pair.there.find_shared(base), None);
}

#[test]
fn memory_that_was_not_made_for_it_is_not_exported() {
    let Some((bench, device)) = Bench::shareable(Placement::Automatic) else { return };
    let queue = bench.open_queue().unwrap();
    let mut memory = bench.allocate(100).unwrap();
    let Spot { base, .. } = memory.spot(&queue).unwrap();
    assert_eq!(device.find_shared(base), None);
    for (base, fixed, kind) in [
        (base, false, ErrorKind::InvalidArgument),
        (Raw::from_bits(0x1230), false, ErrorKind::InvalidArgument),
        (filled(&device, &[1; 10]).1.memory, true, ErrorKind::Unsupported),
    ] {
        let error = unsafe { device.export_shared(base, fixed) }.unwrap_err();
        assert_eq!((error.kind(), error.device()), (kind, Some(device.id())), "{error}");
    }
}

#[test]
fn an_application_says_whether_its_device_can_share() {
    let Some(bench) = Bench::new() else { return };
    assert_eq!(bench.sharing_domain(), None);
    assert_eq!(Device::shareable(&bench).unwrap_err().kind(), ErrorKind::Unsupported);
    let Some((bench, _)) = Bench::shareable(Placement::Automatic) else { return };
    // Whoever passes the handles on tells it.
    let handles: Handles = handles_of(&bench).unwrap();
    let again = unsafe { arrow_device_vulkan::open_from(handles, Placement::Automatic) }.unwrap();
    assert_eq!(again.sharing_domain(), bench.sharing_domain());
    // The library's own device is of the same domain.
    let own = arrow_device_vulkan::open(0).unwrap();
    assert_eq!(own.sharing_domain(), bench.sharing_domain());
}

/// Puts other things in place of the descriptor and of the note.
fn refused(device: &Device, descriptor: Option<OwnedFd>, note: &[u8], len: u64) -> ErrorKind {
    let mut handle = MemoryHandle::default().with_note(note);
    handle.descriptor = descriptor.map(Into::into);
    opened(device, handle, len).unwrap_err().kind()
}

#[test]
fn handles_of_other_things_are_refused_and_closed() {
    alone(|| {
        let Some(pair) = Pair::new(Placement::Automatic) else { return };
        let (_memory, place) = filled(&pair.here, &[7; 5000]);
        let (_small, small) = filled(&pair.here, &[7; 64]);
        let [right, mut small] = [place, small].map(|place| exported(&pair.here, place));
        let note = right.note.clone();
        let before = descriptors();

        let mut with = note.clone();
        with[12] = 1;
        let [size, memory_type, dedicated] = [0, 8, 12].map(|at| {
            let mut wrong = note.clone();
            wrong[at] ^= 0x11;
            wrong
        });
        for wrong in [&[][..], &note[..12], &[0; 256], &with, &size, &memory_type, &dedicated] {
            let descriptor = right.descriptor.as_ref().unwrap().try_clone().unwrap();
            let kind = refused(&pair.there, Some(descriptor), wrong, place.len);
            assert_eq!(kind, ErrorKind::Malformed, "{wrong:?}");
        }
        assert_eq!(refused(&pair.there, None, &note, place.len), ErrorKind::Malformed);
        for len in [1, place.len * 2, 1 << 50, u64::MAX] {
            let descriptor = right.descriptor.as_ref().unwrap().try_clone().unwrap();
            let kind = refused(&pair.there, Some(descriptor), &note, len);
            assert_eq!(kind, ErrorKind::Malformed, "{len}");
        }

        let (read, write) = std::io::pipe().unwrap();
        let socket = std::os::unix::net::UnixStream::pair().unwrap().0;
        let file = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
        let wrong: Vec<(&str, OwnedFd)> = vec![
            ("a device", file("/dev/zero")),
            ("a file", file("/proc/self/exe")),
            ("a folder", file("/")),
            ("a pipe", read.into()),
            ("a pipe's other end", write.into()),
            ("a socket", socket.into()),
            ("memory of another length", small.take_descriptor().unwrap().unwrap()),
        ];
        // Drivers whose own memory is a file of memory without seals cannot tell it from others.
        let is_sealed = seals(right.descriptor.as_deref().unwrap()) & libc::F_SEAL_SHRINK != 0;
        let others = [
            ("memory of nobody", file_of_memory(1 << 20, libc::F_SEAL_SHRINK)),
            ("memory that can shrink", file_of_memory(1 << 20, 0)),
        ];
        let others = others.into_iter().filter(|_| is_sealed);
        for (name, descriptor) in wrong.into_iter().chain(others) {
            let kind = refused(&pair.there, Some(descriptor), &note, place.len);
            assert_eq!(kind, ErrorKind::Malformed, "{name}");
        }
        // But for the descriptor of the small memory, which was there before.
        assert_eq!(descriptors(), before - 1);
        opened(&pair.there, right, place.len).unwrap();
    });
}

/// The seals of a file of memory. A negative number for everything else.
fn seals(file: &OwnedFd) -> i32 {
    use std::os::fd::AsRawFd;
    unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GET_SEALS) }
}

/// Drivers for the processor read the beginning of the file, and all descriptors of one allocation
/// have one position: an import that moves it disturbs one in another process.
#[test]
fn an_import_leaves_the_position_of_the_exporters_descriptor() {
    use std::io::{Seek, SeekFrom};
    let Some(pair) = Pair::new(Placement::Automatic) else { return };
    let (_memory, place) = filled(&pair.here, &[9; 5000]);
    let handle = exported(&pair.here, place);
    let mut file = std::fs::File::from(handle.descriptor.as_ref().unwrap().try_clone().unwrap());
    if file.seek(SeekFrom::Start(777)).is_err() {
        println!("skipped: the descriptors of this driver have no position");
        return;
    }
    opened(&pair.there, handle, place.len).unwrap();
    assert_eq!(file.stream_position().unwrap(), 777);
}

#[test]
fn what_is_freed_is_gone() {
    alone(|| {
        let Some(pair) = Pair::new(Placement::Automatic) else { return };
        let before = descriptors();
        let held = pair.here.held().allocated;
        for _ in 0..100 {
            let (memory, place) = filled(&pair.here, &[5; 100_000]);
            let buffer = opened(&pair.there, exported(&pair.here, place), place.len).unwrap();
            drop((memory, buffer));
        }
        let is_gone = || (descriptors(), pair.here.held().allocated) == (before, held);
        assert!(release_until(is_gone), "{} of {before} descriptors", descriptors());
    });
}
