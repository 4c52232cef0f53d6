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
        self.bar.set_message(message(bytes, time, &self.position));
    }

    /// Takes the bar away.
    pub(super) fn clear(&self) {
        self.bar.finish_and_clear();
    }
}

/// How much went through and how fast, and how much of the file that was.
fn message(bytes: u64, time: Duration, position: &Position) -> String {
    let rate = format!("{}  {}", units::bytes(bytes), units::rate(bytes, time));
    match position.of_total() {
        Some((done, total)) => {
            format!("{rate}  {} of {} read", units::bytes(done), units::bytes(total))
        }
        None => rate,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_told_and_the_total_where_it_is_known() {
        let second = Duration::from_secs(1);
        let (position, unknown) = (Position::of(1 << 20), Position::default());
        position.advance(1 << 19);
        let told = message(4 << 20, second, &position);
        let expected = format!(
            "{}  {}  {} of {} read",
            units::bytes(4 << 20),
            units::rate(4 << 20, second),
            units::bytes(1 << 19),
            units::bytes(1 << 20)
        );
        assert_eq!(told, expected);
        let told = message(4 << 20, second, &unknown);
        assert!(told.ends_with(&units::rate(4 << 20, second)), "{told}");
    }
}
