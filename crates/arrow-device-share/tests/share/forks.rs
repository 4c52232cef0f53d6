//! Memory for other processes in a process that forks: a child has the pages together with its
//! parent, and neither changes what the other one reads.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::time::Duration;

use arrow_device::copy::Options;
use arrow_device::dlpack::{Dtype, Tensor};
use arrow_device::{Array, Buffer, DataType, Device, ErrorKind, Field, Queue, Recycler, Schema};
use arrow_device_share::{open, share, to_shareable};
use arrow_device_testkit::process::{alone, forked, while_threads_work};
use rustix::process::{Pid, WaitOptions, waitpid};

use crate::support::{connected, said};

fn numbers(first: i64) -> Array {
    Array::from_values(DataType::Int64, (first..first + 1000).map(Some)).unwrap()
}

/// The numbers from `first` on, in memory of this device.
fn copied(first: i64, device: &Device) -> Array {
    let queue = device.open_queue().unwrap();
    numbers(first).copy_with(&queue, &Options::new().always(true)).unwrap()
}

fn holds(array: &Array, first: i64) -> bool {
    array.equals(&numbers(first)).unwrap()
}

/// The host, whose memory other processes can open, and which uses freed blocks again.
fn recycling() -> (Recycler, Device) {
    let recycler = Recycler::new(1 << 20);
    let device = Device::host().with_allocator(recycler.clone()).shareable().unwrap();
    (recycler, device)
}

fn one_byte_each(buffer: Buffer) -> arrow_device::Result<Array> {
    let schema = Schema::new(Field::new("", DataType::UInt8, false)).unwrap();
    Array::builder(&schema).len(4096).buffers([None, Some(buffer)]).finish_ready()
}

// Requirement: SAF-3, SAF-28
#[test]
fn a_child_uses_no_block_again_that_its_parent_has() {
    alone(|| {
        let (recycler, device) = recycling();
        let mut array = Some(copied(0, &device));
        let mine = &mut array;
        forked(|| {
            drop(mine.take());
            let is_kept = recycler.kept() > 0;
            let other = copied(5000, &device);
            let is_right = holds(&other, 5000) && !is_kept;
            drop(other);
            // A block that came after the fork is used again.
            if is_right && recycler.kept() > 0 { Ok(()) } else { Err(said("a block is wrong")) }
        });
        assert!(array.is_some_and(|array| holds(&array, 0)), "the child wrote there");
    });
}

// Requirement: SAF-3, SAF-28
#[test]
fn a_parent_uses_no_block_again_that_its_child_has() {
    alone(|| {
        let (recycler, device) = recycling();
        let slot = Mutex::new(Some(copied(0, &device)));
        let (mut end, mut ends) = UnixStream::pair().unwrap();
        let (mut begins, mut begun) = UnixStream::pair().unwrap();
        ends.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        let slot = &slot;
        std::thread::scope(|scope| {
            let child = scope.spawn(move || {
                forked(move || {
                    let array = slot.lock().unwrap().take().unwrap();
                    begins.write_all(&[1]).map_err(said)?;
                    ends.read_exact(&mut [0]).map_err(said)?;
                    if holds(&array, 0) { Ok(()) } else { Err(said("the parent wrote there")) }
                });
            });
            begun.read_exact(&mut [0]).unwrap();
            drop(slot.lock().unwrap().take());
            assert_eq!(recycler.kept(), 0);
            let other = copied(7000, &device);
            end.write_all(&[1]).unwrap();
            child.join().unwrap();
            drop(other);
            assert!(recycler.kept() > 0, "a block that came after the fork is used again");
        });
    });
}

// Requirement: SAF-3, SAF-28
#[test]
fn blocks_that_are_lent_and_given_back_beside_forks_are_in_one_process() {
    alone(|| {
        let (_recycler, device) = recycling();
        let slots: Vec<Mutex<(i64, Array)>> =
            (0..8).map(|first| Mutex::new((first, copied(first, &device)))).collect();
        let next = Mutex::new(0);
        let work = || {
            let first = {
                let mut next = next.lock().unwrap();
                *next += 1;
                *next
            };
            let made = copied(first, &device);
            let before = {
                let mut slot = slots[first as usize % slots.len()].lock().unwrap();
                std::mem::replace(&mut *slot, (first, made))
            };
            assert!(holds(&before.1, before.0), "{}", before.0);
        };
        while_threads_work(2, work, || {
            for _ in 0..40 {
                forked(|| {
                    for _ in 0..4 {
                        for slot in slots.iter().filter_map(|slot| slot.try_lock().ok()) {
                            if !holds(&slot.1, slot.0) {
                                return Err(format!("the parent wrote to {}", slot.0));
                            }
                        }
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Ok(())
                });
            }
        });
    });
}

// Requirement: SAF-3, SAF-28
#[test]
fn memory_that_is_being_filled_stays_with_the_process_that_allocated_it() {
    alone(|| {
        let (_recycler, recycling) = recycling();
        for device in [Device::host().shareable().unwrap(), recycling] {
            let mut memory = device.allocate(4096).unwrap();
            memory.write(&Queue::host(), &[1; 4096]).unwrap();
            let mut memory = Some(memory);
            let mine = &mut memory;
            forked(|| {
                let mut memory = mine.take().ok_or("no memory")?;
                let host = Queue::host();
                let refused = [memory.write(&host, &[2; 4096]).err(), memory.spot(&host).err(), {
                    let buffer = memory.into_buffer();
                    let part = buffer.slice(0, 100).map_err(said)?;
                    Tensor::from_buffer(part, Dtype::UINT8, &[100]).err().and(
                        // The parent may still write there.
                        one_byte_each(buffer).err(),
                    )
                }];
                for error in refused {
                    let kind = error.ok_or("a parent's memory is used")?.kind();
                    if kind != ErrorKind::Unsupported {
                        return Err(format!("{kind:?}"));
                    }
                }
                Ok(())
            });
            let mut memory = memory.unwrap();
            memory.write(&Queue::host(), &[3; 100]).unwrap();
            let array = one_byte_each(memory.into_buffer()).unwrap();
            let expected = [[3_u8; 100].as_slice(), &[1; 3996]].concat();
            let expected = Array::from_values(DataType::UInt8, expected.into_iter().map(Some));
            assert!(array.equals(&expected.unwrap()).unwrap());
        }
    });
}

/// Enters a namespace of processes for the children that are made from now on. Returns whether the
/// system admits it.
fn has_new_namespace() -> bool {
    // SAFETY: a call with a number alone.
    let is_new = |flags| unsafe { libc::unshare(flags) } == 0;
    is_new(libc::CLONE_NEWPID) || is_new(libc::CLONE_NEWUSER | libc::CLONE_NEWPID)
}

/// A parent and a child that have the same number, each in a namespace of its own, as the first
/// process of a container and a child that is the first process of another one.
// Requirement: SAF-27, SAF-28
#[test]
fn a_child_in_another_namespace_is_told_from_its_parent() {
    alone(|| {
        forked(|| {
            if !has_new_namespace() {
                println!("skipped: the system admits no namespace of processes");
                return Ok(());
            }
            forked(|| {
                if std::process::id() != 1 || !has_new_namespace() {
                    return Err(said("not the first process of a namespace"));
                }
                let (sender, mut receiver) = connected([Device::host()]);
                let array = to_shareable(&numbers(0), &Device::host()).map_err(said)?;
                sender.send(&array).map_err(said)?;
                let mut came = Some(receiver.receive().map_err(said)?.ok_or("nothing came")?);
                let own = &mut came;
                forked(|| {
                    if std::process::id() != 1 {
                        return Err(said("not the first process of a namespace"));
                    }
                    let is_refused =
                        |error: arrow_device::Error| error.kind() == ErrorKind::Unsupported;
                    if !sender.send(&array).is_err_and(is_refused) {
                        return Err(said("the child sends"));
                    }
                    if !receiver.receive().is_err_and(is_refused) {
                        return Err(said("the child receives"));
                    }
                    let came = own.take().ok_or("taken")?;
                    if !holds(&came, 0) {
                        return Err(said("the child reads something else"));
                    }
                    // Told to nobody.
                    drop(came);
                    // What the child makes is its own.
                    let made = to_shareable(&numbers(7), &Device::host()).map_err(said)?;
                    let (ticket, _sender) = share(&made).map_err(said)?;
                    let opened = open(ticket, [Device::host()]).map_err(said)?;
                    if holds(&opened, 7) { Ok(()) } else { Err(said("other numbers")) }
                });
                match sender.held().map_err(said)? {
                    1 => Ok(()),
                    held => Err(format!("the parent holds {held}: its child has released")),
                }
            });
            Ok(())
        });
    });
}

/// Runs this in a child of the system call `clone`, past the C library, whose handlers of `fork` do
/// not run. The child ends at once after it. Returns whether it answered yes.
fn cloned(body: impl FnOnce() -> bool) -> bool {
    let none = 0_usize;
    // SAFETY: a call with numbers alone: a child with memory of its own, which goes on here.
    let child =
        unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD as usize, none, none, none, none) };
    assert!(child >= 0, "no process to be had: {}", std::io::Error::last_os_error());
    if child == 0 {
        let is_well = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).unwrap_or(false);
        // SAFETY: ends the child at once, without the handlers of the parent's.
        unsafe { libc::_exit(i32::from(!is_well)) }
    }
    let child = Pid::from_raw(child as i32).unwrap();
    let (_, status) = waitpid(Some(child), WaitOptions::empty()).unwrap().unwrap();
    status.exit_status() == Some(0)
}

// Requirement: SAF-42
#[test]
fn a_child_of_the_system_call_alone_tells_nothing_on_its_parents_connections() {
    alone(|| {
        let (sender, mut receiver) = connected([Device::host()]);
        let array = to_shareable(&numbers(0), &Device::host()).unwrap();
        sender.send(&array).unwrap();
        let mut came = Some(receiver.receive().unwrap().unwrap());
        let own = &mut came;
        let is_refused = |error: arrow_device::Error| error.kind() == ErrorKind::Unsupported;
        assert!(cloned(|| {
            let is_parents = sender.send(&array).is_err_and(is_refused)
                && sender.held().is_err_and(is_refused)
                && receiver.receive().is_err_and(is_refused);
            // Told to nobody, as what else goes with the child.
            drop(own.take());
            is_parents
        }));
        assert_eq!(sender.held().unwrap(), 1, "the child has released");
        drop(came);
        assert_eq!(sender.held().unwrap(), 0);
    });
}

#[test]
fn a_child_of_the_system_call_alone_has_connections_of_its_own() {
    alone(|| {
        // The parent's are there before, and have told this process from others.
        drop(connected([Device::host()]));
        assert!(cloned(|| {
            let (sender, mut receiver) = connected([Device::host()]);
            sender.send(&to_shareable(&numbers(7), &Device::host()).unwrap()).unwrap();
            let came = receiver.receive().unwrap().unwrap();
            // Its children of either kind are told from it.
            let are_refused = cloned(|| sender.held().is_err()) && {
                forked(|| if sender.held().is_err() { Ok(()) } else { Err(said("held")) });
                true
            };
            are_refused && holds(&came, 7) && sender.held().unwrap() == 1
        }));
    });
}
