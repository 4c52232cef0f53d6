//! Every kind of place that an array can be at, and the arrays that go there.

use arrow_device::abi::ArrowDeviceArray;
use arrow_device::{Array, Queue};
use arrow_device_sim::{Builder, Kind, Sim};
use arrow_device_testkit::oracle;
use arrow_device_testkit::plan::Plan;

/// A device with a queue; the host, too.
pub(crate) struct Place {
    pub(crate) name: String,
    pub(crate) queue: Queue,
}

/// All places at once: the host, a device of each kind, and two with and without access to each other.
pub(crate) struct World {
    // Dropped before the simulators, which look for what is left.
    pub(crate) places: Vec<Place>,
    #[expect(dead_code, reason = "kept to be asked, at the end, what they saw")]
    sims: Vec<Sim>,
}

impl World {
    pub(crate) fn new(seed: u64) -> Self {
        let builder = || Sim::builder().seed(seed).backtraces(false);
        let worlds: [(&str, Builder, usize); 6] = [
            ("discrete", builder(), 1),
            ("readable", builder().kind(Kind::HostReadable), 1),
            ("handles", builder().kind(Kind::Handles), 1),
            ("handles with parts", builder().kind(Kind::Handles).parts(true), 1),
            ("peer", builder().peers(2), 2),
            ("stranger", builder().devices(2), 2),
        ];
        let mut places = vec![Place { name: "host".into(), queue: Queue::host() }];
        let mut sims = Vec::new();
        for (name, builder, count) in worlds {
            let sim = builder.build();
            for number in 0..count {
                let queue = sim.device_number(number).open_queue().unwrap();
                places.push(Place { name: format!("{name} {number}"), queue });
            }
            sims.push(sim);
        }
        Self { places, sims }
    }
}

/// The array again, as somebody who only knows the C struct has it.
pub(crate) fn imported(array: &Array) -> Array {
    let mut c_array = ArrowDeviceArray::empty();
    array.export(&mut c_array).unwrap();
    unsafe { Array::import(&mut c_array, &array.schema().unwrap()) }.unwrap()
}

/// That an array in host memory is right, and what it should be.
#[track_caller]
pub(crate) fn assert_is(array: &Array, expected: &Plan, what: &str) {
    array.validate().unwrap_or_else(|error| panic!("{what}: {error}"));
    let found = oracle::plan_of(array).unwrap_or_else(|error| panic!("{what}: {error}"));
    oracle::require_equal(expected, &found).unwrap_or_else(|error| panic!("{what}: {error}"));
}

/// So many words, from `0` to `word 17`, of different lengths.
pub(crate) fn words(count: usize) -> Array {
    let word = |index: usize| match index % 3 {
        0 => index.to_string(),
        _ => format!("word {}", index % 20),
    };
    Array::from_texts(arrow_device::DataType::Utf8, (0..count).map(|index| Some(word(index))))
        .unwrap()
}
