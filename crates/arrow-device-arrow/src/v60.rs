//! For arrow-rs 60.

mod arrow {
    pub(super) use {
        arrow_array_60 as array, arrow_buffer_60 as buffer, arrow_data_60 as data,
        arrow_schema_60 as schema,
    };
}

#[path = "major/mod.rs"]
mod major;

pub use major::{AsyncArrays, AsyncReader, ErrorExt, FromArrow, Reader, ToArrow, ToArrowUnchecked};
