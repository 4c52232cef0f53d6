//! Arrow C++ of the pyarrow wheel as a peer: what the tests with it share.

use std::ffi::c_int;
use std::mem::ManuallyDrop;

use arrow_device::abi::{ArrowDeviceArray, ArrowDeviceArrayStream, ArrowSchema};
use arrow_device_check::{Bench, Entry, Peer, Report, Verdict, usual_places};
use foreign_peers::Structs;
use foreign_peers::arrow_cpp::{ArrowCpp, arrow_cpp};

/// What is answered where the library is not there.
pub(crate) const MISSING: c_int = 38;

/// Takes both over, and what the library leaves unreleased is shown to whoever asked.
pub(crate) fn with_structs(
    schema: *mut ArrowSchema,
    array: *mut ArrowDeviceArray,
    body: impl FnOnce(&mut Structs) -> Result<(), String>,
) -> c_int {
    let moved = unsafe { Structs { schema: schema.read(), array: array.read() } };
    let mut moved = ManuallyDrop::new(moved);
    let outcome = body(&mut moved);
    unsafe { schema.write(std::ptr::read(&moved.schema)) };
    unsafe { array.write(std::ptr::read(&moved.array)) };
    answer(outcome)
}

/// The code of an outcome, whose words are the last that is written.
pub(crate) fn answer(outcome: Result<(), String>) -> c_int {
    if let Err(said) = &outcome {
        println!("{said}");
    }
    super::code(outcome)
}

/// Takes both over, has them handed on, and fills the others.
pub(crate) fn relay_with(
    [schema, out_schema]: [*mut ArrowSchema; 2],
    [array, out]: [*mut ArrowDeviceArray; 2],
    relay: impl FnOnce(Structs) -> Result<Structs, String>,
) -> c_int {
    let moved = unsafe {
        Structs {
            schema: schema.replace(ArrowSchema::empty()),
            array: array.replace(ArrowDeviceArray::empty()),
        }
    };
    let given = relay(moved).map(|given| {
        let given = ManuallyDrop::new(given);
        unsafe { out_schema.write(std::ptr::read(&given.schema)) };
        unsafe { out.write(std::ptr::read(&given.array)) };
    });
    answer(given)
}

/// Arrow C++ with the device of the bench registered, or with none on the host.
pub(crate) fn on(bench: &Bench) -> Option<impl std::ops::Deref<Target = ArrowCpp>> {
    let cpp = arrow_cpp()?;
    unsafe { cpp.use_checked(bench.context().cast()) }.unwrap();
    Some(cpp)
}

/// A consumer: a function that takes two structs.
pub(crate) fn consumer(name: &'static str) -> Peer {
    let entry = Entry::ConsumeArray(Box::new(move |bench, schema, array| {
        let Some(cpp) = on(bench) else { return MISSING };
        with_structs(schema, array, |structs| unsafe { cpp.call(name, structs) })
    }));
    Peer::new(entry, usual_places(false, true))
}

/// A relay: a function that takes two structs and fills two.
pub(crate) fn relay(name: &'static str) -> Peer {
    let entry = Entry::RelayArray(Box::new(move |bench, schema, array, out_schema, out| {
        let Some(cpp) = on(bench) else { return MISSING };
        relay_with([schema, out_schema], [array, out], |moved| unsafe { cpp.hand_on(name, moved) })
    }));
    Peer::new(entry, usual_places(false, true))
}

/// A relay of streams, as `"chunks"` or as `"batches"`.
pub(crate) fn relay_stream(manner: &'static str) -> Peer {
    let entry = Entry::RelayStream(Box::new(
        move |bench, stream: *mut ArrowDeviceArrayStream, out: *mut ArrowDeviceArrayStream| {
            let Some(cpp) = on(bench) else { return MISSING };
            let moved = unsafe { stream.replace(ArrowDeviceArrayStream::empty()) };
            let given = unsafe { cpp.relay_stream(manner, moved) };
            answer(given.map(|given| unsafe { out.write(given) }))
        },
    ));
    Peer::new(entry, usual_places(false, true))
}

/// That all of this was found: an id, and words of what was seen.
pub(crate) fn require_all(report: &Report, expected: &[(&str, &str)]) {
    println!("{report}");
    for (id, words) in expected {
        let found = report.findings().find(|finding| finding.rule.id == *id);
        let is_seen = found.is_some_and(|finding| {
            let mut seen = finding.seen.iter();
            finding.verdict == Verdict::Fail
                && seen.any(|seen| seen.text.contains(words) || seen.scenario.contains(words))
        });
        assert!(is_seen, "{id} `{words}` is not in\n{report}");
    }
}
