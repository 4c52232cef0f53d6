//! What a builder adds to the buffers that it is given.

use arrow_device::{Array, Buffer, BufferKind, DeviceId, Field, Layout, Schema};
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

// Requirement: ARR-17
#[test]
fn an_array_without_elements_and_buffers_has_nothing_before_it_either() {
    let stride = if cfg!(miri) { 31 } else { 1 };
    for kind in types().iter().step_by(stride) {
        let schema = import_schema(&kind.plan(Window::EMPTY, Nulls::None)).unwrap();
        let layout = Layout::of(schema.data_type());
        let is_needed =
            |kind: &BufferKind| *kind != BufferKind::Validity && kind.byte_len(6) != Some(0);
        let needs_buffers = layout.buffers().iter().any(is_needed);
        let is_leaf = schema.data_type().child_count() == 0 && layout.child_count() == 0;
        if !needs_buffers || !is_leaf || schema.data_type().dictionary_values().is_some() {
            continue;
        }
        let absent = || std::iter::repeat_n(None, layout.buffers().len());
        let built = Array::builder(schema.data_type().clone()).offset(6).len(0);
        let built = built.buffers(absent()).finish_ready().unwrap();
        let mut within = Array::builder_within(&schema, Buffer::null(DeviceId::CPU));
        within.node_of(6, 0, None, absent().map(|_: Option<Buffer>| None)).unwrap();
        for array in [built, within.finish_ready().unwrap()] {
            assert_eq!((array.offset(), array.len()), (0, 0), "{kind:?}");
            require_buffers_of(&array).unwrap_or_else(|why| panic!("{kind:?}: {why}"));
        }
    }
}
