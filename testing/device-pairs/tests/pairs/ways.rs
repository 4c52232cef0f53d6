//! Which way the data goes, as the plan says it: straight where there is a way, by the host where
//! there is none.

use arrow_device::copy::{Options, Way};
use arrow_device::{Array, DataType, DeviceId};
use device_pairs::{Memory, Place, ROWS, World};

/// What the table of devices promises.
fn expected(from: &Place, to: &Place) -> Vec<Way> {
    match (from.memory(), to.memory()) {
        (Memory::Host, Memory::Host) => vec![Way::HostCopy],
        (Memory::Host, _) => vec![Way::FromHost],
        (_, Memory::Host) if from.is_readable() => vec![Way::HostCopy],
        (_, Memory::Host) => vec![Way::ToHost],
        _ if from.queue.device().id() == to.queue.device().id() => vec![Way::Within],
        _ if to.reaches(from) => vec![Way::FromPeer],
        _ if from.is_readable() => vec![Way::FromHost],
        _ => vec![Way::ToHost, Way::FromHost],
    }
}

#[test]
fn the_way_is_straight_where_there_is_one() {
    let world = World::new(8);
    let numbers = Array::from_values(DataType::Int64, (0..100_i64).map(Some)).unwrap();
    for (from, to) in world.pairs() {
        let source = numbers.copy_to(&from.queue).unwrap();
        let plan = source.plan_copy(&to.queue, &Options::new().always(true)).unwrap();
        let hops = plan.hops();
        let found: Vec<Way> = hops.iter().map(|hop| hop.way).collect();
        assert_eq!(found, expected(from, to), "{from:?} -> {to:?}: {plan}");
        assert_eq!(plan.bytes(), 800, "{from:?} -> {to:?}: {plan}");
        // What is printed names both ends, and the host only where the data comes by it.
        let [here, there] = [from, to].map(|place| place.queue.device().id());
        assert_eq!((hops[0].from, hops[hops.len() - 1].to), (here, there), "{plan}");
        assert!(hops[1..].iter().all(|hop| hop.from == DeviceId::CPU), "{plan}");
        assert_eq!(plan.to_string().matches(" -> ").count(), hops.len(), "{plan}");
        drop(plan.run().unwrap());
        from.queue.synchronize().unwrap();
        to.queue.synchronize().unwrap();
    }
}

#[test]
fn what_is_there_already_is_shared() {
    let world = World::new(9);
    let numbers = Array::from_values(DataType::Int64, (0..100_i64).map(Some)).unwrap();
    for place in &world.places {
        let there = numbers.copy_to(&place.queue).unwrap();
        let plan = there.plan_copy(&place.queue, &Options::new()).unwrap();
        assert_eq!(plan.hops()[0].way, Way::Shared, "{place:?}: {plan}");
        assert_eq!(plan.submissions(), 0, "{place:?}: {plan}");
        assert!(plan.run().unwrap().is_same(&there), "{place:?}");
    }
}

/// What the tests are worth depends on what they are run on: all that needs no driver is there, and
/// several to a row.
#[test]
fn the_host_and_every_kind_of_software_device_are_there() {
    let world = World::new(14);
    let rows = |word: &str| ROWS.iter().filter(|row| row.required_as == word).count();
    let here = |word: &str| {
        world.places.iter().filter(|place| ROWS[place.row].required_as == word).count()
    };
    assert_eq!((rows("host"), here("host")), (1, 1));
    // Two rows have two devices each.
    assert_eq!((rows("sim"), here("sim")), (7, 9));
    // Simulated drivers, where nobody chose another one.
    assert_eq!([rows("cuda"), here("cuda"), rows("rocm"), here("rocm")], [3, 3, 2, 2]);
    // Different kinds are different devices, so that none is taken for another one.
    let mut ids: Vec<DeviceId> =
        world.places.iter().map(|place| place.queue.device().id()).collect();
    ids.sort_by_key(|id| (id.device_type.0, id.id));
    ids.dedup();
    assert_eq!(ids.len(), world.places.len(), "{world:?}");
    println!("{world:?}");
}
