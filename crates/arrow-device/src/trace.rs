//! What the feature `tracing` tells: nothing, and at no cost, without it.
//!
//! Everything has the target `arrow_device`. A subscriber is foreign code: it is called under no
//! lock of the library (SAF-23), and may not use what it is told of.

/// Tells of something that happened.
macro_rules! told {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        tracing::trace!(target: "arrow_device", $($what)*);
    };
}

/// Tells of something that takes time, until the end of the block.
macro_rules! told_while {
    ($($what:tt)*) => {
        #[cfg(feature = "tracing")]
        let _told = tracing::debug_span!(target: "arrow_device", $($what)*).entered();
    };
}

pub(crate) use {told, told_while};
