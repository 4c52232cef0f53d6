//! Copies of any array, as a naive reader sees them.

use arrow_device::copy::Options;
use arrow_device::driver::WaitingCopies;
use arrow_device::{Array, DataType, Error, ErrorKind, Queue};
use arrow_device_testkit::generate::{self, Generated};
use arrow_device_testkit::plan::Plan;
use arrow_device_testkit::trips::{assert_is, built, imported, polled, ways_to_copy};
use arrow_device_testkit::{kinds, oracle};
use device_pairs::{Place, ROWS, World};

/// Goes from every place to every other and back to the host.
fn tour(world: &World, array: &Array, expected: &Plan, number: usize) {
    for (index, from) in world.places.iter().enumerate() {
        let source = source(array, from, number + index);
        for (other, to) in world.places.iter().enumerate() {
            there_and_back(&source, [from, to], expected, number + index + other);
        }
    }
}

/// The array at a place; now and then as somebody has it who only knows the C struct.
fn source(array: &Array, place: &Place, number: usize) -> Array {
    let source = array.copy_to(&place.queue).unwrap_or_else(|error| panic!("{place:?}: {error}"));
    if number % 2 == 1 { imported(&source) } else { source }
}

fn there_and_back(source: &Array, [from, to]: [&Place; 2], expected: &Plan, number: usize) {
    let options = ways_to_copy(number);
    let what = || {
        let shape = source.data_type();
        format!("array {number}: {shape}, {from:?} -> {to:?}, {options:?}")
    };
    let copy = source.copy_with(&to.queue, &options);
    let copy = copy.unwrap_or_else(|error| panic!("{}: {error}", what()));
    assert!(!copy.is_same(source), "{}", what());
    let back = copy.to_host().unwrap_or_else(|error| panic!("{}: {error}", what()));
    assert_is(&back, expected, &what());
}

#[test]
fn arbitrary_arrays_and_their_slices_go_from_every_place_to_every_other() {
    let world = World::new(1);
    // As many copies, however many places there are.
    let count = 3000 / world.pairs().count();
    for (number, Generated { plan, .. }) in generate::samples(count, 7).enumerate() {
        let (array, expected) = built(&plan);
        let (from, len) = (array.len() / 3, array.len() / 2);
        match number % 3 {
            0 => tour(&world, &array, &expected, number),
            _ => {
                let part = array.slice(from, len).unwrap();
                tour(&world, &part, &oracle::slice(&expected, from, len), number);
            }
        }
    }
}

/// Each type meets each pair in one window or another, and each window meets each kind of nulls. Of
/// the pairs with a GPU, whose own tests send every type there and back, each type meets every
/// third.
#[test]
fn every_type_goes_from_every_place_to_every_other() {
    let world = World::new(2);
    for (number, kind) in kinds::types().into_iter().enumerate() {
        let cases: Vec<(Array, Plan)> =
            kinds::cases_of([kind]).map(|case| built(&case.plan())).collect();
        for (pair, (from, to)) in world.pairs().enumerate() {
            if (from.is_gpu() || to.is_gpu()) && (number + pair) % 3 != 0 {
                continue;
            }
            let (array, expected) = &cases[(number + pair) % cases.len()];
            there_and_back(&source(array, from, pair / 2), [from, to], expected, number + pair);
        }
    }
}

#[test]
fn every_type_in_every_window_goes_to_a_place_and_back() {
    let world = World::new(3);
    for (number, case) in kinds::cases().enumerate() {
        let (array, expected) = built(&case.plan());
        // Every place in turn, so that each type meets each in some window.
        let place = &world.places[number % world.places.len()];
        let there = array.copy_with(&place.queue, &ways_to_copy(number)).unwrap();
        let back = there.to_host().unwrap();
        assert_is(&back, &expected, &format!("{case}, {place:?}"));
    }
}

// Requirement: SAF-21
#[test]
fn every_type_in_every_window_is_polled_to_a_place_and_back() {
    let world = World::new(5);
    for (number, case) in kinds::cases().enumerate() {
        let (array, expected) = built(&case.plan());
        let place = &world.places[(number + 1) % world.places.len()];
        let queue = &place.queue;
        let what = || format!("{case}, {place:?}");
        if queue.device().properties().waiting_copies == WaitingCopies::All {
            let refused = polled(array.copy_polled(queue, &ways_to_copy(number)), &[queue]);
            let is_refused = |error: Error| error.kind() == ErrorKind::Unsupported;
            // Elements of no bytes are not copied, and so not refused.
            let plan = array.plan_copy(queue, &ways_to_copy(number)).unwrap();
            assert!(plan.bytes() == 0 || refused.is_err_and(is_refused), "{}", what());
            continue;
        }
        let there = polled(array.copy_polled(queue, &ways_to_copy(number)), &[queue]);
        let there = there.unwrap_or_else(|error| panic!("{}: {error}", what()));
        let back = there.copy_polled(&Queue::host(), &Options::new().through(queue));
        let back = polled(back, &[queue]).unwrap_or_else(|error| panic!("{}: {error}", what()));
        assert_is(&back, &expected, &what());
    }
}

#[test]
fn arbitrary_arrays_come_back_from_a_place_and_shrink_where_they_do_not() {
    let world = World::new(4);
    let host = Queue::host();
    generate::for_each(600, 11, |generated| {
        let (array, expected) = built(&generated.plan);
        let number = generated.bytes.len();
        let place = &world.places[number % world.places.len()];
        let copy = |array: &Array, queue: &Queue| {
            let copied = array.copy_with(queue, &ways_to_copy(number / 9));
            copied.map_err(|error| format!("{place:?}: {error}"))
        };
        let there = imported(&copy(&array, &place.queue)?);
        let back = copy(&there, &host)?;
        back.validate().map_err(|error| error.to_string())?;
        oracle::require_equal(&expected, &oracle::plan_of(&back)?)
    });
}

/// Shipped consumers refuse texts and lists without elements that have no offsets at all.
#[test]
fn one_offset_is_left_of_what_is_empty_on_every_way() {
    let world = World::new(5);
    let words = Array::from_texts(DataType::Utf8, [Some("one"), Some("two")]).unwrap();
    let lists = Array::from_lists(DataType::list(DataType::Utf8), [Some(2), None], words).unwrap();
    let empty = lists.slice(1, 0).unwrap();
    for (from, to) in world.pairs() {
        let options = Options::new().always(true);
        let source = empty.copy_to(&from.queue).unwrap();
        let copy = source.copy_with(&to.queue, &options).unwrap();
        let back = copy.copy_to(&Queue::host()).unwrap();
        for node in [&back, &back.child(0).unwrap()] {
            let view = node.on(&Queue::host()).unwrap();
            let offsets = view.buffer(1).location().address().cast::<i32>();
            assert!(!offsets.is_null(), "{from:?} -> {to:?}");
            assert_eq!(unsafe { offsets.read_unaligned() }, 0, "{from:?} -> {to:?}");
        }
    }
}

#[test]
fn a_copy_without_trimming_has_the_shape_of_its_source() {
    let world = World::new(6);
    let whole = Options::new().trim(false).always(true);
    for Generated { plan, .. } in generate::samples(40, 5) {
        let (array, _) = built(&plan);
        for place in &world.places {
            let copy = array.copy_with(&place.queue, &whole).unwrap();
            // Without elements there is one offset, and all of that is at the beginning.
            let offset = if array.is_empty() { 0 } else { array.offset() };
            assert_eq!((copy.offset(), copy.len()), (offset, array.len()), "{place:?}");
            assert_eq!(copy.null_count(), array.null_count(), "{place:?}");
            assert_eq!(copy.schema().unwrap(), array.schema().unwrap(), "{place:?}");
        }
    }
}

#[test]
fn threads_share_all_places() {
    let world = World::new(7);
    let fit = world.places.iter().filter(|place| !ROWS[place.row].on_request);
    let queues: Vec<(String, Queue)> =
        fit.map(|place| (place.name.clone(), place.queue.clone())).collect();
    std::thread::scope(|scope| {
        for seed in 0..4 {
            let queues = &queues;
            scope.spawn(move || {
                for (number, Generated { plan, .. }) in generate::samples(20, seed).enumerate() {
                    let (array, expected) = built(&plan);
                    let [one, two] = [number + seed as usize, number / 2]
                        .map(|index| &queues[index % queues.len()]);
                    let copy = array.copy_to(&one.1).unwrap().copy_to(&two.1).unwrap();
                    let what = format!("thread {seed}, array {number}: {} -> {}", one.0, two.0);
                    assert_is(&copy.to_host().unwrap(), &expected, &what);
                }
            });
        }
    });
}
