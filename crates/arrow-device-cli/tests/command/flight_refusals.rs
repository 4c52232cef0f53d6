//! What servers and clients of Flight refuse, and the commands of the page about Flight.

use std::env;
use std::fs;
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;

use super::flight::*;
use crate::support::files::{batch, write_file, write_parquet};
use crate::support::{Folder, arrow_device, complaint, output, run, skip, text};

#[test]
fn a_file_that_is_gone_is_told_to_clients_without_its_path() {
    let folder = Folder::new();
    let input = folder.path("in.arrow");
    write_file(&input, &[batch(0, 10)]);
    let server = Server::start(&[text(&input)]);
    fs::remove_file(&input).unwrap();
    let told = complaint(&["fetch", &server.at("in.arrow")], 1);
    assert!(told.contains("the file of the flight cannot be read any more"), "{told}");
    assert!(!told.contains(text(&folder.path(""))), "{told}");
    server.signal(libc::SIGINT);
    let (_, printed) = server.end();
    assert!(printed.contains(text(&input)), "{printed}");
}

#[test]
fn a_token_is_needed_where_there_is_one() {
    let folder = Folder::new();
    let (input, token) = (folder.path("in.arrow"), folder.path("token"));
    write_file(&input, &[batch(0, 10)]);
    fs::write(&token, "s3cret/+=\n").unwrap();
    let server = Server::start(&[text(&input), "--token-file", text(&token), "--json"]);
    assert!(server.told.contains("\"token\": true") && !server.told.contains("s3cret"));
    let url = server.at("in.arrow");
    let with = |variable: &str| {
        let mut command = arrow_device();
        command.env("ARROW_DEVICE_FLIGHT_TOKEN", variable).args(["fetch", &url]).output().unwrap()
    };
    let told = complaint(&["fetch", &url], 1);
    assert!(told.contains("a token is needed"), "{told}");
    let refused = String::from_utf8(with("s3cret").stderr).unwrap();
    assert!(refused.contains("the token is another one") && !refused.contains("s3cret"));
    succeeds(&with("s3cret/+="));
    output(&["fetch", &url, "--token-file", text(&token)]);
    let odd = with("two words");
    assert_eq!(odd.status.code(), Some(2));
    assert!(!String::from_utf8(odd.stderr).unwrap().contains("two words"));
    // By the environment on the other side, too.
    let mut command = arrow_device();
    command.env("ARROW_DEVICE_FLIGHT_TOKEN", "other");
    let server = Server::start_with(command, &[text(&input)]);
    complaint(&["fetch", &server.at("in.arrow")], 1);
}

#[test]
fn a_connection_with_tls_is_one_with_the_certificate_that_was_named() {
    let folder = Folder::new();
    let input = folder.path("in.arrow");
    write_file(&input, &[batch(0, 10)]);
    let certificate = |name: &str| {
        let (certificate, key) =
            (folder.path(&format!("{name}.pem")), folder.path(&format!("{name}.key")));
        let mut command = Command::new("openssl");
        command.args(["req", "-x509", "-nodes", "-newkey", "ec", "-pkeyopt"]);
        command.args(["ec_paramgen_curve:prime256v1", "-days", "2", "-subj", "/CN=test"]);
        command.args(["-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"]);
        command.args(["-addext", "basicConstraints=critical,CA:FALSE"]);
        command.arg("-keyout").arg(&key).arg("-out").arg(&certificate);
        let made = command.output().ok()?;
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        Some((certificate, key))
    };
    let Some((one, key)) = certificate("one") else {
        return skip("openssl", "there is no `openssl` to make a certificate with");
    };
    let (other, _) = certificate("other").unwrap();
    let options = ["--tls-cert", text(&one), "--tls-key", text(&key)];
    let server = Server::start(&[&[text(&input)][..], &options].concat());
    let url = format!("flight+tls://{}/in.arrow", server.authority);
    assert!(server.told.contains("flight+tls://127.0.0.1:"), "{}", server.told);
    output(&["fetch", &url, "--tls-ca", text(&one)]);
    complaint(&["fetch", &url, "--tls-ca", text(&other)], 1);
    let told = complaint(&["fetch", &url], 2);
    assert!(told.contains("--tls-ca"), "{told}");
    // The server hangs up, in the middle of one call of the system or another.
    for _ in 0..20 {
        complaint(&["fetch", &server.at("in.arrow")], 1);
    }
    complaint(&["fetch", &server.at("in.arrow"), "--tls-ca", text(&one)], 2);
    // The certificate is for the end of a copy that has TLS.
    let inbox = folder.path("inbox");
    fs::create_dir(&inbox).unwrap();
    let plain = Server::start(&[text(&input), "--put-to", text(&inbox)]);
    output(&["copy", &url, &plain.at("copied.arrow"), "--tls-ca", text(&one)]);
    assert_same(&input, &inbox.join("copied.arrow"));
    let secure = Server::start(&[&[text(&input), "--put-to", text(&inbox)][..], &options].concat());
    let to = format!("flight+tls://{}/again.arrow", secure.authority);
    output(&["copy", &plain.at("in.arrow"), &to, "--tls-ca", text(&one)]);
    assert_same(&input, &inbox.join("again.arrow"));
    complaint(&["copy", &plain.at("in.arrow"), &plain.at("x.arrow"), "--tls-ca", text(&one)], 2);
    complaint(&["serve", text(&input), "--tls-cert", text(&one)], 2);
}

#[test]
fn a_client_that_takes_nothing_loses_its_connection_and_keeps_no_server_from_its_end() {
    let folder = Folder::new();
    let large = folder.path("large.arrows");
    write_large(&large);
    let server = Server::start(&[text(&large), "--idle-timeout", "5"]);
    let fetch = stalled(&server, "large.arrows");
    server.signal(libc::SIGINT);
    let (code, told) = server.end();
    assert_eq!(code, Some(130), "{told}");
    let expected = "has taken nothing for 5 seconds, and its connection is closed";
    assert!(told.contains("arrow-device: 127.0.0.1:") && told.contains(expected), "{told}");
    let done = fetch.wait_with_output().unwrap();
    let told = String::from_utf8(done.stderr).unwrap();
    assert_eq!(done.status.code(), Some(1), "{told}");
    assert!(told.starts_with("arrow-device: flight://") && told.lines().count() == 1, "{told}");
}

#[test]
fn what_cannot_be_served_or_fetched_is_told_in_one_line() {
    let folder = Folder::new();
    let (input, other) = (folder.path("in.arrow"), folder.path("other"));
    write_file(&input, &[batch(0, 10)]);
    fs::create_dir(&other).unwrap();
    let twin = other.join("in.arrow");
    fs::copy(&input, &twin).unwrap();
    let told = complaint(&["serve", text(&input), text(&twin)], 2);
    assert!(told.contains("two flights cannot have one name"), "{told}");
    for (arguments, code) in [
        (&["serve"][..], 2),
        (&["serve", "-"], 2),
        (&["serve", text(&other)], 2),
        (&["serve", text(&input), "--listen", "8815"], 2),
        (&["serve", text(&input), "--put-to", text(&input)], 2),
        (&["serve", text(&input), "--device", "gpu"], 2),
        (&["serve", text(&input), "--max-message", "0"], 2),
        (&["serve", text(&input), "--idle-timeout", "0"], 2),
        (&["serve", "/nowhere.arrow"], 1),
        (&["fetch"], 2),
        (&["fetch", text(&input)], 2),
        (&["fetch", "http://127.0.0.1:1"], 2),
        (&["fetch", "flight://127.0.0.1:1/x", "y"], 2),
        (&["fetch", "flight://127.0.0.1:1", "-o", "x.arrow"], 2),
        (&["fetch", "flight://127.0.0.1:1", "x", "-o", "flight://127.0.0.1:1/y"], 2),
        (&["fetch", "flight://127.0.0.1:1", "x", "-o", "x.csv"], 2),
    ] {
        complaint(arguments, code);
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let place = listener.local_addr().unwrap().to_string();
    let told = complaint(&["serve", text(&input), "--listen", &place], 1);
    assert!(told.contains("somebody listens there already"), "{told}");
    // Nobody listens, once it is closed.
    drop(listener);
    let told = complaint(&["fetch", &format!("flight://{place}")], 1);
    assert!(told.contains("no connection") && told.contains("refused"), "{told}");
}

/// The commands of the page, as a shell runs them.
#[test]
fn the_commands_of_the_page_about_flight_run() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/flight.md");
    let page = fs::read_to_string(page).unwrap();
    let block = page.split("```sh\n").nth(1).unwrap().split("```").next().unwrap();
    // A port that is free now, in the place of the one that everybody takes.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let block = block.replace("8815", &port.to_string());
    let folder = Folder::new();
    write_parquet(&folder.path("data.parquet"), &[batch(0, 1000)]);
    let program = Path::new(env!("CARGO_BIN_EXE_arrow-device")).parent().unwrap().to_owned();
    let path = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths([program].into_iter().chain(env::split_paths(&path))).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-e", "-u", "-c", &block]).env("PATH", path).current_dir(folder.path(""));
    let done = shell.output().unwrap();
    let told = succeeds(&done);
    assert!(told.contains("1,000 rows in "), "{told}");
    for name in ["out.arrow", "inbox/copy.parquet"] {
        assert_same(&folder.path("data.parquet"), &folder.path(name));
    }
}

#[test]
fn a_reader_of_a_flight_that_has_seen_enough_is_no_failure() {
    let folder = Folder::new();
    let large = folder.path("large.arrows");
    write_large(&large);
    let server = Server::start(&[text(&large)]);
    let mut fetch = stalled(&server, "large.arrows");
    drop(fetch.stdout.take());
    let done = fetch.wait_with_output().unwrap();
    assert!(done.status.success() && done.stderr.is_empty(), "{done:?}");
    // The server is there for the next.
    assert!(run(&["fetch", &server.at("large.arrows")]).status.success());
}
