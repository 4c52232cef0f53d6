//! A bar for whoever watches at a terminal. Where there is none, nothing is written.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::files::Position;
use crate::units;

/// The bar has so many steps.
const STEPS: u64 = 1000;

/// How far a copy is.
pub(super) struct Progress {
    bar: ProgressBar,
    position: Position,
}

impl Progress {
    pub(super) fn new(position: Position) -> Self {
        let bar =
            ProgressBar::with_draw_target(Some(STEPS), ProgressDrawTarget::stderr_with_hz(10));
        let style = ProgressStyle::with_template("{bar:40} {percent:>3} %  {msg}  {eta} left");
        if let Ok(style) = style {
            bar.set_style(style.progress_chars("█▉▊▋▌▍▎▏ "));
        }
        Self { bar, position }
    }

    /// So many bytes went through.
    pub(super) fn show(&self, bytes: u64) {
        if let Some(share) = self.position.share() {
            self.bar.set_position((share * STEPS as f64) as u64);
        }
        let time = self.bar.elapsed().max(Duration::from_millis(1));
        self.bar.set_message(format!("{}  {}", units::bytes(bytes), units::rate(bytes, time)));
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}
