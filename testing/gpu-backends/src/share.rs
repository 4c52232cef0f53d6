//! Memory that other processes can open, as the backends have it from the drivers: what is given
//! back, who reaches it, what is refused. Arrays between processes are in the tests of
//! `arrow-device-share`.

use std::os::fd::OwnedFd;

use arrow_device::driver::{MemoryHandle, SharedPlace};
use arrow_device::{Buffer, Device, ErrorKind, Memory, Result};
use arrow_device_testkit::process::descriptors;
use arrow_device_testkit::release_until;
use arrow_device_testkit::shared_memory::{self, array_of, bytes_of};
use simulated_gpu_drivers::Vendor;

use crate::{Bench, Kind, Machine, settle};

/// A driver that gives access for reading and writing alone.
pub fn without_read_only(vendor: Vendor) -> Bench {
    Bench::with(vendor, |builder| builder.read_only(false))
}

/// A driver whose devices map nothing by hand.
pub fn without_mapping(vendor: Vendor) -> Bench {
    Bench::with(vendor, |builder| builder.mapping(false))
}

/// Memory with these bytes, and the place of it.
fn filled(device: &Device, bytes: &[u8]) -> (Memory, SharedPlace) {
    shared_memory::filled(&device.shareable().unwrap(), bytes)
}

fn exported(device: &Device, place: SharedPlace) -> MemoryHandle {
    // SAFETY: UNS-36: the memory is there, and this process writes to it no more.
    unsafe { device.export_shared(place.memory, false) }.unwrap()
}

fn opened(device: &Device, handle: MemoryHandle, len: u64) -> Result<Buffer> {
    // SAFETY: UNS-37: nobody writes to the memory, and the simulated driver tells what is not its
    // own.
    unsafe { device.open_shared(handle, len, ()) }.map(|opened| opened.buffer)
}

/// Mappings of files of memory that the drivers made.
fn mappings() -> usize {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    maps.lines().filter(|line| line.contains("memfd:simulated-")).count()
}

/// What was opened is what was written, in parts too, and stays when the exporter is done.
pub fn what_one_device_exports_another_one_reads(machine: &Machine) {
    let (here, there) = (machine.open(0, Kind::Device), machine.open(0, Kind::Device));
    assert_eq!(here.sharing_domain(), there.sharing_domain());
    assert!(here.sharing_needs_trust());
    let way = here.sharing_domain().unwrap().way;
    assert_eq!(way, machine.name("cuda vmm", "hip vmm"));
    let bytes: Vec<u8> = (0..10_000).map(|index| (index % 251) as u8).collect();
    let (memory, place) = filled(&here, &bytes);
    assert_eq!((place.offset, place.len, place.can_be_fixed), (0, 10_000, false));
    let buffer = opened(&there, exported(&here, place), place.len).unwrap();
    let part = buffer.slice(64, 100).unwrap();
    assert_eq!(bytes_of(&array_of(part, 100, &there)), bytes[64..164]);
    let queue = there.open_queue().unwrap();
    let array = array_of(buffer.clone(), 10, &there);
    let base = array.on(&queue).unwrap().buffer(1).location().spot().base;
    assert_eq!(there.find_shared(base), None, "what was opened is not exported again");
    let error = unsafe { there.export_shared(base, false) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
    drop((memory, array));
    settle();
    assert_eq!(bytes_of(&array_of(buffer, bytes.len(), &there)), bytes);
}

/// Memory of other kinds, of older drivers and of devices that cannot is not shared.
pub fn other_kinds_of_memory_are_not_shared(machine: &Machine) {
    for kind in machine.kinds() {
        let device = machine.open(0, *kind);
        let error = device.shareable().err();
        assert_eq!(error.is_none(), *kind == Kind::Device, "{kind:?}");
        assert_eq!(device.sharing_domain().is_some(), *kind == Kind::Device, "{kind:?}");
        if let Some(error) = error {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        }
    }
    let device = machine.open(0, Kind::Device);
    assert_ne!(device.sharing_domain(), machine.open(1, Kind::Device).sharing_domain());
    let (_memory, place) = filled(&device, &[1; 10]);
    let error = unsafe { device.export_shared(place.memory, true) }.unwrap_err();
    assert_eq!((error.kind(), error.device()), (ErrorKind::Unsupported, Some(device.id())));
    let mut plain = device.allocate(100).unwrap();
    let queue = device.open_queue().unwrap();
    let base = plain.spot(&queue).unwrap().base;
    assert_eq!(device.find_shared(base), None);
    let error = unsafe { device.export_shared(base, false) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{error}");
}

/// Nothing is shared where the device says that it cannot.
pub fn nothing_is_shared_without_mapping(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    assert_eq!(device.sharing_domain(), None);
    let error = device.shareable().unwrap_err();
    assert_eq!((error.kind(), error.device()), (ErrorKind::Unsupported, Some(device.id())));
}

/// The device may read what was opened, and a write is seen; where the driver gives no such access,
/// it may do both.
pub fn what_was_opened_is_for_reading(machine: &Machine, is_read_only: bool) {
    let (here, there) = (machine.open(0, Kind::Device), machine.open(0, Kind::Device));
    let (_memory, place) = filled(&here, &[7; 4096]);
    let buffer = opened(&there, exported(&here, place), place.len).unwrap();
    let queue = there.open_queue().unwrap();
    let array = array_of(buffer.clone(), 4096, &there);
    let view = array.on(&queue).unwrap();
    let address = view.buffer(1).location().spot().base.bits() as u64;
    let kernel = machine.sim.kernel("writer").writes(address, 8);
    assert_eq!(kernel.launch(queue.raw().bits() as u64, |_| {}), 0);
    queue.synchronize().unwrap();
    let expected: &[&str] = if is_read_only { &["WriteToShared"] } else { &[] };
    assert_eq!(machine.take_mistakes(), expected);
    drop((view, array));
    settle();
}

/// A device that reaches the memory of another one reaches what is shared there, whichever came
/// first.
pub fn peers_reach_what_is_shared(machine: &Machine) {
    let (one, two) = (machine.open(0, Kind::Device), machine.open(1, Kind::Device));
    let bytes: Vec<u8> = (0..5000).map(|index| (index % 239) as u8).collect();
    let (first, first_place) = filled(&one, &bytes);
    let queue = two.open_queue().unwrap();
    let read_there = |memory: Memory| {
        let array = array_of(memory.into_buffer(), bytes.len(), &one);
        let view = array.on(&queue).unwrap();
        let address = view.buffer(1).location().spot().base.bits() as u64;
        let kernel = machine.sim.kernel("reader").reads(address, bytes.len() as u64);
        let wanted = bytes.clone();
        let seen = move |memory: &mut simulated_gpu_drivers::Memory<'_>| {
            assert_eq!(memory.input(0), wanted);
        };
        assert_eq!(kernel.launch(queue.raw().bits() as u64, seen), 0);
        queue.synchronize().unwrap();
        drop(view);
        let back = array.copy_to(&queue).unwrap().to_host().unwrap();
        assert_eq!(back.host().unwrap().buffer(1).unwrap()[..bytes.len()], bytes);
    };
    let opened_before = opened(&one, exported(&one, first_place), first_place.len).unwrap();
    read_there(first);
    read_there(filled(&one, &bytes).0);
    let array = array_of(opened_before, bytes.len(), &one);
    let view = array.on(&queue).unwrap();
    let address = view.buffer(1).location().spot().base.bits() as u64;
    let kernel = machine.sim.kernel("reader of what was opened").reads(address, 8);
    assert_eq!(kernel.launch(queue.raw().bits() as u64, |_| {}), 0);
    queue.synchronize().unwrap();
    assert_eq!(machine.take_mistakes(), [""; 0]);
    drop((view, array));
    settle();
}

/// Puts other things in place of the descriptor and of the note.
fn refused(device: &Device, descriptor: Option<OwnedFd>, note: &[u8], len: u64) -> ErrorKind {
    let mut handle = MemoryHandle::default().with_note(note);
    handle.descriptor = descriptor.map(Into::into);
    opened(device, handle, len).unwrap_err().kind()
}

/// Call in a process of its own.
pub fn handles_of_other_things_are_refused_and_closed(machine: &Machine) {
    let (here, there) = (machine.open(0, Kind::Device), machine.open(0, Kind::Device));
    let (_memory, place) = filled(&here, &[7; 5000]);
    let right = exported(&here, place);
    let note = right.note.clone();
    let clone = || right.descriptor.as_ref().unwrap().try_clone().unwrap();
    let before = (descriptors(), mappings());
    let mut size = note.clone();
    size[0] ^= 1;
    let large = (1_u64 << 40).to_le_bytes();
    for wrong in [&[][..], &note[..7], &[0; 256], &size, &large] {
        assert_eq!(refused(&there, Some(clone()), wrong, place.len), ErrorKind::Malformed);
    }
    assert_eq!(refused(&there, None, &note, place.len), ErrorKind::Malformed);
    for len in [1 << 50, u64::MAX - 4096, u64::MAX] {
        assert_eq!(refused(&there, Some(clone()), &note, len), ErrorKind::Malformed, "{len}");
    }
    // A note that is true of more than the descriptor has.
    let more = 64_u64 << 20;
    let kind = refused(&there, Some(clone()), &more.to_le_bytes(), more);
    assert_eq!(kind, ErrorKind::Malformed);
    let (read, write) = std::io::pipe().unwrap();
    let socket = std::os::unix::net::UnixStream::pair().unwrap().0;
    let file = |path: &str| OwnedFd::from(std::fs::File::open(path).unwrap());
    // The driver is asked about what it may know, and not about what could hold it up.
    let wrong: Vec<(&str, OwnedFd, u64)> = vec![
        ("a device", file("/dev/zero"), 1),
        ("a file", file("/proc/self/exe"), 1),
        ("a folder", file("/"), 0),
        ("a pipe", read.into(), 0),
        ("a pipe's other end", write.into(), 0),
        ("a socket", socket.into(), 0),
    ];
    let import = machine.name("cuMemImportFromShareableHandle", "hipMemImportFromShareableHandle");
    for (name, descriptor, asked) in wrong {
        let calls = machine.sim.count(import);
        let kind = refused(&there, Some(descriptor), &note, place.len);
        assert_eq!(kind, ErrorKind::Malformed, "{name}");
        assert_eq!(machine.sim.count(import) - calls, asked, "{name}");
    }
    assert_eq!((descriptors(), mappings()), before);
    opened(&there, right, place.len).unwrap();
}

/// Whichever call of the driver fails, nothing is left behind. Call in a process of its own.
pub fn a_call_that_fails_leaves_nothing_behind(machine: &Machine) {
    let (here, there) = (machine.open(0, Kind::Device), machine.open(0, Kind::Device));
    let (_memory, place) = filled(&here, &[7; 5000]);
    settle();
    let before = (descriptors(), mappings(), machine.sim.left().len());
    let prefix = machine.name("cu", "hip");
    let is_as_before = || (descriptors(), mappings(), machine.sim.left().len()) == before;
    for (name, code) in [
        ("MemCreate", 2),
        ("MemCreate", 801),
        ("MemAddressReserve", 2),
        ("MemMap", 2),
        ("MemSetAccess", 999),
    ] {
        machine.sim.fail(&format!("{prefix}{name}"), 1, code);
        // Without memory it is tried once more, when the pool has given back what it keeps.
        if (name, code) == ("MemCreate", 2) {
            machine.sim.fail(&format!("{prefix}{name}"), 2, code);
        }
        let error = here.shareable().unwrap().allocate(5000).unwrap_err();
        let kind = error.kind();
        let expected = match code {
            2 => ErrorKind::OutOfMemory,
            801 => ErrorKind::Unsupported,
            _ => ErrorKind::Driver,
        };
        assert_eq!((kind, error.device()), (expected, Some(here.id())), "{name}: {error}");
        assert!(is_as_before(), "{name}");
    }
    for (name, code, expected) in [
        ("MemImportFromShareableHandle", 1, ErrorKind::Malformed),
        ("MemImportFromShareableHandle", 801, ErrorKind::Malformed),
        ("MemAddressReserve", 2, ErrorKind::OutOfMemory),
        ("MemMap", 1, ErrorKind::Malformed),
        ("MemSetAccess", 999, ErrorKind::Malformed),
    ] {
        let handle = exported(&here, place);
        machine.sim.fail(&format!("{prefix}{name}"), 1, code);
        let error = opened(&there, handle, place.len).unwrap_err();
        assert_eq!((error.kind(), error.device()), (expected, Some(there.id())), "{error}");
        assert!(is_as_before(), "{name}");
    }
    let name = format!("{prefix}MemExportToShareableHandle");
    machine.sim.fail(&name, 1, 304);
    let error = unsafe { here.export_shared(place.memory, false) }.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Driver, "{error}");
    assert!(is_as_before());
    if !machine.is_cuda() {
        assert_eq!(machine.raw("hipPeekAtLastError", &[]), 0, "the program sees no error of ours");
    }
}

/// Call in a process of its own.
pub fn what_is_freed_is_gone(machine: &Machine) {
    let (here, there) = (machine.open(0, Kind::Device), machine.open(0, Kind::Device));
    drop(filled(&here, &[5; 100]));
    settle();
    let now = || (descriptors(), mappings(), here.held().allocated, machine.sim.left().len());
    let before = now();
    for _ in 0..100 {
        let (memory, place) = filled(&here, &[5; 100_000]);
        let buffer = opened(&there, exported(&here, place), place.len).unwrap();
        drop((memory, buffer));
    }
    assert!(release_until(|| now() == before), "{before:?}, {:?}", now());
}

/// A stream of another thread captures a graph meanwhile, and goes on.
pub fn captures_of_others_go_on(machine: &Machine) {
    let device = machine.open(0, Kind::Device);
    let other = device.open_queue().unwrap();
    let stream = other.raw().bits() as u64;
    let begin = machine.name("cuStreamBeginCapture_v2", "hipStreamBeginCapture");
    machine.entered(|| assert_eq!(machine.raw(begin, &[stream, 0]), 0));
    let (memory, place) = std::thread::scope(|scope| {
        let made = scope.spawn(|| {
            let device = device.shareable().unwrap();
            let memory = device.allocate(5000).unwrap();
            let queue = device.open_queue().unwrap();
            let mut memory = memory;
            let place = memory.spot(&queue).unwrap().base;
            (memory, device.find_shared(place).unwrap())
        });
        made.join().unwrap()
    });
    drop(opened(&device, exported(&device, place), place.len).unwrap());
    drop(memory);
    let end = machine.name("cuStreamEndCapture", "hipStreamEndCapture");
    let destroy = machine.name("cuGraphDestroy", "hipGraphDestroy");
    machine.entered(|| {
        let mut graph = 0_u64;
        assert_eq!(machine.raw(end, &[stream, std::ptr::from_mut(&mut graph) as u64]), 0);
        assert_eq!(machine.raw(destroy, &[graph]), 0);
    });
    settle();
}
