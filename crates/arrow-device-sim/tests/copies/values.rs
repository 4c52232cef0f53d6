//! Whatever is copied from wherever to wherever has the values that it had, as a naive reader sees them.

use arrow_device::copy::Options;
use arrow_device::{Array, DataType, Queue};
use arrow_device_testkit::generate::{self, Generated};
use arrow_device_testkit::kinds;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::oracle;
use arrow_device_testkit::plan::Plan;

use crate::places::{World, assert_is, imported};

/// The ways to ask for the same.
fn choices(number: usize) -> Options {
    let options = Options::new().always(true);
    match number % 5 {
        0 => options,
        1 => options.trim(false),
        2 => options.separate(true),
        3 => options.chunk(64),
        _ => options.alignment(1024).chunk(192),
    }
}

/// Goes from every place to every other and back to the host.
fn tour(world: &World, array: &Array, expected: &Plan, number: usize) {
    let host = Queue::host();
    for (from, there) in world.places.iter().enumerate() {
        let mut source = array.copy_to(&there.queue).unwrap();
        if (number + from) % 2 == 1 && from > 0 {
            source = imported(&source);
        }
        for (to, here) in world.places.iter().enumerate() {
            let options = choices(number + from + to);
            let what = || {
                let shape = array.data_type();
                format!("array {number}: {shape}, {} -> {}, {options:?}", there.name, here.name)
            };
            let copy = source.copy_with(&here.queue, &options);
            let copy = copy.unwrap_or_else(|error| panic!("{}: {error}", what()));
            assert!(!copy.is_same(&source), "{}", what());
            let back = copy.copy_to(&host).unwrap_or_else(|error| panic!("{}: {error}", what()));
            assert_is(&back, expected, &what());
        }
    }
}

/// An array of the library's, and what is to be read in every copy of it.
fn built(plan: &Plan) -> (Array, Plan) {
    let array = generate::build(plan, &Ledger::new()).unwrap();
    // The same values, with the type as the library spells it.
    let expected = oracle::plan_of(&array).unwrap();
    assert_eq!(oracle::values(&expected), oracle::values(plan));
    (array, expected)
}

#[test]
fn arbitrary_arrays_and_their_slices_go_from_every_place_to_every_other() {
    let world = World::new(1);
    let count = if cfg!(miri) { 1 } else { 40 };
    for (number, Generated { plan, .. }) in generate::samples(count, 7).enumerate() {
        let (array, expected) = built(&plan);
        let (from, len) = (array.len() / 3, array.len() - array.len() / 2);
        let len = len.min(array.len() - from);
        match number % 3 {
            0 => tour(&world, &array, &expected, number),
            _ => {
                let part = array.slice(from, len).unwrap();
                tour(&world, &part, &oracle::slice(&expected, from, len), number);
            }
        }
    }
}

/// Shipped consumers refuse texts and lists without elements that have no offsets at all.
#[test]
fn one_offset_is_left_of_what_is_empty_on_every_way() {
    let world = World::new(5);
    let words = Array::from_texts(DataType::Utf8, [Some("one"), Some("two")]).unwrap();
    let lists = Array::from_lists(DataType::list(DataType::Utf8), [Some(2), None], words).unwrap();
    let empty = lists.slice(1, 0).unwrap();
    for there in &world.places {
        let source = empty.copy_to(&there.queue).unwrap();
        for here in &world.places {
            let options = Options::new().always(true);
            let copy = source.copy_with(&here.queue, &options).unwrap();
            let back = copy.copy_to(&Queue::host()).unwrap();
            for node in [&back, &back.child(0).unwrap()] {
                let view = node.on(&Queue::host()).unwrap();
                let offsets = view.buffer(1).location().address().cast::<i32>();
                assert!(!offsets.is_null(), "{} -> {}", there.name, here.name);
                assert_eq!(
                    unsafe { offsets.read_unaligned() },
                    0,
                    "{} -> {}",
                    there.name,
                    here.name
                );
            }
        }
    }
}

#[test]
fn every_type_in_every_window_goes_to_a_device_and_back() {
    let world = World::new(2);
    // Every kind of place in turn, so that each type meets each in some window.
    let skip = if cfg!(miri) { 400 } else { 1 };
    for (number, case) in kinds::cases().enumerate().step_by(skip) {
        let plan = case.plan();
        let (array, expected) = built(&plan);
        let place = &world.places[number % world.places.len()];
        let there = array.copy_with(&place.queue, &choices(number)).unwrap();
        let back = there.to_host().unwrap();
        assert_is(&back, &expected, &format!("{case}, {}", place.name));
    }
}

#[test]
fn arbitrary_arrays_come_back_from_a_device_and_shrink_where_they_do_not() {
    let world = World::new(3);
    let (cases, host) = (if cfg!(miri) { 2 } else { 400 }, Queue::host());
    generate::for_each(cases, 11, |generated| {
        let (array, expected) = built(&generated.plan);
        let number = generated.bytes.len();
        let place = &world.places[number % world.places.len()];
        let copy = |array: &Array, queue: &Queue| {
            let copied = array.copy_with(queue, &choices(number / 9));
            copied.map_err(|error| format!("{}: {error}", place.name))
        };
        let there = imported(&copy(&array, &place.queue)?);
        let back = copy(&there, &host)?;
        back.validate().map_err(|error| error.to_string())?;
        oracle::require_equal(&expected, &oracle::plan_of(&back)?)
    });
}

#[test]
fn a_copy_without_trimming_has_the_shape_of_its_source() {
    let world = World::new(4);
    let whole = Options::new().trim(false).always(true);
    for Generated { plan, .. } in generate::samples(if cfg!(miri) { 2 } else { 40 }, 5) {
        let (array, _) = built(&plan);
        for place in &world.places {
            let copy = array.copy_with(&place.queue, &whole).unwrap();
            assert_eq!((copy.offset(), copy.len()), (array.offset(), array.len()));
            assert_eq!(copy.null_count(), array.null_count());
            assert_eq!(copy.schema().unwrap(), array.schema().unwrap());
        }
    }
}
