//! Simulators that lie: whatever comes from the other end of the connection, the device is lost or
//! cannot be opened, and nothing is waited for without end.

use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use arrow_device::{Device, ErrorKind};
use arrow_device_vpi::{Options, Simulator};

const WELCOME: u32 = 101;
const DONE: u32 = 102;
const ALIVE: u32 = 103;
const ENDED: u32 = 104;

fn message(kind: u32, body: &[u8]) -> Vec<u8> {
    [&kind.to_le_bytes(), &(body.len() as u32).to_le_bytes(), body].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

fn welcome(version: u32, word: u32, words: u64) -> Vec<u8> {
    let numbers = [&version.to_le_bytes()[..], &word.to_le_bytes(), &words.to_le_bytes()].concat();
    message(WELCOME, &[numbers, 0_u32.to_le_bytes().to_vec(), text("a liar")].concat())
}

/// The beginning of an answer that all went well.
fn well(data: &[u8]) -> Vec<u8> {
    let numbers = [&0_u32.to_le_bytes()[..], &7_u64.to_le_bytes(), &0_u64.to_le_bytes()].concat();
    message(DONE, &[numbers, (data.len() as u32).to_le_bytes().to_vec(), data.to_vec()].concat())
}

/// Takes the next request, and leaves it at that.
fn take(stream: &mut UnixStream) -> Option<Vec<u8>> {
    let mut head = [0; 8];
    stream.read_exact(&mut head).ok()?;
    let len = u32::from_le_bytes(head[4..].try_into().unwrap());
    let mut body = vec![0; len as usize];
    stream.read_exact(&mut body).ok()?;
    Some(body)
}

/// Opens a device whose simulator answers each request with the next of these messages, and hangs
/// up behind the last one, or says nothing more.
fn open(
    answers: Vec<Vec<u8>>,
    hangs_up: bool,
) -> (arrow_device::Result<Device>, std::thread::JoinHandle<()>) {
    open_and_run(0, answers, hangs_up)
}

/// Opens such a device, and lets so much simulated time go by first.
fn open_and_run(
    run_first: u64,
    answers: Vec<Vec<u8>>,
    hangs_up: bool,
) -> (arrow_device::Result<Device>, std::thread::JoinHandle<()>) {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("arrow-device-liar-{}-{number}", std::process::id());
    let path: PathBuf = std::env::temp_dir().join(name);
    let listener = UnixListener::bind(&path).unwrap();
    let liar = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        for answer in answers {
            if take(&mut stream).is_none() || stream.write_all(&answer).is_err() {
                return;
            }
        }
        if !hangs_up {
            // Until the driver has hung up.
            while take(&mut stream).is_some() {}
        }
    });
    let options = Options::socket(&path).patience(Duration::from_millis(300));
    let options = options.wall_limit(Duration::from_millis(300)).run_first(run_first);
    let opened = arrow_device_vpi::open_with(&options);
    let _ = std::fs::remove_file(path);
    (opened, liar)
}

#[test]
fn a_first_answer_that_is_wrong_is_an_error_of_open() {
    let cut = welcome(1, 64, 1024);
    let cases: Vec<(&str, Vec<u8>, bool)> = vec![
        ("nothing", Vec::new(), true),
        ("silence", Vec::new(), false),
        ("half a head", vec![1, 2, 3], true),
        ("half a head, and silence", vec![1, 2, 3], false),
        ("half a message", cut[..cut.len() - 3].to_vec(), true),
        ("another kind", well(&[]), false),
        ("no kind", message(999, &[]), false),
        ("a message without end", [WELCOME.to_le_bytes(), u32::MAX.to_le_bytes()].concat(), false),
        ("a long message", message(WELCOME, &vec![0; 100_000]), false),
        ("another version", welcome(2, 64, 1024), false),
        ("no words", welcome(1, 0, 1024), false),
        ("too many words", welcome(1, 64, u64::MAX), false),
        ("a memory that overflows", welcome(1, u32::MAX, 1 << 40), false),
        ("a farewell", message(ENDED, &text("no memory of this name")), false),
        ("no text", message(ENDED, &[0xff, 0xff, 0xff, 0xff]), false),
        ("signs of life without end", message(ALIVE, &[]).repeat(20_000), false),
        ("garbage", (0..4096_u32).map(|at| (at * 7919 % 251) as u8).collect(), false),
    ];
    for (name, answer, hangs_up) in cases {
        let (opened, liar) = open(vec![answer], hangs_up);
        let refused = opened.expect_err(name);
        assert_eq!(refused.kind(), ErrorKind::Driver, "{name}: {refused}");
        liar.join().unwrap();
    }
}

/// The design may not be reset when it is used then.
#[test]
fn simulated_time_that_does_not_go_by_is_an_error_of_open() {
    let numbers = [0; 20];
    let outcome = |kind: u32, rest: Vec<u8>| {
        let body = [kind.to_le_bytes().to_vec(), 0_u32.to_le_bytes().to_vec(), rest];
        message(DONE, &[body.concat(), numbers.to_vec()].concat())
    };
    for (answer, said) in [
        (outcome(2, text("the simulator does not call back")), "does not call back"),
        (outcome(1, vec![0; 8]), "no simulated time goes by"),
        (outcome(3, Vec::new()), "no simulated time goes by"),
    ] {
        let (opened, liar) = open_and_run(7, vec![welcome(1, 64, 1024), answer], false);
        let refused = opened.expect_err(said);
        assert_eq!(refused.kind(), ErrorKind::Driver);
        assert!(refused.to_string().contains(said), "{refused}");
        liar.join().unwrap();
    }
    let (opened, liar) = open_and_run(7, vec![welcome(1, 64, 1024), well(&[])], false);
    drop(opened.unwrap());
    liar.join().unwrap();
}

#[test]
fn an_answer_that_is_wrong_loses_the_device() {
    // What is asked for is 100 bytes.
    let mut unknown_step = 2_u32.to_le_bytes().to_vec();
    unknown_step.extend(9_u32.to_le_bytes());
    unknown_step.extend(text("no"));
    unknown_step.extend([0; 20]);
    let mut lies_of_length = well(&[1; 100]);
    let at = lies_of_length.len() - 104;
    lies_of_length[at] = 101;
    let cases: Vec<(&str, Vec<u8>, bool)> = vec![
        ("nothing", Vec::new(), true),
        ("silence", Vec::new(), false),
        ("too few bytes", well(&[1; 99]), false),
        ("too many bytes", well(&[1; 101]), false),
        ("very many bytes", well(&vec![1; 1 << 20]), false),
        ("a list that says it is longer", lies_of_length, false),
        ("half a message", well(&[1; 100])[..60].to_vec(), true),
        ("half a message, and silence", well(&[1; 100])[..60].to_vec(), false),
        ("an outcome that there is not", message(DONE, &[7; 24]), false),
        ("a step that there is not", message(DONE, &unknown_step), false),
        ("a welcome", welcome(1, 64, 1024), false),
        ("signs of life without end", message(ALIVE, &[]).repeat(20_000), false),
        ("a farewell", message(ENDED, &text("over")), false),
        ("two answers", well(&[1; 100]).repeat(2), false),
    ];
    for (name, answer, hangs_up) in cases {
        let (opened, liar) = open(vec![welcome(1, 64, 1024), well(&[]), answer], hangs_up);
        let device = opened.unwrap();
        let queue = device.open_queue().unwrap();
        let mut memory = queue.allocate(100).unwrap();
        memory.write(&queue, &[1; 100]).unwrap();
        let simulator = Simulator::of(&device).unwrap();
        if name == "two answers" {
            // The first one is right, and the second one was not asked for.
            let _ = simulator.value("a");
        }
        let read = arrow_device::Array::builder(arrow_device::DataType::Int8)
            .len(100)
            .buffers([None, Some(memory.into_buffer())])
            .finish_on(&queue)
            .and_then(|array| array.to_host());
        assert!(read.is_err() || name == "two answers", "{name}");
        while !simulator.is_lost() {
            std::thread::yield_now();
        }
        let lost = queue.synchronize().unwrap_err();
        assert_eq!(lost.kind(), ErrorKind::DeviceLost, "{name}: {lost}");
        drop((queue, device));
        liar.join().unwrap();
    }
}

/// A simulator that hangs up while nothing is asked is noticed without a question.
#[test]
fn a_connection_that_is_closed_while_nothing_is_done_loses_the_device() {
    let (opened, liar) = open(vec![welcome(1, 64, 1024)], true);
    let device = opened.unwrap();
    let simulator = Simulator::of(&device).unwrap();
    while !simulator.is_lost() {
        std::thread::yield_now();
    }
    assert_eq!(device.open_queue().unwrap_err().kind(), ErrorKind::DeviceLost);
    liar.join().unwrap();
}

/// A memory of an odd size is used as far as it goes.
#[test]
fn a_memory_smaller_than_an_allocation_is_out_of_memory() {
    for (word, words) in [(1, 1), (64, 1), (8, 9), (3, 50)] {
        let (opened, liar) = open(vec![welcome(1, word, words)], false);
        let device = opened.unwrap();
        let outcome = device.allocate(100).map(drop).map_err(|error| error.kind());
        let fits = word == 3;
        assert_eq!(outcome, if fits { Err(ErrorKind::OutOfMemory) } else { outcome });
        drop(device);
        liar.join().unwrap();
    }
}
