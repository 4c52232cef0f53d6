//! With arrow-rs 58.

pub mod arrow {
    pub use {
        arrow_array_58 as array, arrow_buffer_58 as buffer, arrow_data_58 as data,
        arrow_schema_58 as schema,
    };
}

pub use arrow_device_arrow::v58 as ours;

#[path = "each/mod.rs"]
pub mod each;
