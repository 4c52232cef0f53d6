//! Messages to a subscriber of `tracing`, with the feature of that name. Without the feature they
//! cost nothing.
//!
//! All messages have the target `arrow_device`. A subscriber is foreign code. It is called under no
//! lock of the library (SAF-23), and may not use the values in the message. The library sends
//! messages between steps that belong together, such as the last look at the uses of an array and
//! its release, so a panic of the subscriber is stopped (SAF-30).

/// Tells of an event.
macro_rules! told {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        crate::unwind::is_well(|| tracing::trace!(target: "arrow_device", $($what)*));
    };
}

/// Tells of something that takes time, as a span until the end of the block.
macro_rules! told_while {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        let _told = crate::trace::Entered::begin(|| {
            tracing::debug_span!(target: "arrow_device", $($what)*).entered()
        });
    };
}

pub(crate) use {told, told_while};

/// A span, until this value is dropped. `None` if the subscriber panicked when the span began.
#[cfg(feature = "tracing")]
pub(crate) struct Entered(Option<tracing::span::EnteredSpan>);

#[cfg(feature = "tracing")]
impl Entered {
    pub(crate) fn begin(enter: impl FnOnce() -> tracing::span::EnteredSpan) -> Self {
        let mut entered = None;
        crate::unwind::is_well(|| entered = Some(enter()));
        Self(entered)
    }
}

#[cfg(feature = "tracing")]
impl Drop for Entered {
    fn drop(&mut self) {
        let entered = self.0.take();
        crate::unwind::is_well(|| drop(entered));
    }
}
