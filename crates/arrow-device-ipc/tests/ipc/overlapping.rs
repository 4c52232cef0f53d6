//! Messages and buffers that lie in each other, as no writer makes them: a few megabytes that would
//! be read a hundred thousand times.

use arrow_device::{Buffer, ErrorKind};
use arrow_device_ipc::{FileReader, ReadOptions};
use arrow_ipc as fb;
use flatbuffers::FlatBufferBuilder;

const V5: fb::MetadataVersion = fb::MetadataVersion::V5;

/// The header of a batch.
fn header(
    (length, body): (i64, i64),
    nodes: &[fb::FieldNode],
    buffers: &[fb::Buffer],
    codec: Option<fb::CompressionType>,
) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let (nodes, buffers) =
        (Some(builder.create_vector(nodes)), Some(builder.create_vector(buffers)));
    let compression = codec.map(|codec| {
        let args = fb::BodyCompressionArgs { codec, method: fb::BodyCompressionMethod::BUFFER };
        fb::BodyCompression::create(&mut builder, &args)
    });
    let batch = fb::RecordBatchArgs { length, nodes, buffers, compression, ..Default::default() };
    let batch = fb::RecordBatch::create(&mut builder, &batch).as_union_value();
    let args = fb::MessageArgs {
        version: V5,
        header_type: fb::MessageHeader::RecordBatch,
        header: Some(batch),
        bodyLength: body,
        ..Default::default()
    };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    builder.finished_data().to_vec()
}

/// A file whose table names these blocks of this part of the file, in front of which are 8 bytes.
fn file(messages: &[u8], blocks: &[fb::Block]) -> FileReader {
    let mut builder = FlatBufferBuilder::new();
    let fields = Some(builder.create_vector::<flatbuffers::ForwardsUOffset<fb::Field<'_>>>(&[]));
    let schema =
        Some(fb::Schema::create(&mut builder, &fb::SchemaArgs { fields, ..Default::default() }));
    let batches = Some(builder.create_vector(blocks));
    let footer =
        fb::FooterArgs { version: V5, schema, recordBatches: batches, ..Default::default() };
    let footer = fb::Footer::create(&mut builder, &footer);
    builder.finish(footer, None);
    let footer = builder.finished_data();
    let len = (footer.len() as i32).to_le_bytes();
    let file = [&b"ARROW1\0\0"[..], messages, footer, &len, b"ARROW1"].concat();
    FileReader::in_memory(Buffer::from(file), ReadOptions::new()).unwrap()
}

// Requirement: SAF-38
#[test]
fn headers_that_lie_in_each_other_are_read_once() {
    const COUNT: usize = 400_000;
    let header = header((7, 0), &[], &[], None);
    let [a, b, c, d, ..] = *header else { panic!("a header has a root") };
    let root = u32::from_le_bytes([a, b, c, d]);
    // Sixteen bytes each: a mark, a length, and a way to the one header behind all of them.
    let end = 16 * COUNT + header.len();
    let mut bytes = Vec::new();
    for number in 0..COUNT {
        let here = 16 * number + 8;
        bytes.extend_from_slice(&[0xff; 4]);
        bytes.extend_from_slice(&((end - here) as i32).to_le_bytes());
        bytes.extend_from_slice(&((16 * COUNT - here) as u32 + root).to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
    }
    bytes.extend_from_slice(&header);
    let block =
        |number: usize| fb::Block::new((8 + 16 * number) as i64, (end - 16 * number) as i32, 0);
    // One header again and again.
    assert_eq!(file(&bytes, &vec![block(0); COUNT]).row_count().unwrap(), 7 * COUNT as u64);
    let all: Vec<fb::Block> = (0..COUNT).map(block).collect();
    assert_eq!(file(&bytes, &all[..1]).row_count().unwrap(), 7);
    let error = file(&bytes, &all).row_count().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    assert!(error.to_string().contains("lie in each other"), "{error}");
}
