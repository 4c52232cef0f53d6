//! `arrow-device inspect`, as somebody at a terminal meets it.

use std::path::PathBuf;
use std::process::Command;

use arrow_device_testkit::golden;

use crate::support::files::{batch, write_stream};
use crate::support::{Folder, complaint, devices, output, skip, text};

/// A producer that says that its data is on a GPU which is not there, at addresses where nothing
/// is. Whoever reads one of them, or its event, dies.
const PRODUCER: &str = r#"
#include <arrow_device/abi.h>
#include <stddef.h>
static const void* numbers[2] = {NULL, (const void*)0x1000};
static const void* words[3] = {(const void*)0x1800, (const void*)0x1900, (const void*)0x9000000};
static const void* batch[1] = {NULL};
static void release_schema(struct ArrowSchema* schema) { schema->release = NULL; }
static void release_array(struct ArrowArray* array) { array->release = NULL; }
static struct ArrowSchema types[2] = {
  {"l", "number", NULL, 0, 0, NULL, NULL, release_schema, NULL},
  {"u", "word", NULL, 2, 0, NULL, NULL, release_schema, NULL}};
static struct ArrowSchema* type_table[2] = {&types[0], &types[1]};
static struct ArrowArray columns[2] = {
  {9, 0, 0, 2, 0, numbers, NULL, NULL, release_array, NULL},
  {9, -1, 0, 3, 0, words, NULL, NULL, release_array, NULL}};
static struct ArrowArray* column_table[2] = {&columns[0], &columns[1]};
int produce(struct ArrowSchema* schema, struct ArrowDeviceArray* array) {
  *schema = (struct ArrowSchema){"+s", "", NULL, 0, 2, type_table, NULL, release_schema, NULL};
  *array = (struct ArrowDeviceArray){
    .array = {9, 0, 0, 1, 2, batch, column_table, NULL, release_array, NULL},
    .device_id = 3, .device_type = ARROW_DEVICE_CUDA, .sync_event = (void*)0x2a00};
  return 0;
}
int refuse(struct ArrowSchema* schema, struct ArrowDeviceArray* array) { (void)schema; (void)array; return 12; }
static int get_schema(struct ArrowDeviceArrayStream* stream, struct ArrowSchema* out) {
  struct ArrowDeviceArray array; (void)stream;
  int code = produce(out, &array);
  return code;
}
static int get_next(struct ArrowDeviceArrayStream* stream, struct ArrowDeviceArray* out) {
  struct ArrowSchema schema; (void)stream;
  return produce(&schema, out);
}
static const char* get_last_error(struct ArrowDeviceArrayStream* stream) { (void)stream; return NULL; }
static void release_stream(struct ArrowDeviceArrayStream* stream) { stream->release = NULL; }
int produce_stream(struct ArrowDeviceArrayStream* stream) {
  *stream = (struct ArrowDeviceArrayStream){ARROW_DEVICE_CUDA, get_schema, get_next, get_last_error, release_stream, NULL};
  return 0;
}
"#;

fn producer(folder: &Folder) -> Option<PathBuf> {
    let (source, library) = (folder.path("producer.c"), folder.path("libproducer.so"));
    std::fs::write(&source, PRODUCER).unwrap();
    let headers = concat!(env!("CARGO_MANIFEST_DIR"), "/../arrow-device-abi/include");
    let compiled = Command::new("cc")
        .args(["-std=c11", "-Wall", "-Werror", "-shared", "-fPIC", "-I", headers, "-o"])
        .args([&library, &source])
        .status();
    match compiled {
        Ok(status) => {
            assert!(status.success());
            Some(library)
        }
        Err(error) => {
            skip("cc", &format!("there is no C compiler: {error}"));
            None
        }
    }
}

#[test]
fn what_lies_on_a_device_that_is_not_here_is_shown_without_being_touched() {
    let folder = Folder::new();
    let Some(library) = producer(&folder) else { return };
    let named = format!("{}:produce", text(&library));
    let shown = output(&["inspect", "--producer", &named]);
    for line in [
        "batch 0 on cuda:3: 9 rows",
        "  after the event at 0x2a00 (nobody here can ask whether it has passed): cudaEvent_t (the same as CUevent)",
        "    number: int64, 9 rows, nulls: 0",
        "        validity          none",
        "        values                  ≥ 72 B  0x1000 on cuda:3",
        "    word: utf8, 9 rows, nulls: not counted",
        "        offsets                 ≥ 40 B  0x1900 on cuda:3",
        "        data                 not known  0x9000000 on cuda:3",
    ] {
        assert!(shown.lines().any(|found| found == line), "`{line}` is not in:\n{shown}");
    }
    // Nearby buffers are one region; the last one is far away.
    assert!(shown.contains("cuda:3: 3 buffers, 114 B, from 0x1000 to 0x1928"), "{shown}");
    assert!(shown.contains("cuda:3: 1 buffer, 0 B, from 0x9000000 to 0x9000000"), "{shown}");

    let json = output(&["inspect", "--json", "--producer", &named]);
    for line in [
        "      \"device_type\": 2,",
        "        \"address\": \"0x2a00\",",
        "        \"has_passed\": null",
        "                \"address\": \"0x1900\",",
        "                \"bytes\": null,",
    ] {
        assert!(json.lines().any(|found| found == line), "`{line}` is not in:\n{json}");
    }
}

#[test]
fn a_stream_is_shown_batch_by_batch() {
    let folder = Folder::new();
    let Some(library) = producer(&folder) else { return };
    let named = format!("{}:produce_stream", text(&library));
    let shown = output(&["inspect", "--producer", &named, "--kind", "stream", "--batches", "2"]);
    assert!(shown.contains("\nbatch 1 on cuda:3"), "{shown}");
    // The same memory in both.
    assert!(shown.contains("  shared: batch 0 number values = batch 1 number values"), "{shown}");
}

#[test]
fn a_producer_that_is_not_there_or_refuses_is_told_in_one_line() {
    let folder = Folder::new();
    let Some(library) = producer(&folder) else { return };
    let library = text(&library);
    let refused = complaint(&["inspect", "--producer", &format!("{library}:refuse")], 1);
    assert!(refused.contains("refuse returned 12: out of memory"), "{refused}");
    let missing = complaint(&["inspect", "--producer", &format!("{library}:nothing")], 1);
    assert!(missing.contains("nothing"), "{missing}");
    complaint(&["inspect", "--producer", "/nowhere.so:produce"], 1);
    complaint(&["inspect", "--producer", "no-symbol"], 2);
    complaint(&["inspect", "--producer", "a:b", "a.arrow"], 2);
}

#[test]
fn a_file_is_shown_where_it_is_and_on_every_device() {
    let folder = Folder::new();
    let input = folder.path("in.arrows");
    write_stream(&input, &[batch(0, 100), batch(100, 5)]);
    let shown = output(&["inspect", text(&input)]);
    assert!(shown.contains("1 batch, 100 rows, 2 columns, 4 buffers"), "{shown}");
    assert!(shown.contains("  ready, no event") && shown.contains(" on cpu"), "{shown}");
    for device in devices().iter().filter(|device| *device != "cpu") {
        let shown = output(&["inspect", text(&input), "--device", device, "--batches", "9"]);
        assert!(shown.contains("2 batches, 105 rows, 2 columns"), "{shown}");
        let events = shown.lines().filter(|line| line.starts_with("  after the event at 0x"));
        let mut addresses: Vec<&str> = events.filter_map(|line| line.split(' ').nth(6)).collect();
        addresses.dedup();
        let ready = shown.lines().filter(|line| *line == "  ready, no event").count();
        // What the host fills itself is ready at once on Vulkan. Some types of device have no
        // events.
        let is_ready = ["vulkan", "vpi", "webgpu"].iter().any(|name| device.starts_with(name));
        let expected = if is_ready { (0, 2) } else { (2, 0) };
        assert_eq!((addresses.len(), ready), expected, "{shown}");
        // A copy knows how long all of it is.
        let is_values = |line: &str| line.split_whitespace().take(3).eq(["values", "800", "B"]);
        assert!(shown.lines().any(is_values), "{shown}");
        assert!(!shown.contains('≥') && !shown.contains("not known"), "{shown}");
    }
}

#[test]
fn values_are_shown_where_they_are_asked_for_whichever_device_they_lie_on() {
    let folder = Folder::new();
    let input = folder.path("in.arrows");
    write_stream(&input, &[batch(0, 100), batch(100, 5)]);
    let without = output(&["inspect", text(&input)]);
    assert!(!without.contains("the first"), "{without}");
    for device in devices() {
        let arguments = ["--device", &device, "--head", "6", "--batches", "9"];
        let shown = output(&[&["inspect", text(&input)], &arguments[..]].concat());
        let (_, first) = shown.split_once("batch 0, the first 6 of 100 rows\n").unwrap();
        let lines: Vec<&str> = first.lines().take(7).collect();
        let expected =
            ["number  word", "0", "1       x", "2       xx", "null    xxx", "4       xxxx"];
        assert_eq!(lines[..6], expected, "{shown}");
        assert!(shown.contains("batch 1, the first 5 of 5 rows\n"), "{shown}");
    }
    complaint(&["inspect", text(&input), "--head", "5", "--json"], 2);
    complaint(&["inspect", text(&input), "--head", "0"], 2);
}

#[test]
fn every_golden_stream_can_be_shown_and_drawn_on_the_software_device() {
    let folder = Folder::new();
    let page = folder.path("page.html");
    for golden in golden::streams() {
        output(&["inspect", text(&golden), "--device", "ext_dev", "--batches", "3"]);
        output(&["inspect", text(&golden), "--json"]);
        output(&["inspect", text(&golden), "--html", text(&page)]);
    }
}
