//! The ways between two processes, by the example that measures them.

#[expect(dead_code, reason = "the program begins with `main`, and the test with what `main` calls")]
#[path = "../../examples/ways_between_processes.rs"]
mod ways_between_processes;

use std::process::Command;

#[test]
fn each_way_between_two_processes_brings_every_batch_as_it_was() {
    // The second process is this test again.
    let test = "ways::each_way_between_two_processes_brings_every_batch_as_it_was";
    let mut again = || {
        let mut command = Command::new(std::env::current_exe()?);
        command.args(["--exact", test, "--nocapture", "--test-threads=1"]);
        Ok(command)
    };
    ways_between_processes::run(&[(10, 100, 20), (2, 131_072, 2)], &mut again).unwrap();
}
