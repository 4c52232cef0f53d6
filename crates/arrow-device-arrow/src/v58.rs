//! For arrow-rs 58.

mod arrow {
    pub(super) use {
        arrow_array_58 as array, arrow_buffer_58 as buffer, arrow_data_58 as data,
        arrow_schema_58 as schema,
    };
}

#[path = "major/mod.rs"]
mod major;

pub use major::{AsyncArrays, AsyncReader, ErrorExt, FromArrow, Reader, ToArrow, ToArrowUnchecked};
