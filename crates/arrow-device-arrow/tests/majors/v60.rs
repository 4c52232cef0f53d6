//! With arrow-rs 60.

pub mod arrow {
    pub use {
        arrow_array_60 as array, arrow_buffer_60 as buffer, arrow_data_60 as data,
        arrow_schema_60 as schema,
    };
}

pub use arrow_device_arrow::v60 as ours;

#[path = "each/mod.rs"]
pub mod each;
