//! The program that judges a Mac, on the stand-in.

use metal_stand_in::StandIn;

#[allow(dead_code)]
#[path = "../../examples/judge/main.rs"]
mod judge;

#[test]
fn the_program_for_a_mac_finds_nothing_wrong_with_the_stand_in() {
    arrow_device_testkit::process::alone(|| {
        let Some(stand_in) = StandIn::load() else { return };
        assert!(judge::judge(500).unwrap());
        assert_eq!(stand_in.mistakes(), "");
    });
}
