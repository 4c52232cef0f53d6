//! With arrow-rs 60.

pub mod arrow {
    pub use {
        arrow_array_60 as array, arrow_buffer_60 as buffer, arrow_data_60 as data,
        arrow_schema_60 as schema,
    };
}

pub use arrow_device_arrow::v60 as ours;

/// Of the matrix, one case in so many is run. The source of the conversion is the same for all
/// majors, so that the newest one runs every case, and the others a part in which every shape
/// occurs.
pub const STEP: usize = 1;

#[path = "each/mod.rs"]
pub mod each;
