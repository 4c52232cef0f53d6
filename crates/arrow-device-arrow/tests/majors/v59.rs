//! With arrow-rs 59.

pub mod arrow {
    pub use {
        arrow_array_59 as array, arrow_buffer_59 as buffer, arrow_data_59 as data,
        arrow_schema_59 as schema,
    };
}

pub use arrow_device_arrow::v59 as ours;

/// Of the matrix, one case in so many is run. The source of the conversion is the same for all
/// majors, so that the newest one runs every case, and the others a part in which every shape
/// occurs.
pub const STEP: usize = 5;

#[path = "each/mod.rs"]
pub mod each;
