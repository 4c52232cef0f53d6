//! Older versions of the format, other machines, what messages say besides, and what is missing.

use std::io::Cursor;

use arrow_array_60::RecordBatch;
use arrow_device::{Array, Batch, Buffer, DataType, ErrorKind, Metadata, Result, UnionMode};
use arrow_device_arrow::v60::ToArrow as _;
use arrow_device_ipc::{
    Compression, Decoded, Decoder, Encoder, FileReader, FileWriter, ReadOptions, StreamReader,
    StreamWriter, WriteOptions,
};
use arrow_device_testkit::golden;
use arrow_ipc as fb;
use arrow_ipc::writer::IpcWriteOptions;
use flatbuffers::FlatBufferBuilder;

use crate::support::{read, read_at, read_by_arrow, written};

/// Nulls, and a sparse and a dense union, which have bitmaps in version 4 that say nothing.
fn unions() -> Batch {
    let children = || {
        let texts = Array::from_texts(DataType::Utf8, [Some("a"), None, Some("c")]).unwrap();
        [Array::from_values(DataType::Int32, [Some(1), None, Some(3)]).unwrap(), texts]
    };
    let fields = || children().map(|child| child.field().clone().with_name("f"));
    let types = Buffer::from(vec![0_u8, 1, 1]);
    let sparse = Array::builder(DataType::union(UnionMode::Sparse, fields()))
        .len(3)
        .buffers([Some(types.clone())])
        .children(children())
        .finish_ready()
        .unwrap();
    let dense = Array::builder(DataType::union(UnionMode::Dense, fields()))
        .len(3)
        .buffers([Some(types), Some(vec![2_i32, 0, 2].into())])
        .children(children())
        .finish_ready()
        .unwrap();
    let nulls = Array::builder(DataType::Null).len(3).buffers([]).finish_ready().unwrap();
    let numbers = Array::from_values(DataType::Int64, [None, Some(2_i64), None]).unwrap();
    Batch::from_columns([("n", nulls), ("s", sparse), ("d", dense), ("i", numbers)]).unwrap()
}

/// Batches as arrow-rs writes them in version 4, with the mark before each message or without.
fn in_version_4(batches: &[RecordBatch], schema: &arrow_schema_60::Schema, old: bool) -> Vec<u8> {
    let options = IpcWriteOptions::try_new(8, old, fb::MetadataVersion::V4).unwrap();
    let mut bytes = Vec::new();
    let writer = arrow_ipc::writer::StreamWriter::try_new_with_options(&mut bytes, schema, options);
    let mut writer = writer.unwrap();
    batches.iter().for_each(|batch| writer.write(batch).unwrap());
    writer.finish().unwrap();
    drop(writer);
    bytes
}

#[test]
fn streams_of_version_4_and_from_before_version_0_15_are_read() {
    let unions = unions();
    let mut inputs = vec![(unions.schema().unwrap(), vec![unions])];
    for path in golden::streams() {
        inputs.push(read(&std::fs::read(&path).unwrap()).unwrap());
    }
    for (schema, batches) in inputs {
        let theirs: Vec<RecordBatch> =
            batches.iter().map(|batch| batch.to_arrow().unwrap()).collect();
        for old in [false, true] {
            let bytes = in_version_4(&theirs, &schema.to_arrow().unwrap(), old);
            assert_eq!(bytes.starts_with(&[0xff; 4]), !old);
            for found in [read(&bytes), read_at(&bytes, 3)] {
                let found = found.unwrap_or_else(|error| panic!("{schema}: {error}")).1;
                assert_eq!(found.len(), batches.len());
                for (found, expected) in found.iter().zip(&batches) {
                    found.as_array().validate().unwrap();
                    assert!(found.as_array().equals(expected.as_array()).unwrap(), "{schema}");
                }
            }
        }
    }
}

/// The message of a schema, as it is in a stream, without columns.
fn schema_of(endianness: fb::Endianness, version: fb::MetadataVersion) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let fields = Some(builder.create_vector::<flatbuffers::WIPOffset<fb::Field<'_>>>(&[]));
    let schema = fb::SchemaArgs { endianness, fields, ..Default::default() };
    let schema = fb::Schema::create(&mut builder, &schema).as_union_value();
    let (header_type, header) = (fb::MessageHeader::Schema, Some(schema));
    let message = fb::MessageArgs { version, header_type, header, ..Default::default() };
    let message = fb::Message::create(&mut builder, &message);
    builder.finish(message, None);
    let header = builder.finished_data();
    let len = header.len().next_multiple_of(8);
    let mut bytes = [[0xff; 4], (len as i32).to_le_bytes()].concat();
    bytes.extend_from_slice(header);
    bytes.resize(8 + len, 0);
    bytes
}

#[test]
fn the_other_byte_order_and_older_versions_are_refused_with_words() {
    let (own, other) = match cfg!(target_endian = "little") {
        true => (fb::Endianness::Little, fb::Endianness::Big),
        false => (fb::Endianness::Big, fb::Endianness::Little),
    };
    let open = |bytes: Vec<u8>| StreamReader::new(Cursor::new(bytes), ReadOptions::new());
    open(schema_of(own, fb::MetadataVersion::V5)).unwrap();
    open(schema_of(own, fb::MetadataVersion::V4)).unwrap();
    let error = open(schema_of(other, fb::MetadataVersion::V5)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.to_string().contains("byte order"), "{error}");
    for version in [fb::MetadataVersion::V1, fb::MetadataVersion::V3] {
        let error = open(schema_of(own, version)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("4 and 5 are known"), "{error}");
    }
}

#[test]
fn what_a_message_says_besides_goes_both_ways() {
    let batch = unions();
    let schema = batch.schema().unwrap();
    let said = |text: &str| Metadata::from_pairs([("said", text), ("again", "")]).unwrap();
    let texts = ["first", "", "größe"];
    let mut stream = StreamWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    let mut file = FileWriter::new(Vec::new(), &schema, WriteOptions::new()).unwrap();
    for text in texts {
        stream.write_with_metadata(&batch, &said(text)).unwrap();
        file.write_with_metadata(&batch, &said(text)).unwrap();
    }
    stream.write(&batch).unwrap();
    file.write(&batch).unwrap();
    let mut reader =
        StreamReader::new(Cursor::new(stream.finish().unwrap()), ReadOptions::new()).unwrap();
    assert_eq!(reader.batch_metadata(), &Metadata::EMPTY);
    for text in texts {
        reader.next().unwrap().unwrap();
        assert_eq!(reader.batch_metadata(), &said(text));
    }
    reader.next().unwrap().unwrap();
    assert_eq!(reader.batch_metadata(), &Metadata::EMPTY, "the last one says nothing");
    let file = Buffer::from(file.finish().unwrap());
    let file = FileReader::in_memory(file, ReadOptions::new()).unwrap();
    for (number, text) in texts.into_iter().enumerate() {
        assert_eq!(file.batch_metadata(number).unwrap(), said(text));
    }
    assert_eq!(file.batch_metadata(3).unwrap(), Metadata::EMPTY);
    assert_eq!(file.batch_metadata(4).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn what_another_writer_says_of_a_schema_and_of_fields_arrives() {
    for path in golden::streams() {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if !name.contains("custom_metadata") && !name.contains("extension") {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let schema = read(&bytes).unwrap().0;
        let has_any = schema.columns().iter().any(|column| !column.metadata().is_empty());
        assert!(has_any || !schema.metadata().is_empty(), "{name}");
        assert_eq!(schema.to_arrow().unwrap(), read_by_arrow(&bytes).0, "{name}");
    }
}

/// Two columns: a body of four buffers, of which the second and the fourth one have bytes.
fn two_columns() -> Batch {
    let numbers = |start: i64| Array::from_values(DataType::Int64, (start..start + 100).map(Some));
    Batch::from_columns([("a", numbers(0).unwrap()), ("b", numbers(7).unwrap())]).unwrap()
}

#[test]
fn input_that_ends_within_a_body_names_the_message_and_the_buffer() {
    let batch = two_columns();
    let schema = batch.schema().unwrap();
    let bytes = written(&schema, &[batch.clone(), batch.clone()], WriteOptions::new());
    // The end of the stream, and of the last body: 800 bytes and 32 of padding, twice.
    let body = bytes.len() - 8 - 2 * 832;
    for (cut, buffer) in [(0, 1), (799, 1), (800, 3), (832 + 799, 3)] {
        let cut = &bytes[..body + cut];
        let in_memory = StreamReader::in_memory(Buffer::from(cut.to_vec()), ReadOptions::new());
        let piece_by_piece = StreamReader::new(Cursor::new(cut.to_vec()), ReadOptions::new());
        for reader in [in_memory, piece_by_piece] {
            let mut reader = reader.unwrap();
            reader.next().unwrap().unwrap();
            let error = reader.next().unwrap().unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed);
            let text = error.to_string();
            assert!(text.contains("message 2: the input ends "), "{text}");
            assert!(text.contains(&format!(": buffer {buffer} has 800 bytes ")), "{text}");
            assert!(reader.next().is_none());
        }
    }
    let mut encoder = Encoder::new(&schema, WriteOptions::new()).unwrap();
    let mut decoder = Decoder::new(ReadOptions::new());
    let nothing = || Buffer::from(Vec::<u8>::new());
    decoder.decode(&encoder.schema_message().unwrap(), nothing()).unwrap();
    let message = encoder.encode(&batch).unwrap().pop().unwrap();
    let body = message.body_bytes().unwrap();
    let short = Buffer::from(body[..1000].to_vec());
    let error = decoder.decode(message.header(), short).unwrap_err().to_string();
    assert!(error.contains("message 1: ") && error.contains(": buffer 3 has"), "{error}");
    // The decoder goes on with what comes behind.
    let again = decoder.decode(message.header(), Buffer::from(body)).unwrap();
    assert!(matches!(again, Decoded::Batch { .. }));
}

#[test]
fn a_file_that_becomes_shorter_names_the_buffer_that_is_gone() {
    let batch = two_columns();
    let mut writer =
        FileWriter::new(Vec::new(), &batch.schema().unwrap(), WriteOptions::new()).unwrap();
    writer.write(&batch).unwrap();
    let whole = writer.finish().unwrap();
    let path = std::env::temp_dir().join(format!("arrow-device-cut-{}.arrow", std::process::id()));
    for columns in [None, Some(1)] {
        std::fs::write(&path, &whole).unwrap();
        let options = ReadOptions::new();
        let options = columns.map_or(options.clone(), |column| options.columns([column]));
        let reader = FileReader::open(&path, options).unwrap();
        // The second column is alone behind the first half of the body.
        let footer = whole.len()
            - 10
            - i32::from_le_bytes(*whole[whole.len() - 10..].first_chunk().unwrap()) as usize;
        let end = footer - 8 - 832 + 16;
        let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
        file.set_len(end as u64).unwrap();
        let error = reader.batch(0).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        let text = error.to_string();
        assert!(text.contains("batch 0: the file ends before byte"), "{text}");
        assert!(text.contains(": buffer 3 has 800 bytes from byte 832 on"), "{text}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_compressed_buffers_claim_is_bounded_for_all_of_them_together() {
    let zeros = || Array::from_values(DataType::Int64, vec![Some(0_i64); 10_000]).unwrap();
    let batch = Batch::from_columns([("a", zeros()), ("b", zeros())]).unwrap();
    for compression in [Compression::Lz4, Compression::Zstd { level: 1 }] {
        let options = WriteOptions::new().compression(Some(compression));
        let schema = batch.schema().unwrap();
        let stream = written(&schema, std::slice::from_ref(&batch), options);
        let mut file = FileWriter::new(Vec::new(), &schema, options).unwrap();
        file.write(&batch).unwrap();
        let file = Buffer::from(file.finish().unwrap());
        let read = |most: u64, columns: &[usize]| -> [Result<Batch>; 2] {
            let options = ReadOptions::new().max_unpacked(most).columns(columns.iter().copied());
            let bytes = Buffer::from(stream.clone());
            let mut reader = StreamReader::in_memory(bytes, options.clone()).unwrap();
            let file = FileReader::in_memory(file.clone(), options).unwrap();
            [reader.next().unwrap(), file.batch(0)]
        };
        assert!(read(160_000, &[0, 1]).iter().all(Result::is_ok));
        // What is not asked for is not unpacked, and does not count.
        assert!(read(80_000, &[1]).iter().all(Result::is_ok));
        for read in read(159_999, &[0, 1]) {
            let error = read.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::LimitExceeded);
            assert!(error.to_string().contains("`b`: buffer 3: "), "{error}");
        }
    }
}
