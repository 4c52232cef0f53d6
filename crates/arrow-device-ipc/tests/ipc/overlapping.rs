//! Messages and buffers that lie in each other, as no writer makes them: a few megabytes that would
//! be read a hundred thousand times.

use arrow_device::{Array, Batch, Buffer, DataType, ErrorKind};
use arrow_device_ipc::{Decoder, Encoder, FileReader, ReadOptions, WriteOptions};
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

/// Columns of one byte each, all of which are in the same compressed bytes.
fn of_columns(count: usize, codec: fb::CompressionType, packed: &[u8]) -> arrow_device::Error {
    let column = Array::from_values(DataType::Int8, [Some(1_i8)]).unwrap();
    let columns = (0..count).map(|_| ("n", column.clone()));
    let schema = Batch::from_columns(columns).unwrap().schema().unwrap();
    let encoder = Encoder::new(&schema, WriteOptions::new()).unwrap();
    let body = [&1_i64.to_le_bytes(), packed].concat();
    let nodes = vec![fb::FieldNode::new(1, 0); count];
    let buffer = [fb::Buffer::new(0, 0), fb::Buffer::new(0, body.len() as i64)];
    let header = header((1, body.len() as i64), &nodes, &buffer.repeat(count), Some(codec));
    let mut decoder = Decoder::new(ReadOptions::new());
    decoder.decode(&encoder.schema_message().unwrap(), Buffer::from(Vec::<u8>::new())).unwrap();
    decoder.decode(&header, Buffer::from(body)).map(drop).unwrap_err()
}

// Requirement: SAF-38
#[test]
fn compressed_bytes_that_all_buffers_share_are_unpacked_a_few_times() {
    // Frames without a byte, which take their time: "Magic_Number … Frame_Size".
    let empty = [0x184d_2a50_u32.to_le_bytes(), [0; 4]].concat();
    let empty = empty.repeat(500_000);
    // A frame of one block of one byte.
    let one = [0x28, 0xb5, 0x2f, 0xfd, 0x20, 1, 9, 0, 0, 1];
    let packed = [&empty[..], &one].concat();
    let error = of_columns(100_000, fb::CompressionType::ZSTD, &packed);
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(error.to_string().contains("lie in each other"), "{error}");
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
