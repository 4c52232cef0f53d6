//! What the feature `tracing` tells: nothing, and at no cost, without it.
//!
//! Everything has the target `arrow_device`. A subscriber is foreign code: it is called under no
//! lock of the library (SAF-23), and may not use what it is told of. The library tells between two
//! steps that belong together, such as the last look at the uses of an array and its release, so a
//! panic of the subscriber ends here (SAF-30).

/// Tells of something that happened.
macro_rules! told {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        crate::unwind::is_well(|| tracing::trace!(target: "arrow_device", $($what)*));
    };
}

/// Tells of something that takes time, until the end of the block.
macro_rules! told_while {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        let _told = crate::trace::Entered::begin(|| {
            tracing::debug_span!(target: "arrow_device", $($what)*).entered()
        });
    };
}

pub(crate) use {told, told_while};

/// A span, until this value is dropped. Nothing, where the subscriber panicked at the beginning.
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
