//! What `arrow-device copy` makes of outputs that are no new files: pipes, devices, links, files
//! that are there already, and disks without room.

use std::fs::{self, File};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use arrow_array::{ArrayRef, Int32Array, RecordBatch, UnionArray};
use arrow_schema::{DataType, Field, UnionFields};

use crate::support::files::{batch, read, write_file, write_parquet, write_stream};
use crate::support::{Folder, arrow_device, complaint, output, text};

/// An input of three batches in a folder of its own.
fn folder_with_input() -> (Folder, std::path::PathBuf) {
    let folder = Folder::new();
    let input = folder.path("in.arrows");
    write_stream(&input, &[batch(0, 1000), batch(1000, 10), batch(1010, 5000)]);
    (folder, input)
}

fn assert_same(one: &Path, other: &Path) {
    assert!(read(one) == read(other), "{} changed", one.display());
}

fn make_pipe(path: &Path) {
    assert!(Command::new("mkfifo").arg(path).status().unwrap().success());
}

#[test]
fn a_pipe_is_written_to_and_stays_a_pipe() {
    let (folder, input) = folder_with_input();
    let (pipe, out) = (folder.path("pipe"), folder.path("out.arrows"));
    make_pipe(&pipe);
    let mut cat =
        Command::new("cat").arg(&pipe).stdout(File::create(&out).unwrap()).spawn().unwrap();
    output(&["copy", text(&input), text(&pipe), "--format", "arrows", "--through", "ext_dev"]);
    assert!(cat.wait().unwrap().success());
    assert!(fs::symlink_metadata(&pipe).unwrap().file_type().is_fifo());
    assert_same(&input, &out);
}

#[test]
fn the_standard_output_gets_the_copy_and_nothing_else() {
    let (folder, input) = folder_with_input();
    let before = fs::read_link("/dev/stdout").unwrap();
    for name in ["-", "/dev/stdout"] {
        for (format, ending) in [("arrows", "arrows"), ("parquet", "parquet"), ("arrow", "arrow")] {
            let out = folder.path(&format!("out.{ending}"));
            let arguments = ["copy", text(&input), name, "--format", format];
            let piped = arrow_device().args(arguments).output().unwrap();
            let told = String::from_utf8(piped.stderr).unwrap();
            assert!(piped.status.success() && told.starts_with("6,010 rows in "), "{told}");
            fs::write(&out, piped.stdout).unwrap();
            assert_eq!(read(&out).1.iter().map(|batch| batch.num_rows()).sum::<usize>(), 6010);
            // Into a file that the shell opened, which has another name.
            let redirected = folder.path("redirected");
            let to_file = File::create(&redirected).unwrap();
            assert!(arrow_device().args(arguments).stdout(to_file).status().unwrap().success());
            assert_eq!(fs::read(&redirected).unwrap(), fs::read(&out).unwrap(), "{name}");
        }
    }
    // Without a format it is a stream.
    let piped = arrow_device().args(["copy", text(&input), "-"]).output().unwrap();
    assert_eq!(piped.stdout[..4], [0xff; 4]);
    assert_eq!(fs::read_link("/dev/stdout").unwrap(), before);
}

#[test]
fn the_standard_input_is_read() {
    let (folder, input) = folder_with_input();
    let (parquet, file) = (folder.path("in.parquet"), folder.path("in.arrow"));
    write_parquet(&parquet, &[batch(0, 6010)]);
    write_file(&file, &[batch(0, 6010)]);
    let out = folder.path("out.arrows");
    for given in [&input, &parquet, &file] {
        for arguments in [&["copy", "-", text(&out)][..], &["inspect", "-"]] {
            let stdin = File::open(given).unwrap();
            let done = arrow_device().args(arguments).stdin(stdin).output().unwrap();
            assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
        }
        let (schema, rows) = read(&out);
        assert_eq!(schema, read(given).0);
        assert_eq!(rows.iter().map(|batch| batch.num_rows()).sum::<usize>(), 6010);
    }
    // From one command into the next.
    let mut first = arrow_device();
    let first =
        first.args(["copy", text(&input), "-"]).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut first = first.spawn().unwrap();
    let stdin = first.stdout.take().unwrap();
    let second = arrow_device().args(["copy", "-", text(&out)]).stdin(stdin).output().unwrap();
    assert!(second.status.success() && first.wait().unwrap().success());
    assert_same(&input, &out);
}

#[test]
fn a_reader_that_has_seen_enough_is_no_failure() {
    let folder = Folder::new();
    let input = folder.path("in.arrows");
    let batches: Vec<_> = (0..200).map(|number| batch(1000 * number, 1000)).collect();
    write_stream(&input, &batches);
    let mut copy = arrow_device();
    let copy = copy.args(["copy", text(&input), "-"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut copy = copy.spawn().unwrap();
    drop(copy.stdout.take());
    let done = copy.wait_with_output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
}

#[test]
fn links_are_followed_and_stay() {
    let (folder, input) = folder_with_input();
    fs::create_dir(folder.path("else")).unwrap();
    let (target, link) = (folder.path("else/target.arrows"), folder.path("link.arrows"));
    symlink("else/middle", &link).unwrap();
    symlink("target.arrows", folder.path("else/middle")).unwrap();
    // Where it leads there is nothing at first, and then an older file.
    for _ in 0..2 {
        output(&["copy", text(&input), text(&link)]);
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert!(fs::symlink_metadata(&target).unwrap().is_file());
        assert_same(&input, &target);
        fs::write(&target, "older").unwrap();
    }
    let circle = folder.path("circle.arrows");
    symlink("circle.arrows", &circle).unwrap();
    let told = complaint(&["copy", text(&input), text(&circle)], 1);
    assert!(told.starts_with(&format!("arrow-device: {}: ", text(&circle))), "{told}");
}

#[test]
fn the_mode_of_an_older_file_stays() {
    let (folder, input) = folder_with_input();
    let out = folder.path("out.arrows");
    for mode in [0o600, 0o640, 0o666, 0o755] {
        fs::write(&out, "older").unwrap();
        fs::set_permissions(&out, fs::Permissions::from_mode(mode)).unwrap();
        output(&["copy", text(&input), text(&out)]);
        assert_eq!(fs::metadata(&out).unwrap().mode() & 0o7777, mode);
        assert_same(&input, &out);
    }
    // SAFETY: geteuid(2) has no preconditions.
    let is_root = unsafe { libc::geteuid() } == 0;
    if is_root {
        // Root may give files away, and is asked not to.
        std::os::unix::fs::chown(&out, Some(1234), Some(4321)).unwrap();
        output(&["copy", text(&input), text(&out)]);
        let owner = fs::metadata(&out).unwrap();
        assert_eq!((owner.uid(), owner.gid()), (1234, 4321));
    } else {
        fs::set_permissions(&out, fs::Permissions::from_mode(0o444)).unwrap();
        let told = complaint(&["copy", text(&input), text(&out)], 1);
        assert!(told.contains("ermission denied"), "{told}");
    }
}

#[test]
fn a_file_that_is_there_is_kept_if_so_asked() {
    let (folder, input) = folder_with_input();
    let out = folder.path("out.arrows");
    output(&["copy", text(&input), text(&out), "--no-clobber"]);
    assert_same(&input, &out);
    fs::write(&out, "older").unwrap();
    let told = complaint(&["copy", text(&input), text(&out), "--no-clobber"], 1);
    assert!(told.contains("it is there already, and `--no-clobber` keeps it"), "{told}");
    assert_eq!(fs::read(&out).unwrap(), b"older");
    assert_eq!(folder.names(), ["in.arrows", "out.arrows"]);
}

/// A file that comes while the copy is made, which is as long as the input's pipe is open.
#[test]
fn a_file_that_comes_meanwhile_is_kept_if_so_asked() {
    use std::io::Write as _;

    let (folder, input) = folder_with_input();
    let (pipe, out) = (folder.path("pipe"), folder.path("out.arrows"));
    make_pipe(&pipe);
    let mut copy = arrow_device();
    let copy = copy.args(["copy", text(&pipe), text(&out), "--no-clobber"]);
    let copy = copy.stderr(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut end = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    end.write_all(&fs::read(&input).unwrap()).unwrap();
    let start = std::time::Instant::now();
    while !folder.names().iter().any(|name| name.ends_with(".partial")) {
        assert!(start.elapsed().as_secs() < 120, "{:?}", folder.names());
        std::thread::yield_now();
    }
    fs::write(&out, "newer").unwrap();
    drop(end);
    let done = copy.wait_with_output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.code() == Some(1) && told.contains("--no-clobber"), "{told}");
    assert_eq!(fs::read(&out).unwrap(), b"newer");
    assert_eq!(folder.names(), ["in.arrows", "out.arrows", "pipe"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_the_output_s_fault() {
    let (_folder, input) = folder_with_input();
    for format in ["arrows", "arrow", "parquet"] {
        let told = complaint(&["copy", text(&input), "/dev/full", "--format", format], 1);
        let expected =
            "arrow-device: /dev/full: there is no room left; free some, or name another place (";
        assert!(told.starts_with(expected), "{told}");
    }
    assert!(fs::symlink_metadata("/dev/full").unwrap().file_type().is_char_device());
}

#[test]
fn data_that_no_parquet_file_has_is_told_in_one_line_and_leaves_no_file() {
    let folder = Folder::new();
    let (input, out) = (folder.path("in.arrow"), folder.path("out.parquet"));
    let field = Arc::new(Field::new("n", DataType::Int32, false));
    let fields: UnionFields = [(0, field)].into_iter().collect();
    let numbers: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
    let union = UnionArray::try_new(fields, vec![0_i8, 0].into(), None, vec![numbers]).unwrap();
    let columns = [("u", Arc::new(union) as ArrayRef)];
    write_file(&input, &[RecordBatch::try_from_iter(columns).unwrap()]);
    let told = complaint(&["copy", text(&input), text(&out)], 1);
    assert!(told.contains("no place for such data; name another format"), "{told}");
    assert_eq!(fs::read_dir(folder.path("")).unwrap().count(), 1);
}
