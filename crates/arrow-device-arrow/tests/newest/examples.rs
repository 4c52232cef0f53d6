//! The examples run to their ends, and what they assert holds.

#[path = "../../examples/two_majors.rs"]
mod two_majors;

#[test]
fn the_two_majors_meet() -> Result<(), Box<dyn std::error::Error>> {
    two_majors::main()
}
