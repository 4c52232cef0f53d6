//! All wrong peers of the testkit that exchange arrays, for the table of pairs. And those who are
//! right are not blamed.

use arrow_device::abi::{ArrowArray, ArrowDeviceArray, ArrowSchema};
use arrow_device::driver::Readiness;
use arrow_device_check::{Bench, Entry, Kind, Peer, Side, Where, child_with, usual_places};
use arrow_device_testkit::judge::Stage;
use arrow_device_testkit::relay::{Handwritten, Ours, Relay};
use arrow_device_testkit::wrong::{self, Direction, Producer, Wrong};

use crate::pairs::Pair;
use crate::support;

#[test]
fn the_child_of_the_other_tests() {
    child_with(peer);
}

/// A device that does nothing by itself, for peers that were written for it.
fn by_hand(place: Where) -> Result<Bench, String> {
    match place {
        Where::Host => support::nowhere(place),
        Where::WithoutEvents => Ok(Bench::Hand(Stage::new(Readiness::HostWait))),
        Where::Device | Where::Anywhere => Ok(Bench::Hand(Stage::new(Readiness::Event))),
    }
}

fn producer(producer: Producer) -> Peer {
    let entry = Entry::ProduceArray(Box::new(move |bench, schema, array| {
        let Bench::Hand(stage) = bench else { return 22 };
        producer.produce(stage, schema, array);
        0
    }));
    Peer::new(entry, by_hand)
}

type Consume = fn(&Stage, &mut ArrowSchema, &mut ArrowDeviceArray);

fn consumer(consume: Consume) -> Peer {
    let entry = Entry::ConsumeArray(Box::new(move |bench, schema, array| {
        let Bench::Hand(stage) = bench else { return 22 };
        consume(stage, unsafe { &mut *schema }, unsafe { &mut *array });
        0
    }));
    Peer::new(entry, by_hand)
}

fn relay(relay: impl Relay + 'static, is_handwritten: bool) -> Peer {
    let entry = Entry::RelayArray(Box::new(move |_, schema, array, out_schema, out| {
        let handed_on = relay.relay(unsafe { &mut *schema }, unsafe { &mut *array });
        let Ok((made_schema, made)) = handed_on else {
            // Where the schema was wrong, the array is still there.
            support::release(array);
            return 22;
        };
        unsafe { out_schema.write(made_schema) };
        unsafe { out.write(made) };
        if is_handwritten {
            Handwritten::settle_at(unsafe { &raw mut (*out).array });
        }
        0
    }));
    Peer::new(entry, usual_places(false, true))
}

/// Takes memory that is not there for the host's, and refuses an array that is in two places.
#[derive(Clone, Copy)]
struct RefusesNullBuffers;

impl Relay for RefusesNullBuffers {
    fn relay(
        &self,
        schema: &mut ArrowSchema,
        array: &mut ArrowDeviceArray,
    ) -> Result<(ArrowSchema, ArrowDeviceArray), String> {
        if array.device_type != 1 && has_null_buffer(&array.array) {
            support::release(array);
            unsafe { schema.release.unwrap()(schema) };
            return Err("it is on more than one device".into());
        }
        Handwritten(None).relay(schema, array)
    }
}

/// Whether a buffer behind the bitmap is null.
fn has_null_buffer(array: &ArrowArray) -> bool {
    let buffers = (1..array.n_buffers as usize).map(|index| unsafe { *array.buffers.add(index) });
    let children =
        (0..array.n_children as usize).map(|index| unsafe { &**array.children.add(index) });
    buffers.into_iter().any(<*const _>::is_null) || children.into_iter().any(has_null_buffer)
}

pub(crate) fn peer(name: &str) -> Option<Peer> {
    let wrong = |wrong: &Wrong| match wrong.peer {
        wrong::Peer::Producer(it) => producer(it),
        wrong::Peer::Consumer(it) => consumer(it),
        wrong::Peer::Relay(it) => relay(it, true),
        _ => panic!("another kind of peer"),
    };
    match name {
        "right producer" => Some(producer(Producer::RIGHT)),
        "right consumer" => Some(consumer(wrong::right_consumer)),
        "our relay" => Some(relay(Ours, false)),
        "relay that refuses null buffers" => Some(relay(RefusesNullBuffers, true)),
        "right relay" => Some(relay(Handwritten(None), true)),
        name => wrong::all().get(name.parse::<usize>().ok()?).map(wrong),
    }
}

fn side(direction: Direction) -> Side {
    match direction {
        Direction::Producer => Side::Producer,
        Direction::Consumer => Side::Consumer,
        _ => Side::Relay,
    }
}

/// The rows of the table of pairs: who it is, what it does, and the rule that this breaks.
pub(crate) fn pairs() -> Vec<Pair> {
    let pair = |(number, wrong): (usize, &Wrong)| {
        let right = match wrong.direction() {
            Direction::Producer => "right producer",
            Direction::Consumer => "right consumer",
            _ => "right relay",
        };
        let (faulty, side) = (format!("arrays@{number}"), side(wrong.direction()));
        let right = match wrong.peer {
            // It believes all that it is shown, which is its fault.
            wrong::Peer::Relay(Handwritten(None)) => "our relay",
            _ => right,
        };
        let right = format!("arrays@{right}");
        let pair = Pair::of_rust(Kind::Array, side, faulty, right, wrong.name, wrong.id);
        let believes = side == Side::Relay && wrong.id != "SYS-2";
        if believes { pair.without_wrong_structs() } else { pair }
    };
    let null_buffers = Pair::of_rust(
        Kind::Array,
        Side::Relay,
        "arrays@relay that refuses null buffers".into(),
        "arrays@right relay".into(),
        "refuses null buffers on a device",
        "SYS-1",
    )
    .without_wrong_structs();
    wrong::all().iter().enumerate().map(pair).chain([null_buffers]).collect()
}

#[test]
fn those_who_are_right_are_not_blamed() {
    support::assert_right("right producer", Kind::Array, Side::Producer);
    support::assert_right("right consumer", Kind::Array, Side::Consumer);
    support::assert_right("our relay", Kind::Array, Side::Relay);
}
