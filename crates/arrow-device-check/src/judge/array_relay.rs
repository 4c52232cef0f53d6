//! Judges relays of arrays, by comparing what was given with what is handed on.

use std::ffi::c_void;
use std::ptr;

use arrow_device::Queue;
use arrow_device::abi::{ARROW_FLAG_NULLABLE, ArrowDeviceArray, ArrowSchema};
use arrow_device_sim::Mistake;
use arrow_device_testkit::consumer::{self, Order, Seen, SeenSchema};
use arrow_device_testkit::deposit;
use arrow_device_testkit::kinds::{self, Kind};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window, integers};
use arrow_device_testkit::producer::{self, Manner};

use super::array_consumer::{
    OF_BOOKS, Offer, batch, out_of_reach, release_handed_on, shaped, sound,
};
use super::{RUNS, Scenario, array_producer};
use crate::bench::{Bench, Where};
use crate::notes::{Notes, Words};
use crate::peer::{Entry, Peer};
use crate::shape;

pub(super) const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "a batch on the host",
        place: Where::Host,
        run: |peer, bench, notes| places(peer, bench, notes, HOST, Order::Whole, false),
    },
    Scenario {
        name: "a batch on the host that is moved",
        place: Where::Host,
        run: |peer, bench, notes| places(peer, bench, notes, HOST, Order::Whole, true),
    },
    Scenario {
        name: "a batch on the host whose children outlive it",
        place: Where::Host,
        run: |peer, bench, notes| places(peer, bench, notes, HOST, Order::ParentFirst, true),
    },
    Scenario {
        name: "a batch on the host, children released first",
        place: Where::Host,
        run: |peer, bench, notes| places(peer, bench, notes, HOST, Order::ChildrenFirst, true),
    },
    Scenario {
        name: "a batch on a CUDA device behind an event",
        place: Where::Host,
        run: |peer, bench, notes| {
            places(peer, bench, notes, (2, 1 << 40, true), Order::Whole, true)
        },
    },
    Scenario {
        name: "a batch in pinned memory of a CUDA device",
        place: Where::Host,
        run: |peer, bench, notes| places(peer, bench, notes, PINNED, Order::Whole, true),
    },
    Scenario {
        name: "a batch on a type of device that nobody has",
        place: Where::Host,
        run: |peer, bench, notes| {
            places(peer, bench, notes, (257, (1 << 32) | 3, true), Order::Whole, true)
        },
    },
    Scenario { name: "a batch that nobody can read", place: Where::Host, run: unreadable },
    Scenario {
        name: "a batch of numbers on a device",
        place: Where::Device,
        run: |peer, bench, notes| {
            let columns = [Kind::Fixed("l", 8), Kind::Fixed("f", 4)];
            on_device(peer, bench, notes, &columns, &[Nulls::None, Nulls::Counted])
        },
    },
    Scenario {
        name: "a batch on a device",
        place: Where::Device,
        run: |peer, bench, notes| {
            let columns = [Kind::Fixed("l", 8), Kind::Text("u", 4)];
            on_device(peer, bench, notes, &columns, &[Nulls::None, Nulls::Counted])
        },
    },
    Scenario {
        name: "a batch on a device whose nulls nobody has counted",
        place: Where::Device,
        run: |peer, bench, notes| {
            on_device(peer, bench, notes, &[Kind::Fixed("l", 8)], &[Nulls::Unknown])
        },
    },
    Scenario {
        name: "a batch on a device, some of whose buffers are null",
        place: Where::Device,
        run: without_bytes,
    },
    Scenario {
        name: "a batch with an offset",
        place: Where::Host,
        run: |peer, bench, notes| {
            if shape::is_batches() {
                // In the format of batches there is no offset.
                return notes.skip("SYS-1", "it takes record batches alone, which have no offset");
            }
            let plan = Plan { offset: 1, length: 3, ..batch() };
            one(peer, bench, notes, &plan, HOST, Order::Whole, true)
        },
    },
    Scenario { name: "arrays of every type", place: Where::Host, run: every_type },
];

/// The type and the number of a device, and whether there is an event.
type On = (i32, i64, bool);

const HOST: On = (1, -1, false);
/// Memory that the host can read, although it is not called host memory.
const PINNED: On = (3, -1, false);

/// A flag that no specification knows yet. It has to be carried on.
const LATER_FLAG: i64 = 1 << 40;

fn places(peer: &Peer, bench: &Bench, notes: &Notes, on: On, order: Order, is_moved: bool) {
    let list = Kind::List("+l", 4, Box::new(Kind::Fixed("l", 8)));
    let keys = Kind::Dictionary("c", 1, Box::new(Kind::Text("u", 4)));
    let plans = [
        Plan { flags: 2 | LATER_FLAG, ..batch() },
        list.plan(Window::SLICED, Nulls::Counted),
        Kind::Extension(Box::new(keys)).plan(Window::SLICED, Nulls::Unknown),
    ];
    for plan in plans {
        one(peer, bench, notes, &shaped(plan), on, order, is_moved);
    }
}

/// What a relay handed on, if it did.
struct HandedOn {
    schema: ArrowSchema,
    array: Box<ArrowDeviceArray>,
}

fn call(peer: &Peer, bench: &Bench, offer: &mut Offer) -> Result<HandedOn, i32> {
    let Entry::RelayArray(relay) = &peer.entry else { return Err(libc::ENOSYS) };
    let mut schema = ArrowSchema::empty();
    let mut array = Box::new(ArrowDeviceArray { reserved: [-1; 3], ..ArrowDeviceArray::empty() });
    let (c_schema, c_array) = (&raw mut offer.schema, &raw mut offer.array);
    match relay(bench, c_schema, c_array, &raw mut schema, &raw mut *array) {
        0 => Ok(HandedOn { schema, array }),
        code => Err(code),
    }
}

fn one(
    peer: &Peer,
    bench: &Bench,
    notes: &Notes,
    plan: &Plan,
    on: On,
    order: Order,
    is_moved: bool,
) {
    let mut handle: *mut c_void = ptr::without_provenance_mut(0x77);
    let mut offer = Offer::of(plan);
    (offer.array.device_type, offer.array.device_id) = (on.0, on.1);
    if on.2 {
        offer.array.sync_event = (&raw mut handle).cast();
    }
    let id = if on.0 == 1 { RUNS } else { "ARR-2" };
    notes.now(id, "handing an array on");
    let format = plan.format.to_string_lossy().into_owned();
    let refused = exchange(peer, bench, notes, offer, &format, order, is_moved);
    // A relay that knows only the host may refuse other devices.
    if let Some(code) = refused.filter(|_| on.0 == 1) {
        notes.fail("SYS-1", format!("a good array of `{format}` was refused with {code}"));
    }
}

/// Has an array handed on, and checks everything. Returns the relay's answer if it refused.
fn exchange(
    peer: &Peer,
    bench: &Bench,
    notes: &Notes,
    mut offer: Offer,
    format: &str,
    order: Order,
    is_moved: bool,
) -> Option<i32> {
    let expected_schema = SeenSchema::of(&offer.schema);
    let expected = Seen::of(&offer.array.array).with_known_nulls(&expected_schema);
    let (device_type, device_id) = (offer.array.device_type, offer.array.device_id);
    let sync_event = offer.array.sync_event;
    let mut given = match call(peer, bench, &mut offer) {
        Ok(given) => given,
        Err(code) => {
            if device_type != 1 {
                notes.skip(
                    "ARR-4",
                    format!("it refuses type of device {device_type}: it returned {code}"),
                );
            }
            offer.settle(code, notes);
            return Some(code);
        }
    };
    let is_taken = offer.schema.is_released() && offer.array.is_released();
    notes.check("ARR-12", is_taken, || {
        "the source was not marked as released: it was copied and not moved".into()
    });
    if given.schema.is_released() || given.array.is_released() {
        notes.fail("ARR-11", "it returned 0 and handed out nothing");
        return None;
    }
    let early = offer.arrays.base_releases();
    notes.now("ARR-16", "reading the structs that were handed on");
    // A relay that handed a copy on does not need the original any more.
    let still = Seen::of(&given.array.array);
    let shares = addresses(&still).iter().any(|address| addresses(&expected).contains(address));
    notes.check("ARR-13", early == 0 || !shares, || {
        format!("an array of {format} was released while its consumer has it")
    });
    notes.now("SCH-1", "reading the schema that was handed on");
    let seen_schema = SeenSchema::of(&given.schema);
    compare_schemas(&seen_schema, &expected_schema, true, notes);
    let same_shape = seen_schema.children.len() == expected_schema.children.len();
    if same_shape {
        let seen = still.with_known_nulls(&seen_schema);
        compare(&seen, &expected, format, notes);
    }
    if device_type == 1 && (early == 0 || !shares) {
        is_whole(&given, bench, notes);
    }
    let found = (given.array.device_type, given.array.device_id);
    let expected_device =
        arrow_device::DeviceId::new(arrow_device::DeviceType(device_type), device_id);
    array_producer::device(&given.array, Some(expected_device), notes);
    if found.0 == device_type {
        notes.check("ARR-5", given.array.sync_event == sync_event, || {
            let lost = if given.array.sync_event.is_null() { "lost" } else { "another one now" };
            format!("the event is {lost}")
        });
    }
    notes.check("ABI-5", given.array.reserved == [0; 3], || {
        format!("`reserved` is {:x?}", given.array.reserved)
    });
    if early == 0 || !shares {
        notes.now("ARR-13", "releasing what was handed on");
        if release(&mut given, order, is_moved, notes) {
            offer.settle_relayed(is_moved, notes);
        }
    }
    None
}

/// Whether everything that belongs to a field and not to its type is gone, and nothing else.
fn is_without_field(seen: &SeenSchema, expected: &SeenSchema) -> bool {
    let is_bare = seen.name.is_empty() && seen.metadata.is_empty() && seen.flags == 2;
    let extension = b"ARROW:extension:name";
    let is_extension = expected.metadata.windows(extension.len()).any(|part| part == extension);
    let had_more = [!expected.name.is_empty(), !expected.metadata.is_empty(), expected.flags > 7];
    is_bare && !is_extension && had_more.iter().filter(|more| **more).count() != 1
}

fn compare_schemas(seen: &SeenSchema, expected: &SeenSchema, is_root: bool, notes: &Notes) {
    notes.check("SCH-1", seen.format == expected.format, || {
        let text = |format: &[u8]| String::from_utf8_lossy(format).into_owned();
        format!("the format is `{}` and was `{}`", text(&seen.format), text(&expected.format))
    });
    if is_root && is_without_field(seen, expected) {
        // The relay knows arrays, and does not keep what a schema says about a field.
        return;
    }
    // A record batch has columns with names, and no name itself.
    let is_nobodys = is_root && shape::is_batches();
    let is_same = is_nobodys || seen.name == expected.name;
    notes.check("SCH-2", is_same, || "a name was lost".into());
    notes.check("SCH-5", seen.metadata == expected.metadata, || {
        "metadata was lost, and with it extension types".into()
    });
    // Whether a batch as a whole may be null does not matter.
    let is_batch = is_root && expected.format == b"+s";
    let beside = if is_batch { ARROW_FLAG_NULLABLE } else { 0 };
    let is_same = is_nobodys || seen.flags | beside == expected.flags | beside;
    notes.check("SCH-3", is_same, || {
        format!("the flags are {:#x} and were {:#x}", seen.flags, expected.flags)
    });
    let same = seen.dictionary.is_some() == expected.dictionary.is_some();
    notes.check("SCH-4", same, || "a dictionary was lost".into());
    for (seen, expected) in seen.children.iter().zip(&expected.children) {
        compare_schemas(seen, expected, false, notes);
    }
    if let (Some(seen), Some(expected)) = (&seen.dictionary, &expected.dictionary) {
        compare_schemas(seen, expected, false, notes);
    }
}

/// Returns the addresses of the data.
fn addresses(seen: &Seen) -> Vec<usize> {
    let own = seen.buffers.iter().copied().filter(|address| *address != 0);
    let below = seen.children.iter().chain(seen.dictionary.as_deref());
    own.chain(below.flat_map(addresses)).collect()
}

/// Reads everything that was handed on.
fn is_whole(given: &HandedOn, bench: &Bench, notes: &Notes) {
    let Some(known) = array_producer::schema(&given.schema, notes) else { return };
    if array_producer::structure(&given.array, &known, notes) && given.array.sync_event.is_null() {
        array_producer::read_all(&given.array, &known, bench, notes);
    }
}

fn compare(seen: &Seen, expected: &Seen, of: &str, notes: &Notes) {
    let (window, was) = ((seen.offset, seen.length), (expected.offset, expected.length));
    notes.check("ARR-14", window == was, || {
        format!("offset and length of {of} are {window:?} and were {was:?}")
    });
    let (nulls, length) = (seen.null_count, seen.length);
    // A relay that can read the elements may have counted the nulls.
    let is_counted = expected.null_count == -1 && (0..=length).contains(&nulls);
    notes.check("ARR-17", is_counted || nulls == expected.null_count, || {
        format!("the null count of {of} is {} and was {}", seen.null_count, expected.null_count)
    });
    let is_empty = expected.length == 0;
    notes.check("ARR-16", is_empty || seen.buffers == expected.buffers, || {
        format!("buffers of {of} moved: they are at other addresses now")
    });
    for (seen, expected) in seen.children.iter().zip(&expected.children) {
        compare(seen, expected, of, notes);
    }
    if let (Some(seen), Some(expected)) = (&seen.dictionary, &expected.dictionary) {
        compare(seen, expected, of, notes);
    }
}

/// Whether the struct could be released in the way that is required.
fn release(given: &mut HandedOn, order: Order, is_moved: bool, notes: &Notes) -> bool {
    let words: &Words = &[("unreleased", "ARR-13"), ("buffers moved", "ARR-12")];
    let is_released = if is_moved {
        let moved = std::mem::replace(&mut *given.array, ArrowDeviceArray::empty());
        let moved = consumer::move_and_scribble(moved);
        let is_released =
            notes.verdict(consumer::release_in_order(moved.array, order), words, "ARR-12");
        if is_released {
            notes.pass("ARR-13");
        }
        is_released
    } else if let Some(release) = given.array.array.release {
        // SAFETY: the structure's own callback, called once and with it.
        unsafe { release(&raw mut given.array.array) };
        notes.check("ARR-13", given.array.is_released(), || {
            "the release left the struct unreleased".into()
        })
    } else {
        true
    };
    release_handed_on(&mut given.schema, &mut ArrowDeviceArray::empty());
    is_released
}

impl Offer {
    /// Checks that what was handed on and released came back.
    fn settle_relayed(&self, is_moved: bool, notes: &Notes) {
        let released = |ledger: &std::sync::Arc<Ledger>| {
            let _ = ledger.settle_soon(1);
            ledger.base_releases()
        };
        let (arrays, schemas) = (released(&self.arrays), released(&self.schemas));
        let id = if is_moved { "ARR-19" } else { "ARR-10" };
        notes.check(id, arrays > 0, || {
            let moved = if is_moved { " after it was moved" } else { "" };
            format!("what was handed on was released{moved}, and the original never was")
        });
        if notes.verdict(self.arrays.complaints(), OF_BOOKS, "ARR-13") {
            ["ARR-15", "ARR-18"].iter().for_each(|id| notes.pass(id));
            notes.check("SCH-6", schemas == 1, || {
                format!("the schema was released {schemas} times")
            });
        }
        notes.check("ARR-13", arrays < 2, || "the array was released twice".into());
    }
}

fn unreadable(peer: &Peer, bench: &Bench, notes: &Notes) {
    let mut offer = Offer::of(&out_of_reach(batch()));
    (offer.array.device_type, offer.array.device_id) = (2, 0);
    notes.now("ARR-1", "handing on an array whose buffers the host cannot read");
    match call(peer, bench, &mut offer) {
        Err(code) => {
            notes.skip("ARR-1", format!("it refuses type of device 2: it returned {code}"))
        }
        Ok(mut given) => {
            release_handed_on(&mut given.schema, &mut given.array);
            notes.pass("ARR-1");
        }
    }
}

fn on_device(peer: &Peer, bench: &Bench, notes: &Notes, columns: &[Kind], counted: &[Nulls]) {
    for nulls in counted {
        let mut plan = Kind::Struct(columns.to_vec()).plan(Window::WHOLE, Nulls::None);
        for (child, kind) in plan.children.iter_mut().zip(columns) {
            *child = Plan { name: child.name.clone(), ..kind.plan(Window::SLICED, *nulls) };
            plan.length = child.length;
        }
        let Bench::Device(opened) = bench else { return };
        notes.now("ARR-2", &format!("handing on a slice on a device: {nulls}"));
        let _ = pending(peer, bench, &opened.queue, notes, &plan);
    }
}

/// Has an array handed on whose data is still being written. Returns the relay's answer if it
/// refused.
fn pending(
    peer: &Peer,
    bench: &Bench,
    queue: &Queue,
    notes: &Notes,
    plan: &Plan,
) -> Result<(), i32> {
    let (schemas, arrays) = (Ledger::new(), Ledger::new());
    let made = deposit::pending(plan, queue, &arrays, Manner::AllByTheBase);
    let Ok(array) = made else {
        notes.skip("ARR-2", "the device failed");
        return Ok(());
    };
    let offer = Offer { schema: producer::schema(plan, &schemas), array, schemas, arrays };
    let refused = exchange(peer, bench, notes, offer, "+s", Order::Whole, true);
    super::note_reports(bench, notes, |mistake| match mistake {
        Mistake::UnorderedRead => Some("ARR-5"),
        Mistake::FreedInUse => Some("ARR-20"),
        kind if crate::bench::is_leak(kind) => None,
        _ => Some("ARR-2"),
    });
    refused.map_or(Ok(()), Err)
}

/// Offers lists that are all empty, so that the elements below have no buffer. A null pointer lies
/// on no device.
fn without_bytes(peer: &Peer, bench: &Bench, notes: &Notes) {
    let Bench::Device(opened) = bench else { return };
    let numbers = Kind::Fixed("l", 8);
    let mut plan = Kind::Struct(vec![numbers.clone()]).plan(Window::WHOLE, Nulls::None);
    notes.now("ARR-2", "handing on a batch on a device");
    if pending(peer, bench, &opened.queue, notes, &plan).is_err() {
        return;
    }
    let elements = numbers.plan(Window::ABSENT, Nulls::None);
    let offsets = Content::Bytes(integers(4, std::iter::repeat_n(0, 6)));
    plan.children.push(Plan {
        format: c"+l".into(),
        name: Some(c"empty".into()),
        buffers: vec![Content::Null, offsets],
        children: vec![Plan { name: Some(c"item".into()), ..elements }],
        ..plan.clone()
    });
    notes.now("SYS-1", "handing on a batch on a device, some of whose buffers are null");
    match pending(peer, bench, &opened.queue, notes, &plan) {
        Ok(()) => notes.pass("SYS-1"),
        Err(code) => notes.fail(
            "SYS-1",
            format!("a batch on a device, some of whose buffers are null because they have no bytes, was refused with {code}"),
        ),
    }
}

fn every_type(peer: &Peer, bench: &Bench, notes: &Notes) {
    let mut refused = Vec::new();
    for kind in kinds::types() {
        for (window, nulls) in [
            (Window::WHOLE, Nulls::Counted),
            (Window::SLICED, Nulls::Unknown),
            (Window::EMPTY, Nulls::None),
            (Window::ABSENT, Nulls::None),
        ] {
            let name = format!("{kind}, {window}, {nulls}");
            notes.now("SYS-1", &format!("handing on an array of {name}"));
            let offer = Offer::of(&shaped(sound(kind.plan(window, nulls))));
            if exchange(peer, bench, notes, offer, &name, Order::Whole, true).is_some() {
                refused.push(name);
            }
        }
    }
    notes.check("SYS-1", refused.is_empty(), || {
        format!("good arrays were refused: {}", refused.join("; "))
    });
}
