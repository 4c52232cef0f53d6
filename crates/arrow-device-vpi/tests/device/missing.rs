//! A machine without a simulator or without the module: every way to ask gets an error value that
//! says what to install. Each case runs this program again, as a child with another environment.

use arrow_device::ErrorKind;
use arrow_device_testkit::process::{self, Child};
use arrow_device_vpi::Options;

use crate::support;

fn ask_everything() {
    let errors = [
        arrow_device_vpi::is_available().unwrap_err(),
        arrow_device_vpi::devices().unwrap_err(),
        arrow_device_vpi::open(0).unwrap_err(),
        arrow_device_vpi::open_with(&Options::compiled("/nonexistent")).unwrap_err(),
    ];
    for error in errors {
        assert_eq!(error.kind(), ErrorKind::DriverMissing, "{error}");
        println!("said: {error}");
    }
}

fn said(variable: &str, value: &str) -> String {
    let text = Child::of_this_test().env(variable, value).run().expect_success().stdout;
    assert_eq!(text.matches("said: ").count(), 4, "{text}");
    text
}

#[test]
fn without_a_simulator_the_error_says_what_to_install() {
    if process::is_child() {
        return ask_everything();
    }
    let text = said("PATH", "/nonexistent");
    assert!(text.contains("was not found: install it (Debian: iverilog)"), "{text}");
}

#[test]
fn without_a_module_the_error_says_what_to_build() {
    if process::is_child() {
        return ask_everything();
    }
    let text = said("ARROW_DEVICE_VPI_MODULE", "/nonexistent/module.so");
    assert!(text.contains("ARROW_DEVICE_VPI_MODULE=/nonexistent/module.so"), "{text}");
}

#[test]
fn a_module_that_is_none_is_an_error_of_open() {
    if process::is_child() {
        let options = Options::built_in().patience(std::time::Duration::from_secs(1)).quiet(true);
        let refused = arrow_device_vpi::open_with(&options).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Driver);
        return println!("said: {refused}");
    }
    if !support::is_there() {
        return;
    }
    let child = Child::of_this_test().env("ARROW_DEVICE_VPI_MODULE", support::file("Cargo.toml"));
    let text = child.run().expect_success().stdout;
    assert!(
        text.contains("said: open on vpi:0: driver error: the simulator cannot be used"),
        "{text}"
    );
}

#[test]
fn a_design_that_does_not_compile_is_an_error_with_the_compilers_words() {
    if !support::is_there() {
        return;
    }
    let options = Options::verilog([support::file("Cargo.toml")]);
    let refused = arrow_device_vpi::open_with(&options).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::InvalidArgument);
    assert!(refused.to_string().contains("iverilog does not compile the design"), "{refused}");
    assert!(refused.to_string().contains("syntax error"), "{refused}");
}

#[test]
fn a_number_that_there_is_not_is_missing() {
    let refused = arrow_device_vpi::open(256).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DeviceMissing);
    let refused = arrow_device_vpi::open_with(&Options::socket("/nonexistent")).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::DeviceMissing);
}

#[test]
fn threads_that_open_one_number_get_one_simulator() {
    process::alone(|| {
        if !support::is_there() {
            return;
        }
        let process = |device: &arrow_device::Device| support::simulator(device).process();
        let start = std::sync::Barrier::new(4);
        std::thread::scope(|scope| {
            let openers = [(); 3].map(|()| {
                scope.spawn(|| {
                    start.wait();
                    arrow_device_vpi::open(0).unwrap()
                })
            });
            let other = scope.spawn(|| {
                start.wait();
                arrow_device_vpi::open_with(&Options::built_in()).unwrap()
            });
            let opened = openers.map(|opener| opener.join().unwrap());
            let other = other.join().unwrap();
            let [one, rest @ ..] = opened.each_ref().map(process);
            assert_eq!(rest, [one, one]);
            // The new simulator took the number first, or it has another one.
            assert_eq!(process(&other) == one, other.id() == opened[0].id());
        });
    });
}

/// The queue has a number that the new simulator may give to a queue as well.
#[test]
fn a_queue_of_a_lost_simulator_is_none_of_the_next_one_with_its_number() {
    process::alone(|| {
        if !support::is_there() {
            return;
        }
        let lost = arrow_device_vpi::open(0).unwrap();
        let old = lost.open_queue().unwrap();
        support::kill(&support::simulator(&lost));
        let device = arrow_device_vpi::open(0).unwrap();
        assert_eq!(device.id(), lost.id());
        let queue = device.open_queue().unwrap();
        let simulator = support::simulator(&device);
        let job = || arrow_device_vpi::Job::new("tb.start", "tb.done");
        // SAFETY: UNS-15 and UNS-16: the job is refused.
        let refused = unsafe { simulator.submit(&old, job()) }.unwrap_err();
        assert!(refused.to_string().contains("the queue is one of another device"), "{refused}");
        queue.synchronize().unwrap();
        assert!(support::simulator(&lost).is_lost() && !simulator.is_lost());
        // SAFETY: UNS-15 and UNS-16: the job is refused.
        let refused = unsafe { support::simulator(&lost).submit(&old, job()) }.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::DeviceLost);
    });
}

#[test]
fn a_number_that_is_open_is_the_same_device() {
    process::alone(|| {
        if !support::is_there() {
            return;
        }
        let (one, again) = (arrow_device_vpi::open(3).unwrap(), arrow_device_vpi::open(3).unwrap());
        let process = |device| support::simulator(device).process();
        assert_eq!(process(&one), process(&again));
        let other = arrow_device_vpi::open(0).unwrap();
        assert_ne!(process(&one), process(&other));
        assert_eq!(support::device().unwrap().id().id, 1);
        let listed = arrow_device_vpi::devices().unwrap();
        assert_eq!(listed.len(), 1);
        assert!(listed[0].driver_version.contains("Icarus Verilog"), "{listed:?}");
    });
}
