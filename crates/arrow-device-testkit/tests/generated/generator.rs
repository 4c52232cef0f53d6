//! The generator and the oracle: what is generated is valid and varied, and the oracle tells arrays
//! apart.

use std::collections::BTreeSet;

use arrow_device_testkit::generate::{self, Choices, for_each, samples};
use arrow_device_testkit::kinds;
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::oracle::{self, Value};
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window, integers};
use arrow_device_testkit::{Verdict, assert_complaint, require};

#[test]
fn what_is_generated_passes_all_levels_of_validation() {
    for_each(600, 1, |generated| {
        let said = |error: arrow_device::Error| error.to_string();
        let ledger = Ledger::new();
        let array = generate::build(&generated.plan, &ledger).map_err(said)?;
        array.validate_layout().map_err(said)?;
        array.validate().map_err(said)?;
        drop(array);
        ledger.settle(0)
    });
}

#[test]
fn the_same_bytes_are_the_same_array_and_no_bytes_are_the_simplest() {
    for (one, other) in samples(50, 2).zip(samples(50, 2)) {
        assert_eq!(one.plan, other.plan);
        assert_eq!(generate::plan(&mut Choices::new(&one.bytes)), one.plan);
    }
    let simplest = generate::plan(&mut Choices::new(&[]));
    assert_eq!(generate::describe(&simplest), "i 0+0");
}

/// Letters of a format, without parameters, or a word where it is a dictionary.
fn word(plan: &Plan) -> String {
    if plan.dictionary.is_some() {
        return "dictionary".to_owned();
    }
    plan.format.to_string_lossy().split(':').next().unwrap_or_default().to_owned()
}

fn below(plan: &Plan) -> impl Iterator<Item = &Plan> {
    plan.children.iter().chain(plan.dictionary.as_deref())
}

fn nodes(plan: &Plan) -> Vec<&Plan> {
    std::iter::once(plan).chain(below(plan).flat_map(nodes)).collect()
}

/// What there is to be seen in an array besides its type.
fn traits(plan: &Plan) -> Vec<&'static str> {
    let buffers = &plan.buffers;
    let all = |is: fn(&Content) -> bool| !buffers.is_empty() && buffers.iter().all(is);
    let extension = b"ARROW:extension:name";
    let has_bitmap = matches!(buffers.first(), Some(Content::Bytes(_)));
    let is_extension =
        |bytes: &Vec<u8>| bytes.windows(extension.len()).any(|part| part == extension);
    let children = &plan.children;
    [
        ("offset", plan.offset > 0),
        ("empty", plan.length == 0),
        ("more than a byte of bits", plan.length > 8),
        ("no buffer", all(|content| *content == Content::Null)),
        ("nulls", plan.null_count > 0 && plan.null_count < plan.length),
        ("all null", plan.null_count > 0 && plan.null_count == plan.length),
        ("nulls not counted", plan.null_count < 0 && has_bitmap),
        ("no nulls not counted", plan.null_count < 0 && !has_bitmap),
        ("bitmap for nothing", plan.null_count == 0 && has_bitmap),
        ("not nullable", plan.flags & 2 == 0),
        ("ordered", plan.flags & 1 != 0),
        ("sorted keys", plan.flags & 4 != 0),
        ("metadata", plan.metadata.is_some()),
        ("extension", plan.metadata.as_ref().is_some_and(is_extension)),
        ("no name", plan.name.is_none()),
        ("children twice", children.windows(2).any(|pair| pair[0] == pair[1])),
        ("data buffers", plan.format.as_bytes()[0] == b'v' && buffers.len() > 4),
    ]
    .into_iter()
    .filter_map(|(name, holds)| holds.then_some(name))
    .collect()
}

#[test]
fn every_type_comes_up_in_every_other_and_every_trait_with_every_type() {
    let (mut formats, mut pairs, mut seen) = (BTreeSet::new(), BTreeSet::new(), BTreeSet::new());
    let mut biggest = 0;
    for generated in samples(6000, 3) {
        let all = nodes(&generated.plan);
        biggest = biggest.max(all.len());
        for plan in all {
            formats.insert(word(plan));
            seen.extend(traits(plan));
            pairs.extend(below(plan).map(|below| (word(plan), word(below))));
        }
    }
    let expected: BTreeSet<String> =
        kinds::kinds().iter().map(|kind| word(&kind.plan(Window::WHOLE, Nulls::None))).collect();
    assert_eq!(formats, expected);
    assert_eq!(seen.len(), 17, "{seen:?}");
    assert!(biggest >= 12, "{biggest}");
    let holders = ["+l", "+L", "+vl", "+vL", "+w", "+s", "+us", "+ud", "dictionary", "+r"];
    for holder in holders {
        for held in holders.iter().chain(&["+m", "u", "vu", "n", "b", "d", "w"]) {
            assert!(pairs.contains(&(holder.to_owned(), (*held).to_owned())), "{holder}<{held}>");
        }
    }
}

#[test]
fn the_oracle_reads_every_case_of_the_matrix() {
    for case in kinds::cases() {
        oracle::values(&case.plan()).unwrap_or_else(|error| panic!("{case}: {error}"));
    }
}

fn plan(format: &str, length: i64, buffers: Vec<Content>) -> Plan {
    let schema = generate::plan(&mut Choices::new(&[]));
    let format = std::ffi::CString::new(format).unwrap();
    Plan { format, length, buffers, null_count: -1, ..schema }
}

fn content(width: usize, numbers: impl IntoIterator<Item = i64>) -> Content {
    Content::Bytes(integers(width, numbers))
}

#[test]
fn the_oracle_reads_what_the_specification_says() {
    let text = |text: &str| Value::Text(text.to_owned());
    let number = |number: i32| Value::Bytes(number.to_ne_bytes().to_vec());
    let numbers = plan("i", 4, vec![content(1, [0b1101]), content(4, [7, 8, 9, 10])]);
    let all = [number(7), Value::Null, number(9), number(10)];
    assert_eq!(oracle::values(&numbers).unwrap(), all);
    let words = vec![content(1, [0b11]), content(4, [1, 2, 5]), Content::Bytes(b".atea".to_vec())];
    let words = plan("u", 2, words);
    assert_eq!(oracle::values(&words).unwrap(), [text("a"), text("tea")]);
    let keys = plan("c", 3, vec![Content::Null, content(1, [1, 0, 1])]);
    let keys = Plan { dictionary: Some(Box::new(words.clone())), ..keys };
    assert_eq!(oracle::values(&keys).unwrap(), [text("tea"), text("a"), text("tea")]);
    let lists = plan("+vl", 2, vec![Content::Null, content(4, [2, 1]), content(4, [2, 1])]);
    let lists = Plan { children: vec![numbers.clone()], ..lists };
    let items = [vec![number(9), number(10)], vec![Value::Null]].map(Value::Values);
    assert_eq!(oracle::values(&lists).unwrap(), items);
    let ends = plan("s", 2, vec![Content::Null, content(2, [2, 4])]);
    let runs = Plan { children: vec![ends, words.clone()], offset: 1, ..plan("+r", 2, vec![]) };
    assert_eq!(oracle::values(&runs).unwrap(), [text("a"), text("tea")]);
    let dense = plan("+ud:5,9", 2, vec![content(1, [9, 5]), content(4, [1, 3])]);
    let dense = Plan { children: vec![numbers, words], ..dense };
    let member = |id, value| Value::Member(id, Box::new(value));
    assert_eq!(oracle::values(&dense).unwrap(), [member(9, text("tea")), member(5, number(10))]);
}

#[test]
fn the_oracle_does_not_read_past_anything() {
    let wrong = [
        plan("i", 3, vec![Content::Null, content(4, [1, 2])]),
        plan("u", 1, vec![Content::Null, content(4, [0, 9]), Content::Bytes(b"abc".to_vec())]),
        plan("u", 1, vec![Content::Null, content(4, [2, 1]), Content::Bytes(b"abc".to_vec())]),
        plan("u", 1, vec![Content::Null, content(4, [0, 1]), Content::Bytes(vec![0xff])]),
        plan("vu", 1, vec![Content::Null, content(4, [13, 0, 0, 0]), Content::Null]),
        plan("n", -1, vec![]),
    ];
    for plan in &wrong[..5] {
        oracle::values(plan).unwrap_err();
    }
    assert_eq!(oracle::values(&wrong[5]).unwrap(), []);
}

/// That two arrays with other bytes are equal, or that they are not.
fn check_changed(plan: &Plan, change: impl Fn(&mut Plan)) -> Verdict {
    let mut changed = plan.clone();
    change(&mut changed);
    require(changed != *plan, || "nothing was changed".into())?;
    oracle::require_equal(plan, &changed)
}

#[test]
fn the_oracle_says_what_differs() {
    let numbers = plan("i", 4, vec![content(1, [0b1101]), content(4, [7, 8, 9, 10])]);
    let data = |numbers: [i64; 4]| content(4, numbers);
    let is_same = check_changed(&numbers, |plan| plan.buffers[1] = data([7, -1, 9, 10]));
    assert_eq!(is_same, Ok(()), "below a null");
    assert_eq!(check_changed(&numbers, |plan| plan.null_count = 1), Ok(()));
    let complaint = "element 2 is Bytes([9, 0, 0, 0]) and Bytes([8, 0, 0, 0])";
    let changed = check_changed(&numbers, |plan| plan.buffers[1] = data([7, 8, 8, 10]));
    assert_complaint(changed, complaint);
    let changed = check_changed(&numbers, |plan| plan.buffers[0] = Content::Null);
    assert_complaint(changed, "element 1 is Null");
    assert_complaint(check_changed(&numbers, |plan| plan.length = 3), "4 elements and 3");
    assert_complaint(check_changed(&numbers, |plan| plan.flags ^= 2), "a type is");
    assert_complaint(check_changed(&numbers, |plan| plan.format = c"I".into()), "a type is");
    let moved = Plan { offset: 1, ..numbers.clone() };
    let moved =
        Plan { buffers: vec![content(1, [0b11010]), content(4, [0, 7, 8, 9, 10])], ..moved };
    assert_eq!(oracle::require_equal(&numbers, &moved), Ok(()));
}
