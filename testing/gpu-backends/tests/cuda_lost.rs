//! A CUDA device that is lost. It stays lost, so this program does nothing else.

use gpu_backends::{Bench, faults};

#[test]
fn all_errors_say_so_and_everything_is_released() {
    faults::a_lost_device(&Bench::cuda());
}
