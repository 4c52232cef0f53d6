//! `arrow-device copy`, as somebody at a terminal meets it. The files are written and read by
//! arrow-rs, without this project.

use std::path::Path;

use arrow_array::RecordBatch;
use arrow_device_testkit::golden;

use crate::support;
use crate::support::files::{batch, read, write_file, write_parquet, write_stream};
use crate::support::{Folder, complaint, devices, output, skip, text};

fn assert_same(one: &Path, other: &Path) {
    let ((schema, batches), (other_schema, others)) = (read(one), read(other));
    assert_eq!(schema, other_schema, "{}", one.display());
    assert!(batches == others, "{} changed", one.display());
}

/// Rows, however they are cut into batches.
fn rows(batches: &[RecordBatch]) -> Vec<RecordBatch> {
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1))).collect()
}

#[test]
fn golden_streams_come_out_of_every_device_as_they_were() {
    let devices = devices();
    let all = devices.join(",");
    let ways = devices.iter().chain([&all]);
    let folder = Folder::new();
    let (stream, file) = (folder.path("out.arrows"), folder.path("out.arrow"));
    for way in ways {
        for golden in golden::streams() {
            output(&["copy", text(&golden), text(&stream), "--through", way]);
            assert_same(&golden, &stream);
            output(&["copy", text(&stream), text(&file), "--through", way]);
            assert_same(&stream, &file);
        }
    }
    assert_eq!(folder.names().len(), 2 * usize::from(!golden::streams().is_empty()));
}

#[test]
fn every_format_becomes_every_other() {
    let folder = Folder::new();
    let batches = [batch(0, 1000), batch(1000, 1), batch(1001, 5000)];
    let inputs = ["in.parquet", "in.arrow", "in.arrows"].map(|name| folder.path(name));
    write_parquet(&inputs[0], &batches);
    write_file(&inputs[1], &batches);
    write_stream(&inputs[2], &batches);
    for input in &inputs {
        for name in ["out.parquet", "out.arrow", "out.arrows"] {
            let out = folder.path(name);
            let told = output(&["copy", text(input), text(&out), "--through", "ext_dev"]);
            assert!(told.starts_with("6,001 rows in ") && told.contains("checksum "), "{told}");
            let (schema, copied) = read(&out);
            assert_eq!(schema, batches[0].schema());
            assert!(rows(&copied) == rows(&batches), "{} to {name}", input.display());
        }
    }
    let out = folder.path("out");
    output(&["copy", text(&inputs[0]), text(&out), "--format", "arrows"]);
    assert_eq!(std::fs::read(&out).unwrap()[..4], [0xff; 4]);
}

#[test]
fn one_row_and_one_batch_are_told_as_one() {
    let folder = Folder::new();
    let (input, out) = (folder.path("in.arrows"), folder.path("out.arrows"));
    for (batches, expected) in [
        (vec![batch(0, 1)], "1 row in 1 batch, "),
        (vec![batch(0, 2)], "2 rows in 1 batch, "),
        (vec![batch(0, 1), batch(1, 1)], "2 rows in 2 batches, "),
    ] {
        write_stream(&input, &batches);
        let told = output(&["copy", text(&input), text(&out)]);
        assert!(told.starts_with(expected), "{told}");
    }
}

#[test]
fn the_checksum_is_that_of_the_data_whatever_the_way() {
    let folder = Folder::new();
    let (one, other, out) =
        (folder.path("1.arrows"), folder.path("2.arrows"), folder.path("o.arrows"));
    write_stream(&one, &[batch(0, 100)]);
    write_stream(&other, &[batch(1, 100)]);
    let sum = |input: &Path, way: &str| {
        let told = output(&["copy", text(input), text(&out), "--through", way]);
        told.split("checksum ").nth(1).unwrap().to_owned()
    };
    for device in devices() {
        assert_eq!(sum(&one, &device), sum(&one, "cpu"));
    }
    assert_ne!(sum(&one, "cpu"), sum(&other, "cpu"));
}

#[test]
fn what_cannot_be_copied_leaves_the_output_as_it_was() {
    let folder = Folder::new();
    let (input, out) = (folder.path("in.arrows"), folder.path("out.arrow"));
    write_stream(&input, &[batch(0, 100_000), batch(0, 10)]);
    let whole = std::fs::read(&input).unwrap();
    std::fs::write(&out, "older").unwrap();
    let mut refused = vec![(folder.path("missing"), "No such file")];
    // The second batch begins behind the half.
    for (name, content, why) in [
        ("cut", &whole[..whole.len() - 100], "cut"),
        ("empty", &[][..], "empty"),
        ("text", b"number,word\n1,x\n", "neither Parquet nor Arrow"),
        ("parquet", b"PAR1 and nothing else", "parquet"),
    ] {
        std::fs::write(folder.path(name), content).unwrap();
        refused.push((folder.path(name), why));
    }
    for (input, why) in refused {
        let complaint = complaint(&["copy", text(&input), text(&out)], 1);
        assert!(complaint.contains(text(&input)) && complaint.contains(why), "{complaint}");
        assert_eq!(std::fs::read(&out).unwrap(), b"older");
    }
    for (out, code) in [("/nowhere/out.arrow", 1), ("out.csv", 2), ("..", 2), ("/", 2)] {
        complaint(&["copy", text(&input), out], code);
    }
    complaint(&["copy", text(&input), text(&out), "--through", "metal"], 1);
    assert!(folder.names().iter().all(|name| !name.contains("partial")), "{:?}", folder.names());
}

/// Of every length that a file can be cut to.
#[test]
fn a_file_that_is_not_whole_is_told_by_its_name_with_the_reader_s_reason() {
    let folder = Folder::new();
    let (arrow, parquet, out) =
        (folder.path("whole.arrow"), folder.path("whole.parquet"), folder.path("out.arrow"));
    write_file(&arrow, &[batch(0, 100), batch(100, 100)]);
    write_parquet(&parquet, &[batch(0, 100)]);
    let cut = folder.path("cut");
    for (whole, what) in [(arrow, "an Arrow file"), (parquet, "a Parquet file")] {
        let whole = std::fs::read(whole).unwrap();
        for len in [8, 20, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&cut, &whole[..len]).unwrap();
            for arguments in [&["copy", text(&cut), text(&out)][..], &["inspect", text(&cut)]] {
                let told = complaint(arguments, 1);
                let start = format!("arrow-device: {}: it begins as {what}", text(&cut));
                assert!(told.starts_with(&start), "{len} bytes: {told}");
                assert!(told.contains("is not whole") && told.contains("again ("), "{told}");
            }
        }
    }
    // What is wrong inside of a batch is found when its turn comes.
    let stream = folder.path("whole.arrows");
    write_stream(&stream, &[batch(0, 1000), batch(1000, 1000)]);
    let whole = std::fs::read(stream).unwrap();
    std::fs::write(&cut, &whole[..whole.len() - 100]).unwrap();
    let told = complaint(&["copy", text(&cut), text(&out)], 1);
    assert!(told.contains("batch 1 cannot be read, because the file is not whole"), "{told}");
    assert!(told.starts_with(&format!("arrow-device: {}: ", text(&cut))), "{told}");
    assert!(!out.exists());
}

/// A reader that believes a file panics over buffers that end behind the end.
#[test]
fn a_file_that_was_changed_is_told_and_no_reader_falls_over_it() {
    let folder = Folder::new();
    let (stream, changed, out) =
        (folder.path("whole.arrows"), folder.path("changed"), folder.path("out.arrow"));
    write_stream(&stream, &[batch(0, 100)]);
    let whole = std::fs::read(stream).unwrap();
    // The length of the first column's values, in what comes before them.
    let length = 800_i64.to_le_bytes();
    let place = whole.windows(8).position(|bytes| bytes == length).unwrap();
    let mut bytes = whole;
    bytes[place + 3] = 0x7f;
    std::fs::write(&changed, bytes).unwrap();
    for arguments in [&["copy", text(&changed), text(&out)][..], &["inspect", text(&changed)]] {
        let told = complaint(arguments, 1);
        assert!(told.starts_with(&format!("arrow-device: {}: ", text(&changed))), "{told}");
        assert!(told.contains("batch 0 cannot be read, because the file"), "{told}");
        assert!(told.contains("the offset of the new Buffer cannot exceed"), "{told}");
    }
}

#[test]
fn what_is_no_file_is_told_with_what_to_do() {
    let folder = Folder::new();
    let (input, out) = (folder.path("in.arrows"), folder.path("out.arrow"));
    write_stream(&input, &[batch(0, 10)]);
    let missing = folder.path("missing");
    for (name, code, why) in [
        (text(&missing), 1, "there is no such file; name one"),
        (text(&folder.path(".")), 2, "it is a folder; name a file in it"),
        ("/proc/self/mem", 1, "it cannot be read; name another file"),
    ] {
        if name.starts_with("/proc") && !cfg!(target_os = "linux") {
            continue;
        }
        for arguments in [&["copy", name, text(&out)][..], &["inspect", name]] {
            let told = complaint(arguments, code);
            assert!(told.starts_with(&format!("arrow-device: {name}: ")), "{told}");
            assert!(told.contains(why), "{told}");
        }
    }
    for arguments in [&["inspect", text(&input), "--html", "-"][..], &["bench", "--svg", "-"]] {
        let told = complaint(arguments, 2);
        assert!(told.contains("`-` is no name; give the path of a file"), "{told}");
    }
    assert_eq!(folder.names(), ["in.arrows"]);
}

/// Only a stream can be read from its beginning alone.
#[cfg(unix)]
#[test]
fn out_of_a_pipe_comes_an_arrow_stream_and_nothing_else() {
    use std::process::Stdio;

    let folder = Folder::new();
    let out = folder.path("out.arrow");
    let (stream, file) = (folder.path("in.arrows"), folder.path("in.arrow"));
    write_stream(&stream, &[batch(0, 10)]);
    write_file(&file, &[batch(0, 10)]);
    let piped = |input: &Path| {
        let mut cat =
            std::process::Command::new("cat").arg(input).stdout(Stdio::piped()).spawn().unwrap();
        let copied = support::arrow_device()
            .args(["copy", "/dev/stdin", text(&out)])
            .stdin(cat.stdout.take().unwrap())
            .output()
            .unwrap();
        cat.wait().unwrap();
        (copied.status.code(), String::from_utf8(copied.stderr).unwrap())
    };
    let (code, told) = piped(&file);
    assert_eq!(code, Some(1), "{told}");
    assert!(told.contains("only an Arrow stream can be read; write it to a file first"), "{told}");
    assert_eq!((piped(&stream), out.exists()), ((Some(0), String::new()), true));
}

/// The input is a pipe out of which no more than half comes, so the copy is neither at its end nor
/// before its beginning when the signal comes.
#[cfg(unix)]
#[test]
fn an_interruption_leaves_no_half_written_output() {
    use std::io::Write as _;
    use std::process::Stdio;

    let folder = Folder::new();
    let (whole, pipe, out) = (folder.path("whole"), folder.path("pipe"), folder.path("out.arrows"));
    write_stream(&whole, &[batch(0, 1000), batch(1000, 1000)]);
    std::fs::write(&out, "older").unwrap();
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let child = support::arrow_device()
            .args(["copy", text(&pipe), text(&out), "--through", "ext_dev"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Half of it, and then nothing more: the pipe stays open.
        let mut end = std::fs::OpenOptions::new().write(true).open(&pipe).unwrap();
        let bytes = std::fs::read(&whole).unwrap();
        end.write_all(&bytes[..bytes.len() / 2]).unwrap();
        let is_partial = |name: &String| name.contains("out.arrows") && name.ends_with(".partial");
        let start = std::time::Instant::now();
        while !folder.names().iter().any(is_partial) {
            assert!(
                start.elapsed().as_secs() < 120,
                "it does not begin to write: {:?}",
                folder.names()
            );
            std::thread::yield_now();
        }
        let id = libc::pid_t::try_from(child.id()).unwrap();
        // SAFETY: a signal to a child that nobody has waited for yet.
        assert_eq!(unsafe { libc::kill(id, signal) }, 0);
        let output = child.wait_with_output().unwrap();
        drop(end);
        let complaint = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(130), "{complaint}");
        assert!(complaint.starts_with("arrow-device: interrupted; "), "{complaint}");
        assert_eq!(std::fs::read(&out).unwrap(), b"older");
        assert_eq!(folder.names(), ["out.arrows", "pipe", "whole"]);
    }
}

#[cfg(unix)]
#[test]
fn a_terminal_sees_a_bar_and_nobody_else_does() {
    let folder = Folder::new();
    let (input, out) = (folder.path("in.arrows"), folder.path("out.arrows"));
    write_stream(&input, &[batch(0, 1000), batch(1000, 1000)]);
    // `output` sees to it that nothing is written where there is no terminal.
    output(&["copy", text(&input), text(&out)]);
    let line =
        format!("{} copy {} {}", env!("CARGO_BIN_EXE_arrow-device"), text(&input), text(&out));
    let terminal = std::process::Command::new("script")
        .args(["--quiet", "--return", "--command", &line, "/dev/null"])
        .env("TERM", "xterm")
        .output();
    let Ok(terminal) = terminal else {
        return skip("script", "there is no `script` to make a terminal");
    };
    let seen = String::from_utf8_lossy(&terminal.stdout).into_owned();
    assert!(terminal.status.success(), "{seen}");
    assert!(seen.contains(" %  ") && seen.contains("B/s  ") && seen.contains("left"), "{seen:?}");
}
