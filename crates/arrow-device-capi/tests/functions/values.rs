//! Arrays from values through C, on a device.

use std::ptr;

use arrow_device_capi::*;
use arrow_device_sim::Sim;

use crate::support::face::{Owned, call, inspect, made, to_rust};
use crate::support::objects::copy;
use crate::support::software::{Fault, register};

fn schema_of(format: &std::ffi::CStr) -> *mut ArdevSchema {
    made(|out, error| unsafe {
        let (name, children) = (c"column".as_ptr(), ptr::null());
        ardev_schema_new(format.as_ptr(), name, 2, children, 0, ptr::null(), out, error)
    })
    .unwrap()
}

#[test]
fn values_and_texts_are_copied_to_the_device_of_the_queue() {
    let sim = Sim::builder().seed(11).backtraces(false).build();
    let (device, _) = register(&sim, Fault::None);
    let id = device.id();
    let there =
        made(|out, error| unsafe { ardev_device_find(id.device_type.0, id.id, out, error) });
    let there = there.unwrap();
    let queue = made(|out, error| unsafe { ardev_queue_open(there, out, error) }).unwrap();
    let (numbers, is_there) = ([7_i64, 8, 9], [1_u8, 0, 2]);
    let int64 = schema_of(c"l");
    let values = made(|out, error| unsafe {
        let values = numbers.as_ptr().cast();
        ardev_array_from_values(int64, values, is_there.as_ptr(), 3, queue, out, error)
    });
    let values = Owned(values.unwrap());
    let text = |text: &'static str| ArdevBytes { data: text.as_ptr().cast(), size: text.len() };
    let texts = [text("ab"), ArdevBytes { data: ptr::null(), size: 0 }, text("")];
    let utf8 = schema_of(c"u");
    let words = made(|out, error| unsafe {
        ardev_array_from_bytes(utf8, texts.as_ptr(), 3, queue, out, error)
    });
    let words = Owned(words.unwrap());
    for (array, expected) in [(values, "[7, null, 9]"), (words, "[ab, null, ]")] {
        assert_eq!(inspect(&array).device_type, id.device_type.0);
        assert_eq!(inspect(&array).null_count, 1);
        let back = to_rust(copy(&array, ptr::null(), queue).unwrap()).unwrap();
        assert_eq!(back.schema().unwrap().field().name(), "column");
        let back = back.host().unwrap();
        let shown: Vec<String> = (0..3).map(|at| back.value(at).unwrap().to_string()).collect();
        assert_eq!(format!("[{}]", shown.join(", ")), expected);
    }
    call(|error| unsafe { ardev_queue_synchronize(queue, error) }).unwrap();
    unsafe { ardev_queue_free(queue) };
    unsafe { ardev_device_free(there) };
    unsafe { ardev_schema_free(int64) };
    unsafe { ardev_schema_free(utf8) };
    assert!(sim.take_reports().is_empty());
}

#[test]
fn text_that_is_none_and_types_of_other_shapes_are_refused() {
    let wrong = [ArdevBytes { data: [0xff_u8].as_ptr().cast(), size: 1 }];
    for (format, expected) in
        [(c"u", "`values[0]` is not UTF-8"), (c"l", "is not made from"), (c"z", "")]
    {
        let schema = schema_of(format);
        let array = made(|out, error| unsafe {
            ardev_array_from_bytes(schema, wrong.as_ptr(), 1, ptr::null(), out, error)
        })
        .map(Owned);
        let text = array.err().map(|error| error.to_string()).unwrap_or_default();
        assert!(text.contains(expected) && text.is_empty() == expected.is_empty(), "{text}");
        unsafe { ardev_schema_free(schema) };
    }
    let utf8 = schema_of(c"u");
    let array = made(|out, error| unsafe {
        ardev_array_from_values(
            utf8,
            wrong.as_ptr().cast(),
            ptr::null(),
            1,
            ptr::null(),
            out,
            error,
        )
    });
    let text = array.map(Owned).unwrap_err().to_string();
    assert!(text.contains("ardev_array_from_bytes is for text"), "{text}");
    unsafe { ardev_schema_free(utf8) };
}
