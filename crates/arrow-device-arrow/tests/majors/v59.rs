//! With arrow-rs 59.

pub mod arrow {
    pub use {
        arrow_array_59 as array, arrow_buffer_59 as buffer, arrow_data_59 as data,
        arrow_schema_59 as schema,
    };
}

pub use arrow_device_arrow::v59 as ours;

#[path = "each/mod.rs"]
pub mod each;
