//! The convention of every device type is written down, and the C header says the same.

use std::collections::BTreeMap;

use arrow_device::convention::{self, Convention};
use arrow_device::{DeviceType, abi};
use arrow_device_testkit::{Verdict, assert_complaint, require};

const HEADER: &str = include_str!("../../../arrow-device-abi/include/arrow_device/abi.h");

/// The specification's device types.
const TYPES: [(&str, i32); 14] = [
    ("CPU", abi::ARROW_DEVICE_CPU),
    ("CUDA", abi::ARROW_DEVICE_CUDA),
    ("CUDA_HOST", abi::ARROW_DEVICE_CUDA_HOST),
    ("OPENCL", abi::ARROW_DEVICE_OPENCL),
    ("VULKAN", abi::ARROW_DEVICE_VULKAN),
    ("METAL", abi::ARROW_DEVICE_METAL),
    ("VPI", abi::ARROW_DEVICE_VPI),
    ("ROCM", abi::ARROW_DEVICE_ROCM),
    ("ROCM_HOST", abi::ARROW_DEVICE_ROCM_HOST),
    ("EXT_DEV", abi::ARROW_DEVICE_EXT_DEV),
    ("CUDA_MANAGED", abi::ARROW_DEVICE_CUDA_MANAGED),
    ("ONEAPI", abi::ARROW_DEVICE_ONEAPI),
    ("WEBGPU", abi::ARROW_DEVICE_WEBGPU),
    ("HEXAGON", abi::ARROW_DEVICE_HEXAGON),
];

/// A row of the header's table, its lines joined.
#[derive(Debug, Default)]
struct Row {
    value: i32,
    buffers: String,
    device_id: String,
    event: String,
}

/// The table in the comment of a header. Its columns begin where the ruler's dashes do.
fn table(header: &str) -> BTreeMap<String, Row> {
    let mut lines = header.lines().skip_while(|line| !line.starts_with("//   type  ")).skip(1);
    let ruler = lines.next().unwrap();
    let starts: Vec<usize> = ruler
        .char_indices()
        .filter(|(at, char)| *char == '-' && ruler[..*at].ends_with(' '))
        .map(|(at, _)| at)
        .collect();
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let mut current = String::new();
    for line in lines.take_while(|line| line.trim_end() != "//") {
        let cell = |column: usize| {
            let end = starts.get(column + 1).copied().unwrap_or(line.len()).min(line.len());
            line.get(starts[column]..end).unwrap_or_default().trim()
        };
        if let Some((name, value)) = cell(0).split_once(' ') {
            current = name.to_owned();
            rows.entry(current.clone()).or_default().value = value.trim().parse().unwrap();
        }
        let row = rows.get_mut(&current).unwrap();
        for (text, cell) in
            [(&mut row.buffers, cell(1)), (&mut row.device_id, cell(2)), (&mut row.event, cell(3))]
        {
            *text = format!("{text} {cell}").trim().to_owned();
        }
    }
    rows
}

/// That all types are there, once, each with words in every column, and that the header agrees.
fn check(all: &[Convention], header: &str) -> Verdict {
    let rows = table(header);
    require(all.len() == 14 && rows.len() == 14, || {
        format!("{} conventions and {} rows in the header", all.len(), rows.len())
    })?;
    for ((name, value), convention) in TYPES.into_iter().zip(all) {
        let device_type = convention.device_type;
        require(device_type.0 == value, || format!("{device_type} is not {name}"))?;
        let row = rows.get(name).ok_or_else(|| format!("the header has no {name}"))?;
        require(row.value == value, || {
            format!("{name} has the value {} in the header", row.value)
        })?;
        let Convention { buffers, device_id, event, waiting, shared, .. } = *convention;
        for text in [buffers, device_id, event.unwrap_or("none"), waiting, shared]
            .into_iter()
            .chain([&*row.buffers, &*row.device_id, &*row.event])
        {
            require(!text.trim().is_empty(), || format!("{name}: a column says nothing"))?;
        }
        let has_none = row.event.starts_with("always null");
        require(has_none == event.is_none(), || {
            format!("{name}: the event is {event:?} and in the header `{}`", row.event)
        })?;
        if let Some(event) = event {
            let mut named =
                event.split(|char: char| !(char.is_alphanumeric() || ":_".contains(char)));
            // The first word that names a type.
            let handle = named.find(|word| !["an", "a", ""].contains(word)).unwrap();
            require(row.event.contains(handle), || {
                format!("{name}: the event is `{event}` and in the header `{}`", row.event)
            })?;
        }
    }
    Ok(())
}

// Requirement: SYS-3
#[test]
fn every_device_type_has_a_convention_and_the_header_says_the_same() {
    assert_eq!(check(convention::ALL, HEADER), Ok(()));
}

#[test]
fn a_missing_or_different_convention_is_found_out() {
    let all = convention::ALL;
    assert_complaint(check(&all[1..], HEADER), "13 conventions");
    let changed = |change: fn(&mut Convention)| {
        let mut all = all.to_vec();
        change(&mut all[1]);
        check(&all, HEADER)
    };
    assert_complaint(changed(|cuda| cuda.event = None), "CUDA: the event is None");
    assert_complaint(
        changed(|cuda| cuda.event = Some("cl_event")),
        "CUDA: the event is `cl_event`",
    );
    assert_complaint(changed(|cuda| cuda.shared = " "), "CUDA: a column says nothing");
    assert_complaint(changed(|cuda| cuda.device_type = DeviceType::CPU), "cpu is not CUDA");
    let edited = |from: &str, to: &str| check(all, &HEADER.replacen(from, to, 1));
    assert_complaint(edited("//   WEBGPU       15", "//   WEBGPU       51"), "has the value 51");
    assert_complaint(edited("hipEvent_t; as CUDA\n", "always null\n"), "ROCM: the event is");
    assert_complaint(edited("//   HEXAGON ", "//   HEXAGUN "), "no HEXAGON");
}

// Requirement: SYS-3
#[test]
fn a_convention_prints_as_a_row_of_documentation() {
    for convention in convention::ALL {
        let text = convention.to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], convention.device_type.to_string());
        for (line, title) in
            lines[1..].iter().zip(["buffers[i]", "device_id", "sync_event", "waiting", "shared"])
        {
            let rest = line.trim_start().strip_prefix(title);
            assert!(rest.is_some_and(|rest| !rest.trim().is_empty()), "{line}");
        }
        assert_eq!(lines.len(), 6);
        assert_eq!(convention::of(convention.device_type), Some(convention));
    }
    assert_eq!(convention::of(DeviceType(4711)), None);
}
