//! Headers whose tables share what is below them, as no writer makes them: a few hundred bytes that
//! stand for any number of fields, and numbers that nobody can have counted.

use std::io;

use arrow_device::{Buffer, DataType, ErrorKind, Field, Schema};
use arrow_device_ipc::{FileReader, ReadAt, ReadOptions, StreamReader, StreamWriter, WriteOptions};
use arrow_device_testkit::allocations::peak;
use arrow_ipc as fb;
use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, WIPOffset};

type FieldOffset<'a> = WIPOffset<fb::Field<'a>>;

/// A message with its length before it, and nothing behind it.
fn framed(header: &[u8]) -> Vec<u8> {
    let len = header.len().next_multiple_of(8);
    let mut bytes = vec![0xff; 4];
    bytes.extend_from_slice(&(len as i32).to_le_bytes());
    bytes.extend_from_slice(header);
    bytes.resize(8 + len, 0);
    bytes
}

fn message(
    mut builder: FlatBufferBuilder<'_>,
    header_type: fb::MessageHeader,
    header: WIPOffset<UnionWIPOffset>,
) -> Vec<u8> {
    let version = fb::MetadataVersion::V5;
    let header = Some(header);
    let message = fb::MessageArgs { version, header_type, header, ..Default::default() };
    let message = fb::Message::create(&mut builder, &message);
    builder.finish(message, None);
    framed(builder.finished_data())
}

fn field<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    name: &str,
    children: Option<&[FieldOffset<'a>]>,
) -> FieldOffset<'a> {
    let (name, nullable) = (Some(builder.create_string(name)), true);
    let (type_type, type_) = match children {
        None => (fb::Type::Null, fb::Null::create(builder, &fb::NullArgs {}).as_union_value()),
        Some(_) => {
            let type_ = fb::Struct_::create(builder, &fb::Struct_Args {});
            (fb::Type::Struct_, type_.as_union_value())
        }
    };
    let (children, type_) = (Some(builder.create_vector(children.unwrap_or(&[]))), Some(type_));
    let field = fb::FieldArgs { name, nullable, type_type, type_, children, ..Default::default() };
    fb::Field::create(builder, &field)
}

fn schema<'a>(
    builder: &mut FlatBufferBuilder<'a>,
    columns: &[FieldOffset<'a>],
) -> WIPOffset<fb::Schema<'a>> {
    let fields = Some(builder.create_vector(columns));
    fb::Schema::create(builder, &fb::SchemaArgs { fields, ..Default::default() })
}

/// The message of a schema of so many columns, each of them one and the same field.
fn repeated(
    count: usize,
    column: impl for<'a> FnOnce(&mut FlatBufferBuilder<'a>) -> FieldOffset<'a>,
) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let column = column(&mut builder);
    let schema = schema(&mut builder, &vec![column; count]).as_union_value();
    message(builder, fb::MessageHeader::Schema, schema)
}

#[test]
fn fields_that_share_their_children_are_counted_before_anything_is_made_of_them() {
    for (levels, columns) in [(17, 8), (18, 1), (30, 1), (60, 1)] {
        // A struct of twice the same struct, and so on.
        let bytes = repeated(columns, |builder| {
            let innermost = field(builder, "", None);
            (0..levels).fold(innermost, |below, _| field(builder, "", Some(&[below; 2])))
        });
        assert!(bytes.len() < 10_000);
        let read = || StreamReader::in_memory(Buffer::from(bytes), ReadOptions::new()).map(drop);
        let (most, read) = peak(read);
        let kind = read.unwrap_err().kind();
        // The verifier counts tables, too.
        assert!([ErrorKind::LimitExceeded, ErrorKind::Malformed].contains(&kind), "{kind:?}");
        assert!(most < 1 << 20, "{levels} levels of {columns} columns took {most} bytes");
    }
}

#[test]
fn a_name_that_fields_share_is_counted_each_time() {
    let named = |count, len: usize| {
        let bytes = repeated(count, |builder| field(builder, &"n".repeat(len), None));
        peak(|| StreamReader::in_memory(Buffer::from(bytes), ReadOptions::new()).map(drop))
    };
    let (most, read) = named(100, 1_000_000);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert!(most < 4 << 20, "{most} bytes");
    // A writer may share usual names.
    named(10_000, 4).1.unwrap();
}

#[test]
fn rows_that_no_file_can_have_are_an_error() {
    let batch = |length| {
        let mut builder = FlatBufferBuilder::new();
        let nodes = Some(builder.create_vector(&[fb::FieldNode::new(length, length)]));
        let buffers = Some(builder.create_vector::<fb::Buffer>(&[]));
        let batch = fb::RecordBatchArgs { length, nodes, buffers, ..Default::default() };
        let batch = fb::RecordBatch::create(&mut builder, &batch).as_union_value();
        message(builder, fb::MessageHeader::RecordBatch, batch)
    };
    for (length, is_good) in [(1 << 40, true), (i64::MAX, false), (-1, false)] {
        let mut file = b"ARROW1\0\0".to_vec();
        let start = file.len() as i64;
        let batch = batch(length);
        file.extend_from_slice(&batch);
        // One and the same batch three times.
        let block = fb::Block::new(start, batch.len() as i32, 0);
        let mut builder = FlatBufferBuilder::new();
        let column = field(&mut builder, "n", None);
        let schema = Some(schema(&mut builder, &[column]));
        let batches = Some(builder.create_vector(&[block; 3]));
        let version = fb::MetadataVersion::V5;
        let footer =
            fb::FooterArgs { version, schema, recordBatches: batches, ..Default::default() };
        let footer = fb::Footer::create(&mut builder, &footer);
        builder.finish(footer, None);
        let footer = builder.finished_data();
        file.extend_from_slice(footer);
        file.extend_from_slice(&(footer.len() as i32).to_le_bytes());
        file.extend_from_slice(b"ARROW1");
        let reader = FileReader::in_memory(Buffer::from(file), ReadOptions::new()).unwrap();
        match reader.row_count() {
            Ok(rows) => assert_eq!((rows, is_good), (3 << 40, true)),
            Err(error) => assert_eq!((error.kind(), is_good), (ErrorKind::Malformed, false)),
        }
    }
}

/// A file with a dictionary of nulls, whose one message the table names so many times.
fn file_of_a_dictionary(times: usize) -> Vec<u8> {
    let dictionary = {
        let mut builder = FlatBufferBuilder::new();
        let nodes = Some(builder.create_vector(&[fb::FieldNode::new(5, 5)]));
        let buffers = Some(builder.create_vector::<fb::Buffer>(&[]));
        let values = fb::RecordBatchArgs { length: 5, nodes, buffers, ..Default::default() };
        let data = Some(fb::RecordBatch::create(&mut builder, &values));
        let batch = fb::DictionaryBatchArgs { id: 7, data, isDelta: true };
        let batch = fb::DictionaryBatch::create(&mut builder, &batch).as_union_value();
        message(builder, fb::MessageHeader::DictionaryBatch, batch)
    };
    let mut file = b"ARROW1\0\0".to_vec();
    let block = fb::Block::new(file.len() as i64, dictionary.len() as i32, 0);
    file.extend_from_slice(&dictionary);
    let mut builder = FlatBufferBuilder::new();
    let encoding = fb::DictionaryEncodingArgs { id: 7, ..Default::default() };
    let encoding = Some(fb::DictionaryEncoding::create(&mut builder, &encoding));
    let name = Some(builder.create_string("n"));
    let type_ = Some(fb::Null::create(&mut builder, &fb::NullArgs {}).as_union_value());
    let (nullable, type_type, dictionary) = (true, fb::Type::Null, encoding);
    let column =
        fb::FieldArgs { name, nullable, type_type, type_, dictionary, ..Default::default() };
    let column = fb::Field::create(&mut builder, &column);
    let schema = Some(schema(&mut builder, &[column]));
    let dictionaries = Some(builder.create_vector(&vec![block; times]));
    let version = fb::MetadataVersion::V5;
    let footer = fb::FooterArgs { version, schema, dictionaries, ..Default::default() };
    let footer = fb::Footer::create(&mut builder, &footer);
    builder.finish(footer, None);
    let footer = builder.finished_data();
    file.extend_from_slice(footer);
    file.extend_from_slice(&(footer.len() as i32).to_le_bytes());
    file.extend_from_slice(b"ARROW1");
    file
}

#[test]
fn a_dictionary_that_a_file_names_again_and_again_is_refused() {
    let open = |times| {
        let file = Buffer::from(file_of_a_dictionary(times));
        FileReader::in_memory(file, ReadOptions::new()).map(drop)
    };
    open(1).unwrap();
    let error = open(1000).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("dictionaries twice"), "{error}");
}

/// A dictionary of numbers, or, above that, of structs of one column, which is the dictionary of
/// the level below.
fn nested_dictionary<'a>(builder: &mut FlatBufferBuilder<'a>, level: i64) -> FieldOffset<'a> {
    let below: Vec<_> =
        if level > 0 { vec![nested_dictionary(builder, level - 1)] } else { Vec::new() };
    let integer = |builder: &mut FlatBufferBuilder<'a>, bits| {
        fb::Int::create(builder, &fb::IntArgs { bitWidth: bits, is_signed: true })
    };
    let index = Some(integer(builder, 64));
    let encoding = fb::DictionaryEncodingArgs { id: level, indexType: index, ..Default::default() };
    let dictionary = Some(fb::DictionaryEncoding::create(builder, &encoding));
    let (type_type, type_) = if level > 0 {
        (fb::Type::Struct_, fb::Struct_::create(builder, &fb::Struct_Args {}).as_union_value())
    } else {
        (fb::Type::Int, integer(builder, 8).as_union_value())
    };
    let (name, children) = (Some(builder.create_string("n")), Some(builder.create_vector(&below)));
    let field = fb::FieldArgs {
        name,
        nullable: true,
        type_type,
        type_: Some(type_),
        children,
        dictionary,
        ..Default::default()
    };
    fb::Field::create(builder, &field)
}

/// A message with these nodes and buffers, and a body of eight bytes.
fn data_message(
    dictionary: Option<(i64, bool)>,
    nodes: &[fb::FieldNode],
    buffers: &[fb::Buffer],
) -> Vec<u8> {
    let mut builder = FlatBufferBuilder::new();
    let (nodes, buffers) =
        (Some(builder.create_vector(nodes)), Some(builder.create_vector(buffers)));
    let batch = fb::RecordBatchArgs { length: 1, nodes, buffers, ..Default::default() };
    let batch = fb::RecordBatch::create(&mut builder, &batch);
    let (header_type, header) = match dictionary {
        None => (fb::MessageHeader::RecordBatch, batch.as_union_value()),
        Some((id, is_delta)) => {
            let args = fb::DictionaryBatchArgs { id, data: Some(batch), isDelta: is_delta };
            let header = fb::DictionaryBatch::create(&mut builder, &args);
            (fb::MessageHeader::DictionaryBatch, header.as_union_value())
        }
    };
    let version = fb::MetadataVersion::V5;
    let args = fb::MessageArgs {
        version,
        header_type,
        header: Some(header),
        bodyLength: 8,
        ..Default::default()
    };
    let message = fb::Message::create(&mut builder, &args);
    builder.finish(message, None);
    let mut bytes = framed(builder.finished_data());
    bytes.extend([0; 8]);
    bytes
}

// Requirement: SAF-38
#[test]
fn dictionaries_of_dictionaries_that_all_grow_are_bounded_by_what_came() {
    let read = |levels: i64, rounds: i64| {
        let mut bytes = {
            let mut builder = FlatBufferBuilder::new();
            let column = nested_dictionary(&mut builder, levels - 1);
            let schema = schema(&mut builder, &[column]).as_union_value();
            message(builder, fb::MessageHeader::Schema, schema)
        };
        let (node, none) = (fb::FieldNode::new(1, 0), fb::Buffer::new(0, 0));
        for round in 0..rounds {
            // One more value for each level: a number, or a struct of the first key.
            for level in 0..levels {
                let key = fb::Buffer::new(0, if level > 0 { 8 } else { 1 });
                let (nodes, buffers) = match level {
                    0 => (vec![node], vec![none, key]),
                    _ => (vec![node; 2], vec![none, none, key]),
                };
                bytes.extend(data_message(Some((level, round > 0)), &nodes, &buffers));
            }
            bytes.extend(data_message(None, &[node], &[none, fb::Buffer::new(0, 8)]));
        }
        let reader = StreamReader::in_memory(Buffer::from(bytes), ReadOptions::new()).unwrap();
        let mut found = Vec::new();
        for batch in reader {
            match batch {
                Ok(batch) => found.push(batch),
                Err(error) => return Err(error),
            }
        }
        Ok(found.len())
    };
    assert_eq!(read(3, 20).unwrap(), 20);
    let (bytes, error) = peak(|| read(20, 10).unwrap_err());
    assert_eq!(error.kind(), ErrorKind::LimitExceeded, "{error}");
    assert!(bytes < 200 << 20, "{bytes} bytes");
}

/// A file that claims a gibibyte and a table of 200 MiB, of which there are the first and the last
/// bytes.
struct Claims;

impl ReadAt for Claims {
    fn len(&self) -> io::Result<u64> {
        Ok(1 << 30)
    }

    fn read_exact_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<()> {
        let end = [&(200_i32 << 20).to_le_bytes()[..], b"ARROW1"].concat();
        let found = match offset {
            0 => b"ARROW1".get(..bytes.len()),
            _ if offset == (1 << 30) - 10 => end.get(..bytes.len()),
            _ => None,
        };
        bytes.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }
}

#[test]
fn no_memory_is_taken_for_a_file_that_is_shorter_than_its_length_says() {
    let (most, read) = peak(|| FileReader::new(Claims, ReadOptions::new()).map(drop));
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Malformed);
    assert!(most < 1 << 20, "{most} bytes");
}

// Requirement: SAF-38
#[test]
fn a_schema_that_no_reader_takes_is_not_written() {
    let twice = |field: Field| Field::new("a", DataType::struct_([field.clone(), field]), true);
    let written = |levels| {
        let column = (0..levels).fold(Field::new("a", DataType::Null, true), |f, _| twice(f));
        let schema = Schema::batch([column]).unwrap();
        let writer = || StreamWriter::new(Vec::new(), &schema, WriteOptions::new());
        let (most, writer) = peak(writer);
        (most, writer.map(|writer| writer.finish().unwrap()))
    };
    // 131,071 fields on 17 levels.
    let (most, refused) = written(16);
    assert_eq!(refused.map(drop).unwrap_err().kind(), ErrorKind::LimitExceeded);
    assert!(most < 1 << 20, "{most} bytes");
    // 4,095 fields on 12 levels.
    let taken = written(11).1.unwrap();
    StreamReader::in_memory(Buffer::from(taken), ReadOptions::new()).unwrap();
}
