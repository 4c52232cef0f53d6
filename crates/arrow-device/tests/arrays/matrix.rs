//! Every Arrow type, in every shape, with everything that can be known of its nulls: imported,
//! exported, handed on, its children moved out, released in every order. All addresses are kept,
//! and everything is released once.

use arrow_device::Device;
use arrow_device_testkit::Verdict;
use arrow_device_testkit::consumer::Order;
use arrow_device_testkit::kinds::{Case, cases, kinds};
use arrow_device_testkit::plan::{Nulls, Window};
use arrow_device_testkit::producer::Manner;
use arrow_device_testkit::relay::{Handwritten, On, Ours, Relay, check_relay};
use arrow_device_testkit::suite::{Check, Suite};

/// How many cases one run looks at: all, or so few that an interpreter gets through them.
fn each_case(mut check: impl FnMut(usize, &Case) -> Verdict) -> usize {
    let stride = if cfg!(miri) { 499 } else { 1 };
    let mut count = 0;
    for (number, case) in cases().enumerate().step_by(stride) {
        if let Err(complaint) = check(number, &case) {
            panic!("{case}: {complaint}");
        }
        count += 1;
    }
    count
}

/// The kinds of the matrix, the windows, and what is known of nulls.
const CASES: usize = (42 + 42 * 12 + 12 * 12 + 7 + 2 + 3 + 3) * 4 * 3;

#[test]
#[cfg_attr(miri, ignore = "counts cases and follows no pointer")]
fn the_matrix_has_every_type_in_every_shape() {
    assert_eq!(cases().count(), CASES);
    println!("{CASES} arrays of {} types", kinds().len());
    let formats: std::collections::BTreeSet<_> =
        kinds().iter().map(|kind| kind.plan(Window::WHOLE, Nulls::None).format).collect();
    println!("{} formats: {formats:?}", formats.len());
    let names = [
        "n", "b", "c", "C", "s", "S", "i", "I", "l", "L", "e", "f", "g", "z", "Z", "vz", "u", "U",
        "vu", "tdD", "tdm", "tts", "ttm", "ttu", "ttn", "tss:", "tDs", "tDm", "tDu", "tDn", "tiM",
        "tiD", "tin", "+l", "+L", "+vl", "+vL", "+w:2", "+s", "+m", "+us:5,6", "+ud:5,6", "+r",
    ];
    for name in names {
        assert!(formats.iter().any(|format| format.to_bytes() == name.as_bytes()), "{name}");
    }
}

// Requirement: ABI-2, ABI-5, SYS-1, ARR-10, ARR-12, ARR-13, ARR-15, ARR-16, ARR-18, ARR-19
#[test]
fn every_array_is_handed_on_as_it_is() {
    let mut runs = 0;
    let count = each_case(|number, case| {
        let on = [On::CPU, On::device(2, 0), On::device(4711, i64::MAX)][number % 3];
        // An interpreter looks at one order of each array.
        let orders = if cfg!(miri) { &Order::ALL[number % 4..][..1] } else { &Order::ALL[..] };
        for order in orders.iter().copied() {
            let manner = [Manner::NodeByNode, Manner::AllByTheBase][(number + runs) % 2];
            check_relay(&Ours, &case.plan(), on, manner, order)
                .map_err(|complaint| format!("{order:?}: {complaint}"))?;
            runs += 1;
        }
        Ok(())
    });
    println!("{count} arrays handed on, released in {runs} ways");
    assert!(cfg!(miri) || (count, runs) == (CASES, CASES * 4));
}

#[test]
fn another_right_peer_passes_too() {
    each_case(|_, case| {
        let (manner, order) = (Manner::AllByTheBase, Order::ParentFirst);
        check_relay(&Handwritten(None), &case.plan(), On::CPU, manner, order)
    });
}

// Requirement: SYS-1, ARR-11, ARR-16
#[test]
fn every_array_is_imported_and_exported_as_it_is() {
    let stride = if cfg!(miri) { 1499 } else { 1 };
    let suite = Suite::new(&Device::host()).over(cases().step_by(stride));
    let report = suite.only([Check::Import, Check::Export]).run();
    report.assert();
    assert!(cfg!(miri) || report.cases() == 2 * CASES);
}

/// A relay can be anybody's.
#[test]
fn a_peer_is_named_by_a_trait() {
    let all: [&dyn Relay; 2] = [&Ours, &Handwritten(None)];
    let plan = kinds()[3].plan(Window::WHOLE, Nulls::Unknown);
    for relay in all {
        assert_eq!(check_relay(relay, &plan, On::CPU, Manner::NodeByNode, Order::Whole), Ok(()));
    }
}
