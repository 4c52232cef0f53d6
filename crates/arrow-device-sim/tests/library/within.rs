//! Arrays that are made of parts of one buffer on a device.

use arrow_device::{Array, DataType, ErrorKind, Field, Schema};
use arrow_device_sim::{Kind, Sim};

#[test]
fn memory_of_a_device_that_is_still_written_is_waited_for() {
    let kinds = Kind::ALL.map(|kind| (kind, false)).into_iter().chain([(Kind::Handles, true)]);
    for (kind, has_parts) in kinds {
        let sim = Sim::builder().kind(kind).parts(has_parts).build();
        let queue = sim.device().open_queue().unwrap();
        let schema = Schema::batch([
            Field::new("a", DataType::Int32, true),
            Field::new("b", DataType::Int32, true),
        ])
        .unwrap();
        let alignment = sim.device().properties().alignment as u64;
        let bytes: Vec<u8> = (1..5_i32).flat_map(i32::to_ne_bytes).collect();
        let mut all = vec![0; usize::try_from(alignment).unwrap()];
        all[..16].copy_from_slice(&bytes);
        all.extend_from_slice(&bytes);
        let mut memory = queue.allocate(all.len() as u64).unwrap();
        memory.write(&queue, &all).unwrap();
        let mut builder = Array::builder_within(&schema, memory.into_buffer());
        builder.node(4, 0, [None]).unwrap();
        builder.node(4, 0, [None, Some(0..16)]).unwrap();
        let second = builder.node(4, 0, [None, Some(alignment..alignment + 16)]);
        if let Err(error) = second {
            assert_eq!(error.kind(), ErrorKind::Unsupported, "{kind:?}");
            assert!(!has_parts, "{kind:?}");
            drop(builder);
        } else {
            let whole = builder.finish_ready().unwrap();
            assert_eq!(whole.device(), sim.device().id());
            let numbers = Array::from_values(DataType::Int32, (1..5).map(Some)).unwrap();
            for index in 0..2 {
                let child = whole.child(index).unwrap().to_host().unwrap();
                assert!(child.equals(&numbers).unwrap(), "{kind:?}: {child:?}");
            }
        }
        drop(queue);
        let reports = sim.finish();
        assert!(reports.is_empty(), "{kind:?}: {reports:?}");
    }
}
