//! Arrays in host memory with any bytes in their buffers. The lengths of the buffers are right.

use arrow_device::{Array, Batch, HostArray};

use crate::generate::{self, Choices};
use crate::ledger::Ledger;
use crate::oracle;
use crate::plan::{Content, Plan};

/// The most elements that are read one by one, and compared with the oracle.
const MOST: usize = 64;

/// Reads a valid array in which some bytes and numbers were changed.
///
/// # Panics
/// Panics on a finding.
pub fn data(bytes: &[u8]) {
    let mut choices = Choices::new(bytes);
    let changes: Vec<[u8; 12]> =
        (0..choices.below(9)).map(|_| std::array::from_fn(|_| choices.byte())).collect();
    let mut plan = generate::plan(&mut choices);
    changes.iter().for_each(|how| change(&mut plan, &mut Choices::new(how)));
    let ledger = Ledger::new();
    match generate::build(&plan, &ledger) {
        Ok(array) => check(&array),
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(!changes.is_empty(), "a valid array was refused: {error}");
        }
    }
    assert_eq!(ledger.settle(0), Ok(()));
}

fn check(array: &Array) {
    let verdict = array.validate();
    let host = array.host().expect("host memory");
    read(&host);
    let half = array.len() / 2;
    let part = array.slice(half, array.len() - half).expect("within the array");
    if verdict.is_ok() {
        part.validate_layout().expect("a part of what is valid");
    }
    if verdict.is_err() || array.len() > MOST {
        return;
    }
    for array in [array, &part] {
        let plan = oracle::plan_of(array).expect("bytes of an array that is valid");
        let values = oracle::values(&plan).expect("values of an array that is valid");
        assert_eq!(values.len(), array.len());
    }
    assert!(array.equals(array).expect("an array that is valid"));
}

/// Reads in every way that there is. Each may be refused.
fn read(host: &HostArray) {
    for index in 0..host.len().min(MOST) {
        if let Ok(value) = host.value(index) {
            assert!(value.to_string().len() < usize::MAX);
        }
        let _ = host.is_null(index);
    }
    host.value(host.len()).expect_err("past the end");
    if let Ok(batch) = Batch::try_from(host.array().clone()) {
        let _ = batch.to_table(5);
    }
    let _ = host.array().describe();
    let _ =
        host.texts().map(|texts| texts.iter().take(MOST).flatten().map(str::len).sum::<usize>());
    let _ =
        host.bytes().map(|bytes| bytes.iter().take(MOST).flatten().map(<[u8]>::len).sum::<usize>());
    if let Ok(lists) = host.lists() {
        (0..lists.len().min(MOST)).for_each(|index| drop(lists.get(index)));
    }
}

fn change(plan: &mut Plan, choices: &mut Choices<'_>) {
    let mut all = Vec::new();
    nodes(plan, &mut all);
    let count = all.len();
    let node = &mut all[choices.below(256) % count];
    let kind = choices.below(16);
    match kind {
        0 => *node.length = window(choices),
        1 => *node.offset = window(choices),
        2 => *node.null_count = window(choices) - 1,
        3 => {
            let count = node.buffers.len().max(1);
            if let Some(buffer) = node.buffers.get_mut(choices.below(count)) {
                *buffer = Content::Null;
            }
        }
        _ => {
            let count = node.buffers.len().max(1);
            let Some(Content::Bytes(bytes)) = node.buffers.get_mut(choices.below(count)) else {
                return;
            };
            let len = bytes.len().max(1);
            let at = (choices.below(256) * 256 + choices.below(256)) % len;
            if kind == 4 {
                bytes.truncate(at);
                return;
            }
            if kind < 12 {
                // The byte changes by little, because a large mistake is easier to find.
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = byte.wrapping_add(choices.pick(&[1, 2, 3, 4, 255, 254, 8, 128]));
                }
                return;
            }
            let replacements = 1 + choices.below(4);
            for byte in bytes.iter_mut().skip(at).take(replacements) {
                *byte = choices.byte();
            }
        }
    }
}

/// Returns a number that is wrong by little, or by so much that memory cannot hold it.
fn window(choices: &mut Choices<'_>) -> i64 {
    match choices.below(8) {
        7 => choices.pick(&[1 << 20, 1 << 31, 1 << 40, 1 << 62, i64::MAX]),
        _ => choices.below(70) as i64,
    }
}

struct PlanNode<'plan> {
    length: &'plan mut i64,
    offset: &'plan mut i64,
    null_count: &'plan mut i64,
    buffers: &'plan mut Vec<Content>,
}

fn nodes<'plan>(plan: &'plan mut Plan, all: &mut Vec<PlanNode<'plan>>) {
    all.push(PlanNode {
        length: &mut plan.length,
        offset: &mut plan.offset,
        null_count: &mut plan.null_count,
        buffers: &mut plan.buffers,
    });
    plan.children
        .iter_mut()
        .chain(plan.dictionary.as_deref_mut())
        .for_each(|below| nodes(below, all));
}
