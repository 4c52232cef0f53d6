//! Tables and plans on devices, for each release of DataFusion.
#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)]
#![allow(clippy::duplicate_mod, reason = "the releases share one source")]

#[cfg(feature = "datafusion-55")]
#[path = "../../examples/opencl_filter.rs"]
mod opencl_filter;
#[cfg(feature = "datafusion-54")]
mod v54;
#[cfg(feature = "datafusion-55")]
mod v55;

#[cfg(feature = "datafusion-55")]
#[test]
fn the_filter_of_the_example_runs_on_opencl() {
    if let Err(why) = arrow_device_opencl::is_available() {
        arrow_device_testkit::required::skip("opencl", &why.to_string());
        return;
    }
    assert_eq!(opencl_filter::filtered().unwrap(), opencl_filter::expected());
}
