//! For arrow-rs 59.

mod arrow {
    pub(super) use {
        arrow_array_59 as array, arrow_buffer_59 as buffer, arrow_data_59 as data,
        arrow_schema_59 as schema,
    };
}

#[path = "major/mod.rs"]
mod major;

pub use major::{AsyncArrays, AsyncReader, ErrorExt, FromArrow, Reader, ToArrow, ToArrowUnchecked};
