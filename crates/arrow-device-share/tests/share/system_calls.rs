//! How often the system is called for an array that is shared: on the sender's thread, and on the
//! receiver's.

use arrow_device::{Array, Batch, DataType, Device};
use arrow_device_share::to_shareable;
use arrow_device_testkit::process::alone;
use arrow_device_testkit::system_calls::SystemCalls;

use crate::support::{connected, may_have};

fn column(number: i64) -> Array {
    Array::from_values(DataType::Int64, (number..number + 3).map(Some)).unwrap()
}

fn batch(columns: impl Iterator<Item = Array>) -> Array {
    let columns = columns.enumerate().map(|(number, column)| (format!("{number}"), column));
    Batch::from_columns(columns).unwrap().as_array().clone()
}

fn shareable(array: &Array) -> Array {
    to_shareable(array, &Device::host()).unwrap()
}

/// How many calls each step takes.
#[derive(Debug, PartialEq, Eq)]
struct Calls {
    sent: usize,
    sent_again: usize,
    received: usize,
    released: usize,
}

/// How many of the calls are not those of the allocator, which gets memory of the system at times.
fn counted(calls: Vec<libc::c_long>) -> usize {
    let of_allocator = [libc::SYS_brk, libc::SYS_mprotect, libc::SYS_madvise];
    calls.iter().filter(|call| !of_allocator.contains(call)).count()
}

/// Sends an array twice over a connection that knows its schema, and counts.
fn calls(traced: &SystemCalls, array: &Array) -> Calls {
    let (sender, mut receiver) = connected([Device::host()]);
    sender.send(&shareable(array)).unwrap();
    drop(receiver.receive().unwrap().unwrap());
    assert_eq!(sender.held().unwrap(), 0);
    let mut round = || {
        let ((), sent) = traced.during(|| sender.send(array).unwrap());
        let (came, received) = traced.during(|| receiver.receive().unwrap().unwrap());
        let ((), released) = traced.during(|| drop(came));
        assert_eq!(sender.held().unwrap(), 0);
        println!("sent {sent:?}\nreceived {received:?}\nreleased {released:?}");
        [sent, received, released].map(counted)
    };
    let [sent, received, released] = round();
    let again = round();
    assert_eq!(again[1..], [received, released]);
    Calls { sent, sent_again: again[0], received, released }
}

/// A look for releases, and the message. Each allocation is mapped to be read alone, and sealed,
/// when it is sent for the first time, and needs no call after that.
///
/// The receiver asks for the seals, cuts the file at its end, asks for its length and pages, maps
/// it and closes the descriptor. A release ends the mappings and is told once.
#[test]
fn an_allocation_takes_two_calls_to_be_sent_and_none_to_be_sent_again() {
    alone(|| {
        let Some(traced) = SystemCalls::of_this_thread() else { return };
        let one = Calls { sent: 2 + 2, sent_again: 2, received: 1 + 5, released: 1 + 1 };
        assert_eq!(calls(&traced, &shareable(&column(0))), one);
        let ten = shareable(&batch((0..10).map(column)));
        assert_eq!(calls(&traced, &ten), one, "ten columns in one allocation");
        let ten = batch((0..10).map(|number| shareable(&column(number))));
        let of_ten = Calls { sent: 2 + 20, sent_again: 2, received: 1 + 50, released: 10 + 1 };
        assert_eq!(calls(&traced, &ten), of_ten, "ten columns in ten allocations");
    });
}

#[test]
fn a_thousand_columns_take_as_many_calls_for_each_allocation() {
    alone(|| {
        let Some(traced) = SystemCalls::of_this_thread() else { return };
        // The message of so many columns lies aside, which takes five calls to send, and four to
        // receive.
        let (aside, read) = (5, 4);
        let wide = shareable(&batch((0..1000).map(column)));
        let expected = Calls {
            sent: 2 + aside + 2,
            sent_again: 2 + aside,
            received: 1 + read + 5,
            released: 1 + 1,
        };
        assert_eq!(calls(&traced, &wide), expected, "in one allocation");
        if !may_have(4000) {
            return println!("skipped: the process may not have 4,000 descriptors");
        }
        let wide = batch((0..1000).map(|number| shareable(&column(number))));
        // Descriptors go in pieces.
        let pieces = 1000 / 200;
        let expected = Calls {
            sent: 2 + aside + pieces + 2 * 1000,
            sent_again: 2 + aside + pieces,
            received: 1 + read + pieces + 5 * 1000,
            released: 1000 + 1,
        };
        assert_eq!(calls(&traced, &wide), expected, "in a thousand allocations");
    });
}
