//! `arrow-device serve` and `arrow-device fetch`, and `arrow-device copy` from and to servers, on
//! loopback. pyarrow is on the other side where it is there.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::{Duration, Instant};

use arrow_device_testkit::golden;
pub(crate) use arrow_device_testkit::peers::python;

use crate::support::files::{batch, read, write_file, write_parquet, write_stream};
use crate::support::{Folder, arrow_device, complaint, output, text};

/// A process that serves, which is ended with this value.
pub(crate) struct Server {
    pub(crate) child: Child,
    /// What it printed before clients could connect.
    pub(crate) told: String,
    pub(crate) printed: BufReader<ChildStdout>,
    /// The host and the port.
    pub(crate) authority: String,
}

impl Server {
    /// `arrow-device serve`, at a free port. Returns once clients can connect.
    pub(crate) fn start(arguments: &[&str]) -> Self {
        Self::start_with(arrow_device(), arguments)
    }

    pub(crate) fn start_with(mut command: Command, arguments: &[&str]) -> Self {
        command.args(["serve", "--listen", "127.0.0.1:0"]).args(arguments);
        let mut server = Self::spawn(command);
        while !server.told.contains("://127.0.0.1:") {
            server.read_line();
        }
        while server.told.starts_with('{') && !server.told.ends_with("\n}\n") {
            server.read_line();
        }
        let at = server.told.find("://127.0.0.1:").unwrap() + 3;
        let rest = &server.told[at..];
        let is_part = |letter: char| letter.is_ascii_digit() || ".:".contains(letter);
        server.authority = rest.chars().take_while(|letter| is_part(*letter)).collect();
        server
    }

    /// pyarrow's server, with these streams.
    pub(crate) fn of_python(python: &Path, streams: &[&Path]) -> Self {
        let mut command = script(python, &["serve"]);
        let mut server = Self::spawn({
            command.args(streams);
            command
        });
        server.read_line();
        server.authority = format!("127.0.0.1:{}", server.told.trim());
        server
    }

    pub(crate) fn spawn(mut command: Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap());
        Self { child, told: String::new(), printed, authority: String::new() }
    }

    pub(crate) fn read_line(&mut self) {
        let count = self.printed.read_line(&mut self.told).unwrap();
        assert!(count > 0, "it ended: {}", self.told);
    }

    pub(crate) fn at(&self, name: &str) -> String {
        format!("flight://{}/{name}", self.authority)
    }

    pub(crate) fn port(&self) -> &str {
        self.authority.rsplit_once(':').unwrap().1
    }

    pub(crate) fn signal(&self, signal: i32) {
        signal_to(&self.child, signal);
    }

    /// The exit code, and the complaint.
    pub(crate) fn end(mut self) -> (Option<i32>, String) {
        let status = self.child.wait().unwrap();
        let complaint = std::io::read_to_string(self.child.stderr.take().unwrap()).unwrap();
        (status.code(), complaint)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(crate) fn signal_to(child: &Child, signal: i32) {
    let child = libc::pid_t::try_from(child.id()).unwrap();
    // SAFETY: kill(2): a signal to a child that was not waited for.
    assert_eq!(unsafe { libc::kill(child, signal) }, 0);
}

pub(crate) fn script(python: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(python);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/flight_peer.py");
    command.arg(script).args(arguments);
    command
}

#[track_caller]
pub(crate) fn succeeds(output: &Output) -> String {
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// Waits until something is so.
pub(crate) fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A stream that is larger than what sockets, HTTP/2 and a pipe hold.
pub(crate) fn write_large(path: &Path) -> usize {
    let batches: Vec<_> = (0..60).map(|number| batch(number * 30_000, 30_000)).collect();
    write_stream(path, &batches);
    60 * 30_000
}

pub(crate) fn assert_same(one: &Path, other: &Path) {
    let ((schema, batches), (other_schema, others)) = (read(one), read(other));
    assert_eq!(schema, other_schema, "{}", one.display());
    let all = |batches: &[_]| arrow_rows(batches);
    assert!(all(&batches) == all(&others), "{} changed", one.display());
}

/// Rows, however they are cut into batches.
fn arrow_rows(batches: &[arrow_array::RecordBatch]) -> Vec<arrow_array::RecordBatch> {
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(|row| batch.slice(row, 1))).collect()
}

/// One table of 1,051 rows in three formats, in files whose names are hard to write in a URL.
fn three_files(folder: &Folder) -> [PathBuf; 3] {
    let batches = [batch(0, 1000), batch(1000, 1), batch(1001, 50)];
    let files = ["data.parquet", "a b.arrow", "donn\u{e9}es.arrows"].map(|name| folder.path(name));
    write_parquet(&files[0], &batches);
    write_file(&files[1], &batches);
    write_stream(&files[2], &batches);
    files
}

#[test]
fn what_is_served_is_listed_and_fetched_as_it_was() {
    let folder = Folder::new();
    let files = three_files(&folder);
    let given: Vec<&str> = files.iter().map(|path| text(path)).collect();
    for device in [&[][..], &["--device", "ext_dev"], &["--device", "cpu", "--json"]] {
        let server = Server::start(&[&given[..], device].concat());
        let url = format!("flight://{}", server.authority);
        let listed = output(&["fetch", &url]);
        assert!(listed.ends_with("\n3 flights\n"), "{listed}");
        let json = output(&["fetch", &url, "--json"]);
        for file in &files {
            let name = file.file_name().unwrap().to_str().unwrap();
            assert!(listed.contains(name) && json.contains(name), "{listed}");
            assert!(device.is_empty() || listed.contains("1,051"), "{listed}");
            let out = folder.path("out.arrows");
            let told = output(&["fetch", &url, name, "-o", text(&out), "--device", "ext_dev"]);
            assert!(told.starts_with("1,051 rows in ") && told.contains(" through ext_dev:0 in "));
            assert_same(file, &out);
            let told = output(&["fetch", &url, name, "--json"]);
            assert!(told.contains("\"rows\": 1051") && told.contains("\"output\": null"), "{told}");
        }
        // As written in an address: encoded, and as it is.
        for name in ["a%20b.arrow", "donn%C3%A9es.arrows", "donn\u{e9}es.arrows"] {
            output(&["fetch", &server.at(name)]);
        }
        if device.contains(&"--json") {
            assert!(server.told.contains("/a%20b.arrow\""), "{}", server.told);
            assert!(server.told.contains("\"token\": false"), "{}", server.told);
        }
    }
}

#[test]
fn golden_streams_come_back_from_a_server_as_they_were() {
    let folder = Folder::new();
    let golden = golden::streams();
    if golden.is_empty() {
        return;
    }
    // Their names are not all different.
    let streams: Vec<PathBuf> = golden
        .iter()
        .enumerate()
        .map(|(number, path)| {
            let copy = folder.path(&format!("{number}.arrows"));
            fs::copy(path, &copy).unwrap();
            copy
        })
        .collect();
    let inbox = folder.path("inbox");
    fs::create_dir(&inbox).unwrap();
    let given: Vec<&str> = streams.iter().map(|path| text(path)).collect();
    let server = Server::start(&[&given[..], &["--put-to", text(&inbox)]].concat());
    for (number, stream) in streams.iter().enumerate() {
        let out = folder.path("out.arrows");
        let name = format!("{number}.arrows");
        output(&["copy", &server.at(&name), text(&out), "--device", "ext_dev"]);
        assert_same(stream, &out);
        output(&["copy", text(stream), &server.at(&format!("put {name}").replace(' ', "%20"))]);
        assert_same(stream, &inbox.join(format!("put {name}")));
    }
    assert_eq!(fs::read_dir(&inbox).unwrap().count(), streams.len());
}

#[test]
fn pyarrow_reads_what_is_served() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let files = three_files(&folder);
    let given: Vec<&str> = files.iter().map(|path| text(path)).collect();
    for device in [&[][..], &["--device", "ext_dev"]] {
        let server = Server::start(&[&given[..], device].concat());
        let read = script(&python, &["read", server.port(), "0"]).args(&files).output().unwrap();
        assert_eq!(succeeds(&read), "3\n");
    }
}

#[test]
fn two_clients_at_once_one_of_them_slow_both_get_all_of_it() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let large = folder.path("large.arrows");
    write_large(&large);
    let server = Server::start(&[text(&large)]);
    let start = |pause| {
        let mut command = script(&python, &["read", server.port(), pause, text(&large)]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let (slow, fast) = (start("0.02"), start("0"));
    output(&["fetch", &server.at("large.arrows")]);
    for client in [fast, slow] {
        assert_eq!(succeeds(&client.wait_with_output().unwrap()), "1\n");
    }
}

#[test]
fn no_ticket_reaches_another_file() {
    let folder = Folder::new();
    let (served, secret) = (folder.path("data.arrow"), folder.path("secret.arrow"));
    write_file(&served, &[batch(0, 10)]);
    write_file(&secret, &[batch(0, 10)]);
    let server = Server::start(&[text(&served)]);
    let inside = format!("./{}", text(&served));
    let hostile = [
        "../../etc/passwd",
        "/etc/passwd",
        "secret.arrow",
        "./data.arrow",
        "data.arrow/../secret.arrow",
        "DATA.ARROW",
        "data.arrow\u{1b}[2J",
        text(&secret),
        text(&served),
        &inside,
    ];
    let url = format!("flight://{}", server.authority);
    for name in hostile {
        let told = complaint(&["fetch", &url, name], 1);
        assert!(told.contains("there is no flight"), "{told}");
        assert!(!told.contains('\u{1b}'));
    }
    if let Some(python) = python() {
        let output = script(&python, &["refused", server.port()]).args(hostile).output();
        succeeds(&output.unwrap());
    }
    output(&["fetch", &url, "data.arrow"]);
}

#[test]
fn what_pyarrow_serves_is_listed_and_fetched_as_it_was() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let streams = ["one.arrows", "a b donn\u{e9}es.arrows"].map(|name| folder.path(name));
    for stream in &streams {
        write_stream(stream, &[batch(0, 1000), batch(1000, 1), batch(1001, 50)]);
    }
    let server = Server::of_python(&python, &streams.each_ref().map(PathBuf::as_path));
    let url = format!("grpc+tcp://{}", server.authority);
    let listed = output(&["fetch", &url]);
    assert!(listed.contains("a b donn\u{e9}es.arrows") && listed.contains("1,051"), "{listed}");
    let out = folder.path("out.arrows");
    for stream in &streams {
        let name = stream.file_name().unwrap().to_str().unwrap();
        output(&["fetch", &url, name, "-o", text(&out), "--device", "ext_dev"]);
        assert_same(stream, &out);
    }
    output(&["copy", &server.at("one.arrows"), &format!("file:{}", text(&out))]);
    assert_same(&streams[0], &out);
    // Two tickets, both at a location that is this server by another name.
    let told = output(&["fetch", &url, "parts"]);
    assert!(told.starts_with("2,102 rows in 6 batches, "), "{told}");
    let told = complaint(&["fetch", &url, "elsewhere"], 1);
    assert!(told.contains("lies on another server, grpc://127.0.0.1:9"), "{told}");
    let told = complaint(&["fetch", &url, "nobody"], 1);
    assert!(told.contains("nobody has nobody"), "{told}");
}

#[test]
fn what_is_copied_to_pyarrow_it_serves_again() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let (input, out) = (folder.path("in.parquet"), folder.path("out.arrows"));
    write_parquet(&input, &[batch(0, 5000)]);
    let server = Server::of_python(&python, &[]);
    output(&["copy", text(&input), &server.at("a%20b"), "--device", "ext_dev"]);
    output(&["copy", &server.at("a%20b"), text(&out)]);
    assert_same(&input, &out);
}

#[test]
fn a_server_that_dies_in_the_middle_is_told_and_leaves_no_file() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    for (name, words) in [("dies", ""), ("fails", "the disk is on fire")] {
        for format in ["arrows", "arrow", "parquet"] {
            let server = Server::of_python(&python, &[]);
            let out = folder.path(&format!("out.{format}"));
            let told = complaint(&["fetch", &server.at(name), "-o", text(&out)], 1);
            assert!(told.contains(&server.at(name)) && told.contains(words), "{told}");
            assert_eq!(folder.names(), Vec::<String>::new());
        }
    }
}

/// A client of `serve` that was asked for all and is not read, so that it waits in the middle.
pub(crate) fn stalled(server: &Server, name: &str) -> Child {
    let mut fetch = arrow_device();
    fetch.args(["fetch", &server.at(name), "-o", "-"]);
    let mut fetch = fetch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut start = [0; 1024];
    fetch.stdout.as_mut().unwrap().read_exact(&mut start).unwrap();
    fetch
}

#[test]
fn a_server_that_is_killed_in_the_middle_is_an_error_for_its_client() {
    let folder = Folder::new();
    let large = folder.path("large.arrows");
    write_large(&large);
    let server = Server::start(&[text(&large)]);
    let fetch = stalled(&server, "large.arrows");
    server.signal(libc::SIGKILL);
    let (code, _) = server.end();
    assert_eq!(code, None);
    let done = fetch.wait_with_output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.starts_with("arrow-device: flight://") && told.lines().count() == 1, "{told}");
}

#[test]
fn a_signal_ends_a_server_after_its_calls_and_a_second_one_at_once() {
    let folder = Folder::new();
    let large = folder.path("large.arrows");
    let rows = write_large(&large);
    for signal in [libc::SIGINT, libc::SIGTERM] {
        let server = Server::start(&[text(&large)]);
        server.signal(signal);
        let expected = "arrow-device: interrupted, and nothing is served any more\n";
        assert_eq!(server.end(), (Some(130), expected.to_owned()));

        let mut server = Server::start(&[text(&large)]);
        let fetch = stalled(&server, "large.arrows");
        server.signal(signal);
        let mut told = String::new();
        let mut errors = BufReader::new(server.child.stderr.take().unwrap());
        errors.read_line(&mut told).unwrap();
        assert!(told.contains("1 call will be done first"), "{told}");
        let done = fetch.wait_with_output().unwrap();
        let complaint = String::from_utf8(done.stderr).unwrap();
        assert!(done.status.success(), "{complaint}");
        assert!(complaint.starts_with("1,800,000 rows") && rows == 1_800_000, "{complaint}");
        assert_eq!(server.child.wait().unwrap().code(), Some(130));

        let mut server = Server::start(&[text(&large)]);
        let mut fetch = stalled(&server, "large.arrows");
        server.signal(signal);
        let mut told = String::new();
        let mut errors = BufReader::new(server.child.stderr.take().unwrap());
        errors.read_line(&mut told).unwrap();
        server.signal(signal);
        assert_eq!(server.child.wait().unwrap().code(), Some(130));
        drop(fetch.stdout.take());
        fetch.wait().unwrap();
    }
}

#[test]
fn a_fetch_that_is_interrupted_leaves_no_file() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let server = Server::of_python(&python, &[]);
    let out = folder.path("out.arrows");
    for (signal, older) in [(libc::SIGINT, false), (libc::SIGTERM, true)] {
        if older {
            fs::write(&out, "older").unwrap();
        }
        let mut fetch = arrow_device();
        fetch.args(["fetch", &server.at("endless"), "-o", text(&out)]);
        let fetch = fetch.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let is_partial = |name: &String| name.ends_with(".partial");
        until("it begins to write", || folder.names().iter().any(is_partial));
        signal_to(&fetch, signal);
        let done = fetch.wait_with_output().unwrap();
        let told = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(130), "{told}");
        let expected = format!("arrow-device: interrupted; {} is as it was\n", text(&out));
        assert_eq!(told, expected);
        assert_eq!(folder.names().len(), usize::from(older));
    }
    assert_eq!(fs::read(&out).unwrap(), b"older");
}

#[test]
fn messages_beyond_the_limit_are_refused_on_both_sides() {
    let Some(python) = python() else { return };
    let folder = Folder::new();
    let (large, inbox) = (folder.path("large.arrows"), folder.path("inbox"));
    write_stream(&large, &[batch(0, 400_000)]);
    fs::create_dir(&inbox).unwrap();
    let server = Server::of_python(&python, &[]);
    let told = complaint(&["fetch", &server.at("huge"), "--max-message", "1"], 1);
    assert!(told.contains("message") && told.contains("1048576"), "{told}");
    let told = output(&["fetch", &server.at("huge")]);
    assert!(told.starts_with("400,000 rows in 1 batch, "), "{told}");

    let options = ["--put-to", text(&inbox), "--max-message", "3"];
    let server = Server::start(&[&[text(&large)][..], &options].concat());
    let put = ["put", server.port(), "x.arrows", text(&large), "whole"];
    let put = script(&python, &put).output().unwrap();
    assert!(!put.status.success());
    let told = String::from_utf8(put.stderr).unwrap();
    assert!(told.contains("message") && told.contains("3145728"), "{told}");
    // What this command sends is in parts of 2 MiB.
    output(&["copy", text(&large), &server.at("y.arrows")]);
    assert_eq!(folder_names(&inbox), ["y.arrows"]);
}

pub(crate) fn folder_names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn what_is_put_becomes_a_file_in_the_folder_and_a_flight() {
    let folder = Folder::new();
    let (input, inbox) = (folder.path("in.arrows"), folder.path("inbox"));
    write_stream(&input, &[batch(0, 1000), batch(1000, 10)]);
    let server = Server::start(&[text(&input)]);
    let told = complaint(&["copy", text(&input), &server.at("x.arrow")], 1);
    assert!(told.contains("this server takes no flights"), "{told}");
    fs::create_dir(&inbox).unwrap();
    let server = Server::start(&[text(&input), "--put-to", text(&inbox)]);
    for name in ["x.arrow", "x.arrows", "x.parquet"] {
        output(&["copy", text(&input), &server.at(name)]);
        assert_same(&input, &inbox.join(name));
        let told = output(&["fetch", &server.at(name)]);
        assert!(told.starts_with("1,010 rows"), "{told}");
    }
    fs::write(inbox.join("older.arrow"), "older").unwrap();
    for (name, why) in [
        ("x.arrow", "there is a flight or a file of that name"),
        ("older.arrow", "there is a flight or a file of that name"),
        ("in.arrows", "there is a flight or a file of that name"),
        ("..%2Fx.arrow", "no name of a file"),
        ("%2Ftmp%2Fx.arrow", "no name of a file"),
        (".x.arrow", "no name for a file"),
        ("x.csv", "does not say the format"),
    ] {
        let told = complaint(&["copy", text(&input), &server.at(name)], 1);
        assert!(told.contains(why), "{told}");
    }
    let misused = complaint(&["copy", text(&input), &server.at("")], 2);
    assert!(misused.contains("name"), "{misused}");
    complaint(&["copy", text(&input), &server.at("y.arrow"), "--format", "arrow"], 2);
    assert_eq!(folder.names(), ["in.arrows", "inbox"]);
    assert_eq!(folder_names(&inbox), ["older.arrow", "x.arrow", "x.arrows", "x.parquet"]);
    assert_eq!(fs::read(inbox.join("older.arrow")).unwrap(), b"older");
}

#[test]
fn a_part_of_a_flight_is_never_taken_for_the_whole() {
    let folder = Folder::new();
    let (input, inbox, pipe) =
        (folder.path("in.arrows"), folder.path("inbox"), folder.path("pipe"));
    write_stream(&input, &[batch(0, 1000), batch(1000, 10)]);
    fs::create_dir(&inbox).unwrap();
    let server = Server::start(&[text(&input), "--put-to", text(&inbox)]);
    if let Some(python) = python() {
        let put = ["put", server.port(), "cut.arrows", text(&input), "cut"];
        succeeds(&script(&python, &put).output().unwrap());
    }
    // The input fails in the middle: the second batch is not whole.
    let whole = fs::read(&input).unwrap();
    let cut = folder.path("cut.arrows");
    fs::write(&cut, &whole[..whole.len() - 200]).unwrap();
    let told = complaint(&["copy", text(&cut), &server.at("half.arrows")], 1);
    assert!(told.contains("cut.arrows: "), "{told}");
    // An interruption in the middle, while the input says nothing.
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut copy = arrow_device();
    copy.args(["copy", text(&pipe), &server.at("interrupted.arrows")]);
    let copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut end = fs::OpenOptions::new().write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut end, &whole[..whole.len() - 200]).unwrap();
    let is_partial = |name: &String| name.contains("interrupted");
    until("it begins to come", || folder_names(&inbox).iter().any(is_partial));
    signal_to(&copy, libc::SIGINT);
    let done = copy.wait_with_output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(130), "{told}");
    assert!(told.contains("was told that the rest does not come"), "{told}");
    drop(end);
    until("nothing is left", || folder_names(&inbox).is_empty());
    let listed = output(&["fetch", &format!("flight://{}", server.authority)]);
    assert!(listed.ends_with("\n1 flight\n"), "{listed}");
}

/// The last frame of a call: data of no bytes, with the sign of the end.
const END_OF_CALL: [u8; 9] = [0, 0, 0, 0, 1, 0, 0, 0, 1];

#[test]
fn a_server_that_was_sent_all_and_does_not_answer_may_have_all_of_it() {
    let folder = Folder::new();
    let input = folder.path("in.arrows");
    write_stream(&input, &[batch(0, 10)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("flight://{}/x.arrow", listener.local_addr().unwrap());
    let mut copy = arrow_device();
    copy.args(["copy", text(&input), &url]);
    let copy = copy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut connection, _) = listener.accept().unwrap();
    let (mut came, mut part) = (Vec::new(), [0; 4096]);
    while !came.ends_with(&END_OF_CALL) {
        let count = connection.read(&mut part).unwrap();
        assert!(count > 0, "it ended after {came:?}");
        came.extend_from_slice(&part[..count]);
    }
    signal_to(&copy, libc::SIGINT);
    let done = copy.wait_with_output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(130), "{told}");
    assert!(told.contains("has not answered, and may have all of it"), "{told}");
}
