//! Judges consumers of tensors in DLPack's C form.

use std::time::{Duration, Instant};

use arrow_device::abi::dlpack::{DLDeviceType, DLManagedTensor, DLManagedTensorVersioned};
use arrow_device_testkit::tensors::{Count, Recipe};

use super::Scenario;
use crate::bench::{Bench, Where};
use crate::notes::Notes;
use crate::patience::patience;
use crate::peer::{Entry, Peer};

macro_rules! tried {
    ($($id:literal, $name:literal, $expected:ident, $change:expr;)*) => {
        &[$(Scenario {
            name: $name,
            place: Where::Host,
            run: |peer, bench, notes| judge(peer, bench, notes, [$id, $name], ExpectedAnswer::$expected, $change),
        }),*]
    };
}

/// The answer of a right consumer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ExpectedAnswer {
    /// The consumer takes the tensor.
    Taken,
    /// The consumer refuses the tensor.
    Refused,
    /// The consumer may do either.
    Any,
}

pub(super) const SCENARIOS: &[Scenario] = tried! {
    "DLP-6", "a tensor", Taken, |_| {};
    "DLP-7", "a tensor without strides", Taken, |it| it.strides = None;
    "DLP-7", "a tensor without elements", Any, |it| {
        it.shape = Some(vec![2, 0]);
        it.bytes = None;
    };
    "DLP-7", "a tensor without rows", Any, |it| {
        it.shape = Some(vec![0, 3]);
        it.bytes = None;
    };
    "DLP-7", "a tensor of no dimensions", Any, |it| {
        (it.shape, it.strides, it.ndim) = (None, None, Some(0));
    };
    "DLP-12", "a tensor that is read-only", Any, |it| {
        it.flags = 1;
        it.data = Some((&raw const READ_ONLY).cast_mut().cast());
    };
    "DLP-10", "a tensor that nobody has to give back", Any, |it| it.has_deleter = false;
    "DLP-11", "a tensor of a later minor version", Any, |it| it.version.minor = 99;
    "DLP-11", "a tensor of a major version to come", Refused, |it| {
        it.version.major = 9;
        it.ndim = Some(i32::MAX);
        it.shape = None;
        it.data = Some(std::ptr::without_provenance_mut(1));
    };
    "DLP-9", "a tensor on a type of device that nobody has", Any, |it| {
        it.device.device_type = DLDeviceType(257);
        it.data = Some(std::ptr::without_provenance_mut(0x1000));
    };
    "SYS-2", "a tensor that is wrong: a negative number of dimensions", Refused, |it| it.ndim = Some(-1);
    "SYS-2", "a tensor that is wrong: a negative length", Refused, |it| it.shape = Some(vec![2, -3]);
    "SYS-2", "a tensor that is wrong: no shape", Refused, |it| {
        it.shape = None;
        it.ndim = Some(2);
    };
};

/// The data of a read-only tensor, in memory that cannot be written.
static READ_ONLY: [i32; 6] = [0, 1, 2, 3, 4, 5];

/// Whether the deleter has run once, or does so soon: a thread of the peer may be the one that
/// calls it.
fn reaches_one(deletions: &Count) -> bool {
    let end = Instant::now() + patience();
    while deletions.get() == 0 && Instant::now() < end {
        arrow_device::deferred::release_finished();
        std::thread::sleep(Duration::from_millis(1));
    }
    deletions.get() == 1
}

fn judge(
    peer: &Peer,
    bench: &Bench,
    notes: &Notes,
    [id, name]: [&str; 2],
    expected: ExpectedAnswer,
    change: fn(&mut Recipe),
) {
    let mut recipe = Recipe::default();
    change(&mut recipe);
    let (code, deletions) = match &peer.entry {
        Entry::ConsumeTensor(consume) => {
            let (tensor, deletions) = recipe.make::<DLManagedTensorVersioned>();
            notes.now(id, &format!("given {name}"));
            (consume(bench, tensor), deletions)
        }
        Entry::ConsumeLegacy(consume) => {
            if id == "DLP-11" || id == "DLP-12" {
                return notes.skip(id, "the older form has neither version nor flags");
            }
            let (tensor, deletions) = recipe.make::<DLManagedTensor>();
            notes.now(id, &format!("given {name}"));
            (consume(bench, tensor), deletions)
        }
        _ => return,
    };
    let is_right = match expected {
        ExpectedAnswer::Taken => code == 0,
        ExpectedAnswer::Refused => code != 0,
        ExpectedAnswer::Any => true,
    };
    notes.check(id, is_right, || match expected {
        ExpectedAnswer::Taken => format!("{name} was refused with {code}"),
        _ => format!("{name} was accepted"),
    });
    let is_deleted = !recipe.has_deleter || reaches_one(&deletions);
    notes.check("DLP-6", is_deleted, || format!("the deleter ran {} times", deletions.get()));
}
