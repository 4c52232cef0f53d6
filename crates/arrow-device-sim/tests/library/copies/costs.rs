//! What copies cost, in numbers that do not vary: bytes, regions, submissions, allocations.

use arrow_device::copy::{Cut, Options, Plan, Way};
use arrow_device::{Array, Batch, Buffer, DataType, Device, Field, IndexType, Queue};
use arrow_device_sim::{Kind, Protection, Sim};
use arrow_device_testkit::oracle;
use arrow_device_testkit::trips::{assert_is, imported};

use super::words::words;

/// A tenth of it where addresses have 32 bits.
const HUGE: u64 = if usize::BITS < 64 { 10_000_000 } else { 100_000_000 };

/// Device memory of any size, of which no page is touched.
fn lazy(device: &Device, len: u64) -> Buffer {
    let mut memory = device.allocate(len).unwrap();
    unsafe { memory.assume_written(len) };
    memory.into_buffer()
}

/// A column of a hundred million strings of ten letters each; only the offsets that are looked at
/// are written.
fn huge_words(queue: &Queue, rows: std::ops::Range<u64>) -> Array {
    let device = queue.device();
    let mut offsets = device.allocate(8 * (HUGE + 1)).unwrap();
    let spot = offsets.spot(queue).unwrap();
    let some: Vec<u8> =
        (rows.start - 8..rows.end + 1).flat_map(|row| (row * 10).to_ne_bytes()).collect();
    let from = some.as_ptr().cast_mut().cast();
    let region = arrow_device::driver::Region {
        from: arrow_device::driver::Spot {
            base: arrow_device::driver::Raw::from_ptr(from),
            offset: 0,
        },
        to: arrow_device::driver::Spot { offset: 8 * (rows.start - 8), ..spot },
        len: some.len() as u64,
    };
    unsafe { queue.copy(arrow_device::driver::Route::FromHost, &[region]) }.unwrap();
    queue.synchronize().unwrap();
    unsafe { offsets.assume_written(offsets.len()) };
    let column = Array::builder(DataType::LargeUtf8)
        .len(HUGE as usize)
        .buffers([
            Some(lazy(device, HUGE / 8)),
            Some(offsets.into_buffer()),
            Some(lazy(device, 10 * HUGE)),
        ])
        .finish_ready()
        .unwrap();
    column.slice(rows.start as usize, (rows.end - rows.start) as usize).unwrap()
}

fn moved(plan: &Plan) -> u64 {
    plan.hops().iter().map(|hop| hop.bytes).sum::<u64>() + plan.bytes_read_ahead()
}

#[test]
fn ten_rows_of_a_hundred_million_move_less_than_4_kib_on_every_way() {
    if Sim::protection() != Protection::Guarded {
        return eprintln!(
            "skipped: device memory of gigabytes that nobody touches needs guarded pages"
        );
    }
    for builder in [
        Sim::builder().devices(2),
        Sim::builder().peers(2),
        Sim::builder().devices(2).kind(Kind::HostReadable),
        Sim::builder().devices(2).kind(Kind::Handles).parts(true),
    ] {
        let sim = builder.backtraces(false).build();
        let (one, two) =
            (sim.device().open_queue().unwrap(), sim.device_number(1).open_queue().unwrap());
        let first = HUGE / 100 * 77 + 3;
        let ten = huge_words(&one, first..first + 10);
        let always = Options::new().always(true);
        for queue in [&Queue::host(), &two, &one] {
            for array in [ten.clone(), imported(&ten)] {
                let plan = array.plan_copy(queue, &always).unwrap();
                assert!(moved(&plan) < 4096 && plan.allocated() < 4096, "{plan}");
                let copy = plan.run().unwrap();
                assert_eq!(copy.offset(), 3);
                copy.copy_to(&Queue::host()).unwrap().wait().unwrap();
            }
        }
        // Numbers need not even be asked for.
        let numbers = Array::builder(DataType::Int64)
            .len(HUGE as usize)
            .buffers([None, Some(lazy(&sim.device(), 8 * HUGE))])
            .finish_ready()
            .unwrap();
        let plan =
            numbers.slice((HUGE / 9 * 5) as usize, 10).unwrap().plan_copy(&two, &always).unwrap();
        assert_eq!((plan.bytes(), plan.bytes_read_ahead()), (80, 0), "{plan}");
        drop(plan.run().unwrap());
        one.synchronize().unwrap();
        two.synchronize().unwrap();
    }
}

fn batch(columns: usize, column: impl Fn(usize) -> Array) -> Batch {
    Batch::from_columns((0..columns).map(|index| (format!("c{index}"), column(index)))).unwrap()
}

#[test]
fn a_thousand_columns_are_one_allocation_and_one_submission() {
    let sim = Sim::builder().backtraces(false).build();
    let queue = sim.device().open_queue().unwrap();
    let numbers = batch(1000, |column| {
        Array::from_values(DataType::Int64, (0..64).map(|row| Some((row * column) as i64))).unwrap()
    });
    let plan = numbers.plan_copy(&queue, &Options::new()).unwrap();
    assert_eq!((plan.submissions(), plan.regions(), plan.allocations()), (1, 1000, 1));
    assert_eq!(plan.bytes(), 1000 * 64 * 8);
    let there = Batch::try_from(plan.run().unwrap()).unwrap();
    // Back with strings: one read for the lengths, one for the rest.
    let texts = batch(1000, |column| words(column % 7 + 1).slice(0, 1).unwrap());
    let plan = texts.plan_copy(&queue, &Options::new()).unwrap();
    assert!(plan.submissions() <= 5 && plan.allocations() == 1, "{plan}");
    let texts_there = plan.run().unwrap();
    let plan = texts_there.plan_copy(&Queue::host(), &Options::new()).unwrap();
    assert_eq!((plan.submissions(), plan.allocations()), (2, 1), "{plan}");
    assert!(plan.run().unwrap().equals(texts.as_array()).unwrap());
    assert!(there.to_host().unwrap().as_array().equals(numbers.as_array()).unwrap());
}

#[test]
fn what_occurs_twice_moves_once() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let values = words(1000);
    let keys = |key: usize| {
        Array::from_keys(
            DataType::dictionary(IndexType::Int32, DataType::Utf8),
            [Some(key), Some(key + 1)],
            values.clone(),
        )
        .unwrap()
    };
    let two = batch(2, keys);
    let one = batch(1, |_| keys(0));
    let bytes = |batch: &Batch| batch.plan_copy(&queue, &Options::new()).unwrap().bytes();
    assert_eq!(bytes(&two) - bytes(&one), 8);
    let there = two.copy_to(&queue).unwrap();
    // Also where nobody says so but the addresses.
    let again = Batch::try_from(imported(there.as_array())).unwrap();
    let plan = again.plan_copy(&Queue::host(), &Options::new()).unwrap();
    assert_eq!(plan.bytes(), bytes(&two));
    assert!(plan.shared_bytes() > 1000, "{plan}");
    assert!(plan.run().unwrap().equals(two.as_array()).unwrap());
}

#[test]
fn between_peers_offsets_make_a_detour_only_where_that_moves_less() {
    let sim = Sim::builder().peers(2).build();
    let (one, two) =
        (sim.device().open_queue().unwrap(), sim.device_number(1).open_queue().unwrap());
    let all = words(2000);
    let there = all.copy_to(&one).unwrap();
    // Far behind the beginning the detour is short; near to it, what is before is less than the
    // offsets of the rest.
    for (from, len, expected) in [(1990, 5, "detour"), (1, 1900, "untrimmed"), (0, 10, "neither")] {
        let part = there.slice(from, len).unwrap();
        let plan = part.plan_copy(&two, &Options::new()).unwrap();
        let cuts: Vec<Cut> = plan.notes().iter().map(|note| note.cut()).collect();
        let found = match &cuts[..] {
            [.., Cut::Detour { bytes, detour, .. }] if detour < bytes => "detour",
            [.., Cut::Untrimmed { bytes, detour, .. }] if detour >= bytes => "untrimmed",
            _ => "neither",
        };
        assert_eq!(found, expected, "{plan}");
        let ways: Vec<Way> = plan.hops().iter().map(|hop| hop.way).collect();
        assert_eq!(ways[0], Way::FromPeer);
        assert_eq!(ways.len(), if expected == "detour" { 3 } else { 1 });
        let back = plan.run().unwrap().to_host().unwrap();
        let host = all.slice(from, len).unwrap();
        assert_is(&back, &oracle::plan_of(&host).unwrap(), expected);
    }
}

#[test]
fn a_plan_says_what_it_is_about_to_do() {
    let sim = Sim::builder().devices(2).build();
    let (one, two) =
        (sim.device().open_queue().unwrap(), sim.device_number(1).open_queue().unwrap());
    let there = words(2000).copy_to(&one).unwrap().slice(1001, 3).unwrap();
    let plan = there.plan_copy(&two, &Options::new()).unwrap();
    let (from, to) = (one.device().id(), two.device().id());
    let expected = format!(
        "copy of 3 elements of utf8\n  \
         {from} -> cpu: written by the device to the host: 32 bytes in 2 regions, 1 submission\n  \
         cpu -> {to}: read by the device from the host: 272 bytes in 1 region, 1 submission\n  \
         learned 2 lengths in 8 bytes, with 1 wait\n  \
         1 allocation of 272 bytes together, aligned to 256\n  \
         root: 3 elements of 2000\n  \
         root: offsets begin at 0 instead of 5299, which saves 5299 bytes\n"
    );
    assert_eq!(plan.to_string(), expected);
    drop(plan);
    assert_eq!(
        there.plan_copy(&one, &Options::new()).unwrap().to_string(),
        format!("copy of 3 elements of utf8\n  {from} -> {from}: shared, nothing is copied\n")
    );
    one.synchronize().unwrap();
}

#[test]
fn every_buffer_begins_where_it_was_asked_to() {
    let sim = Sim::builder().build();
    let queue = sim.device().open_queue().unwrap();
    let schema = Field::new("words", DataType::Utf8, true);
    let array = words(50);
    assert_eq!(array.data_type(), schema.data_type());
    for (asked, least) in [(1, 256), (64, 256), (4096, 4096), (65536, 65536)] {
        let options = Options::new().alignment(asked).always(true);
        for separate in [false, true] {
            let copy = array.copy_with(&queue, &options.clone().separate(separate)).unwrap();
            let view = copy.on(&queue).unwrap();
            for index in 1..3 {
                let address = view.buffer(index).location().address().addr();
                assert_eq!(address % least, 0, "buffer {index} for {asked}");
            }
            let host = array.copy_with(&Queue::host(), &options).unwrap();
            let view = host.on(&Queue::host()).unwrap();
            assert_eq!(view.buffer(1).location().address().addr() % (asked as usize).max(64), 0);
        }
    }
}
