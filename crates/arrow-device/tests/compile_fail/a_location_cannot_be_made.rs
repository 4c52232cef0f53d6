use arrow_device::{Location, driver};

fn make() -> Location<'static> {
    Location { base: driver::Raw::NULL, offset: 0, view: std::marker::PhantomData }
}

fn main() {}
