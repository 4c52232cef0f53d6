//! What a builder adds to the buffers that it is given.

use arrow_device::{Array, Buffer, DeviceId, Field, Layout, Schema};
use arrow_device_testkit::consumer::require_buffers_of;
use arrow_device_testkit::generate::import_schema;
use arrow_device_testkit::kinds::types;
use arrow_device_testkit::plan::{Nulls, Window};

/// An array without elements, each of whose buffers is absent.
fn without_buffers(schema: Schema, absent: &Option<Buffer>) -> Array {
    let below = |field: &Field| without_buffers(Schema::new(field.clone()).unwrap(), absent);
    let data_type = schema.data_type().clone();
    let buffers = vec![absent.clone(); Layout::of(&data_type).buffers().len()];
    let children: Vec<_> = data_type.children().map(below).collect();
    let builder = Array::builder(schema).len(0).buffers(buffers).children(children);
    match data_type.dictionary_values().map(below) {
        Some(values) => builder.dictionary(values).finish_ready().unwrap(),
        None => builder.finish_ready().unwrap(),
    }
}

// Requirement: ARR-17
#[test]
fn an_array_without_elements_is_exported_with_its_one_offset_whoever_left_it_out() {
    let mut with_offsets = 0;
    for kind in types() {
        let schema = import_schema(&kind.plan(Window::EMPTY, Nulls::None)).unwrap();
        let data_type = schema.data_type();
        for absent in [None, Some(Buffer::null(DeviceId::CPU))] {
            let array = without_buffers(schema.clone(), &absent);
            require_buffers_of(&array).unwrap_or_else(|why| panic!("{kind:?}: {why}"));
            assert!(array.equals(&Array::empty(schema.clone()).unwrap()).unwrap(), "{data_type}");
        }
        let layout = Layout::of(data_type);
        with_offsets += usize::from(layout.buffers().iter().any(|kind| kind.has_one_more()));
    }
    assert!(with_offsets > 6, "{with_offsets}");
}
