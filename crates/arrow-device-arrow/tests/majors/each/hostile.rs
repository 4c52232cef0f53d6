//! Data that arrow-rs must not be given, and memory that it cannot read.

use arrow_device::{Array, BufferKind, DataType, DeviceType, ErrorKind, Schema, UnionMode};
use arrow_device_testkit::consumer::Seen;
use arrow_device_testkit::kinds::{Kind, types};
use arrow_device_testkit::ledger::Ledger;
use arrow_device_testkit::plan::{Content, Nulls, Plan, Window, bits, integers};
use arrow_device_testkit::producer;

use super::arrow::array::{Array as _, ArrayRef};
use super::ours::ToArrow as _;
use super::samples::Sample;

fn plan(kind: &Kind) -> Plan {
    kind.plan(Window::WHOLE, Nulls::None)
}

fn refusal(name: &str, plan: Plan) -> arrow_device::Error {
    let sample = Sample::new(name.into(), plan);
    let outcome = sample.array.to_arrow();
    let error = outcome.map(|_: ArrayRef| ()).expect_err(&format!("{name} was taken"));
    assert_eq!(sample.settle(), Ok(()), "{name}");
    error
}

/// The plan with other bytes in one buffer.
fn with_buffer(mut plan: Plan, index: usize, bytes: Vec<u8>) -> Plan {
    plan.buffers[index] = Content::Bytes(bytes);
    plan
}

#[test]
fn data_that_arrow_rs_would_follow_out_of_bounds_is_an_error() {
    let text = || Kind::Text("u", 4);
    let number = || Box::new(Kind::Fixed("l", 8));
    let pair = || vec![Kind::Fixed("l", 8), Kind::Fixed("s", 2)];
    let five = |width, values: [i64; 5]| integers(width, values);
    let cases = [
        ("offsets run backwards", with_buffer(plan(&text()), 1, integers(4, [0, 4, 2, 6, 8, 10]))),
        ("an offset is negative", with_buffer(plan(&text()), 1, integers(4, [-1, 2, 4, 6, 8, 10]))),
        ("text is no UTF-8", with_buffer(plan(&text()), 2, vec![0xff; 10])),
        (
            "a character spans two elements",
            with_buffer(plan(&Kind::Text("U", 8)), 2, "aéaaéaaa".bytes().collect()),
        ),
        (
            "lists end past their items",
            with_buffer(plan(&Kind::List("+l", 4, number())), 1, integers(4, [0, 2, 4, 6, 8, 11])),
        ),
        (
            "a list view begins past its items",
            with_buffer(plan(&Kind::ListView("+vl", 4, number())), 1, five(4, [0, 1, 2, 3, 9])),
        ),
        (
            "a key is past the dictionary",
            with_buffer(plan(&Kind::Dictionary("c", 1, number())), 1, five(1, [0, 1, 2, 3, 4])),
        ),
        (
            "a key is negative",
            with_buffer(plan(&Kind::Dictionary("l", 8, number())), 1, five(8, [0, 1, 2, 3, -1])),
        ),
        ("a type id is unknown", with_buffer(plan(&Kind::Sparse(pair())), 0, vec![5, 6, 7, 5, 6])),
        (
            "a type id is negative",
            with_buffer(plan(&Kind::Dense(pair())), 0, vec![5, 6, 0x80, 5, 6]),
        ),
        (
            "an offset of a union is past the child",
            with_buffer(plan(&Kind::Dense(pair())), 1, five(4, [0, 0, 1, 1, 99])),
        ),
    ];
    for (name, plan) in cases {
        let error = refusal(name, plan);
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{name}: {error}");
    }
    let mut runs = plan(&Kind::RunEnds("i", 4, number()));
    runs.children[0].buffers[1] = Content::Bytes(integers(4, [4, 2, 6]));
    assert_eq!(refusal("run ends run backwards", runs).kind(), ErrorKind::InvalidData);
    let mut views = plan(&Kind::Views("vu"));
    let Content::Bytes(bytes) = &mut views.buffers[1] else { panic!("there are views") };
    bytes[16 + 12..32].copy_from_slice(&1000_i32.to_ne_bytes());
    assert_eq!(refusal("a view is past its buffer", views).kind(), ErrorKind::InvalidData);
}

/// All bytes of all buffers of an array.
fn contents(plan: &mut Plan) -> Vec<&mut Vec<u8>> {
    let Plan { buffers, children, dictionary, .. } = plan;
    let own = buffers.iter_mut().filter_map(|content| match content {
        Content::Bytes(bytes) if !bytes.is_empty() => Some(bytes),
        _ => None,
    });
    own.chain(children.iter_mut().chain(dictionary.as_deref_mut()).flat_map(contents)).collect()
}

/// Numbers that are the same in every run.
fn random(state: &mut u64) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize
}

#[test]
#[cfg_attr(miri, ignore = "it takes thousands of arrays to say something")]
fn whatever_the_bytes_are_arrow_rs_finds_nothing_wrong_with_what_was_taken() {
    let mut state = 1;
    let (mut taken, mut refused) = (0, 0);
    for kind in types() {
        for turn in 0..30 {
            let window = [Window::WHOLE, Window::SLICED][turn % 2];
            let mut plan =
                kind.plan(window, [Nulls::None, Nulls::Counted, Nulls::Unknown][turn % 3]);
            let mut all = contents(&mut plan);
            if all.is_empty() {
                continue;
            }
            let count = all.len();
            let bytes = &mut *all[random(&mut state) % count];
            let index = random(&mut state) % bytes.len();
            bytes[index] =
                [0, 1, 0x7f, 0x80, 0xff, random(&mut state) as u8][random(&mut state) % 6];
            let sample = Sample::new(kind.to_string(), plan);
            match sample.array.to_arrow() {
                Ok(theirs) => {
                    let verdict = theirs.to_data().validate_full();
                    assert!(verdict.is_ok(), "{kind} turn {turn}: {verdict:?}");
                    taken += 1;
                }
                Err(error) if error.kind() == ErrorKind::Unsupported => {}
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::InvalidData, "{kind} turn {turn}: {error}");
                    refused += 1;
                }
            }
            assert_eq!(sample.settle(), Ok(()), "{kind} turn {turn}");
        }
    }
    assert!(taken > 500 && refused > 150, "{taken} taken and {refused} refused");
}

/// arrow-rs hands out `&str` for elements that are null, too, and does so in safe code.
#[test]
fn an_element_that_is_null_is_not_trusted_either() {
    let third_is_null =
        |plan: Plan| Plan { null_count: 1, ..with_buffer(plan, 0, bits(5, |index| index != 3)) };
    let mut text = b"aabbccddee".to_vec();
    text[6] = 0xff;
    let text = third_is_null(with_buffer(plan(&Kind::Text("u", 4)), 2, text));
    assert_eq!(refusal("a null is no UTF-8", text).kind(), ErrorKind::InvalidData);

    for format in ["vu", "vz"] {
        let mut views = third_is_null(plan(&Kind::Views(format)));
        let Content::Bytes(bytes) = &mut views.buffers[1] else { panic!("there are views") };
        bytes[3 * 16..4 * 16].fill(0x7f);
        let error = refusal("the view of a null leads nowhere", views);
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{format}: {error}");
    }
    // What our own validation allows and arrow-rs never follows is taken: the key of a null.
    let keys = with_buffer(
        plan(&Kind::Dictionary("c", 1, Box::new(Kind::Text("u", 4)))),
        1,
        integers(1, [0, 1, 2, 77, 1]),
    );
    let sample = Sample::new("a key of a null".into(), third_is_null(keys));
    assert!(sample.array.to_arrow().unwrap().is_null(3));
}

/// The specification recommends alignment and does not ask for it.
#[test]
#[cfg_attr(miri, ignore = "the producer makes a pointer of a number")]
fn memory_that_is_not_aligned_is_copied_and_no_panic() {
    for (kind, index) in [
        (Kind::Fixed("i", 4), 1),
        (Kind::Fixed("d:30,2", 16), 1),
        (Kind::Fixed("tin", 16), 1),
        (Kind::Text("U", 8), 1),
        (Kind::Views("vu"), 1),
        (Kind::ListView("+vL", 8, Box::new(Kind::Fixed("l", 8))), 2),
        (Kind::Dense(vec![Kind::Fixed("l", 8), Kind::Fixed("s", 2)]), 1),
        (Kind::Dictionary("s", 2, Box::new(Kind::Text("u", 4))), 1),
    ] {
        let aligned = Sample::new(kind.to_string(), plan(&kind));
        let mut shifted = plan(&kind);
        let Content::Bytes(bytes) = &shifted.buffers[index] else { panic!("there is a buffer") };
        // Buffers of the producer are aligned, and so one byte further they are not.
        let memory: Vec<u8> = std::iter::once(0).chain(bytes.iter().copied()).collect();
        let memory: &'static [u8] = memory.leak();
        let address = memory.as_ptr().addr();
        let odd = if address.is_multiple_of(2) { address + 1 } else { address };
        unsafe {
            let odd = memory.as_ptr().cast_mut().with_addr(odd);
            std::ptr::copy(bytes.as_ptr(), odd, bytes.len());
            odd.expose_provenance();
        }
        shifted.buffers[index] = Content::At(odd);
        let misaligned = Sample::new(kind.to_string(), shifted);
        assert_eq!(
            &misaligned.array.to_arrow().unwrap(),
            &aligned.array.to_arrow().unwrap(),
            "{kind}"
        );
    }
}

#[test]
fn memory_on_a_device_is_to_be_copied_first() {
    for device_type in
        [DeviceType::CUDA, DeviceType::CUDA_HOST, DeviceType::EXT_DEV, DeviceType(77)]
    {
        let ledger = Ledger::new();
        let plan = plan(&Kind::Text("u", 4));
        let schema = unsafe { Schema::import(&mut producer::schema(&plan, &ledger)) }.unwrap();
        let mut c_array = producer::on_device(producer::array(&plan, &ledger), device_type.0, 0);
        let _: Seen = Seen::of(&c_array.array);
        let array = unsafe { Array::import(&mut c_array, &schema) }.unwrap();
        let error = array.to_arrow().map(|_| ()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.message().contains("copy"), "{error}");
        assert_eq!(error.device().map(|device| device.device_type), Some(device_type));
    }
}

/// The kinds of buffers that the tests above break are all there are that lead elsewhere.
#[test]
fn every_kind_of_buffer_that_leads_elsewhere_is_broken_above() {
    let leads = |kind: &BufferKind| {
        !matches!(
            kind,
            BufferKind::Validity
                | BufferKind::Bits
                | BufferKind::Fixed { .. }
                | BufferKind::VariableBytes
        )
    };
    let number = || DataType::Int64;
    let broken = [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::list(number()),
        DataType::list_view(number()),
        DataType::large_list_view(number()),
        DataType::Utf8View,
        DataType::union(UnionMode::Dense, [number().into()]),
    ];
    let of = |data_type: &DataType| arrow_device::Layout::of(data_type).buffers().to_vec();
    let count = broken.iter().flat_map(of).filter(leads).fold(Vec::new(), |mut seen, kind| {
        if !seen.contains(&kind) {
            seen.push(kind);
        }
        seen
    });
    assert_eq!(count.len(), 9, "{count:?}");
}
